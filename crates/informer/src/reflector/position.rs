//! [`Position`]: the state of a [`Reflector`](super::Reflector) between two attempts, and the next
//! request after a failure; the table is in [reflector](super).

use std::cmp::Ordering;

use crate::ListWatchError;
use crate::item::compare_versions;
use keel::{Backoff, ClockInstant};
use machinery::{Reason, Status};

/// The number of failures of the same kind in a row after which another request is tried.
pub(super) const MIN_REPEATED_FAILURES: u32 = 3;

/// See the [module documentation](self).
pub(super) struct Position {
    /// All events up to this version were applied; `None` if a list is due.
    pub(super) version: Option<String>,
    pub(super) backoff: Backoff,
    /// The number of watches with initial events in a row that failed before the end of these
    /// events; `None` if the server does not support them.
    failed_streams: Option<u32>,
    /// Whether lists are requested in pages.
    pub(super) pages: bool,
    /// Whether the items of a list are in the store.
    pub(super) listed: bool,
    /// The last responses in a row with the code 404.
    pub(super) absence: Option<Absence>,
    /// The number of failures in a row that may be caused by the version that is watched from.
    failed_watches: u32,
    /// Whether an event of the present watch has the version `version`. Another event with the same
    /// version then belongs to the same transaction; otherwise it is a repetition.
    is_at_event: bool,
}

/// Responses in a row with the code 404: the server does not know the resource.
pub(super) struct Absence {
    /// The time of the first one.
    pub(super) since: ClockInstant,
    /// Their number.
    pub(super) responses: u32,
}

/// Whether an event was received before.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Novelty {
    New,
    Repeated,
}

impl Position {
    /// The position before the first list.
    pub(super) fn new(streams_lists: bool, backoff: Backoff) -> Self {
        Self {
            version: None,
            backoff,
            failed_streams: streams_lists.then_some(0),
            pages: true,
            listed: false,
            absence: None,
            failed_watches: 0,
            is_at_event: false,
        }
    }

    /// Whether the next list is requested as a watch with initial events.
    pub(super) fn streams_lists(&self) -> bool {
        self.failed_streams.is_some_and(|failed| failed < MIN_REPEATED_FAILURES)
    }

    /// The server does not support initial events.
    pub(super) fn stop_streaming(&mut self) {
        self.failed_streams = None;
    }

    /// A watch with initial events has failed before their end.
    pub(super) fn count_failed_stream(&mut self) {
        if let Some(failed) = &mut self.failed_streams {
            *failed += 1;
        }
    }

    /// A list of this version is in the store.
    pub(super) fn listed_at(&mut self, version: String) {
        self.version = Some(version);
        (self.listed, self.pages) = (true, true);
        self.failed_streams = self.failed_streams.map(|_| 0);
        self.failed_watches = 0;
    }

    /// A watch was opened from `version`.
    pub(super) fn watch_opened(&mut self) {
        self.is_at_event = false;
    }

    /// An event was received.
    pub(super) fn made_progress(&mut self) {
        self.failed_watches = 0;
        self.backoff.reset();
    }

    /// Moves to the version of an event.
    pub(super) fn advance(&mut self, version: &str) -> Result<Novelty, ListWatchError> {
        let last = self.version.as_deref().unwrap_or_default();
        match compare_versions(version, last) {
            Some(Ordering::Less) => return Err(ListWatchError::OutOfOrder),
            Some(Ordering::Equal) if !self.is_at_event => return Ok(Novelty::Repeated),
            Some(_) | None => {}
        }
        self.is_at_event = true;
        if !version.is_empty() {
            version.clone_into(self.version.get_or_insert_default());
        }
        Ok(Novelty::New)
    }

    /// Moves to the version of a bookmark: all events up to it have been received.
    pub(super) fn advance_to_bookmark(&mut self, version: &str) -> Result<(), ListWatchError> {
        self.advance(version)?;
        self.is_at_event = false;
        Ok(())
    }

    /// Moves to the version of an item that was added. A watch from an unknown version begins with
    /// all items, in the order of their names; its version is known with the first other event.
    pub(super) fn advance_with_addition(
        &mut self,
        version: &str,
    ) -> Result<Novelty, ListWatchError> {
        if self.is_version_unknown() { Ok(Novelty::New) } else { self.advance(version) }
    }

    /// Makes a list due if the version is still unknown: a second watch from an unknown version
    /// does not show what was deleted between the two.
    pub(super) fn leave_unknown_version(&mut self) {
        if self.is_version_unknown() {
            self.version = None;
        }
    }

    /// Whether the last list has no version.
    fn is_version_unknown(&self) -> bool {
        matches!(self.version.as_deref(), Some("" | "0"))
    }

