//! The metrics of priority and fairness, with kube-apiserver's names.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::priority_levels::{Limits, Refusal};
use crate::metrics::Counter;

/// Upstream: the buckets of `request_wait_duration_seconds`.
const WAIT_BUCKETS: [f64; 13] =
    [0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0];

/// Upstream: the buckets of `watch_count_samples`.
const WATCH_COUNT_BUCKETS: [f64; 6] = [0.0, 1.0, 10.0, 100.0, 1000.0, 10_000.0];

/// The reasons of refusals.
const QUEUE_FULL: &str = "queue-full";
const CONCURRENCY_LIMIT: &str = "concurrency-limit";
const TIME_OUT: &str = "time-out";

/// All series.
#[derive(Debug)]
pub(super) struct SeatMetrics {
    dispatched: Family<SchemaLabels, Counter>,
    rejected: Family<RejectionLabels, Counter>,
    waiting: Family<SchemaLabels, Gauge>,
    executing: Family<SchemaLabels, Gauge>,
    seats: Family<SchemaLabels, Gauge>,
    waits: Family<WaitLabels, Histogram, fn() -> Histogram>,
    watch_counts: Family<SchemaLabels, Histogram, fn() -> Histogram>,
    nominal: Family<LevelLabel, Gauge>,
    lower: Family<LevelLabel, Gauge>,
    upper: Family<LevelLabel, Gauge>,
}

