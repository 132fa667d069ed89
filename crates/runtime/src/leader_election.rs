//! Leader election with a `Lease`: of several managers with the same lease, one runs its workers,
//! and the others have synced caches.
//!
//! ```text
//! standby ──acquire──▶ leading ──renew every 2 s──▶ leading
//!    ▲                    │ renewal overdue for 10 s: the fence is closed, nothing is written
//!    │                    ▼
//!    └─── 15 s after the last renewal, others may take over (by their own clock)
//! ```
//!
//! Clocks of different machines are never compared: each candidate measures the time since it saw
//! the lease change, and the leader measures the time since it sent its last renewal. A clock that
//! is set forward or back makes no candidate a leader, and no leader write longer. The leader stops
//! writing [`renew_deadline`](LeaderElection::renew_deadline) after it *sent* the last renewal;
//! others acquire the lease [`lease_duration`](LeaderElection::lease_duration) after they *saw* it.
//!
//! The deletion of a lease does not end leadership: a candidate that has seen the lease waits for
//! its expiry, and the leader creates it again. Only a candidate that starts later does not know of
//! it.

mod options;

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff;
use kube_client::{Api, Client};
use kube_core::ObjectMeta;
use kube_core::params::PostParams;
use tokio::sync::watch;

use crate::fence::Fence;
use keel::{Clock, ClockInstant, Entropy, Tasks};
use options::JITTER_DIVISOR;

pub(crate) use options::host_name;
pub use options::{InvalidLeaderElection, LeaderElection};

/// The number of attempts to release the lease. A release conflicts only with an own renewal whose
/// response was lost.
const RELEASE_ATTEMPTS: usize = 3;

/// The role of a manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leadership {
    Standby,
    Leading,
    /// The manager was the leader, and must be restarted.
    Lost,
}

/// Acquires, renews and releases the lease.
pub(crate) struct Elector {
    options: LeaderElection,
    leases: Api<Lease>,
    clock: Clock,
    entropy: Entropy,
    fence: Fence,
    leadership: watch::Sender<Leadership>,
    /// The last known state of the lease, and the time at which it was seen; kept if the lease is
    /// deleted.
    seen: Option<(Lease, ClockInstant)>,
    /// The holder that was last logged by a candidate that waits for it.
    logged_holder: String,
}

/// The result of an attempt to acquire or renew the lease.
#[derive(Debug, PartialEq, Eq)]
enum LeaseResult {
    Held,
    HeldByAnother,
    Failed(String),
}

impl Elector {
    /// `client` must not be fenced.
    pub(crate) fn new(
        options: LeaderElection,
        client: Client,
        clock: &Clock,
        entropy: &Entropy,
        fence: &Fence,
    ) -> Self {
        Self {
            leases: Api::namespaced(client, &options.namespace),
            options,
            clock: clock.clone(),
            entropy: entropy.clone(),
            fence: fence.clone(),
            leadership: watch::Sender::new(Leadership::Standby),
            seen: None,
            logged_holder: String::new(),
        }
    }

