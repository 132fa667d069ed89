//! Leader election by a `Lease`: of several managers with the same one, one works and the others
//! stand by with warm caches.
//!
//! ```text
//! standby ──acquire──▶ leading ──renew every 2 s──▶ leading
//!    ▲                    │ renewal overdue for 10 s: the fence is closed, nothing is written
//!    │                    ▼
//!    └─── 15 s after the last renewal, others may take over (by their own clock)
//! ```
//!
//! Clocks are never compared between machines: how long a lease has not changed is measured by who
//! waits for it, and how long ago one's own renewal was sent, by who sent it. A clock that is set
//! forward or back makes nobody leader, and no leader write longer. Writing stops
//! [`renew_deadline`](LeaderElection::renew_deadline) after the last renewal was *sent*, others
//! begin [`lease_duration`](LeaderElection::lease_duration) after they *saw* it.
//!
//! A lease that is deleted frees nobody's hands: who had seen it waits for its end as if it were
//! there, and the leader makes it anew. Only who comes afterwards cannot know of it.

mod options;

pub use options::{InvalidLeaderElection, LeaderElection};

use std::time::Duration;

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff,
};
use keel::{Clock, Entropy, Moment, Tasks};
use kube_client::{Api, Client};
use kube_core::{ObjectMeta, params::PostParams};
use tokio::sync::watch;

use crate::fence::Fence;
use options::JITTER;

/// A release competes with a renewal of our own of which the answer was lost, and with nobody else.
const RELEASE_TRIES: usize = 3;

/// Where a manager stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leadership {
    Standby,
    Leading,
    /// It was the leader, and is not any more: start afresh.
    Lost,
}

/// Competes for the lease.
pub(crate) struct Elector {
    options: LeaderElection,
    leases: Api<Lease>,
    clock: Clock,
    entropy: Entropy,
    fence: Fence,
    leadership: watch::Sender<Leadership>,
    /// The last state of the lease, and since when it is known; also if it is deleted meanwhile.
    seen: Option<(Lease, Moment)>,
}

