//! A seat for each request that is being worked on, so that a flood is turned away early.
//!
//! Reads and writes have seats of their own, since a flood of the one should not stop the other.
//! Watches take a seat only while they begin. When all are taken, the answer is 429 with
//! `Retry-After`, at once: a queue would only make everybody late.

use crate::request::Verb;
use machinery::Status;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct FlowControl {
    reads: Arc<Semaphore>,
    writes: Arc<Semaphore>,
}

/// Given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Seat(#[allow(dead_code, reason = "it is held, not read")] OwnedSemaphorePermit);

impl FlowControl {
    /// With so many seats for each.
    pub(crate) fn new(reads: usize, writes: usize) -> Self {
        Self { reads: Arc::new(Semaphore::new(reads)), writes: Arc::new(Semaphore::new(writes)) }
    }

    /// Takes a seat, or says to come back later.
    pub(crate) fn take_seat(&self, verb: Verb) -> Result<Seat, Status> {
        let seats = if verb.reads() { &self.reads } else { &self.writes };
        match Arc::clone(seats).try_acquire_owned() {
            Ok(permit) => Ok(Seat(permit)),
            Err(_) => {
                Err(Status::too_many_requests("too many requests, please try again later.", 1))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_house_turns_writers_away_but_not_readers() {
        let flow = FlowControl::new(1, 1);
        let seat = flow.take_seat(Verb::Create).unwrap();
        assert_eq!(flow.take_seat(Verb::Update).unwrap_err().code, 429);
        assert!(flow.take_seat(Verb::Get).is_ok());
        drop(seat);
        assert!(flow.take_seat(Verb::Update).is_ok());
    }
}
