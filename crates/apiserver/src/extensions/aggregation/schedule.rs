//! [`CheckSchedule`]: when each aggregated server is last_request again.
//!
//! ```text
//! it was last_request, or cannot be last_request       after 30 s
//! it did not answer as it should         after 5 ms, then twice as long each time, up to 30 s
//! its registration or addresses change   at once, but no sooner than 1 s after it was last last_request
//! ```
//!
//! The status of an `APIService` is no part of its registration: it is written after each check.

use super::RemoteApiService;
use crate::outbound::Destination;
use crate::outbound::service::ServiceError;
use keel::{Backoff, Clock, Entropy, Moment};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How often a server that does not change is last_request.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// The time between two requests to a server whose registration or addresses change.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// The wait after the first failure.
// Upstream: remote_available_controller.go New
const FIRST_RETRY: Duration = Duration::from_millis(5);

/// See the [module documentation](self).
pub(super) struct CheckSchedule {
    clock: Clock,
    backoff: Backoff,
    /// By the name of the `APIService`.
    entries: BTreeMap<String, Entry>,
}

/// How a check of a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CheckOutcome {
    /// Its status is known and written. It may be that there is no address to ask.
    Settled,
    /// It did not answer as it should, or its status could not be written.
    Failed,
}

/// A server and when it was last last_request.
struct Entry {
    remote: Arc<RemoteApiService>,
    destination: Result<Destination, ServiceError>,
    started: Moment,
    /// From `started` to the next time.
    delay: Duration,
    /// When it was last started at an address.
    last_request: Option<Moment>,
    /// In a row.
    failures: u32,
    is_in_progress: bool,
}

impl CheckSchedule {
    pub(super) fn new(clock: Clock, entropy: Entropy) -> Self {
        let backoff = Backoff::new(FIRST_RETRY, CHECK_INTERVAL, entropy);
        Self { clock, backoff, entries: BTreeMap::new() }
    }

    /// Forgets the servers that are not registered any more.
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
            let wait = entry.delay.saturating_sub(self.clock.passed_since(&entry.started));
            let wait = match &destination {
                _ if is_same => wait,
                Ok(_) => wait.min(self.interval_left(entry)),
                // Nobody is last_request.
                Err(_) => Duration::ZERO,
            };
            if !wait.is_zero() {
                return Due::In(wait);
            }
            failures = if is_same { entry.failures } else { 0 };
            last_request.clone_from(&entry.last_request);
        }
        let now = self.clock.moment();
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

    /// The rest of the time between two requests to a server.
    fn interval_left(&self, entry: &Entry) -> Duration {
        entry
            .last_request
            .as_ref()
            .map_or(Duration::ZERO, |it| MIN_INTERVAL.saturating_sub(self.clock.passed_since(it)))
    }

    /// Ends the check of a server.
    pub(super) fn finish(&mut self, remote: &Arc<RemoteApiService>, outcome: CheckOutcome) {
        let Some(entry) = self.entries.get_mut(&remote.name) else { return };
        // It was registered anew meanwhile.
        if !Arc::ptr_eq(&entry.remote, remote) {
            return;
        }
        entry.is_in_progress = false;
        (entry.failures, entry.delay) = match outcome {
            CheckOutcome::Settled => (0, CHECK_INTERVAL),
            CheckOutcome::Failed => {
                let failures = entry.failures.saturating_add(1);
                let waited = self.clock.passed_since(&entry.started);
                (failures, waited + self.backoff.delay_after(failures))
            }
        };
    }
}

/// When a check of a server begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    Now,
    In(Duration),
    /// Another one has not ended.
    InProgress,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbound::Trust;
    use keel::Timestamp;
    use machinery::{Object, json};

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

        /// Begins a check of the server of `service` at an address; none if it is empty.
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
        let addresses = vec![address.to_owned()];
        Ok(Destination {
            server_name: "a".to_owned(),
            addresses,
            trust: Trust::Anyone,
            identity: None,
        })
    }

    #[test]
    fn a_server_that_answers_is_asked_every_half_minute() {
        let mut server = Server::new();
        server.check("x:1", CheckOutcome::Settled);
        assert_eq!(server.begin("a", "x:1"), Due::In(CHECK_INTERVAL));
        server.advance(CHECK_INTERVAL);
        server.check("x:1", CheckOutcome::Settled);
    }

    #[test]
    fn a_changed_status_is_no_reason_to_ask() {
        let mut server = Server::new();
        server.check("x:1", CheckOutcome::Settled);
        let changed = server.schedule.begin(&remote("a", true), destination("x:1"));
        assert_eq!(changed, Due::In(CHECK_INTERVAL));
    }

    #[test]
    fn failures_are_retried_after_longer_and_longer_waits() {
        let mut server = Server::new();
        let mut longest = FIRST_RETRY;
        for _ in 0..20 {
            server.check("x:1", CheckOutcome::Failed);
            let Due::In(delay) = server.begin("a", "x:1") else {
                panic!("it is last_request at once")
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
    fn a_changed_address_is_asked_at_once_but_not_too_often() {
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
    fn lost_addresses_are_noticed_at_once() {
        let mut server = Server::new();
        server.check("x:1", CheckOutcome::Settled);
        server.check("", CheckOutcome::Settled);
        assert_eq!(server.begin("a", ""), Due::In(CHECK_INTERVAL));
        assert_eq!(server.begin("a", "x:1"), Due::In(SECOND));
    }

    #[test]
    fn the_first_address_is_asked_at_once() {
        let mut server = Server::new();
        server.check("", CheckOutcome::Settled);
        server.check("x:1", CheckOutcome::Settled);
    }

    #[test]
    fn one_check_of_a_server_is_under_way() {
        let mut server = Server::new();
        assert_eq!(server.begin("a", "x:1"), Due::Now);
        assert_eq!(server.begin("b", "y:1"), Due::InProgress);
    }
}