    pub(crate) fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.subscribe()
    }

    /// Acquires and renews the lease until leadership is lost or `tasks` are stopped.
    pub(crate) async fn run(mut self, tasks: Tasks) {
        let shutdown = tasks.shutdown();
        tokio::pin!(shutdown);
        while !tasks.is_stopping() {
            let begun = self.clock.instant();
            // A stop does not drop the attempt: its result decides whether the lease is released.
            let attempt = self.attempt_with_timeout().await;
            let is_leading = *self.leadership.borrow() == Leadership::Leading;
            match attempt {
                LeaseResult::Held if !is_leading => {
                    tracing::info!(lease = self.options.path(), "became the leader");
                    self.leadership.send_replace(Leadership::Leading);
                }
                LeaseResult::HeldByAnother if is_leading => {
                    return self.lose_leadership("another process holds the lease");
                }
                LeaseResult::Failed(error) if is_leading && self.fence.check().is_err() => {
                    return self.lose_leadership(&error);
                }
                LeaseResult::Failed(error) => {
                    tracing::warn!(
                        error,
                        "cannot acquire or renew the lease {}",
                        self.options.path()
                    );
                }
                LeaseResult::HeldByAnother => self.log_holder(),
                LeaseResult::Held => {}
            }
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                () = self.clock.sleep(self.retry_delay(&begun)) => {}
            }
        }
        self.fence.close();
        if self.options.release_on_exit {
            self.release_with_timeout().await;
        }
    }

    /// Logs whom this candidate waits for, once for each holder.
    fn log_holder(&mut self) {
        let Some((lease, _)) = &self.seen else { return };
        if holder(lease) != self.logged_holder {
            holder(lease).clone_into(&mut self.logged_holder);
            let (lease, holder) = (self.options.path(), &self.logged_holder);
            tracing::info!(lease, holder, "stands by for the leader");
        }
    }

    fn lose_leadership(&self, why: &str) {
        self.fence.close();
        tracing::error!(lease = self.options.path(), why, "lost the leadership");
        self.leadership.send_replace(Leadership::Lost);
    }

    /// The time until the next attempt. That of a leader is shorter after a long attempt, and ends
    /// before its deadline. Candidates add jitter, so that they do not all try at once.
    fn retry_delay(&self, begun: &ClockInstant) -> Duration {
        let period = self.options.retry_period;
        if *self.leadership.borrow() == Leadership::Leading {
            let left = period.saturating_sub(self.clock.elapsed_since(begun));
            return left.min(self.fence.time_left()).max(Duration::from_millis(10));
        }
        let nanos = u64::try_from((period / JITTER_DIVISOR).as_nanos()).unwrap_or(u64::MAX);
        period + Duration::from_nanos(self.entropy.below(nanos.max(1)))
    }

    /// The timeout of one attempt, which leaves time for another.
    fn attempt_timeout(&self) -> Duration {
        self.options.renew_deadline / 2
    }

    async fn attempt_with_timeout(&mut self) -> LeaseResult {
        let attempt_timeout = self.attempt_timeout();
        let deadline = match *self.leadership.borrow() {
            // At least one period: after the clock was set forward, the fence has no time left, but
            // the lease may still be renewed.
            Leadership::Leading => {
                self.fence.time_left().min(attempt_timeout).max(self.options.retry_period)
            }
            _ => attempt_timeout,
        };
        let clock = self.clock.clone();
        tokio::select! {
            attempt = self.attempt() => attempt,
            () = clock.sleep(deadline) => LeaseResult::Failed("no response in time".to_owned()),
        }
    }

    async fn attempt(&mut self) -> LeaseResult {
        match self.acquire_or_renew().await {
            Ok(attempt) => attempt,
            // Another candidate was faster, the last response was lost, or the lease was deleted,
            // for which servers use different codes: read the lease, and try again the next time.
            Err(kube_client::Error::Api(status)) => match self.read_lease().await {
                Ok(Some(lease)) if self.is_held_by_another(&lease) => LeaseResult::HeldByAnother,
                Ok(_) => LeaseResult::Failed(refusal(&status)),
                Err(error) => LeaseResult::Failed(error.to_string()),
            },
            Err(error) => LeaseResult::Failed(error.to_string()),
        }
    }

    async fn acquire_or_renew(&mut self) -> Result<LeaseResult, kube_client::Error> {
        let is_ours = |(lease, _): &(Lease, ClockInstant)| holder(lease) == self.options.identity;
        // A leader knows the state of its lease, and a successful write proves that it did not
        // change.
        let known = match self.seen.clone().filter(is_ours) {
            Some((lease, _)) => Some(lease),
            None => self.read_lease().await?,
        };
        // The deletion of a lease does not stop its holder, which is respected until the lease
        // expires.
        let last = known.as_ref().or(self.seen.as_ref().map(|(lease, _)| lease));
        if last.is_some_and(|lease| self.is_held_by_another(lease)) {
            return Ok(LeaseResult::HeldByAnother);
        }
        let sent = self.clock.instant();
        let written = match &known {
            Some(lease) => self.replace(&self.claimed_lease(Some(lease))).await?,
            None => self.leases.create(&PostParams::default(), &self.claimed_lease(None)).await?,
        };
        self.fence.open_for(sent.clone(), self.options.renew_deadline, self.options.grace());
        self.seen = Some((written, sent));
        Ok(LeaseResult::Held)
    }

    async fn replace(&self, lease: &Lease) -> Result<Lease, kube_client::Error> {
        self.leases.replace(&self.options.lease, &PostParams::default(), lease).await
    }

    /// Reads the lease, and records the time at which it was seen to change.
    async fn read_lease(&mut self) -> Result<Option<Lease>, kube_client::Error> {
        let found = self.leases.get_opt(&self.options.lease).await?;
        let Some(lease) = &found else {
            // The lease of another holder is remembered until it expires; an own one is created
            // again.
            self.seen.take_if(|(lease, _)| holder(lease) == self.options.identity);
            return Ok(None);
        };
        let version = &lease.metadata.resource_version;
        let seen = self.seen.as_ref().map(|(seen, _)| &seen.metadata.resource_version);
        if seen != Some(version) {
            self.seen = Some((lease.clone(), self.clock.instant()));
        }
        Ok(found)
    }

    fn is_held_by_another(&self, lease: &Lease) -> bool {
        let holder = holder(lease);
        if holder.is_empty() || holder == self.options.identity {
            return false;
        }
        let duration = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
        let duration = duration.and_then(|seconds| u64::try_from(seconds).ok());
        let duration = duration.map_or(self.options.lease_duration, Duration::from_secs);
        let unchanged = self.seen.as_ref().map(|(_, since)| self.clock.elapsed_since(since));
        unchanged.is_none_or(|unchanged| unchanged < duration)
    }

    /// The lease with this process as its holder, based on `known`.
    fn claimed_lease(&self, known: Option<&Lease>) -> Lease {
        let mut lease = known.cloned().unwrap_or_else(|| Lease {
            metadata: ObjectMeta {
                name: Some(self.options.lease.clone()),
                ..ObjectMeta::default()
            },
            spec: None,
        });
        let now = MicroTime(timestamp(&self.clock));
        let is_renewal = known.is_some_and(|known| holder(known) == self.options.identity);
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        if !is_renewal {
            spec.acquire_time = Some(now.clone());
            spec.lease_transitions = Some(spec.lease_transitions.map_or(0, |count| count + 1));
        }
        spec.holder_identity = Some(self.options.identity.clone());
        spec.lease_duration_seconds = Some(self.options.lease_seconds());
        spec.renew_time = Some(now);
        lease
    }

    async fn release_with_timeout(&mut self) {
        let (clock, timeout) = (self.clock.clone(), self.attempt_timeout());
        let released = tokio::select! {
            released = self.release() => released.map_err(|error| error.to_string()),
            () = clock.sleep(timeout) => Err("no response in time".to_owned()),
        };
        if let Err(error) = released {
            tracing::warn!(error, "cannot release the lease {}", self.options.path());
        }
    }

    /// Releases the lease if this process holds it, even if the last attempt has failed.
    async fn release(&mut self) -> Result<(), kube_client::Error> {
        let identity = self.options.identity.clone();
        let is_ours = |lease: &Lease| holder(lease) == identity;
        let mut known = self.seen.clone().map(|(lease, _)| lease).filter(is_ours);
        let mut tries = 0..RELEASE_ATTEMPTS;
        loop {
            let lease = match known.take() {
                Some(lease) => lease,
                None => match self.read_lease().await?.filter(is_ours) {
                    Some(lease) => lease,
                    None => return Ok(()),
                },
            };
            match self.replace(&self.released_lease(lease)).await {
                Err(kube_client::Error::Api(status)) if status.code == 404 => return Ok(()),
                Err(kube_client::Error::Api(status))
                    if status.code == 409 && tries.next().is_some() => {}
                released => return released.map(drop),
            }
        }
    }

    /// The lease without a holder.
    fn released_lease(&self, mut lease: Lease) -> Lease {
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
            spec.renew_time = Some(MicroTime(timestamp(&self.clock)));
        }
        lease
    }
}

