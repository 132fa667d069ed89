//! [`Log`]: the journal of a durable store. Batches go to a write-ahead log, and from there by
//! checkpoints into the database.
//!
//! ```text
//! log.odd      segment 7: frame 0 │ frame 1 │ … │ frame 812 │ remains of segment 5
//! log.even     segment 8: frame 0 │ frame 1 │ remains of segment 6
//! store.redb   everything up to segment 6; a checkpoint of 7 is running
//! ```
//!
//! A batch is one write into allocated space of the file, and one fsync. When a segment is full, the
//! next one begins in the other file, after the checkpoint of the segment in that file; until then
//! writes wait.

use std::mem;
use std::path::PathBuf;
use std::sync::Arc;

use super::checkpoint::{Checkpoint, Checkpointer, Threshold};
use super::database::Database;
use super::disk::{Disk, StoreFile, read_error};
use super::frame;
use super::frame::FramePosition;
use super::load::Loaded;
use super::replay::replay;
use super::segment::{LogFile, Segment, file_of_segment};
use super::space_reserve::SpaceReserve;
use crate::journal::{Batch, Journal, Shrink};
use crate::{Error, Options, Revision};
use keel::Tasks;

/// The capacity that the buffer keeps after a large batch.
const MAX_BUFFER: usize = 1 << 20;

/// The unused space, in segments, from which on the database is shrunk.
const SHRINK_SEGMENTS: u64 = 4;

/// The unused space, in bytes, from which on the database is shrunk on a full disk.
const SHRINK_BYTES_WHEN_FULL: u64 = 64 << 10;

/// See the [module documentation](self).
pub(super) struct Log {
    // Dropped before `checkpointer`, which releases the lock on the directory.
    files: Files,
    reserve: SpaceReserve,
    /// The size of a full segment on a disk with enough space; see [`limit`](Self::limit).
    max_segment: u64,
    salt: u64,
    /// The segment that is being written; `None` until the first batch.
    segment: Option<Segment>,
    /// The oldest readable revision according to the log.
    floor: Revision,
    /// The writes of `segment`, and garbage, for the next checkpoint. Its segment is the last one
    /// that was begun.
    pending: Checkpoint,
    checkpointer: Checkpointer,
    buffer: Vec<u8>,
}

struct Files {
    even: LogFile,
    odd: LogFile,
}

impl Files {
    fn of(&self, segment: u64) -> &LogFile {
        if file_of_segment(segment) == StoreFile::EvenLog { &self.even } else { &self.odd }
    }
}

impl Log {
    /// Opens and reads the database and the log.
    pub(super) fn open(
        disk: Box<dyn Disk>,
        options: Options,
        tasks: &Tasks,
    ) -> Result<(Self, Loaded), Error> {
        let disk: Arc<dyn Disk> = Arc::from(disk);
        let (database, mut loader) = Database::open(Arc::clone(&disk), options.bounds())?;
        let even = LogFile::open(&*disk, StoreFile::EvenLog)?;
        let odd = LogFile::open(&*disk, StoreFile::OddLog)?;
        let files = Files { even, odd };
        let path = disk.path(StoreFile::Database);
        let reserve = SpaceReserve::new(disk, options.reserve_bytes)
            .map_err(|error| read_error(&path, error))?;
        let replayed = replay(&mut loader, |segment| files.of(segment))?;
        let meta = loader.meta();
        let mut loaded = loader.finish();
        let checkpointer = Checkpointer::start(database, tasks).map_err(|error| Error::Io {
            doing: "start the checkpoint thread for",
            path,
            source: Arc::new(error),
        })?;
        // Garbage is relative to the floor of the history, so the two go together.
        let garbage = mem::take(&mut loaded.garbage);
        let pending = Checkpoint::new(replayed.segment, loaded.history.floor(), garbage);
        let mut log = Self {
            files,
            reserve,
            max_segment: options.log_bytes,
            salt: meta.salt,
            segment: None,
            floor: replayed.floor,
            pending,
            checkpointer,
            buffer: Vec::new(),
        };
        if replayed.segment > meta.checkpointed {
            let revision = loaded.revision;
            tracing::warn!(revision, "not closed cleanly; the log was replayed");
            log.checkpointer.begin(replayed);
        }
        Ok((log, loaded))
    }

