//! What controllers and their queues count, as Prometheus reads it, under controller-runtime's own
//! metric names, so that its dashboards work.

use std::{fmt::Write, sync::Arc};

use informer::work_queue::{BUCKETS_MICROS, Histogram, QueueMetrics};

use crate::control_loop::{ControlLoop, Counts};

/// The metrics of all controllers; `leads` says for which lease this process is the leader or not.
pub(crate) fn render(loops: &[Arc<ControlLoop>], leads: Option<(&str, bool)>) -> String {
    let rows: Vec<Row> = loops.iter().map(Row::of).collect();
    let mut text = String::new();
    render_reconciles(&mut text, &rows);
    render_queues(&mut text, &rows);
    if let Some((lease, leads)) = leads {
        head(&mut text, "leader_election_master_status", "gauge", "Whether this is the leader");
        line(&mut text, "leader_election_master_status", &label("name", lease), u8::from(leads));
    }
    text
}

struct Row {
    /// `controller="…"`
    label: String,
    /// `name="…",controller="…"`
    queue_label: String,
    workers: usize,
    counts: Counts,
    queue: QueueMetrics,
}

impl Row {
    fn of(control_loop: &Arc<ControlLoop>) -> Self {
        let controller = label("controller", &control_loop.name);
        Self {
            queue_label: format!("{},{controller}", label("name", &control_loop.name)),
            label: controller,
            workers: control_loop.workers,
            counts: control_loop.counts(),
            queue: control_loop.queue.metrics(),
        }
    }
}

fn render_reconciles(text: &mut String, rows: &[Row]) {
    let total = "controller_runtime_reconcile_total";
    head(text, total, "counter", "Reconciles by controller and result");
    for Row { label, counts, .. } in rows {
        let results = [
            ("success", counts.successes),
            ("requeue", counts.requeues),
            ("requeue_after", counts.requeues_after),
            ("error", counts.errors),
        ];
        for (result, count) in results {
            line(text, total, &format!("{label},result=\"{result}\""), count);
        }
    }
    let mut family = |name: &str, kind: &str, help: &str, value: fn(&Row) -> u64| {
        head(text, name, kind, help);
        for row in rows {
            line(text, name, &row.label, value(row));
        }
    };
    let name = "controller_runtime_reconcile_errors_total";
    family(name, "counter", "Reconciles that failed", |row| row.counts.errors);
    let name = "controller_runtime_terminal_reconcile_errors_total";
    family(name, "counter", "Reconciles that failed for good", |row| row.counts.permanent_errors);
    let name = "controller_runtime_reconcile_panics_total";
    family(name, "counter", "Reconciles that panicked", |row| row.counts.panics);
    let name = "controller_runtime_max_concurrent_reconciles";
    family(name, "gauge", "Workers", |row| row.workers as u64);
    let name = "controller_runtime_active_workers";
    family(name, "gauge", "Workers that reconcile", |row| row.counts.active as u64);
    let name = "controller_runtime_reconcile_time_seconds";
    head(text, name, "histogram", "How long reconciles take");
    for row in rows {
        histogram(text, name, &row.label, &row.counts.durations);
    }
}

fn render_queues(text: &mut String, rows: &[Row]) {
    let mut family = |name: &str, kind: &str, help: &str, value: fn(&QueueMetrics) -> f64| {
        head(text, name, kind, help);
        for row in rows {
            line(text, name, &row.queue_label, value(&row.queue));
        }
    };
    family("workqueue_depth", "gauge", "Keys that wait", |it| float(it.depth as u64));
    family("workqueue_adds_total", "counter", "Keys that were added", |it| float(it.adds));
    let name = "workqueue_retries_total";
    family(name, "counter", "Keys that were added after a failure", |it| float(it.retries));
    let name = "workqueue_unfinished_work_seconds";
    family(name, "gauge", "How long keys are worked on", |it| it.unfinished_work.as_secs_f64());
    let name = "workqueue_longest_running_processor_seconds";
    family(name, "gauge", "How long the oldest of them is", |it| it.longest_running.as_secs_f64());
    let mut family = |name: &str, help: &str, value: fn(&QueueMetrics) -> &Histogram| {
        head(text, name, "histogram", help);
        for row in rows {
            histogram(text, name, &row.queue_label, value(&row.queue));
        }
    };
    family("workqueue_queue_duration_seconds", "How long keys wait", |it| &it.latency);
    family("workqueue_work_duration_seconds", "How long keys are worked on", |it| {
        &it.work_duration
    });
}

pub(crate) fn label(name: &str, value: &str) -> String {
    let value = value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
    format!("{name}=\"{value}\"")
}

pub(crate) fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}.\n# TYPE {name} {kind}");
}

pub(crate) fn line(text: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    let _ = writeln!(text, "{name}{{{labels}}} {value}");
}

pub(crate) fn histogram(text: &mut String, name: &str, labels: &str, histogram: &Histogram) {
    let mut sum = 0;
    for (end, count) in BUCKETS_MICROS.iter().zip(histogram.counts) {
        sum += count;
        // Exact: whole microseconds are far below 2^53.
        let seconds = std::time::Duration::from_micros(*end).as_secs_f64();
        line(text, &format!("{name}_bucket"), &format!("{labels},le=\"{seconds}\""), sum);
    }
    let all = histogram.count();
    line(text, &format!("{name}_bucket"), &format!("{labels},le=\"+Inf\""), all);
    line(text, &format!("{name}_sum"), labels, histogram.sum.as_secs_f64());
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
        let (mut text, mut observed) = (String::new(), Histogram::default());
        observed.observe(Duration::from_micros(5));
        observed.observe(Duration::from_millis(5));
        histogram(&mut text, "h", &label("name", "a\"b"), &observed);
        let expected = r#"h_bucket{name="a\"b",le="0.00001"} 1"#;
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("le=\"0.01\"} 2\n") && text.contains("le=\"+Inf\"} 2\n"), "{text}");
    }
}
