//! [`Manager::settled`]: waits until a manager has nothing left to do. For tests.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::time::Instant;

use super::{Manager, ManagerState, caches};
use crate::Request;
use crate::control_loop::ControlLoop;
use crate::reconcile::is_forbidden;
use crate::reconcile_history::ReconcileOutcome;
use informer::work_queue::{KeyState, RateLimits};
use keel::{Timestamp, message_with_causes};
use machinery::timestamp;

/// The time between two checks. A test has other threads to wait for, but not for long.
const CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// The real time after which a clock that shows the same time stands still.
const STANDSTILL: Duration = Duration::from_millis(250);

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
    /// Waits until the manager has nothing left to do: its workers run, its lease is renewed, all
    /// caches have the state of the server, all events were processed, all queues are empty, no
    /// reconcile is active, and the recorded Events were sent. Fails after `within` with what is not
    /// settled, and at once with the reason if the manager has ended.
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
    /// not settled, and the error names the failure and the time until which it waits. If nothing
    /// else is left and the clock of the manager stands still, as a manual clock does, the wait fails
    /// at once: the test has to advance the clock. A key of [`Action::RequeueAfter`](crate::Action) is
    /// settled until it is due. What other programs do in reaction to this manager, such as the
    /// garbage collector of the cluster, is not waited for.
    ///
    /// `within` is real time, also if the manager has a manual clock. Each cache is listed for the
    /// comparison, so this is not for production.
    pub async fn settled(&self, within: Duration) -> Result<(), NotSettled> {
        let deadline = Instant::now() + within;
        let (mut shown, mut shown_since) = (self.clock().now(), Instant::now());
        loop {
            self.state.check_not_ended()?;
            let Unsettled { active, mut delayed } = self.state.unsettled().await;
            if active.is_empty() && delayed.is_empty() {
                return Ok(());
            }
            let now = self.clock().now();
            if now != shown {
                (shown, shown_since) = (now, Instant::now());
            } else if active.is_empty() && shown_since.elapsed() >= STANDSTILL {
                // A retry without the right is refused, too.
                let is_hopeless = delayed.iter().all(|key| is_forbidden(key));
                let advice = if is_hopeless { "" } else { ": advance it" };
                delayed.push(format!("the clock stands still at {}{advice}", rfc3339(now)));
                return Err(NotSettled(delayed));
            }
            if Instant::now() >= deadline {
                return Err(NotSettled([active, delayed].concat()));
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }

    /// Waits until each cache has the state of the server and its events are in the queues of the
    /// controllers. Fails like [`settled`](Self::settled), but keys may wait, for a worker, for a
    /// retry, or until the workers run.
    ///
    /// A test that lets a retry succeed waits for this before it advances the clock. Otherwise the
    /// retry may come before the cache has the change:
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn example(
    /// #     manager: &runtime::Manager,
    /// #     clock: &runtime::keel::Clock,
    /// # ) -> Result<(), runtime::manager::NotSettled> {
    /// // deletes the object for which the reconcile fails, with any client
    /// manager.caches_current(Duration::from_secs(10)).await?;
    /// clock.advance(Duration::from_secs(60)); // the retry is due
    /// manager.settled(Duration::from_secs(10)).await
    /// # }
    /// ```
    pub async fn caches_current(&self, within: Duration) -> Result<(), NotSettled> {
        let deadline = Instant::now() + within;
        loop {
            self.state.check_not_ended()?;
            let mut behind = self.state.incomplete();
            if behind.is_empty() {
                behind = self.state.stale().await;
            }
            // The events of the comparison.
            behind.extend(self.state.incomplete());
            if behind.is_empty() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(NotSettled(behind));
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }
}

/// What is not settled.
#[derive(Default)]
struct Unsettled {
    /// What ends by itself.
    active: Vec<String>,
    /// The keys that wait for the clock.
    delayed: Vec<String>,
}

impl Unsettled {
    fn active(active: Vec<String>) -> Self {
        Self { active, delayed: Vec::new() }
    }
}

impl ManagerState {
    fn check_not_ended(&self) -> Result<(), NotSettled> {
        match &*self.ended.borrow() {
            Some(reason) => Err(NotSettled(vec![format!("the manager has ended: {reason}")])),
            None => Ok(()),
        }
    }

    async fn unsettled(&self) -> Unsettled {
        if !self.is_working() {
            return Unsettled::active(vec![match caches::all_complete(&self.caches.factory) {
                Err(incomplete) => format!("the caches are not complete: {incomplete}"),
                Ok(()) if self.options.leader_election.is_some() => "not the leader".to_owned(),
                Ok(()) => "the manager does not run".to_owned(),
            }]);
        }
        if let Some(election) = &self.options.leader_election
            && self.fence.time_since_renewal() >= Some(election.retry_period)
        {
            return Unsettled::active(vec!["the lease is being renewed".to_owned()]);
        }
        let adds = self.adds();
        let busy = self.busy();
        if !busy.active.is_empty() {
            return busy;
        }
        let stale = self.stale().await;
        if !stale.is_empty() {
            return Unsettled::active(stale);
        }
        // The caches were level while the lists were read, and nothing has happened since.
        let mut busy = self.busy();
        if busy.active.is_empty() && self.adds() != adds {
            busy.active.push("reconciles go on".to_owned());
        }
        busy
    }

    /// The caches that do not have the state of the server.
    async fn stale(&self) -> Vec<String> {
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
        stale
    }

    /// The number of keys that were ever added to the queues.
    fn adds(&self) -> u64 {
        self.loops().iter().map(|control_loop| control_loop.queue.metrics().adds).sum()
    }

    /// The caches that are not complete, and the events that are not processed.
    fn incomplete(&self) -> Vec<String> {
        let mut incomplete = Vec::new();
        for (scope, informer) in self.caches.factory.informers() {
            let backlog = informer.handler_backlog();
            if !informer.has_synced().get() {
                incomplete.push(format!("the cache of {scope} is not complete"));
            } else if backlog > 0 {
                incomplete.push(format!("{backlog} events of {scope} are not processed"));
            }
        }
        incomplete
    }

    /// The events and keys that are not processed.
    fn busy(&self) -> Unsettled {
        let mut busy = Unsettled::active(self.incomplete());
        for control_loop in self.loops() {
            control_loop.add_unfinished(&mut busy);
        }
        let unsent = self.unsent_events.lock().unwrap_or_else(PoisonError::into_inner);
        for (controller, count) in unsent.iter() {
            let count = count.load(Relaxed);
            if count > 0 {
                busy.active.push(format!("{count} Events of {controller} are not sent"));
            }
        }
        busy
    }
}

impl ControlLoop {
    /// Adds the keys that are not done.
    fn add_unfinished(&self, unsettled: &mut Unsettled) {
        let name = &self.name;
        for (key, state) in self.queue.unfinished_keys() {
            match state {
                KeyState::Waiting => {
                    unsettled.active.push(format!("{name}: {key} waits for a worker"));
                }
                KeyState::Processing => {
                    unsettled.active.push(format!("{name}: {key} is being reconciled"));
                }
                KeyState::Failed(failures) => {
                    unsettled.delayed.push(self.describe_retry(&key, failures));
                }
            }
        }
    }

    fn describe_retry(&self, key: &Request, failures: u32) -> String {
        let name = &self.name;
        let times = if failures == 1 { "failure" } else { "failures" };
        let last = self.history.records().into_iter().find(|record| record.request == *key);
        let Some(last) = last else {
            return format!("{name}: {key} waits for a retry after {failures} {times}");
        };
        let due = rfc3339(last.at + last.took + longest_delay(&self.limits, failures));
        let why = match last.outcome {
            ReconcileOutcome::Failed(why) | ReconcileOutcome::Panicked(why) => why,
            _ => "it requests to be requeued".to_owned(),
        };
        format!(
            "{name}: {key} waits for a retry after {failures} {times}, until {due} at the latest: {why}"
        )
    }
}

fn rfc3339(time: Timestamp) -> String {
    timestamp::format_micros(time.seconds(), time.nanos())
}

/// The longest delay of a key after its failures, without the limit for all keys.
fn longest_delay(limits: &RateLimits, failures: u32) -> Duration {
    let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    limits.backoff_base.saturating_mul(factor).min(limits.backoff_cap)
}
