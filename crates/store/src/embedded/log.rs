//! [`Log`]: the journal: batches go to a write-ahead log, and from there, many at a time, into the
//! base.
//!
//! ```text
//! log.odd      segment 7: frame 0 │ frame 1 │ … │ frame 812 │ what is left of segment 5
//! log.even     segment 8: frame 0 │ frame 1 │ what is left of segment 6
//! store.redb   everything up to segment 6, and soon up to 7
//! ```
//!
//! A batch is one write into space that the file already has, and one fsync. When a segment is
//! full, the next one begins in the other file as soon as what that held is folded; until then
//! writes wait.

use std::{mem, path::PathBuf, sync::Arc};

use keel::Tasks;

use super::{
    base::Base,
    disk::{Disk, Part, translate_io},
    fold::{Fold, Folder, Threshold},
    frame::{self, Place},
    load::Loaded,
    replay::replay,
    reserve::Reserve,
    segment::{LogFile, Segment, part_of},
};
use crate::{
    Error, Options, Revision,
    journal::{Batch, Journal, Shrink},
};

/// What is kept of the buffer after a large batch.
const BUFFER: usize = 1 << 20;

/// How many segments' worth of unused space are worth the effort of shrinking the base.
const MUCH: u64 = 4;

/// How much unused space is worth it when there is none elsewhere.
const ANY: u64 = 64 << 10;

/// See the [module documentation](self).
pub(super) struct Log {
    // These two before the folder, which drops the lock on the directory.
    files: Files,
    reserve: Reserve,
    /// How many bytes make a segment full on a disk with enough space; see [`limit`](Self::limit).
    most: u64,
    salt: u64,
    /// What is being written; `None` until the first batch.
    segment: Option<Segment>,
    /// The oldest readable revision that the log knows of.
    floor: Revision,
    /// What is in no fold yet: that of `segment`, and garbage. Names the last segment there was.
    pending: Fold,
    folder: Folder,
    buffer: Vec<u8>,
}

struct Files {
    even: LogFile,
    odd: LogFile,
}

impl Files {
    fn of(&self, segment: u64) -> &LogFile {
        if part_of(segment) == Part::EvenLog { &self.even } else { &self.odd }
    }
}

impl Log {
    /// Opens base and log, and reads all of both.
    pub(super) fn open(
        disk: Box<dyn Disk>,
        options: Options,
        tasks: &Tasks,
    ) -> Result<(Self, Loaded), Error> {
        let disk: Arc<dyn Disk> = Arc::from(disk);
        let (base, mut loader) = Base::open(Arc::clone(&disk), options.bounds())?;
        let even = LogFile::open(&*disk, Part::EvenLog)?;
        let odd = LogFile::open(&*disk, Part::OddLog)?;
        let files = Files { even, odd };
        let path = disk.path(Part::Base);
        let reserve = Reserve::new(disk, options.reserve_bytes)
            .map_err(|error| translate_io(&path, error))?;
        let replayed = replay(&mut loader, |segment| files.of(segment))?;
        let meta = loader.meta();
        let mut loaded = loader.finish();
        let folder = Folder::start(base, tasks).map_err(|error| Error::Io {
            doing: "start the thread that folds the log into",
            path,
            source: Arc::new(error),
        })?;
        // Garbage is what no state from the floor of the history on shows, so the two go together.
        let garbage = mem::take(&mut loaded.garbage);
        let pending = Fold::new(replayed.segment, loaded.history.floor(), garbage);
        let mut log = Self {
            files,
            reserve,
            most: options.log_bytes,
            salt: meta.salt,
            segment: None,
            floor: replayed.floor,
            pending,
            folder,
            buffer: Vec::new(),
        };
        if replayed.segment > meta.folded {
            let revision = loaded.revision;
            tracing::warn!(revision, "not closed cleanly; the log was replayed");
            log.folder.begin(replayed);
        }
        Ok((log, loaded))
    }

    /// How many bytes make a segment full.
    fn limit(&self) -> u64 {
        self.reserve.log_limit(self.most)
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
        self.buffer.shrink_to(BUFFER);
        written
    }

    /// Begins the next segment, once the file for it is free, and has the last one folded.
    fn next_segment(&mut self, last: Option<Segment>) -> Result<Segment, Error> {
        if let Err(error) = self.folder.settle() {
            self.segment = last;
            return Err(error);
        }
        let number = self.pending.segment + 1;
        // After a start there is nothing to compare it with: all that was there is folded by now.
        let before = last.as_ref().map_or(0, |last| last.next.index);
        let next = Place { segment: number, index: 0, before };
        let segment = match self.files.of(number).begin(next, self.limit()) {
            Ok(segment) => segment,
            Err(error) => {
                self.segment = last;
                return Err(error);
            }
        };
        if last.is_some() {
            let fold = mem::take(&mut self.pending);
            self.folder.begin(fold);
        }
        self.pending.segment = number;
        Ok(segment)
    }

    /// Folds all that there is.
    fn fold_rest(&mut self) -> Result<(), Error> {
        self.folder.settle()?;
        if self.segment.is_some() || !self.pending.is_empty() {
            self.folder.begin(mem::take(&mut self.pending));
            self.folder.settle()?;
        }
        Ok(())
    }
}

impl Journal for Log {
    fn append(&mut self, batch: &Batch<'_>) -> Result<(), Error> {
        self.folder.check()?;
        // Garbage needs no frame: after a restart it is found again.
        if !batch.events.is_empty() || batch.floor > self.floor {
            self.write(batch)?;
            self.floor = batch.floor;
        }
        self.pending.add(batch);
        Ok(())
    }

    fn reserve(&self) -> (PathBuf, u64) {
        self.reserve.location()
    }

    fn release_reserve(&mut self) -> Result<(), Error> {
        self.reserve.release()
    }

    fn restore_reserve(&mut self) -> Result<bool, Error> {
        self.reserve.restore()
    }

    fn is_idle(&mut self) -> Result<bool, Error> {
        self.folder.is_ready()
    }

    fn maintain(&mut self, shrink: Shrink) -> Result<(), Error> {
        if !self.folder.is_ready()? {
            return Ok(());
        }
        let threshold = match shrink {
            Shrink::IfMuch => Threshold { bytes: MUCH * self.limit(), and_used: true },
            Shrink::IfAny => Threshold { bytes: ANY, and_used: false },
        };
        // After a start, garbage waits for the first segment.
        if self.segment.is_none() || self.pending.is_empty() {
            self.folder.begin(Fold::shrink(threshold));
            return Ok(());
        }
        self.pending.shrink_above = Some(threshold);
        let last = self.segment.take();
        self.segment = Some(self.next_segment(last)?);
        Ok(())
    }

    fn close(mut self: Box<Self>) -> Result<(), Error> {
        let folded = self.fold_rest();
        let Self { files, folder, reserve, .. } = *self;
        drop((files, reserve));
        folder.close()?;
        match folded {
            // What is not folded is safe in the log.
            Err(Error::Full) => Ok(()),
            folded => folded,
        }
    }
}
