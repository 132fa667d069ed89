//! [`LogFile`]: a file of the log, and [`Segment`], what is being written to it.
//!
//! A file is extended by zeros, written out: the file system then has nothing to note when they
//! are overwritten, and an fsync waits for the data alone. It is kept for the segment after next.

use std::{path::PathBuf, sync::Arc};

use redb::StorageBackend;

use super::{
    disk::{Disk, Part, extend, judge_write, translate_io},
    frame::Place,
};
use crate::Error;

/// A file that is too short grows by as much as it had beyond what is needed now, but by no less
/// and no more than this.
const LEAST_GROWTH: u64 = 64 << 10;
const MOST_GROWTH: u64 = 2 << 20;

/// One of the two files of the log.
pub(super) struct LogFile {
    pub(super) path: PathBuf,
    pub(super) backend: Box<dyn StorageBackend>,
}

/// The segment that is being written.
pub(super) struct Segment {
    /// Where the next frame belongs.
    pub(super) next: Place,
    /// Where it begins in the file.
    pub(super) end: u64,
    /// How many bytes the file has.
    size: u64,
}

/// The file in which a segment lies.
pub(super) fn part_of(segment: u64) -> Part {
    if segment.is_multiple_of(2) { Part::EvenLog } else { Part::OddLog }
}

impl LogFile {
    pub(super) fn open(disk: &dyn Disk, part: Part) -> Result<Self, Error> {
        let path = disk.path(part);
        match disk.open(part) {
            Ok(backend) => Ok(Self { path, backend }),
            Err(error) => Err(translate_io(&path, error)),
        }
    }

    /// Begins a segment whose first frame belongs at `next`. If the file is much larger than
    /// `limit`, because of some huge batch, it is cut.
    pub(super) fn begin(&self, next: Place, limit: u64) -> Result<Segment, Error> {
        let mut size = self.backend.len().map_err(|error| Error::Broken(Arc::new(error)))?;
        if size > limit.saturating_add(2 * MOST_GROWTH) {
            size = limit;
            self.backend.set_len(size).map_err(|error| judge_write(Arc::new(error)))?;
        }
        Ok(Segment { next, end: 0, size })
    }

    /// Writes the next frame of a segment, and returns when it is on the disk. After
    /// [`Error::Full`] nothing of it is there.
    pub(super) fn append(&self, segment: &mut Segment, frame: &[u8]) -> Result<(), Error> {
        let end = segment.end + frame.len() as u64;
        let full_or_broken = |error| judge_write(Arc::new(error));
        if end > segment.size {
            let growth = segment.size.clamp(LEAST_GROWTH, MOST_GROWTH);
            // Before the frame, and apart from it: if there is no room, the frame must not be there.
            extend(&*self.backend, &mut segment.size, end + growth).map_err(full_or_broken)?;
        }
        self.backend.write(segment.end, frame).map_err(full_or_broken)?;
        self.backend.sync_data().map_err(|error| Error::Broken(Arc::new(error)))?;
        segment.end = end;
        segment.next.index += 1;
        Ok(())
    }
}
