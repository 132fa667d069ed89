//! The metrics of a manager, in Prometheus' text format. Controllers, queues, requests and the
//! process have the names of controller-runtime and client-go, so that their dashboards work; caches
//! and events, for which these have no metrics, have names of their own.

mod controllers;
mod caches;
mod process;
mod duration_histogram;
pub(crate) mod requests;

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeGaugeValue, EncodeLabelSet, EncodeMetric,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::control_loop::ControlLoop;
use crate::webhook::server::ReviewMetrics;
use informer::SharedInformer;
use requests::Requests;

pub(crate) use controllers::{ComponentQueue, reconcile_histogram};
pub(crate) use duration_histogram::DurationHistogram;

/// The sources of a manager's metrics, which are read for each scrape.
pub(crate) struct ManagerMetrics {
    pub(crate) loops: Vec<Arc<ControlLoop>>,
    pub(crate) queues: Vec<Arc<ComponentQueue>>,
    /// The lease, and whether this process holds it.
    pub(crate) leads: Option<(String, bool)>,
    /// By the text of their scope.
    pub(crate) informers: Vec<(String, SharedInformer)>,
    /// The number of events that were not written, by reporting controller.
    pub(crate) dropped_events: Vec<(String, u64)>,
    pub(crate) requests: Requests,
    pub(crate) reviews: Option<ReviewMetrics>,
}

impl ManagerMetrics {
    /// All families as text.
    pub(crate) fn encode(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        encode(&mut text, &registry).expect("a string takes every write");
        text
    }
}

impl fmt::Debug for ManagerMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ManagerMetrics")
    }
}

impl Collector for ManagerMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families(encoder);
        controllers::encode(&mut families, &self.loops, &self.queues)?;
        if let Some((lease, leads)) = &self.leads {
            let samples = [([("name", lease)], u64::from(*leads))];
            let name = "leader_election_master_status";
            families.gauge(name, "Whether this process is the leader", samples)?;
        }
        self.requests.encode(&mut families)?;
        caches::encode(&mut families, &self.informers)?;
        let dropped = self.dropped_events.iter();
        families.counter(
            "sampan_events_dropped_total",
            "Events that were not written: too many, or refused",
            dropped.map(|(controller, count)| ([("controller", controller)], *count)),
        )?;
        process::encode(&mut families)?;
        self.reviews.as_ref().map_or(Ok(()), |reviews| reviews.encode(&mut families))
    }
}

/// Encodes metric families under exactly their names. The library's own counters append `_total` to
/// the samples but not to the family.
pub(crate) struct Families<'a>(DescriptorEncoder<'a>);

impl Families<'_> {
    pub(crate) fn counter<L: EncodeLabelSet, V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        self.values(name, help, MetricType::Counter, samples)
    }

    pub(crate) fn gauge<L: EncodeLabelSet, V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        self.values(name, help, MetricType::Gauge, samples)
    }

    /// A family with one sample, which has no labels.
    pub(crate) fn value(
        &mut self,
        name: &str,
        help: &str,
        metric_type: MetricType,
        value: f64,
    ) -> fmt::Result {
        let help = format!("{help}.");
        self.0.encode_descriptor(name, &help, None, metric_type)?.encode_gauge(&value)
    }

    pub(crate) fn histogram<'h, L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, &'h Histogram)>,
    ) -> fmt::Result {
        let help = format!("{help}.");
        let mut family = self.0.encode_descriptor(name, &help, None, MetricType::Histogram)?;
        for (labels, histogram) in samples {
            histogram.encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn values<L: EncodeLabelSet, V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        metric_type: MetricType,
        samples: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        let help = format!("{help}.");
        let mut family = self.0.encode_descriptor(name, &help, None, metric_type)?;
        for (labels, value) in samples {
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Sample(Histogram);

    impl Collector for Sample {
        fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
            let mut families = Families(encoder);
            families.counter("c_total", "Counted", [([("name", "a\"b")], 3_u64)])?;
            families.histogram("h", "Observed", [([("name", "a")], &self.0)])
        }
    }

    #[test]
    fn families_have_their_names_and_labels_are_escaped() {
        let histogram = Histogram::new([0.01, 1.0]);
        histogram.observe(0.005);
        histogram.observe(0.5);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Sample(histogram)));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let start = "# HELP c_total Counted.\n# TYPE c_total counter\nc_total{name=\"a\\\"b\"} 3\n";
        assert!(text.starts_with(start), "{text}");
        for line in ["h_bucket{le=\"0.01\",name=\"a\"} 1", "h_bucket{le=\"1.0\",name=\"a\"} 2"] {
            assert!(text.lines().any(|it| it == line), "no {line} in {text}");
        }
    }
}