/// The message of a refused write, with a remedy if the namespace of the lease does not exist.
fn refusal(status: &kube_core::Status) -> String {
    let missing =
        status.details.as_ref().filter(|it| status.code == 404 && it.kind == "namespaces");
    match missing {
        Some(namespace) => {
            format!("{}: run `kubectl create namespace {}`", status.message, namespace.name)
        }
        None => status.message.clone(),
    }
}

fn timestamp(clock: &Clock) -> jiff::Timestamp {
    let now = clock.now();
    // The API has microseconds.
    let nanos = i32::try_from(now.nanos() / 1000 * 1000).unwrap_or_default();
    jiff::Timestamp::new(now.seconds(), nanos).unwrap_or_default()
}

fn holder(lease: &Lease) -> &str {
    let spec = lease.spec.as_ref();
    spec.and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use kube_core::Status;
    use serde_json::json;

    use super::refusal;

    fn not_found(kind: &str, name: &str) -> Status {
        let message = format!("{kind} \"{name}\" not found");
        let details = json!({"kind": kind, "name": name});
        let status = json!({"code": 404, "message": message, "details": details});
        serde_json::from_value(status).unwrap()
    }

    #[test]
    fn a_missing_namespace_is_reported_with_a_remedy() {
        assert_eq!(
            refusal(&not_found("namespaces", "operators")),
            "namespaces \"operators\" not found: run `kubectl create namespace operators`"
        );
        assert_eq!(refusal(&not_found("leases", "site")), "leases \"site\" not found");
    }
}