    /// Chooses between a list and another watch from the same version after a failure.
    pub(super) fn fall_back(&mut self, error: &ListWatchError) {
        match error {
            ListWatchError::Refused(status) => {
                if is_expired(error)
                    || is_from_the_future(status)
                    || is_unsupported(status)
                    || status.code == 404
                {
                    self.version = None;
                } else if !is_temporary(status) {
                    self.count_failed_watch();
                }
            }
            ListWatchError::Expired(_) | ListWatchError::OutOfOrder => self.version = None,
            ListWatchError::Malformed(_) => self.count_failed_watch(),
            ListWatchError::Connection(_)
            | ListWatchError::TimedOut
            | ListWatchError::ClosedEarly
            | ListWatchError::Stopped => {}
        }
    }

    fn count_failed_watch(&mut self) {
        self.failed_watches += 1;
        if self.failed_watches >= MIN_REPEATED_FAILURES {
            (self.version, self.failed_watches) = (None, 0);
        }
    }
}

/// Whether a version or a continue token is no longer available.
pub(super) fn is_expired(error: &ListWatchError) -> bool {
    match error {
        ListWatchError::Refused(status) => {
            status.code == 410 || matches!(status.reason, Reason::Expired | Reason::Gone)
        }
        ListWatchError::Expired(_) => true,
        _ => false,
    }
}

fn is_from_the_future(status: &Status) -> bool {
    let causes = status.details.as_ref().map(|details| details.causes.as_slice());
    causes.unwrap_or_default().iter().any(|cause| cause.reason == "ResourceVersionTooLarge")
}

/// Whether the server does not know a parameter of the request.
pub(super) fn is_unsupported(status: &Status) -> bool {
    matches!(status.code, 400 | 405 | 406 | 415 | 422)
}

/// Whether the failure does not depend on the version that is watched from: the client is not
/// authorized, or the server is busy or not available.
fn is_temporary(status: &Status) -> bool {
    matches!(status.code, 401 | 403 | 408 | 429 | 502 | 503 | 504)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use keel::Entropy;

    fn watching_from(version: &str) -> Position {
        let backoff = Backoff::new(Duration::ZERO, Duration::ZERO, Entropy::seeded(1));
        let mut position = Position::new(true, backoff);
        position.listed_at(version.to_owned());
        position
    }

    /// The number of responses with `code` in a row after which a list is due; 0 for never.
    fn failures_until_list(code: u16) -> u32 {
        let mut position = watching_from("7");
        let error = ListWatchError::Refused(Status::new(code, Reason::Unknown, "no".to_owned()));
        for count in 1..=9 {
            position.fall_back(&error);
            if position.version.is_none() {
                return count;
            }
        }
        0
    }

    #[test]
    fn a_version_that_the_server_cannot_serve_leads_to_a_list() {
        assert_eq!([400, 404, 410, 422].map(failures_until_list), [1; 4]);
        assert_eq!([409, 500, 501].map(failures_until_list), [MIN_REPEATED_FAILURES; 3]);
        assert_eq!([401, 403, 429, 502, 503, 504].map(failures_until_list), [0; 6]);
    }

    #[test]
    fn an_event_resets_the_count_of_failures() {
        let mut position = watching_from("7");
        for _ in 0..9 {
            position.fall_back(&ListWatchError::Malformed("no".into()));
            position.made_progress();
        }
        assert!(position.version.is_some());
    }

    #[test]
    fn additions_are_not_compared_with_an_unknown_version() {
        for unknown in ["", "0"] {
            let mut position = watching_from(unknown);
            for version in ["5", "3", "4"] {
                assert_eq!(position.advance_with_addition(version).unwrap(), Novelty::New);
            }
            assert_eq!(position.advance("6").unwrap(), Novelty::New);
            assert!(position.advance_with_addition("5").is_err());
            position.leave_unknown_version();
            assert!(position.version.is_some());
        }
    }

    #[test]
    fn events_of_one_transaction_share_a_version_and_a_repeated_event_is_left_out() {
        let mut position = watching_from("7");
        position.watch_opened();
        assert_eq!(position.advance("7").unwrap(), Novelty::Repeated, "the list has shown it");
        assert_eq!(position.advance("8").unwrap(), Novelty::New);
        assert_eq!(position.advance("8").unwrap(), Novelty::New, "another item");
        position.advance_to_bookmark("8").unwrap();
        assert_eq!(position.advance("8").unwrap(), Novelty::Repeated);
        position.advance("9").unwrap();
        position.watch_opened();
        assert_eq!(
            position.advance("9").unwrap(),
            Novelty::Repeated,
            "the last watch has shown it"
        );
    }
}
