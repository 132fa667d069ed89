//! The metrics of controllers and their queues.

use std::fmt;
use std::sync::Arc;

use prometheus_client::metrics::histogram::Histogram;

use super::{DurationHistogram, Families};
use crate::control_loop::{ControlLoop, ReconcileCounts};
use informer::work_queue::QueueMetrics;

/// The upper ends of the buckets of reconcile times in seconds, as in controller-runtime.
const RECONCILE_BUCKETS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0,
    25.0, 30.0, 40.0, 50.0, 60.0,
];

/// An empty histogram of reconcile times.
pub(crate) fn reconcile_histogram() -> Histogram {
    Histogram::new(RECONCILE_BUCKETS)
}

/// A queue of a component that is not a controller of the manager.
pub(crate) struct ComponentQueue {
    pub(crate) name: String,
    pub(crate) metrics: Box<dyn Fn() -> QueueMetrics + Send + Sync>,
    pub(crate) latency: DurationHistogram,
    pub(crate) work_duration: DurationHistogram,
}

/// Encodes the families of all controllers, and of the other queues.
pub(super) fn encode(
    families: &mut Families<'_>,
    loops: &[Arc<ControlLoop>],
    queues: &[Arc<ComponentQueue>],
) -> fmt::Result {
    let rows: Vec<Row<'_>> = loops.iter().map(|control_loop| Row::of(control_loop)).collect();
    encode_reconciles(families, &rows)?;
    let of_loops = loops.iter().map(|control_loop| QueueRow::of(control_loop));
    let others = queues.iter().map(|queue| QueueRow {
        name: &queue.name,
        metrics: (queue.metrics)(),
        latency: &queue.latency.0,
        work_duration: &queue.work_duration.0,
    });
    encode_queues(families, &of_loops.chain(others).collect::<Vec<_>>())
}

struct Row<'a> {
    control_loop: &'a ControlLoop,
    counts: ReconcileCounts,
}

impl<'a> Row<'a> {
    fn of(control_loop: &'a ControlLoop) -> Self {
        Self { control_loop, counts: control_loop.counts() }
    }

    fn labels(&self) -> [(&'static str, &'a str); 1] {
        [("controller", &self.control_loop.name)]
    }

    /// The samples of reconciles by result.
    fn results(&self) -> [([(&'static str, &'a str); 2], u64); 4] {
        let ([controller], counts) = (self.labels(), &self.counts);
        [
            ([controller, ("result", "success")], counts.successes),
            ([controller, ("result", "requeue")], counts.requeues),
            ([controller, ("result", "requeue_after")], counts.requeues_after),
            ([controller, ("result", "error")], counts.errors),
        ]
    }
}

struct QueueRow<'a> {
    name: &'a str,
    metrics: QueueMetrics,
    latency: &'a Histogram,
    work_duration: &'a Histogram,
}

impl<'a> QueueRow<'a> {
    fn of(control_loop: &'a ControlLoop) -> Self {
        Self {
            name: &control_loop.name,
            metrics: control_loop.queue.metrics(),
            latency: &control_loop.latency.0,
            work_duration: &control_loop.work_duration.0,
        }
    }

    fn labels(&self) -> [(&'static str, &'a str); 2] {
        [("name", self.name), ("controller", self.name)]
    }
}

fn encode_reconciles(families: &mut Families<'_>, rows: &[Row<'_>]) -> fmt::Result {
    families.counter(
        "controller_runtime_reconcile_total",
        "Reconciles by controller and result",
        rows.iter().flat_map(Row::results),
    )?;
    let mut counter = |name: &str, help: &str, value: fn(&ReconcileCounts) -> u64| {
        families.counter(name, help, rows.iter().map(|row| (row.labels(), value(&row.counts))))
    };
    let name = "controller_runtime_reconcile_errors_total";
    counter(name, "Reconciles that failed", |counts| counts.errors)?;
    let name = "controller_runtime_terminal_reconcile_errors_total";
    counter(name, "Reconciles that failed and are not retried", |it| it.permanent_errors)?;
    let name = "controller_runtime_reconcile_panics_total";
    counter(name, "Reconciles that panicked", |counts| counts.panics)?;
    let mut gauge = |name: &str, help: &str, value: fn(&Row<'_>) -> usize| {
        families.gauge(name, help, rows.iter().map(|row| (row.labels(), value(row))))
    };
    let name = "controller_runtime_max_concurrent_reconciles";
    gauge(name, "Workers", |row| row.control_loop.workers)?;
    let name = "controller_runtime_active_workers";
    gauge(name, "Workers that reconcile", |row| row.counts.active)?;
    families.histogram(
        "controller_runtime_reconcile_time_seconds",
        "Durations of reconciles",
        rows.iter().map(|row| (row.labels(), &row.counts.durations)),
    )
}

fn encode_queues(families: &mut Families<'_>, rows: &[QueueRow<'_>]) -> fmt::Result {
    let depths = rows.iter().map(|row| (row.labels(), row.metrics.depth));
    families.gauge("workqueue_depth", "Keys that wait", depths)?;
    let adds = rows.iter().map(|row| (row.labels(), row.metrics.adds));
    families.counter("workqueue_adds_total", "Keys that were added", adds)?;
    let retries = rows.iter().map(|row| (row.labels(), row.metrics.retries));
    let help = "Keys that were added after a failure";
    families.counter("workqueue_retries_total", help, retries)?;
    let mut seconds = |name: &str, help: &str, value: fn(&QueueMetrics) -> f64| {
        families.gauge(name, help, rows.iter().map(|row| (row.labels(), value(&row.metrics))))
    };
    let name = "workqueue_unfinished_work_seconds";
    let help = "Sum of the times for which keys are being processed";
    seconds(name, help, |queue| queue.unfinished_work.as_secs_f64())?;
    let name = "workqueue_longest_running_processor_seconds";
    let help = "Longest time for which a key is being processed";
    seconds(name, help, |queue| queue.longest_running.as_secs_f64())?;
    families.histogram(
        "workqueue_queue_duration_seconds",
        "Times for which keys wait",
        rows.iter().map(|row| (row.labels(), row.latency)),
    )?;
    families.histogram(
        "workqueue_work_duration_seconds",
        "Times for which keys are processed",
        rows.iter().map(|row| (row.labels(), row.work_duration)),
    )
}