/// What an attempt came to.
#[derive(Debug, PartialEq, Eq)]
enum Attempt {
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
        }
    }

    pub(crate) fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.subscribe()
    }

    /// Competes until leadership was lost or `tasks` are stopped.
    pub(crate) async fn run(mut self, tasks: Tasks) {
        let shutdown = tasks.shutdown();
        tokio::pin!(shutdown);
        while !tasks.is_stopping() {
            let begun = self.clock.moment();
            // Not dropped by a stop: what came of it decides what there is to give back.
            let attempt = self.attempt_with_timeout().await;
            let is_leading = *self.leadership.borrow() == Leadership::Leading;
            match attempt {
                Attempt::Held if !is_leading => {
                    tracing::info!(lease = self.options.lease, "became the leader");
                    self.leadership.send_replace(Leadership::Leading);
                }
                Attempt::HeldByAnother if is_leading => return self.lose("another took the lease"),
                Attempt::Failed(error) if is_leading && self.fence.check().is_err() => {
                    return self.lose(&error);
                }
                Attempt::Failed(error) => {
                    tracing::warn!(lease = self.options.lease, error, "cannot renew the lease");
                }
                Attempt::Held | Attempt::HeldByAnother => {}
            }
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                () = self.clock.sleep(self.pause(&begun)) => {}
            }
        }
        self.fence.close();
        if self.options.release_on_exit {
            self.release_with_timeout().await;
        }
    }

    fn lose(&self, why: &str) {
        self.fence.close();
        tracing::error!(lease = self.options.lease, why, "lost the leadership");
        self.leadership.send_replace(Leadership::Lost);
    }

    /// A leader must not sleep through its deadline, and one whose attempt took long has waited
    /// already; those who wait should not come all at once.
    fn pause(&self, begun: &Moment) -> Duration {
        let period = self.options.retry_period;
        if *self.leadership.borrow() == Leadership::Leading {
            let left = period.saturating_sub(self.clock.passed_since(begun));
            return left.min(self.fence.left()).max(Duration::from_millis(10));
        }
        let nanos = u64::try_from((period / JITTER).as_nanos()).unwrap_or(u64::MAX);
        period + Duration::from_nanos(self.entropy.below(nanos.max(1)))
    }

    /// One that hangs must leave time for another.
    fn attempt_timeout(&self) -> Duration {
        self.options.renew_deadline / 2
    }

    async fn attempt_with_timeout(&mut self) -> Attempt {
        let most = self.attempt_timeout();
        let deadline = match *self.leadership.borrow() {
            // At least one period: a clock that was set forward leaves no time, but does no harm.
            Leadership::Leading => self.fence.left().min(most).max(self.options.retry_period),
            _ => most,
        };
        let clock = self.clock.clone();
        tokio::select! {
            attempt = self.attempt() => attempt,
            () = clock.sleep(deadline) => Attempt::Failed("no answer in time".to_owned()),
        }
    }

    async fn attempt(&mut self) -> Attempt {
        match self.take_or_renew().await {
            Ok(attempt) => attempt,
            // Somebody else was faster, or the last answer was lost, or there is no lease any more,
            // for which there are three codes: look, and try again the next time.
            Err(kube_client::Error::Api(status)) => match self.look().await {
                Ok(Some(lease)) if self.is_held_by_another(&lease) => Attempt::HeldByAnother,
                Ok(_) => Attempt::Failed(status.message.clone()),
                Err(error) => Attempt::Failed(error.to_string()),
            },
            Err(error) => Attempt::Failed(error.to_string()),
        }
    }

    async fn take_or_renew(&mut self) -> Result<Attempt, kube_client::Error> {
        let is_ours = |(lease, _): &(Lease, Moment)| holder(lease) == self.options.identity;
        // A leader knows the state of its lease, and writing it proves that nobody came between.
        let known = match self.seen.clone().filter(is_ours) {
            Some((lease, _)) => Some(lease),
            None => self.look().await?,
        };
        // Who deletes a lease does not stop its holder, who is obeyed for as long as ever.
        let last = known.as_ref().or(self.seen.as_ref().map(|(lease, _)| lease));
        if last.is_some_and(|lease| self.is_held_by_another(lease)) {
            return Ok(Attempt::HeldByAnother);
        }
        let sent = self.clock.moment();
        let written = match &known {
            Some(lease) => self.replace(&self.claim(Some(lease))).await?,
            None => self.leases.create(&PostParams::default(), &self.claim(None)).await?,
        };
        self.fence.open_for(sent.clone(), self.options.renew_deadline, self.options.grace());
        self.seen = Some((written, sent));
        Ok(Attempt::Held)
    }

    async fn replace(&self, lease: &Lease) -> Result<Lease, kube_client::Error> {
        self.leases.replace(&self.options.lease, &PostParams::default(), lease).await
    }

    /// Reads the lease, and notes when it was seen to change.
    async fn look(&mut self) -> Result<Option<Lease>, kube_client::Error> {
        let found = self.leases.get_opt(&self.options.lease).await?;
        let Some(lease) = &found else {
            // Another's is remembered, to wait for its end; ours is made anew.
            self.seen.take_if(|(lease, _)| holder(lease) == self.options.identity);
            return Ok(None);
        };
        let version = &lease.metadata.resource_version;
        let seen = self.seen.as_ref().map(|(seen, _)| &seen.metadata.resource_version);
        if seen != Some(version) {
            self.seen = Some((lease.clone(), self.clock.moment()));
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
        let unchanged = self.seen.as_ref().map(|(_, since)| self.clock.passed_since(since));
        unchanged.is_none_or(|unchanged| unchanged < duration)
    }

    /// The lease as it should be, on top of `known`.
    fn claim(&self, known: Option<&Lease>) -> Lease {
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
        let (clock, most) = (self.clock.clone(), self.attempt_timeout());
        let released = tokio::select! {
            released = self.release() => released.map_err(|error| error.to_string()),
            () = clock.sleep(most) => Err("no answer in time".to_owned()),
        };
        if let Err(error) = released {
            tracing::warn!(lease = self.options.lease, error, "cannot give the lease back");
        }
    }

    /// Gives the lease back, if it is ours, also if the last attempt does not know that.
    async fn release(&mut self) -> Result<(), kube_client::Error> {
        let identity = self.options.identity.clone();
        let is_ours = |lease: &Lease| holder(lease) == identity;
        let mut known = self.seen.clone().map(|(lease, _)| lease).filter(is_ours);
        let mut tries = 0..RELEASE_TRIES;
        loop {
            let lease = match known.take() {
                Some(lease) => lease,
                None => match self.look().await?.filter(is_ours) {
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

fn timestamp(clock: &Clock) -> jiff::Timestamp {
    let now = clock.now();
    // The wire has microseconds.
    let nanos = i32::try_from(now.nanos() / 1000 * 1000).unwrap_or_default();
    jiff::Timestamp::new(now.seconds(), nanos).unwrap_or_default()
}

fn holder(lease: &Lease) -> &str {
    let spec = lease.spec.as_ref();
    spec.and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}
