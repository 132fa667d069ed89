//! [`CheckSchedule`]: the time of the next check of each aggregated server.
//!
//! ```text
//! the check succeeded, or found no address after 30 s
//! the check failed                         after 5 ms, doubled with each failure, up to 30 s
//! the registration or addresses change     at once, but at least 1 s after the last request
//! ```
//!
//! The status of an `APIService` is not part of its registration: it is written after each check.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::RemoteApiService;
use crate::outbound::Destination;
use crate::outbound::service::ServiceError;
use keel::{Backoff, Clock, ClockInstant, Entropy};

/// The time between two checks of a server that does not change.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// The minimum time between two requests to a server whose registration or addresses change.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// The delay after the first failure.
// Upstream: remote_available_controller.go New
const FIRST_RETRY: Duration = Duration::from_millis(5);

/// See the [module documentation](self).
pub(super) struct CheckSchedule {
    clock: Clock,
    backoff: Backoff,
    /// By the name of the `APIService`.
    entries: BTreeMap<String, Entry>,
}

/// The outcome of a check of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CheckOutcome {
    /// Its status is known and written. A server without an address is settled too.
    Settled,
    /// The request failed, or the status could not be written.
    Failed,
}

/// A server and the state of its checks.
struct Entry {
    remote: Arc<RemoteApiService>,
    destination: Result<Destination, ServiceError>,
    started: ClockInstant,
    /// The time from `started` to the next check.
    delay: Duration,
    /// The start of the last check that sent a request.
    last_request: Option<ClockInstant>,
    /// The number of consecutive failures.
    failures: u32,
    is_in_progress: bool,
}

impl CheckSchedule {
    pub(super) fn new(clock: Clock, entropy: Entropy) -> Self {
        let backoff = Backoff::new(FIRST_RETRY, CHECK_INTERVAL, entropy);
        Self { clock, backoff, entries: BTreeMap::new() }
    }

    /// Removes the servers that are no longer registered.
    pub(super) fn retain(&mut self, remotes: &[Arc<RemoteApiService>]) {
        self.entries.retain(|name, _| remotes.iter().any(|it| it.name == *name));
    }

    /// Begins a check if one is due.
    pub(super) fn begin(
        &mut self,
        remote: &Arc<RemoteApiService>,
        destination: Result<Destination, ServiceError>,
    ) -> Due {
        let (mut failures, mut last_request) = (0, None);
        if let Some(entry) = self.entries.get(&remote.name) {
            if entry.is_in_progress {
                return Due::InProgress;
            }
            let is_same =
                entry.remote.is_same_registration(remote) && entry.destination == destination;
            let wait = entry.delay.saturating_sub(self.clock.elapsed_since(&entry.started));
            let wait = match &destination {
                _ if is_same => wait,
                Ok(_) => wait.min(self.interval_left(entry)),
                // No request is sent.
                Err(_) => Duration::ZERO,
            };
            if !wait.is_zero() {
                return Due::In(wait);
            }
            failures = if is_same { entry.failures } else { 0 };
            last_request.clone_from(&entry.last_request);
        }
        let now = self.clock.instant();
        let entry = Entry {
            remote: Arc::clone(remote),
            last_request: if destination.is_ok() { Some(now.clone()) } else { last_request },
            destination,
            started: now,
            delay: CHECK_INTERVAL,
            failures,
            is_in_progress: true,
        };
        self.entries.insert(remote.name.clone(), entry);
        Due::Now
    }

    /// The rest of the minimum time between two requests to a server.
    fn interval_left(&self, entry: &Entry) -> Duration {
        entry
            .last_request
            .as_ref()
            .map_or(Duration::ZERO, |it| MIN_INTERVAL.saturating_sub(self.clock.elapsed_since(it)))
    }

    /// Ends the check of a server.
    pub(super) fn finish(&mut self, remote: &Arc<RemoteApiService>, outcome: CheckOutcome) {
        let Some(entry) = self.entries.get_mut(&remote.name) else { return };
        // The server was registered again during the check.
        if !Arc::ptr_eq(&entry.remote, remote) {
            return;
        }
        entry.is_in_progress = false;
        (entry.failures, entry.delay) = match outcome {
            CheckOutcome::Settled => (0, CHECK_INTERVAL),
            CheckOutcome::Failed => {
                let failures = entry.failures.saturating_add(1);
                let waited = self.clock.elapsed_since(&entry.started);
                (failures, waited + self.backoff.delay_after(failures))
            }
        };
    }
}

