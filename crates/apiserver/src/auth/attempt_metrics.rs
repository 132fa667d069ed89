//! [`AttemptMetrics`]: counts the authentication and the authorization of every request, under the
//! names of kube-apiserver.
//!
//! All series exist from the start, so that counting a request neither computes a hash nor allocates.
//!
//! Upstream: endpoints/filters/metrics.go

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::auth::authentication::{Notes, User};
use crate::auth::authorization::Decision;
use crate::metrics::Counter;

/// The results of authentication, in the order of `AttemptMetrics::authentication`.
const AUTHENTICATION: [&str; 3] = ["success", "failure", "error"];

/// The results of authorization, in the order of `AttemptMetrics::authorization`.
const AUTHORIZATION: [&str; 4] = ["allowed", "denied", "no-opinion", "error"];

/// The names of users that are counted by name. Upstream: `compressUsername`.
const NAMED: [&str; 5] =
    ["admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"];

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct AttemptMetrics {
    authentication: [Series; 3],
    authorization: [Series; 4],
    named_users: [Counter; 5],
    email_users: Counter,
    other_users: Counter,
}

/// The attempts with one result.
#[derive(Debug)]
struct Series {
    attempts: Counter,
    duration: Histogram,
}

impl Series {
    fn observe(&self, duration: Duration) {
        self.attempts.inc();
        self.duration.observe(duration.as_secs_f64());
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UserLabel {
    username: &'static str,
}

impl AttemptMetrics {
    /// Registers the metrics.
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let users = Family::<UserLabel, Counter>::default();
        registry.register(
            "authenticated_user_requests",
            "Authenticated requests, by kind of user name",
            users.clone(),
        );
        let user = |username| users.get_or_create_owned(&UserLabel { username });
        Self {
            authentication: series(
                registry,
                ["authentication_attempts", "authentication_duration_seconds"],
                ["Attempts of authentication, by result", "Duration of authentication, by result"],
                AUTHENTICATION,
            ),
            authorization: series(
                registry,
                ["authorization_attempts_total", "authorization_duration_seconds"],
                ["Attempts of authorization, by result", "Duration of authorization, by result"],
                AUTHORIZATION,
            ),
            named_users: NAMED.map(user),
            email_users: user("email_id"),
            other_users: user("other"),
        }
    }

    /// Counts the authentication of a request. `user` is None if it failed.
    pub(crate) fn observe_authentication(
        &self,
        user: Option<&User>,
        notes: &Notes,
        duration: Duration,
    ) {
        let [success, failure, error] = &self.authentication;
        let series = match user {
            Some(user) => {
                self.users(&user.name).inc();
                success
            }
            None if notes.has_no_credentials => failure,
            None => error,
        };
        series.observe(duration);
    }

    /// Counts the authorization of a request.
    pub(crate) fn observe_authorization(&self, decision: &Decision, duration: Duration) {
        let [allowed, denied, no_opinion, error] = &self.authorization;
        let series = match decision {
            Decision::Allow(_) => allowed,
            _ if decision.evaluation_error().is_some() => error,
            Decision::Deny { .. } => denied,
            Decision::NoOpinion { .. } => no_opinion,
        };
        series.observe(duration);
    }

    fn users(&self, name: &str) -> &Counter {
        match NAMED.iter().position(|it| *it == name) {
            Some(index) => &self.named_users[index],
            None if name.contains('@') => &self.email_users,
            None => &self.other_users,
        }
    }
}

/// Registers the count and the durations of attempts, and creates the series of all results.
fn series<const N: usize>(
    registry: &mut Registry,
    names: [&str; 2],
    help: [&str; 2],
    results: [&'static str; N],
) -> [Series; N] {
    let attempts = Family::<ResultLabel, Counter>::default();
    let durations = Family::<ResultLabel, Histogram>::new_with_constructor(|| {
        Histogram::new(exponential_buckets(0.001, 2.0, 15))
    });
    registry.register(names[0], help[0], attempts.clone());
    registry.register(names[1], help[1], durations.clone());
    results.map(|result| Series {
        attempts: attempts.get_or_create_owned(&ResultLabel { result }),
        duration: durations.get_or_create_owned(&ResultLabel { result }),
    })
}