    /// The size of a full segment.
    fn limit(&self) -> u64 {
        self.reserve.log_limit(self.max_segment)
    }

    /// Makes a batch durable in the log.
    fn write(&mut self, batch: &Batch<'_>) -> Result<(), Error> {
        let mut segment = match self.segment.take() {
            Some(segment) if segment.end < self.limit() => segment,
            full => self.next_segment(full)?,
        };
        frame::encode(&mut self.buffer, self.salt, segment.next, batch.floor, batch.events);
        let file = self.files.of(segment.next.segment);
        let written = file.append(&mut segment, &self.buffer);
        self.segment = Some(segment);
        self.buffer.shrink_to(MAX_BUFFER);
        written
    }

    /// Begins the next segment once its file is free, and the checkpoint of the last one.
    fn next_segment(&mut self, last: Option<Segment>) -> Result<Segment, Error> {
        if let Err(error) = self.checkpointer.wait() {
            self.segment = last;
            return Err(error);
        }
        let number = self.pending.segment + 1;
        // After a start all segments have a checkpoint, so there is no count to compare with.
        let before = last.as_ref().map_or(0, |last| last.next.index);
        let next = FramePosition { segment: number, index: 0, before };
        let segment = match self.files.of(number).begin(next, self.limit()) {
            Ok(segment) => segment,
            Err(error) => {
                self.segment = last;
                return Err(error);
            }
        };
        if last.is_some() {
            let checkpoint = mem::take(&mut self.pending);
            self.checkpointer.begin(checkpoint);
        }
        self.pending.segment = number;
        Ok(segment)
    }

    /// Runs a checkpoint of all writes.
    fn checkpoint_all(&mut self) -> Result<(), Error> {
        self.checkpointer.wait()?;
        if self.segment.is_some() || !self.pending.is_empty() {
            self.checkpointer.begin(mem::take(&mut self.pending));
            self.checkpointer.wait()?;
        }
        Ok(())
    }
}

impl Journal for Log {
    fn append(&mut self, batch: &Batch<'_>) -> Result<(), Error> {
        self.checkpointer.check()?;
        // Garbage needs no frame: it is found again after a restart.
        if !batch.events.is_empty() || batch.floor > self.floor {
            self.write(batch)?;
            self.floor = batch.floor;
        }
        self.pending.add(batch);
        Ok(())
    }

    fn reserve_location(&self) -> (PathBuf, u64) {
        self.reserve.location()
    }

    fn release_reserve(&mut self) -> Result<(), Error> {
        self.reserve.release()
    }

    fn restore_reserve(&mut self) -> Result<bool, Error> {
        self.reserve.restore()
    }

    fn is_idle(&mut self) -> Result<bool, Error> {
        self.checkpointer.is_ready()
    }

    fn maintain(&mut self, shrink: Shrink) -> Result<(), Error> {
        if !self.checkpointer.is_ready()? {
            return Ok(());
        }
        let threshold = match shrink {
            Shrink::IfLarge => {
                Threshold { bytes: SHRINK_SEGMENTS * self.limit(), at_least_used: true }
            }
            Shrink::IfAny => Threshold { bytes: SHRINK_BYTES_WHEN_FULL, at_least_used: false },
        };
        // Garbage that was found at the start waits for the first segment.
        if self.segment.is_none() || self.pending.is_empty() {
            self.checkpointer.begin(Checkpoint::shrink(threshold));
            return Ok(());
        }
        self.pending.shrink_above = Some(threshold);
        let last = self.segment.take();
        self.segment = Some(self.next_segment(last)?);
        Ok(())
    }

    fn close(mut self: Box<Self>) -> Result<(), Error> {
        let checkpointed = self.checkpoint_all();
        let Self { files, checkpointer, reserve, .. } = *self;
        drop((files, reserve));
        checkpointer.close()?;
        match checkpointed {
            // The remaining writes are durable in the log.
            Err(Error::Full) => Ok(()),
            checkpointed => checkpointed,
        }
    }
}
