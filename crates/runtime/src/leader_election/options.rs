//! [`LeaderElection`]: how a leader is elected; [`InvalidLeaderElection`]: why nobody could be, or everybody.

use std::time::Duration;

/// Those who wait add up to a fifth to their pauses, so as not to come all at once.
pub(super) const JITTER: u32 = 5;

/// How a leader is elected.
#[derive(Debug, Clone)]
pub struct LeaderElection {
    /// The lease's name: the same for all that compete.
    pub lease: String,
    /// Where the lease is.
    pub namespace: String,
    /// Different for each that competes: the name of the pod, for example.
    pub identity: String,
    /// A lease that has not changed for so long is anybody's. The lease tells it in whole seconds,
    /// rounded up.
    pub lease_duration: Duration,
    /// A leader whose last renewal is so long ago stops; shorter than the duration.
    pub renew_deadline: Duration,
    /// Between two attempts; with a fifth more, shorter than the deadline.
    pub retry_period: Duration,
    /// Give the lease back at the end, so that others need not wait.
    pub release_on_exit: bool,
}

/// What is wrong with a [`LeaderElection`]: see the field that it names.
///
/// ```
/// use runtime::{InvalidLeaderElection, LeaderElection};
///
/// let election = LeaderElection::new("operators", "site-operator", "");
/// assert_eq!(election.check(), Err(InvalidLeaderElection::NoIdentity)); // is $HOSTNAME not set?
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLeaderElection {
    /// A lease without a holder is free: all would lead.
    #[error("the identity is empty")]
    NoIdentity,
    /// There is nothing to compete for.
    #[error("the lease has no name")]
    NoLease,
    /// Others would begin before the leader stops.
    #[error("lease_duration must be longer than renew_deadline")]
    LeaseTooShort,
    /// The leader would stop before it has tried to renew.
    #[error("renew_deadline must be longer than retry_period and a fifth")]
    DeadlineTooShort,
    /// The server would be asked without a pause.
    #[error("retry_period is zero")]
    NoPause,
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

    /// Whether at most one can lead, and one will: what a manager asks before it runs.
    pub fn check(&self) -> Result<(), InvalidLeaderElection> {
        if self.identity.is_empty() {
            return Err(InvalidLeaderElection::NoIdentity);
        }
        if self.lease.is_empty() {
            return Err(InvalidLeaderElection::NoLease);
        }
        if self.lease_duration <= self.renew_deadline {
            return Err(InvalidLeaderElection::LeaseTooShort);
        }
        if self.renew_deadline <= self.retry_period + self.retry_period / JITTER {
            return Err(InvalidLeaderElection::DeadlineTooShort);
        }
        if self.retry_period.is_zero() {
            return Err(InvalidLeaderElection::NoPause);
        }
        Ok(())
    }

    /// The duration as the lease tells it: others must not take a fraction of a second for nothing.
    pub(super) fn lease_seconds(&self) -> i32 {
        let whole = self.lease_duration.as_secs();
        let seconds = whole.saturating_add(u64::from(self.lease_duration.subsec_nanos() > 0));
        i32::try_from(seconds.max(1)).unwrap_or(i32::MAX)
    }

    /// Between a leader's stop and the first moment at which another may begin.
    pub(super) fn grace(&self) -> Duration {
        self.lease_duration.saturating_sub(self.renew_deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn check(change: impl FnOnce(&mut LeaderElection)) -> Result<(), InvalidLeaderElection> {
        let mut election = LeaderElection::new("default", "lease", "me");
        change(&mut election);
        election.check()
    }

    #[test]
    fn times_must_leave_room_for_each_other() {
        assert_eq!(check(|_| ()), Ok(()));
        assert_eq!(check(|it| it.identity.clear()), Err(InvalidLeaderElection::NoIdentity));
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
    fn a_fraction_of_a_second_counts_as_a_second() {
        let seconds = |duration| {
            let election = LeaderElection::new("default", "lease", "me");
            LeaderElection { lease_duration: duration, ..election }.lease_seconds()
        };
        assert_eq!(seconds(Duration::from_millis(1500)), 2);
        assert_eq!(seconds(2 * SECOND), 2);
        assert_eq!(seconds(Duration::from_millis(1)), 1);
        assert_eq!(seconds(Duration::MAX), i32::MAX);
    }
}
