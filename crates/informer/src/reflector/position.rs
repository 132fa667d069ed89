//! [`Position`]: what the reflector remembers between two attempts, and where it goes on after a
//! failure; the table is in [reflector](super).

use std::cmp::Ordering;

use keel::{Backoff, Moment};
use machinery::{Reason, Status};

use crate::{ListWatchError, item::compare_versions};

/// So many answers of the same kind in a row are no accident.
pub(super) const NO_ACCIDENT: u32 = 3;

/// See the [module documentation](self).
pub(super) struct Position {
    /// Everything up to here was put into the FIFO; None if a list is due.
    pub(super) version: Option<String>,
    pub(super) backoff: Backoff,
    /// Whether the server knows of watches with initial events.
    streams: bool,
    /// How many of these in a row gave no list.
    vain_streams: u32,
    /// Whether lists may be paged.
    pub(super) pages: bool,
    /// Whether there is a list whose objects were not declared gone.
    pub(super) listed: bool,
    /// Since when, and how often, the resource was said not to be there, and nothing else.
    pub(super) absence: Option<(Moment, u32)>,
    /// Failures in a row that may be due to the place from which was watched.
    stumbles: u32,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Advanced {
    Yes,
    /// The same event again.
    No,
}

impl Position {
    /// Before the first list.
    pub(super) fn new(streams: bool, backoff: Backoff) -> Self {
        Self {
            version: None,
            backoff,
            streams,
            vain_streams: 0,
            pages: true,
            listed: false,
            absence: None,
            stumbles: 0,
        }
    }

    /// Whether a watch with initial events is worth trying.
    pub(super) fn streams(&self) -> bool {
        self.streams && self.vain_streams < NO_ACCIDENT
    }

    /// The server does not know of initial events.
    pub(super) fn stop_streaming(&mut self) {
        self.streams = false;
    }

    /// A watch with initial events has failed before their end.
    pub(super) fn streamed_in_vain(&mut self) {
        self.vain_streams += 1;
    }

    /// A list was taken over, which shows this state.
    pub(super) fn listed_at(&mut self, version: String) {
        self.version = Some(version);
        (self.listed, self.pages) = (true, true);
        (self.vain_streams, self.stumbles) = (0, 0);
    }

    /// An event was passed on.
    pub(super) fn made_progress(&mut self) {
        self.stumbles = 0;
        self.backoff.reset();
    }

    /// Goes on to the state that an event shows.
    pub(super) fn advance(&mut self, version: &str) -> Result<Advanced, ListWatchError> {
        let last = self.version.as_deref().unwrap_or_default();
        match compare_versions(version, last) {
            Some(Ordering::Less) => return Err(ListWatchError::WentBack),
            Some(Ordering::Equal) => return Ok(Advanced::No),
            Some(Ordering::Greater) | None => {}
        }
        if !version.is_empty() {
            self.version = Some(version.to_owned());
        }
        Ok(Advanced::Yes)
    }

    /// The same for an object that came into view. A watch from nowhere begins with all objects, in
    /// the order of their names: how far it has got is not known before something else happens.
    pub(super) fn advance_with_addition(
        &mut self,
        version: &str,
    ) -> Result<Advanced, ListWatchError> {
        if self.is_nowhere() { Ok(Advanced::Yes) } else { self.advance(version) }
    }

    /// What is deleted between two watches from nowhere only a list can tell.
    pub(super) fn leave_nowhere(&mut self) {
        if self.is_nowhere() {
            self.version = None;
        }
    }

    /// Whether the last list did not say which state it shows.
    fn is_nowhere(&self) -> bool {
        matches!(self.version.as_deref(), Some("" | "0"))
    }

    /// Decides where to go on after a failure.
    pub(super) fn fall_back(&mut self, error: &ListWatchError) {
        match error {
            ListWatchError::Refused(status) => {
                if is_expired(status)
                    || is_from_the_future(status)
                    || is_misunderstood(status)
                    || status.code == 404
                {
                    self.version = None;
                } else if !is_passing(status) {
                    self.stumble();
                }
            }
            ListWatchError::WentBack => self.version = None,
            ListWatchError::Malformed(_) => self.stumble(),
            ListWatchError::Connection(_) | ListWatchError::Silent | ListWatchError::Closed => {}
        }
    }

    fn stumble(&mut self) {
        self.stumbles += 1;
        if self.stumbles >= NO_ACCIDENT {
            (self.version, self.stumbles) = (None, 0);
        }
    }
}

pub(super) fn is_expired(status: &Status) -> bool {
    status.code == 410 || matches!(status.reason, Reason::Expired | Reason::Gone)
}

fn is_from_the_future(status: &Status) -> bool {
    let causes = status.details.as_ref().map(|details| details.causes.as_slice());
    causes.unwrap_or_default().iter().any(|cause| cause.reason == "ResourceVersionTooLarge")
}

/// How servers answer to parameters that they do not know.
pub(super) fn is_misunderstood(status: &Status) -> bool {
    matches!(status.code, 400 | 405 | 406 | 415 | 422)
}

/// Has nothing to do with where a watch begins: who may not ask, or a server that is busy or away.
fn is_passing(status: &Status) -> bool {
    matches!(status.code, 401 | 403 | 408 | 429 | 502 | 503 | 504)
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel::Entropy;
    use std::time::Duration;

    fn watching_from(version: &str) -> Position {
        let backoff = Backoff::new(Duration::ZERO, Duration::ZERO, Entropy::seeded(1));
        let mut position = Position::new(true, backoff);
        position.listed_at(version.to_owned());
        position
    }

    /// After how many such answers in a row a list is due; 0 for never.
    fn check(code: u16) -> u32 {
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
    fn a_place_that_the_server_cannot_serve_is_given_up() {
        assert_eq!([400, 404, 410, 422].map(check), [1; 4]);
        assert_eq!([409, 500, 501].map(check), [NO_ACCIDENT; 3]);
        assert_eq!([401, 403, 429, 502, 503, 504].map(check), [0; 6]);
    }

    #[test]
    fn progress_forgives() {
        let mut position = watching_from("7");
        for _ in 0..9 {
            position.fall_back(&ListWatchError::Malformed("no".into()));
            position.made_progress();
        }
        assert!(position.version.is_some());
    }

    #[test]
    fn versions_are_not_compared_before_there_is_one() {
        for nowhere in ["", "0"] {
            let mut position = watching_from(nowhere);
            for version in ["5", "3", "4"] {
                assert_eq!(position.advance_with_addition(version).unwrap(), Advanced::Yes);
            }
            assert_eq!(position.advance("6").unwrap(), Advanced::Yes);
            assert!(position.advance_with_addition("5").is_err());
            position.leave_nowhere();
            assert!(position.version.is_some());
        }
    }
}
