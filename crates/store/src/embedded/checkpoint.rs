//! [`Checkpoint`]: the changes that a segment of the log makes to the database. [`Checkpointer`]: the
//! thread that writes them there while the next segment is written.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::{io, mem};

use super::database::Database;
use crate::journal::Batch;
use crate::{Error, Event, Revision};
use keel::Tasks;

/// The writes of one or more segments. They are collected as they are written, so the log is read
/// only after a crash.
#[derive(Default)]
pub(super) struct Checkpoint {
    /// The last segment it contains.
    pub(super) segment: u64,
    /// The oldest revision that must remain readable.
    pub(super) floor: Revision,
    /// In the order of their revisions.
    events: Vec<Event>,
    /// Writes that no readable state contains, in this checkpoint or in the database.
    garbage: Vec<Revision>,
    /// After the checkpoint, the database returns its unused space if it exceeds this threshold.
    pub(super) shrink_above: Option<Threshold>,
}

/// An amount of unused space in the database.
#[derive(Clone, Copy)]
pub(super) struct Threshold {
    pub(super) bytes: u64,
    /// Whether the unused space must also be at least as large as the used space.
    pub(super) at_least_used: bool,
}

impl Checkpoint {
    pub(super) fn new(segment: u64, floor: Revision, garbage: Vec<Revision>) -> Self {
        Self { segment, floor, garbage, ..Self::default() }
    }

    /// A checkpoint without writes, which returns unused space.
    pub(super) fn shrink(above: Threshold) -> Self {
        Self { shrink_above: Some(above), ..Self::default() }
    }

    /// Adds a batch that is written to the segment.
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

    /// The events after `revision` that are not garbage.
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

/// See the [module documentation](self). It runs one checkpoint at a time.
pub(super) struct Checkpointer {
    /// `None` after the last checkpoint.
    checkpoints: Option<SyncSender<Checkpoint>>,
    outcomes: Receiver<CheckpointOutcome>,
    state: CheckpointState,
}

enum CheckpointState {
    Idle,
    Busy,
    /// The disk had no space for it. It is tried again.
    Refused(Checkpoint),
    /// A permanent failure.
    Broken(Error),
}

enum CheckpointOutcome {
    Done,
    Refused(Checkpoint),
    Broken(Error),
    Closed(Result<(), Error>),
}

impl Checkpointer {
    /// Starts the thread, which takes ownership of the database.
    pub(super) fn start(database: Database, tasks: &Tasks) -> io::Result<Self> {
        let (checkpoints, waiting) = sync_channel(1);
        let (reports, outcomes) = sync_channel(2);
        tasks.spawn_thread("checkpoint", move || run(database, &waiting, &reports))?;
        Ok(Self { checkpoints: Some(checkpoints), outcomes, state: CheckpointState::Idle })
    }

    /// Fails if a checkpoint has failed permanently. Does not wait.
    pub(super) fn check(&mut self) -> Result<(), Error> {
        if matches!(self.state, CheckpointState::Busy) {
            match self.outcomes.try_recv() {
                Ok(outcome) => self.set_outcome(outcome),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => {
                    self.set_outcome(CheckpointOutcome::Broken(thread_ended()));
                }
            }
        }
        match &self.state {
            CheckpointState::Broken(error) => Err(error.clone()),
            CheckpointState::Idle | CheckpointState::Busy | CheckpointState::Refused(_) => Ok(()),
        }
    }

    /// Waits for the running checkpoint. A refused one is tried once more.
    pub(super) fn wait(&mut self) -> Result<(), Error> {
        self.check()?;
        self.state = match mem::replace(&mut self.state, CheckpointState::Idle) {
            CheckpointState::Refused(checkpoint) => {
                self.begin(checkpoint);
                CheckpointState::Busy
            }
            state => state,
        };
        if matches!(self.state, CheckpointState::Busy) {
            let outcome =
                self.outcomes.recv().unwrap_or_else(|_| CheckpointOutcome::Broken(thread_ended()));
            self.set_outcome(outcome);
        }
        match &self.state {
            CheckpointState::Refused(_) => Err(Error::Full),
            _ => self.check(),
        }
    }

    /// Whether the next checkpoint can begin now. A refused one begins again.
    pub(super) fn is_ready(&mut self) -> Result<bool, Error> {
        self.check()?;
        match mem::replace(&mut self.state, CheckpointState::Idle) {
            CheckpointState::Idle => Ok(true),
            CheckpointState::Refused(checkpoint) => {
                self.begin(checkpoint);
                Ok(false)
            }
            state => {
                self.state = state;
                Ok(false)
            }
        }
    }

    /// Begins a checkpoint in the background, after a [`wait`](Self::wait) for the previous one.
    pub(super) fn begin(&mut self, checkpoint: Checkpoint) {
        // If the thread has ended, the next call of `check` fails.
        let _ = self.checkpoints.as_ref().map(|checkpoints| checkpoints.send(checkpoint));
        self.state = CheckpointState::Busy;
    }

    /// Ends the thread and closes the database.
    pub(super) fn close(mut self) -> Result<(), Error> {
        self.checkpoints = None;
        while let Ok(outcome) = self.outcomes.recv() {
            if let CheckpointOutcome::Closed(result) = outcome {
                return result;
            }
        }
        Err(thread_ended())
    }

    fn set_outcome(&mut self, outcome: CheckpointOutcome) {
        self.state = match outcome {
            CheckpointOutcome::Done | CheckpointOutcome::Closed(_) => CheckpointState::Idle,
            CheckpointOutcome::Refused(checkpoint) => CheckpointState::Refused(checkpoint),
            CheckpointOutcome::Broken(error) => CheckpointState::Broken(error),
        };
    }
}

impl Drop for Checkpointer {
    /// Waits for the end of the thread, which releases the lock on the directory.
    fn drop(&mut self) {
        self.checkpoints = None;
        while self.outcomes.recv().is_ok() {}
    }
}

fn run(
    mut database: Database,
    checkpoints: &Receiver<Checkpoint>,
    reports: &SyncSender<CheckpointOutcome>,
) {
    while let Ok(checkpoint) = checkpoints.recv() {
        let outcome = match database.apply(&checkpoint) {
            Ok(()) => CheckpointOutcome::Done,
            Err(Error::Full) => CheckpointOutcome::Refused(checkpoint),
            Err(error) => {
                tracing::error!(error = error.with_causes(), "a checkpoint of the log failed");
                CheckpointOutcome::Broken(error)
            }
        };
        let _ = reports.send(outcome);
    }
    let _ = reports.send(CheckpointOutcome::Closed(database.close()));
}

fn thread_ended() -> Error {
    Error::Broken(Arc::new(io::Error::other("the checkpoint thread has ended")))
}
