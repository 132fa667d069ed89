//! [`Fold`]: what a segment of the log adds to the base, and [`Folder`], the thread that brings it
//! there while the next segment is written.

use std::{
    io, mem,
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, TryRecvError, sync_channel},
    },
};

use keel::Tasks;

use super::base::Base;
use crate::{Error, Event, Revision, journal::Batch};

/// The writes of one or more segments, gathered as they are written: they are in memory anyhow, so
/// the log is read only after a crash.
#[derive(Default)]
pub(super) struct Fold {
    /// The last segment that is in here.
    pub(super) segment: u64,
    /// The oldest revision that must remain readable.
    pub(super) floor: Revision,
    /// In the order of their revisions.
    events: Vec<Event>,
    /// Writes that no readable state shows, of this fold or in the base.
    garbage: Vec<Revision>,
    /// Once it is done, the base returns its unused space if it has this many bytes of it.
    pub(super) shrink_above: Option<Threshold>,
}

/// An amount of unused space in the base.
#[derive(Clone, Copy)]
pub(super) struct Threshold {
    pub(super) bytes: u64,
    /// It must be no less than what is used.
    pub(super) and_used: bool,
}

impl Fold {
    pub(super) fn new(segment: u64, floor: Revision, garbage: Vec<Revision>) -> Self {
        Self { segment, floor, garbage, ..Self::default() }
    }

    /// No writes at all: only returns unused space.
    pub(super) fn shrink(above: Threshold) -> Self {
        Self { shrink_above: Some(above), ..Self::default() }
    }

    /// Adds what goes to the segment.
    pub(super) fn add(&mut self, batch: &Batch<'_>) {
        self.events.extend_from_slice(batch.events);
        self.garbage.extend(batch.garbage);
        self.floor = self.floor.max(batch.floor);
    }

    /// Adds an event that was read from the log.
    pub(super) fn push(&mut self, event: Event) {
        self.events.push(event);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.garbage.is_empty()
    }

    /// The revision of the last event.
    pub(super) fn newest(&self) -> Option<Revision> {
        self.events.last().map(|event| event.revision)
    }

    /// The events after `revision` that are not garbage by now.
    pub(super) fn events_after(&self, revision: Revision) -> impl Iterator<Item = &Event> {
        let mut garbage = self.garbage.clone();
        garbage.sort_unstable();
        let events = self.events.iter().filter(move |event| event.revision > revision);
        events.filter(move |event| garbage.binary_search(&event.revision).is_err())
    }

    pub(super) fn garbage(&self) -> impl Iterator<Item = Revision> {
        self.garbage.iter().copied()
    }
}

/// See the [module documentation](self). One fold at a time; who has the next one waits.
pub(super) struct Folder {
    /// `None` once no fold will follow.
    folds: Option<SyncSender<Fold>>,
    outcomes: Receiver<Outcome>,
    state: State,
}

enum State {
    Idle,
    Busy,
    /// There was no room for it.
    Refused(Fold),
    Broken(Error),
}

enum Outcome {
    Folded,
    Refused(Fold),
    Broken(Error),
    Closed(Result<(), Error>),
}

impl Folder {
    /// Starts the thread, which owns the base from then on.
    pub(super) fn start(base: Base, tasks: &Tasks) -> io::Result<Self> {
        let (folds, waiting) = sync_channel(1);
        let (reports, outcomes) = sync_channel(2);
        tasks.spawn_thread("fold", move || run(base, &waiting, &reports))?;
        Ok(Self { folds: Some(folds), outcomes, state: State::Idle })
    }

    /// Fails if a fold has failed for good; does not wait.
    pub(super) fn check(&mut self) -> Result<(), Error> {
        if matches!(self.state, State::Busy) {
            match self.outcomes.try_recv() {
                Ok(outcome) => self.note(outcome),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => self.note(Outcome::Broken(gone())),
            }
        }
        match &self.state {
            State::Broken(error) => Err(error.clone()),
            State::Idle | State::Busy | State::Refused(_) => Ok(()),
        }
    }

    /// Waits until the fold under way is done. One that was refused is tried once more.
    pub(super) fn settle(&mut self) -> Result<(), Error> {
        self.check()?;
        self.state = match mem::replace(&mut self.state, State::Idle) {
            State::Refused(fold) => {
                self.begin(fold);
                State::Busy
            }
            state => state,
        };
        if matches!(self.state, State::Busy) {
            let outcome = self.outcomes.recv().unwrap_or_else(|_| Outcome::Broken(gone()));
            self.note(outcome);
        }
        match &self.state {
            State::Refused(_) => Err(Error::Full),
            _ => self.check(),
        }
    }

    /// Whether the next fold can begin at once. One that was refused begins again.
    pub(super) fn is_ready(&mut self) -> Result<bool, Error> {
        self.check()?;
        match mem::replace(&mut self.state, State::Idle) {
            State::Idle => Ok(true),
            State::Refused(fold) => {
                self.begin(fold);
                Ok(false)
            }
            state => {
                self.state = state;
                Ok(false)
            }
        }
    }

    /// Folds in the background; all folds before it must be [settled](Self::settle).
    pub(super) fn begin(&mut self, fold: Fold) {
        // If the thread is gone, the next look at its outcome tells.
        let _ = self.folds.as_ref().map(|folds| folds.send(fold));
        self.state = State::Busy;
    }

    /// Ends the thread, and closes the base.
    pub(super) fn close(mut self) -> Result<(), Error> {
        self.folds = None;
        while let Ok(outcome) = self.outcomes.recv() {
            if let Outcome::Closed(result) = outcome {
                return result;
            }
        }
        Err(gone())
    }

    fn note(&mut self, outcome: Outcome) {
        self.state = match outcome {
            Outcome::Folded | Outcome::Closed(_) => State::Idle,
            Outcome::Refused(fold) => State::Refused(fold),
            Outcome::Broken(error) => State::Broken(error),
        };
    }
}

impl Drop for Folder {
    /// Waits for the end of the thread: with it, the lock on the directory is gone.
    fn drop(&mut self) {
        self.folds = None;
        while self.outcomes.recv().is_ok() {}
    }
}

fn run(mut base: Base, folds: &Receiver<Fold>, reports: &SyncSender<Outcome>) {
    while let Ok(fold) = folds.recv() {
        let outcome = match base.fold(&fold) {
            Ok(()) => Outcome::Folded,
            Err(Error::Full) => Outcome::Refused(fold),
            Err(error) => {
                tracing::error!(
                    error = error.with_causes(),
                    "the log cannot be folded into the database"
                );
                Outcome::Broken(error)
            }
        };
        let _ = reports.send(outcome);
    }
    let _ = reports.send(Outcome::Closed(base.close()));
}

fn gone() -> Error {
    Error::Broken(Arc::new(io::Error::other("the thread that folds the log has ended")))
}