/// The time at which a check of a server begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    Now,
    In(Duration),
    /// The previous check has not ended.
    InProgress,
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel::Timestamp;
    use machinery::{Object, json};
    use tls::Trust;

    const MS: Duration = Duration::from_millis(1);
    const SECOND: Duration = Duration::from_secs(1);

    struct Server {
        schedule: CheckSchedule,
        clock: Clock,
    }

    impl Server {
        fn new() -> Self {
            let clock = Clock::manual(Timestamp::from_seconds(0));
            Self { schedule: CheckSchedule::new(clock.clone(), Entropy::seeded(1)), clock }
        }

        /// Begins a check of the server of `service` at `address`; "" means that it has no address.
        fn begin(&mut self, service: &str, address: &str) -> Due {
            self.schedule.begin(&remote(service, false), destination(address))
        }

        /// Makes a check that is due.
        fn check(&mut self, address: &str, outcome: CheckOutcome) {
            let remote = remote("a", false);
            assert_eq!(self.schedule.begin(&remote, destination(address)), Due::Now);
            self.schedule.finish(&remote, outcome);
        }

        fn advance(&self, duration: Duration) {
            self.clock.advance(duration);
        }
    }

    fn remote(service: &str, available: bool) -> Arc<RemoteApiService> {
        let status = if available { "True" } else { "False" };
        let object = json!({
            "metadata": {"name": "v1.m.example", "uid": "u"},
            "spec": {"group": "m.example", "version": "v1",
                "service": {"namespace": "a", "name": service}, "insecureSkipTLSVerify": true},
            "status": {"conditions": [{"type": "Available", "status": status}]},
        });
        Arc::new(RemoteApiService::from_object(&Object::from_value(object).unwrap()).unwrap())
    }

    fn destination(address: &str) -> Result<Destination, ServiceError> {
        if address.is_empty() {
            return Err(ServiceError::NoEndpoints("a".to_owned()));
        }
        let mut destination = Destination::of_url("a".to_owned(), Trust::Insecure);
        destination.addresses = [address.to_owned()].into();
        Ok(destination)
    }

    #[test]
    fn an_available_server_is_checked_every_half_minute() {
        let mut server = Server::new();
        server.check("x:1", CheckOutcome::Settled);
        assert_eq!(server.begin("a", "x:1"), Due::In(CHECK_INTERVAL));
        server.advance(CHECK_INTERVAL);
        server.check("x:1", CheckOutcome::Settled);
    }

    #[test]
    fn a_changed_status_causes_no_check() {
        let mut server = Server::new();
        server.check("x:1", CheckOutcome::Settled);
        let changed = server.schedule.begin(&remote("a", true), destination("x:1"));
        assert_eq!(changed, Due::In(CHECK_INTERVAL));
    }

    #[test]
    fn failures_are_retried_with_exponential_backoff() {
        let mut server = Server::new();
        let mut longest = FIRST_RETRY;
        for _ in 0..20 {
            server.check("x:1", CheckOutcome::Failed);
            let Due::In(delay) = server.begin("a", "x:1") else {
                panic!("the check is due at once")
            };
            assert!(delay <= longest && delay * 2 >= longest, "{delay:?} of {longest:?}");
            server.advance(delay);
            longest = (longest * 2).min(CHECK_INTERVAL);
        }
        server.check("x:1", CheckOutcome::Settled);
        server.advance(CHECK_INTERVAL);
        server.check("x:1", CheckOutcome::Failed);
        server.advance(FIRST_RETRY);
        assert_eq!(server.begin("a", "x:1"), Due::Now);
    }

    #[test]
    fn a_changed_address_is_checked_at_once_but_at_most_once_a_second() {
        let mut server = Server::new();
        server.check("x:1", CheckOutcome::Settled);
        assert_eq!(server.begin("a", "y:1"), Due::In(SECOND));
        // The change was undone.
        assert_eq!(server.begin("a", "x:1"), Due::In(CHECK_INTERVAL));
        server.advance(SECOND + MS);
        server.check("y:1", CheckOutcome::Settled);
        assert_eq!(server.begin("b", "y:1"), Due::In(SECOND));
    }

    #[test]
    fn a_server_that_loses_its_address_is_checked_at_once() {
        let mut server = Server::new();
        server.check("x:1", CheckOutcome::Settled);
        server.check("", CheckOutcome::Settled);
        assert_eq!(server.begin("a", ""), Due::In(CHECK_INTERVAL));
        assert_eq!(server.begin("a", "x:1"), Due::In(SECOND));
    }

    #[test]
    fn a_server_that_gets_its_first_address_is_checked_at_once() {
        let mut server = Server::new();
        server.check("", CheckOutcome::Settled);
        server.check("x:1", CheckOutcome::Settled);
    }

    #[test]
    fn a_server_has_one_check_at_a_time() {
        let mut server = Server::new();
        assert_eq!(server.begin("a", "x:1"), Due::Now);
        assert_eq!(server.begin("b", "y:1"), Due::InProgress);
    }
}
