//! [`LeaderElection`]: the options of leader election; [`InvalidLeaderElection`]: the reason why
//! they are not valid.

use std::time::Duration;

use keel::Entropy;

/// Candidates add a jitter of up to the retry period divided by this number.
pub(super) const JITTER_DIVISOR: u32 = 5;

/// The options of leader election.
///
/// ```
/// use runtime::LeaderElection;
/// use std::time::Duration;
///
/// let election = LeaderElection {
///     renew_deadline: Duration::from_secs(12),
///     ..LeaderElection::new("operators", "site-operator")
/// };
/// assert_ne!(election.identity, ""); // such as site-operator-6bd4c_936da01f-9abd-4d9d-80c7-02af85c822a8
/// let named = election.identity("replica-1");
/// assert_eq!(named.identity, "replica-1");
/// ```
#[derive(Debug, Clone)]
pub struct LeaderElection {
    /// The name of the lease: the same for all candidates.
    pub lease: String,
    /// The namespace of the lease.
    pub namespace: String,
    /// Identifies the candidate: another one for each process, also after a restart.
    pub identity: String,
    /// The time after which a lease that has not changed expires. The lease has it in whole
    /// seconds, rounded up.
    pub lease_duration: Duration,
    /// The time after its last renewal at which a leader stops; shorter than the lease duration.
    pub renew_deadline: Duration,
    /// The time between two attempts. Together with a fifth of it, it must be shorter than the renew
    /// deadline.
    pub retry_period: Duration,
    /// Whether the lease is released at the end, so that others need not wait.
    pub release_on_exit: bool,
}

/// The reason why a [`LeaderElection`] is not valid.
///
/// ```
/// use runtime::{InvalidLeaderElection, LeaderElection};
///
/// let election = LeaderElection::new("operators", "site-operator").identity("");
/// assert_eq!(election.check(), Err(InvalidLeaderElection::NoIdentity));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLeaderElection {
    /// A lease without a holder is free: all candidates would lead.
    #[error("the identity is empty")]
    NoIdentity,
    /// The lease needs a namespace, such as that of the operator's pods.
    #[error("the lease has no namespace")]
    NoNamespace,
    /// The lease needs a name.
    #[error("the lease has no name")]
    NoLease,
    /// Others would start before the leader stops.
    #[error("lease_duration must be longer than renew_deadline")]
    LeaseTooShort,
    /// The leader would stop before it tries to renew.
    #[error("renew_deadline must be longer than retry_period plus a fifth of it")]
    DeadlineTooShort,
    /// Requests would be sent without a pause.
    #[error("retry_period is zero")]
    NoPause,
}

impl LeaderElection {
    /// With the times of client-go: 15, 10 and 2 seconds. The identity is the name of this machine,
    /// which in a pod is that of the pod, and a random suffix: two processes on one machine, or a
    /// process and its predecessor, are different candidates.
    pub fn new(namespace: &str, lease: &str) -> Self {
        Self {
            lease: lease.to_owned(),
            namespace: namespace.to_owned(),
            identity: format!("{}_{}", host_name(), Entropy::system().uuid()),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            release_on_exit: true,
        }
    }

    /// Replaces the identity. No two candidates may have the same.
    #[must_use]
    pub fn identity(self, identity: &str) -> Self {
        Self { identity: identity.to_owned(), ..self }
    }

    /// Checks that at most one candidate can lead, and that one will. A manager calls it before it
    /// runs.
    pub fn check(&self) -> Result<(), InvalidLeaderElection> {
        if self.identity.is_empty() {
            return Err(InvalidLeaderElection::NoIdentity);
        }
        if self.namespace.is_empty() {
            return Err(InvalidLeaderElection::NoNamespace);
        }
        if self.lease.is_empty() {
            return Err(InvalidLeaderElection::NoLease);
        }
        if self.lease_duration <= self.renew_deadline {
            return Err(InvalidLeaderElection::LeaseTooShort);
        }
        if self.renew_deadline <= self.retry_period + self.retry_period / JITTER_DIVISOR {
            return Err(InvalidLeaderElection::DeadlineTooShort);
        }
        if self.retry_period.is_zero() {
            return Err(InvalidLeaderElection::NoPause);
        }
        Ok(())
    }

    /// The namespace and the name of the lease, for messages.
    pub(super) fn path(&self) -> String {
        format!("{}/{}", self.namespace, self.lease)
    }

    /// The lease duration as in the lease, rounded up to whole seconds.
    pub(super) fn lease_seconds(&self) -> i32 {
        let whole = self.lease_duration.as_secs();
        let seconds = whole.saturating_add(u64::from(self.lease_duration.subsec_nanos() > 0));
        i32::try_from(seconds.max(1)).unwrap_or(i32::MAX)
    }

    /// The time between the stop of a leader and the earliest start of another.
    pub(super) fn grace(&self) -> Duration {
        self.lease_duration.saturating_sub(self.renew_deadline)
    }
}

/// The name of this machine, from the kernel. The variable `HOSTNAME` is often not exported.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn check(change: impl FnOnce(&mut LeaderElection)) -> Result<(), InvalidLeaderElection> {
        let mut election = LeaderElection::new("default", "lease");
        change(&mut election);
        election.check()
    }

    #[test]
    fn identity_lease_name_and_times_must_be_valid() {
        assert_eq!(check(|_| ()), Ok(()));
        assert_eq!(check(|it| it.identity.clear()), Err(InvalidLeaderElection::NoIdentity));
        assert_eq!(check(|it| it.namespace.clear()), Err(InvalidLeaderElection::NoNamespace));
        assert_eq!(check(|it| it.lease.clear()), Err(InvalidLeaderElection::NoLease));
        let short = check(|it| it.lease_duration = it.renew_deadline);
        assert_eq!(short, Err(InvalidLeaderElection::LeaseTooShort));
        let short = check(|it| it.retry_period = 9 * SECOND);
        assert_eq!(short, Err(InvalidLeaderElection::DeadlineTooShort));
        assert_eq!(check(|it| it.retry_period = 8 * SECOND), Ok(()));
        assert_eq!(
            check(|it| it.retry_period = Duration::ZERO),
            Err(InvalidLeaderElection::NoPause)
        );
    }

    #[test]
    fn each_candidate_has_the_name_of_its_machine_and_an_identity_of_its_own() {
        let identity = || LeaderElection::new("default", "lease").identity;
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        assert!(identity().starts_with(&format!("{}_", host_name())), "{}", identity());
        assert!(host.is_empty() || host.trim() == host_name(), "{host}");
        assert_ne!(identity(), identity());
    }

    #[test]
    fn the_lease_duration_is_rounded_up_to_seconds() {
        let seconds = |duration| {
            let election = LeaderElection::new("default", "lease");
            LeaderElection { lease_duration: duration, ..election }.lease_seconds()
        };
        assert_eq!(seconds(Duration::from_millis(1500)), 2);
        assert_eq!(seconds(2 * SECOND), 2);
        assert_eq!(seconds(Duration::from_millis(1)), 1);
        assert_eq!(seconds(Duration::MAX), i32::MAX);
    }
}
