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

/// How a leader is elected.
#[derive(Debug, Clone)]
pub struct LeaderElection {
    /// The lease's name: the same for all that compete.
    pub lease: String,
    /// Where the lease is.
    pub namespace: String,
    /// Different for each that competes: the name of the pod, for example.
    pub identity: String,
    /// A lease that has not changed for so long is anybody's.
    pub lease_duration: Duration,
    /// A leader whose last renewal is so long ago stops; shorter than the duration.
    pub renew_deadline: Duration,
    /// Between two attempts.
    pub retry_period: Duration,
    /// Give the lease back at the end, so that others need not wait.
    pub release_on_exit: bool,
}

impl LeaderElection {
    /// With Kubernetes' own times: 15, 10 and 2 seconds.
    pub fn new(namespace: &str, lease: &str, identity: &str) -> Self {
        Self {
            lease: lease.to_owned(),
            namespace: namespace.to_owned(),
            identity: identity.to_owned(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            release_on_exit: true,
        }
    }
}

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
    /// The last state of the lease, and since when it is known.
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
        loop {
            let attempt = tokio::select! {
                biased;
                () = &mut shutdown => break,
                attempt = self.attempt_in_time() => attempt,
            };
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
                () = self.clock.sleep(self.pause()) => {}
            }
        }
        self.release().await;
    }

    fn lose(&self, why: &str) {
        self.fence.close();
        tracing::error!(lease = self.options.lease, why, "lost the leadership");
        self.leadership.send_replace(Leadership::Lost);
    }

    /// A leader must not sleep through its deadline; those who wait should not come all at once.
    fn pause(&self) -> Duration {
        let period = self.options.retry_period;
        if *self.leadership.borrow() == Leadership::Leading {
            return period.min(self.fence.left()).max(Duration::from_millis(10));
        }
        let nanos = u64::try_from(period.as_nanos() / 5).unwrap_or(u64::MAX);
        period + Duration::from_nanos(self.entropy.below(nanos.max(1)))
    }

    async fn attempt_in_time(&mut self) -> Attempt {
        let deadline = match *self.leadership.borrow() {
            // At least one period: a clock that was set forward leaves no time, but does no harm.
            Leadership::Leading => self.fence.left().max(self.options.retry_period),
            _ => self.options.renew_deadline,
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
            // Somebody else was faster, or the last answer was lost: look again the next time.
            Err(kube_client::Error::Api(status)) if status.code == 409 => match self.look().await {
                Ok(Some(lease)) if self.is_anothers(&lease) => Attempt::HeldByAnother,
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
        if let Some(lease) = &known
            && self.is_anothers(lease)
        {
            return Ok(Attempt::HeldByAnother);
        }
        let sent = self.clock.moment();
        let wanted = self.claim(known.as_ref());
        let written = match &known {
            Some(_) => {
                self.leases.replace(&self.options.lease, &PostParams::default(), &wanted).await?
            }
            None => self.leases.create(&PostParams::default(), &wanted).await?,
        };
        self.fence.open_for(sent.clone(), self.options.renew_deadline);
        self.seen = Some((written, sent));
        Ok(Attempt::Held)
    }

    /// Reads the lease, and notes when it was seen to change.
    async fn look(&mut self) -> Result<Option<Lease>, kube_client::Error> {
        let Some(lease) = self.leases.get_opt(&self.options.lease).await? else {
            self.seen = None;
            return Ok(None);
        };
        let version = &lease.metadata.resource_version;
        let is_known =
            self.seen.as_ref().is_some_and(|(seen, _)| seen.metadata.resource_version == *version);
        if !is_known {
            self.seen = Some((lease.clone(), self.clock.moment()));
        }
        Ok(Some(lease))
    }

    fn is_anothers(&self, lease: &Lease) -> bool {
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
        let now = MicroTime(self.now());
        let is_renewal = known.is_some_and(|known| holder(known) == self.options.identity);
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        if !is_renewal {
            spec.acquire_time = Some(now.clone());
            spec.lease_transitions = Some(spec.lease_transitions.map_or(0, |count| count + 1));
        }
        spec.holder_identity = Some(self.options.identity.clone());
        let seconds = self.options.lease_duration.as_secs().max(1);
        spec.lease_duration_seconds = Some(i32::try_from(seconds).unwrap_or(i32::MAX));
        spec.renew_time = Some(now);
        lease
    }

    /// Gives the lease back, if it is ours.
    async fn release(self) {
        let was_leading = *self.leadership.borrow() == Leadership::Leading;
        self.fence.close();
        let Some((mut lease, _)) =
            self.seen.filter(|_| was_leading && self.options.release_on_exit)
        else {
            return;
        };
        let now = MicroTime(timestamp(&self.clock));
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
            spec.renew_time = Some(now);
        }
        let released =
            self.leases.replace(&self.options.lease, &PostParams::default(), &lease).await;
        if let Err(error) = released {
            tracing::warn!(lease = self.options.lease, %error, "cannot give the lease back");
        }
    }

    fn now(&self) -> jiff::Timestamp {
        timestamp(&self.clock)
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
