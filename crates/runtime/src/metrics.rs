//! What a manager counts, as Prometheus reads it: controllers, queues, requests and the process
//! under the names that controller-runtime and client-go have for them, so that their dashboards
//! work; caches and events, of which these say nothing, under our own.

mod controllers;
mod caches;
mod process;
pub(crate) mod requests;

use std::{fmt::Write, sync::Arc};

use informer::{SharedInformer, work_queue::Histogram};

use crate::control_loop::ControlLoop;
use requests::Requests;

/// What there is to tell.
pub(crate) struct Figures<'a> {
    pub(crate) loops: &'a [Arc<ControlLoop>],
    /// The lease, and whether it is ours.
    pub(crate) leads: Option<(String, bool)>,
    /// By the text of their scope.
    pub(crate) informers: &'a [(String, SharedInformer)],
    /// Events that were not written, by who told them.
    pub(crate) dropped_events: &'a [(String, u64)],
    pub(crate) requests: &'a Requests,
}

/// All families.
pub(crate) fn render(figures: &Figures<'_>) -> String {
    let mut text = String::new();
    controllers::render(&mut text, figures.loops);
    if let Some((lease, leads)) = &figures.leads {
        head(&mut text, "leader_election_master_status", "gauge", "Whether this is the leader");
        line(&mut text, "leader_election_master_status", &label("name", lease), u8::from(*leads));
    }
    figures.requests.render(&mut text);
    caches::render(&mut text, figures.informers);
    let name = "sampan_events_dropped_total";
    head(&mut text, name, "counter", "Events that were not written: too many, or refused");
    for (controller, dropped) in figures.dropped_events {
        line(&mut text, name, &label("controller", controller), dropped);
    }
    process::render(&mut text);
    text
}

pub(crate) fn label(name: &str, value: &str) -> String {
    let value = value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
    format!("{name}=\"{value}\"")
}

pub(crate) fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}.\n# TYPE {name} {kind}");
}

pub(crate) fn line(text: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    let _ = match labels {
        "" => writeln!(text, "{name} {value}"),
        _ => writeln!(text, "{name}{{{labels}}} {value}"),
    };
}

pub(crate) fn histogram(text: &mut String, name: &str, labels: &str, histogram: &Histogram) {
    let mut sum = 0;
    for (end, count) in histogram.buckets() {
        sum += count;
        let seconds = std::time::Duration::from_nanos(end).as_secs_f64();
        line(text, &format!("{name}_bucket"), &format!("{labels},le=\"{seconds}\""), sum);
    }
    let all = histogram.count();
    line(text, &format!("{name}_bucket"), &format!("{labels},le=\"+Inf\""), all);
    line(text, &format!("{name}_sum"), labels, histogram.sum().as_secs_f64());
    line(text, &format!("{name}_count"), labels, all);
}

#[allow(clippy::cast_precision_loss, reason = "Prometheus has nothing but floats")]
fn float(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn buckets_are_summed_up_and_labels_escaped() {
        let (mut text, mut observed) = (String::new(), Histogram::new(&[10_000, 10_000_000]));
        observed.observe(Duration::from_micros(5));
        observed.observe(Duration::from_millis(5));
        histogram(&mut text, "h", &label("name", "a\"b"), &observed);
        let expected = r#"h_bucket{name="a\"b",le="0.00001"} 1"#;
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("le=\"0.01\"} 2\n") && text.contains("le=\"+Inf\"} 2\n"), "{text}");
    }
}
