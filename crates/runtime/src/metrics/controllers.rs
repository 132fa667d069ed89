//! What controllers and their queues count.

use std::sync::Arc;

use informer::work_queue::{Histogram, QueueMetrics};

use super::{float, head, histogram, label, line};
use crate::control_loop::{ControlLoop, Counts};

/// The families of all controllers.
pub(super) fn render(text: &mut String, loops: &[Arc<ControlLoop>]) {
    let rows: Vec<Row> = loops.iter().map(Row::of).collect();
    render_reconciles(text, &rows);
    render_queues(text, &rows);
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
