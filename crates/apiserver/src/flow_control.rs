//! A seat for each request that is being worked on, so that a flood is turned away early.
//!
//! Reads and writes have seats of their own, since a flood of the one should not stop the other.
//! Watches take a seat only while they begin. When all are taken, the answer is 429 with
//! `Retry-After`, at once: a queue would only make everybody late.
//!
//! A request that waits for a webhook lends its seat to others meanwhile: the webhook may have to
//! ask this server something before it can answer, and one that hangs must not stop everybody.
//! Only so many can wait like that; the others wait on their seats.

use crate::request::Verb;
use machinery::Status;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Requests that may wait for others without a seat.
const MAX_WAITING: usize = 2048;

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct FlowControl {
    reads: Arc<Seats>,
    writes: Arc<Seats>,
    waiting: Arc<Semaphore>,
}

#[derive(Debug)]
struct Seats {
    free: Arc<Semaphore>,
    /// Seats that were wanted back while somebody else sat there; whoever gets up next pays.
    owed: AtomicUsize,
}

impl Seats {
    fn new(count: usize) -> Arc<Self> {
        Arc::new(Self { free: Arc::new(Semaphore::new(count)), owed: AtomicUsize::new(0) })
    }

    /// Whether a seat was owed, which it is no longer.
    fn pay(&self) -> bool {
        let less = |owed: usize| owed.checked_sub(1);
        self.owed.fetch_update(Ordering::AcqRel, Ordering::Acquire, less).is_ok()
    }
}

/// Given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    permit: Option<OwnedSemaphorePermit>,
    seats: Arc<Seats>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take()
            && self.seats.pay()
        {
            permit.forget();
        }
    }
}

/// A seat that is lent to others until this is dropped.
#[derive(Debug)]
pub(crate) struct Loan {
    seats: Arc<Seats>,
    _waiting: OwnedSemaphorePermit,
}

impl Drop for Loan {
    fn drop(&mut self) {
        match self.seats.free.try_acquire() {
            Ok(permit) => permit.forget(),
            Err(_) => {
                self.seats.owed.fetch_add(1, Ordering::AcqRel);
            }
        }
    }
}

impl FlowControl {
    /// With so many seats for each.
    pub(crate) fn new(reads: usize, writes: usize) -> Self {
        let waiting = Arc::new(Semaphore::new(MAX_WAITING));
        Self { reads: Seats::new(reads), writes: Seats::new(writes), waiting }
    }

    fn seats(&self, verb: Verb) -> &Arc<Seats> {
        if verb.reads() { &self.reads } else { &self.writes }
    }

    /// Takes a seat, or says to come back later.
    pub(crate) fn take_seat(&self, verb: Verb) -> Result<Seat, Status> {
        let seats = Arc::clone(self.seats(verb));
        match Arc::clone(&seats.free).try_acquire_owned() {
            Ok(permit) => Ok(Seat { permit: Some(permit), seats }),
            Err(_) => {
                Err(Status::too_many_requests("too many requests, please try again later.", 1))
            }
        }
    }

    /// Lends the seat of a request with this verb, which waits for somebody else; None if too many
    /// do.
    pub(crate) fn lend_seat(&self, verb: Verb) -> Option<Loan> {
        let waiting = Arc::clone(&self.waiting).try_acquire_owned().ok()?;
        let seats = Arc::clone(self.seats(verb));
        seats.free.add_permits(1);
        Some(Loan { seats, _waiting: waiting })
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

    #[test]
    fn who_waits_for_somebody_else_lends_the_seat() {
        let flow = FlowControl::new(1, 1);
        let waiting = flow.take_seat(Verb::Create).unwrap();
        let loan = flow.lend_seat(Verb::Create).unwrap();
        let guest = flow.take_seat(Verb::Create).unwrap();
        drop(loan);
        assert!(flow.take_seat(Verb::Create).is_err());
        // The first to get up pays for the seat that was wanted back.
        drop(guest);
        assert!(flow.take_seat(Verb::Create).is_err());
        drop(waiting);
        let again = flow.take_seat(Verb::Create).unwrap();
        assert!(flow.take_seat(Verb::Create).is_err());
        drop(again);
    }

    #[test]
    fn a_loan_that_nobody_took_is_taken_back() {
        let flow = FlowControl::new(1, 1);
        let seat = flow.take_seat(Verb::Create).unwrap();
        drop(flow.lend_seat(Verb::Create));
        assert!(flow.take_seat(Verb::Create).is_err());
        drop(seat);
        assert!(flow.take_seat(Verb::Create).is_ok());
    }
}