/// The series of one flow schema.
#[derive(Debug)]
pub(super) struct SchemaMetrics {
    /// The requests that were executed.
    pub dispatched: Counter,
    /// The requests that wait.
    pub waiting: Gauge,
    /// The requests that are executed.
    pub executing: Gauge,
    /// The seats of the requests that are executed.
    pub seats: Gauge,
    /// The numbers of watches that receive the events of writes.
    pub watch_counts: Histogram,
    executed_waits: Histogram,
    refused_waits: Histogram,
    queue_full: Counter,
    concurrency_limit: Counter,
    time_out: Counter,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LevelLabel {
    priority_level: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SchemaLabels {
    flow_schema: String,
    priority_level: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RejectionLabels {
    flow_schema: String,
    priority_level: String,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WaitLabels {
    execute: &'static str,
    flow_schema: String,
    priority_level: String,
}

impl SeatMetrics {
    /// Registers the metrics.
    pub(super) fn new(registry: &mut Registry) -> Self {
        let waits: fn() -> Histogram = || Histogram::new(WAIT_BUCKETS);
        let watch_counts: fn() -> Histogram = || Histogram::new(WATCH_COUNT_BUCKETS);
        let metrics = Self {
            dispatched: Family::default(),
            rejected: Family::default(),
            waiting: Family::default(),
            executing: Family::default(),
            seats: Family::default(),
            waits: Family::new_with_constructor(waits),
            watch_counts: Family::new_with_constructor(watch_counts),
            nominal: Family::default(),
            lower: Family::default(),
            upper: Family::default(),
        };
        let registry = registry.sub_registry_with_prefix("apiserver_flowcontrol");
        registry.register(
            "dispatched_requests_total",
            "Requests that were executed, by flow schema and priority level",
            metrics.dispatched.clone(),
        );
        registry.register(
            "rejected_requests_total",
            "Requests that were refused, by flow schema, priority level and reason",
            metrics.rejected.clone(),
        );
        registry.register(
            "current_inqueue_requests",
            "Requests that wait in queues, by flow schema and priority level",
            metrics.waiting.clone(),
        );
        registry.register(
            "current_executing_requests",
            "Requests that are executed, by flow schema and priority level",
            metrics.executing.clone(),
        );
        registry.register(
            "current_executing_seats",
            "Seats of the requests that are executed, by flow schema and priority level",
            metrics.seats.clone(),
        );
        registry.register(
            "request_wait_duration_seconds",
            "Time that requests of limited priority levels waited before they were executed or refused",
            metrics.waits.clone(),
        );
        registry.register(
            "watch_count_samples",
            "Watches that receive the event of a write, by flow schema and priority level",
            metrics.watch_counts.clone(),
        );
        registry.register(
            "nominal_limit_seats",
            "Nominal number of seats of a priority level",
            metrics.nominal.clone(),
        );
        registry.register(
            "lower_limit_seats",
            "Seats that a priority level does not lend",
            metrics.lower.clone(),
        );
        registry.register(
            "upper_limit_seats",
            "Seats of a priority level with those that it can borrow",
            metrics.upper.clone(),
        );
        metrics
    }

    /// The series of a flow schema.
    pub(super) fn of(&self, schema: &str, level: &str) -> SchemaMetrics {
        let labels =
            SchemaLabels { flow_schema: schema.to_owned(), priority_level: level.to_owned() };
        let rejected = |reason| {
            self.rejected.get_or_create_owned(&RejectionLabels {
                flow_schema: schema.to_owned(),
                priority_level: level.to_owned(),
                reason,
            })
        };
        let waits = |execute| {
            self.waits.get_or_create_owned(&WaitLabels {
                execute,
                flow_schema: schema.to_owned(),
                priority_level: level.to_owned(),
            })
        };
        SchemaMetrics {
            dispatched: self.dispatched.get_or_create_owned(&labels),
            waiting: self.waiting.get_or_create_owned(&labels),
            executing: self.executing.get_or_create_owned(&labels),
            seats: self.seats.get_or_create_owned(&labels),
            watch_counts: self.watch_counts.get_or_create_owned(&labels),
            executed_waits: waits("true"),
            refused_waits: waits("false"),
            queue_full: rejected(QUEUE_FULL),
            concurrency_limit: rejected(CONCURRENCY_LIMIT),
            time_out: rejected(TIME_OUT),
        }
    }

    /// Removes the series of a flow schema that was deleted, or has another priority level. Requests
    /// that it still has count for no series.
    pub(super) fn remove(&self, schema: &str, level: &str) {
        let (flow_schema, priority_level) = (schema.to_owned(), level.to_owned());
        for reason in [QUEUE_FULL, CONCURRENCY_LIMIT, TIME_OUT] {
            let (flow_schema, priority_level) = (flow_schema.clone(), priority_level.clone());
            self.rejected.remove(&RejectionLabels { flow_schema, priority_level, reason });
        }
        for execute in ["true", "false"] {
            let (flow_schema, priority_level) = (flow_schema.clone(), priority_level.clone());
            self.waits.remove(&WaitLabels { execute, flow_schema, priority_level });
        }
        let labels = SchemaLabels { flow_schema, priority_level };
        self.dispatched.remove(&labels);
        self.watch_counts.remove(&labels);
        for gauges in [&self.waiting, &self.executing, &self.seats] {
            gauges.remove(&labels);
        }
    }

    /// Shows the limits of a priority level.
    pub(super) fn set_limits(&self, level: &str, limits: &Limits) {
        let label = LevelLabel { priority_level: level.to_owned() };
        for (gauges, seats) in [
            (&self.nominal, limits.nominal),
            (&self.lower, limits.lower),
            (&self.upper, limits.upper),
        ] {
            gauges.get_or_create(&label).set(i64::try_from(seats).unwrap_or(i64::MAX));
        }
    }

    /// Removes the limits of a priority level that was deleted.
    pub(super) fn remove_limits(&self, level: &str) {
        let label = LevelLabel { priority_level: level.to_owned() };
        for gauges in [&self.nominal, &self.lower, &self.upper] {
            gauges.remove(&label);
        }
    }
}

impl SchemaMetrics {
    /// Counts a request that is executed after this many seconds.
    pub(super) fn execute(&self, waited: f64) {
        self.dispatched.inc();
        self.executed_waits.observe(waited);
    }

    /// Counts a request that is refused after this many seconds.
    pub(super) fn refuse(&self, refusal: Refusal, waited: f64) {
        self.refused_waits.observe(waited);
        match refusal {
            Refusal::QueueFull => self.queue_full.inc(),
            Refusal::ConcurrencyLimit => self.concurrency_limit.inc(),
            Refusal::TimeOut => self.time_out.inc(),
        }
    }
}
