//! [`LogFile`]: a file of the log. [`Segment`]: the part of the log that is written to it.
//!
//! A file is extended by writing zeros. Overwriting them changes no metadata of the file system, so
//! an fsync waits for the data alone. The file is used again by the segment after the next one.

use std::path::PathBuf;
use std::sync::Arc;

use redb::StorageBackend;

use super::disk::{Disk, StoreFile, extend, read_error, write_error};
use super::frame::FramePosition;
use crate::Error;

/// A file that is too short grows by its size, within these limits.
const MIN_GROWTH: u64 = 64 << 10;
const MAX_GROWTH: u64 = 2 << 20;

/// One of the two files of the log.
pub(super) struct LogFile {
    pub(super) path: PathBuf,
    pub(super) backend: Box<dyn StorageBackend>,
}

/// The segment that is being written.
pub(super) struct Segment {
    /// The position of the next frame in the log.
    pub(super) next: FramePosition,
    /// The offset of the next frame in the file.
    pub(super) end: u64,
    /// The size of the file.
    size: u64,
}

/// The file of a segment.
pub(super) fn file_of_segment(segment: u64) -> StoreFile {
    if segment.is_multiple_of(2) { StoreFile::EvenLog } else { StoreFile::OddLog }
}

impl LogFile {
    pub(super) fn open(disk: &dyn Disk, file: StoreFile) -> Result<Self, Error> {
        let path = disk.path(file);
        match disk.open(file) {
            Ok(backend) => Ok(Self { path, backend }),
            Err(error) => Err(read_error(&path, error)),
        }
    }

    /// Begins a segment whose first frame has the position `next`. A file that a huge batch has made
    /// much larger than `limit` is truncated.
    pub(super) fn begin(&self, next: FramePosition, limit: u64) -> Result<Segment, Error> {
        let mut size = self.backend.len().map_err(|error| Error::Broken(Arc::new(error)))?;
        if size > limit.saturating_add(2 * MAX_GROWTH) {
            size = limit;
            self.backend.set_len(size).map_err(|error| write_error(Arc::new(error)))?;
        }
        Ok(Segment { next, end: 0, size })
    }

    /// Writes the next frame of a segment and syncs it. After [`Error::Full`] no part of it is in the
    /// file.
    pub(super) fn append(&self, segment: &mut Segment, frame: &[u8]) -> Result<(), Error> {
        let end = segment.end + frame.len() as u64;
        let full_or_broken = |error| write_error(Arc::new(error));
        if end > segment.size {
            let growth = segment.size.clamp(MIN_GROWTH, MAX_GROWTH);
            // Before the frame is written: on a full disk no part of the frame may be in the file.
            extend(&*self.backend, &mut segment.size, end + growth).map_err(full_or_broken)?;
        }
        self.backend.write(segment.end, frame).map_err(full_or_broken)?;
        self.backend.sync_data().map_err(|error| Error::Broken(Arc::new(error)))?;
        segment.end = end;
        segment.next.index += 1;
        Ok(())
    }
}
