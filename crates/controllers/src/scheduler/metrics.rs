//! [`SchedulerMetrics`]: the metrics of the scheduler, with kube-scheduler's names.

use std::time::Duration;

use super::pod_info::SCHEDULER_NAME;
use super::state::SchedulerState;
use crate::exposition::{Histogram, append_head, append_sample};

/// The result of an attempt to schedule a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptResult {
    Scheduled,
    Unschedulable,
    Error,
}

impl AttemptResult {
    const ALL: [(Self, &'static str); 3] = [
        (Self::Scheduled, "scheduled"),
        (Self::Unschedulable, "unschedulable"),
        (Self::Error, "error"),
    ];
}

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct SchedulerMetrics {
    /// The durations of attempts, by [`AttemptResult`].
    durations: [Histogram; 3],
    /// The number of attempts of each pod that was scheduled.
    attempts: Histogram,
    /// The number of victims of each preemption.
    victims: Histogram,
}

impl Default for SchedulerMetrics {
    fn default() -> Self {
        Self {
            durations: std::array::from_fn(|_| Histogram::doubling(0.001, 15)),
            attempts: Histogram::doubling(1.0, 5),
            victims: Histogram::doubling(1.0, 7),
        }
    }
}

impl SchedulerMetrics {
    /// An attempt has ended.
    pub(crate) fn observe(&self, result: AttemptResult, duration: Duration, attempts: u32) {
        self.durations[result as usize].observe(duration.as_secs_f64());
        if result == AttemptResult::Scheduled {
            self.attempts.observe(attempts.into());
        }
    }

    /// Pods are deleted for the benefit of another one.
    pub(crate) fn observe_preemption(&self, victims: usize) {
        self.victims.observe(u32::try_from(victims).unwrap_or(u32::MAX).into());
    }

    /// All families as text.
    pub(crate) fn text(&self, state: &SchedulerState) -> String {
        let mut text = String::new();
        let name = "scheduler_pending_pods";
        append_head(
            &mut text,
            "gauge",
            name,
            "Pods that wait for a node, by the part of the queue",
        );
        for (queue, count) in state.pending() {
            append_sample(&mut text, name, &[("queue", queue)], count);
        }
        let labels = |result| [("profile", SCHEDULER_NAME), ("result", result)];
        let name = "scheduler_schedule_attempts_total";
        append_head(&mut text, "counter", name, "Attempts to schedule pods, by result");
        for (result, label) in AttemptResult::ALL {
            let count = self.durations[result as usize].count();
            append_sample(&mut text, name, &labels(label), count);
        }
        let name = "scheduler_scheduling_attempt_duration_seconds";
        append_head(&mut text, "histogram", name, "Durations of decisions and bindings");
        for (result, label) in AttemptResult::ALL {
            self.durations[result as usize].append(&mut text, name, &labels(label));
        }
        let name = "scheduler_pod_scheduling_attempts";
        append_head(&mut text, "histogram", name, "Attempts until a pod was scheduled");
        self.attempts.append(&mut text, name, &[]);
        let name = "scheduler_preemption_attempts_total";
        append_head(&mut text, "counter", name, "Preemptions");
        append_sample(&mut text, name, &[], self.victims.count());
        let name = "scheduler_preemption_victims";
        append_head(&mut text, "histogram", name, "Pods that a preemption has deleted");
        self.victims.append(&mut text, name, &[]);
        text
    }
}
