//! How a manager ends: in the order of what depends on what, and in time.

use std::{sync::Arc, time::Duration};

use keel::Unclean;
use tokio::time::Instant;

use super::ManagerState;

/// For what ends after the workers, of the time that a stop may take: events to be written and a
/// lease to be given back take next to none of it, but for a server that does not answer.
const AFTER_WORKERS: Duration = Duration::from_secs(5);

/// Nobody waits for longer, and no clock counts up to the longest time that can be asked for.
const LONGEST_STOP: Duration = Duration::from_hours(24);

impl ManagerState {
    /// Ends everything in the order of its dependence, all within the time that there is: of which
    /// workers leave something to those who come after them, and each of these to the next.
    pub(super) async fn shut_down(&self, is_graceful: bool) -> Result<(), Unclean> {
        let within = self.options.stop_within.min(LONGEST_STOP);
        let (end, reserve) = (Instant::now() + within, (within / 2).min(AFTER_WORKERS));
        let but_for = |reserve: Duration| (end - reserve).saturating_duration_since(Instant::now());
        for control_loop in self.loops() {
            control_loop.queue.shut_down();
        }
        let patience = if is_graceful { but_for(reserve) } else { Duration::ZERO };
        let mut outcome = self.worker_tasks.stop(patience).await;
        // A deposed leader must not write: whatever it runs beside its workers ends as they do.
        let beside = if is_graceful { but_for(reserve / 2) } else { Duration::ZERO };
        outcome = outcome.and(self.side_tasks.stop(beside).await);
        if !is_graceful {
            outcome = Ok(());
        }
        // Webhooks answer what they were asked, leader or not.
        let rest = [
            (&self.elector_tasks, reserve / 4),
            (&self.webhook_tasks, reserve / 8),
            (&self.cache_tasks, reserve / 16),
            (&self.endpoint_tasks, Duration::ZERO),
        ];
        for (tasks, reserve) in rest {
            outcome = outcome.and(tasks.stop(but_for(reserve)).await);
        }
        self.fence.close();
        outcome
    }
}

/// A run that was dropped before its end, unless it is empty.
pub(super) struct StopOnDrop(pub(super) Option<Arc<ManagerState>>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        let Some(shared) = self.0.take() else { return };
        shared.fence.close();
        let all = [
            &shared.worker_tasks,
            &shared.side_tasks,
            &shared.webhook_tasks,
            &shared.elector_tasks,
            &shared.cache_tasks,
            &shared.endpoint_tasks,
        ];
        for tasks in all {
            tasks.ask_to_stop();
        }
    }
}
