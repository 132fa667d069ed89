//! The stop of a manager, in the order of dependencies and within a time limit.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::ManagerState;
use keel::UncleanStop;

/// The part of the stop time that is reserved for the tasks after the workers. Writing events and
/// releasing the lease take little of it if the server responds.
const RESERVED_AFTER_WORKERS: Duration = Duration::from_secs(5);

/// The longest stop time; a larger value would overflow the clock.
const MAX_STOP_TIME: Duration = Duration::from_hours(24);

impl ManagerState {
    /// Stops all tasks in the order of their dependencies within the stop time. The workers leave a
    /// part of it to the tasks after them, and each group of these to the next.
    ///
    /// `is_graceful` is false if the manager ends with an error, such as a lost leadership. Another
    /// process may lead then, so the workers and the tasks beside them are aborted at once.
    pub(super) async fn shut_down(&self, is_graceful: bool) -> Result<(), UncleanStop> {
        let within = self.options.stop_within.min(MAX_STOP_TIME);
        let (end, reserve) = (Instant::now() + within, (within / 2).min(RESERVED_AFTER_WORKERS));
        let time_left_except =
            |reserve: Duration| (end - reserve).saturating_duration_since(Instant::now());
        for control_loop in self.loops() {
            control_loop.queue.shut_down();
        }
        let worker_timeout = if is_graceful { time_left_except(reserve) } else { Duration::ZERO };
        let mut outcome = self.worker_tasks.stop(worker_timeout).await;
        let side_task_timeout =
            if is_graceful { time_left_except(reserve / 2) } else { Duration::ZERO };
        outcome = outcome.and(self.side_tasks.stop(side_task_timeout).await);
        // Aborted tasks are expected then, and the caller reports the error.
        if !is_graceful {
            outcome = Ok(());
        }
        // Pending webhook requests get a response in both cases.
        let rest = [
            (&self.elector_tasks, reserve / 4),
            (&self.webhook_tasks, reserve / 8),
            (&self.cache_tasks, reserve / 16),
            (&self.endpoint_tasks, Duration::ZERO),
        ];
        for (tasks, reserve) in rest {
            outcome = outcome.and(tasks.stop(time_left_except(reserve)).await);
        }
        self.fence.close();
        outcome
    }
}

/// Stops all tasks when it is dropped, unless it is empty.
pub(super) struct StopOnDrop(pub(super) Option<Arc<ManagerState>>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        let Some(shared) = self.0.take() else { return };
        shared.fence.close();
        shared.ended.send_if_modified(|ended| {
            let is_first = ended.is_none();
            ended.get_or_insert_with(|| "its run was aborted".to_owned());
            is_first
        });
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
