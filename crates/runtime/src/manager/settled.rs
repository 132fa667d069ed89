//! [`Manager::settled`]: waits until a manager has nothing left to do. For tests.

use std::time::Duration;

use tokio::time::Instant;

use super::{Manager, ManagerState, caches};
use crate::control_loop::ControlLoop;
use crate::reconcile_history::ReconcileOutcome;
use informer::work_queue::KeyState;
use keel::message_with_causes;

/// The time between two checks. A test has other threads to wait for, but not for long.
const CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// A manager has not [settled](Manager::settled) in time: what it still does or waits for.
///
/// ```
/// use runtime::manager::NotSettled;
///
/// let error = NotSettled(vec!["site: default/blog waits for a worker".to_owned()]);
/// assert_eq!(error.to_string(), "not settled: site: default/blog waits for a worker");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not settled: {}", .0.join("; "))]
pub struct NotSettled(pub Vec<String>);

impl Manager {
    /// Waits until the manager has nothing left to do: its workers run, all caches have the state of
    /// the server, all events were processed, all queues are empty, and no reconcile is active. Fails
    /// after `within` with what is not settled.
    ///
    /// A test changes objects, waits for this, and asserts. It need not wait for time:
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn example(manager: &runtime::Manager) -> Result<(), runtime::manager::NotSettled> {
    /// // creates a Site, with any client
    /// manager.settled(Duration::from_secs(10)).await?;
    /// // asserts that its ConfigMaps exist
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A key that waits for a retry after a failure, or after [`Action::Requeue`](crate::Action), is
    /// not settled, and the error names the failure. A key of
    /// [`Action::RequeueAfter`](crate::Action) is settled until it is due. What other programs do in
    /// reaction to this manager, such as the garbage collector of the cluster, is not waited for.
    ///
    /// `within` is real time, also if the manager has a manual clock. Each cache is listed for the
    /// comparison, so this is not for production.
    pub async fn settled(&self, within: Duration) -> Result<(), NotSettled> {
        let deadline = Instant::now() + within;
        loop {
            let left = self.0.unsettled().await;
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(NotSettled(left));
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }
}

impl ManagerState {
    /// What is not settled.
    async fn unsettled(&self) -> Vec<String> {
        if !*self.working.borrow() {
            return vec![match caches::all_complete(&self.caches.factory) {
                Err(incomplete) => format!("the caches are not complete: {incomplete}"),
                Ok(()) if self.options.leader_election.is_some() => "not the leader".to_owned(),
                Ok(()) => "the manager does not run".to_owned(),
            }];
        }
        let adds = self.adds();
        let busy = self.busy();
        if !busy.is_empty() {
            return busy;
        }
        let mut stale = Vec::new();
        for (scope, informer) in self.caches.factory.informers() {
            match informer.stale_keys().await {
                Ok(keys) if keys.is_empty() => {}
                Ok(keys) => {
                    let first = &keys[0];
                    stale.push(format!("the cache of {scope} is not level: {first}"));
                }
                Err(error) => {
                    stale.push(format!("cannot list {scope}: {}", message_with_causes(&error)));
                }
            }
        }
        if !stale.is_empty() {
            return stale;
        }
        // The caches were level while the lists were read, and nothing has happened since.
        let mut busy = self.busy();
        if busy.is_empty() && self.adds() != adds {
            busy.push("reconciles go on".to_owned());
        }
        busy
    }

    /// The number of keys that were ever added to the queues.
    fn adds(&self) -> u64 {
        self.loops().iter().map(|control_loop| control_loop.queue.metrics().adds).sum()
    }

    /// The events and keys that are not processed.
    fn busy(&self) -> Vec<String> {
        let mut busy = Vec::new();
        for (scope, informer) in self.caches.factory.informers() {
            let backlog = informer.handler_backlog();
            if !informer.has_synced().get() {
                busy.push(format!("the cache of {scope} is not complete"));
            } else if backlog > 0 {
                busy.push(format!("{backlog} events of {scope} are not processed"));
            }
        }
        for control_loop in self.loops() {
            busy.extend(control_loop.unfinished());
        }
        busy
    }
}

impl ControlLoop {
    /// The keys that are not done, for messages.
    fn unfinished(&self) -> Vec<String> {
        let name = &self.name;
        let describe = |(key, state)| match state {
            KeyState::Waiting => format!("{name}: {key} waits for a worker"),
            KeyState::Processing => format!("{name}: {key} is being reconciled"),
            KeyState::Failed(failures) => {
                let records = self.history.records();
                let last = records.into_iter().find(|record| record.request == key);
                let why = match last.map(|record| record.outcome) {
                    Some(ReconcileOutcome::Failed(why) | ReconcileOutcome::Panicked(why)) => why,
                    _ => "it requests to be requeued".to_owned(),
                };
                format!("{name}: {key} waits for a retry after {failures} failures: {why}")
            }
        };
        self.queue.unfinished_keys().into_iter().map(describe).collect()
    }
}
