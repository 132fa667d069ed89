//! Reads the log at the start, and distinguishes an incomplete last batch from damage.
//!
//! A batch is written only after the previous one was synced. Bytes after the last complete frame
//! belong to a batch that was not acknowledged, and are dropped. A complete frame after an incomplete
//! one means that a synced batch is lost, and the store is refused.

use std::io;

use redb::StorageBackend;

use super::checkpoint::Checkpoint;
use super::disk::{damaged, read_error};
use super::frame::Frame;
use super::load::Loader;
use super::segment::LogFile;
use crate::Error;

/// The log has a segment that is being written, and one whose checkpoint is running.
const SEGMENTS_AT_ONCE: u64 = 2;

/// Applies the writes after the last checkpoint to the loader, and returns them as a checkpoint.
pub(super) fn replay<'a>(
    loader: &mut Loader,
    file_of: impl Fn(u64) -> &'a LogFile,
) -> Result<Checkpoint, Error> {
    let (checkpointed, salt) = (loader.meta().checkpointed, loader.meta().salt);
    let mut checkpoint = Checkpoint::new(checkpointed, loader.meta().floor, Vec::new());
    let mut frames_before = None;
    for segment in checkpointed + 1..=checkpointed + SEGMENTS_AT_ONCE {
        let LogFile { path, backend } = file_of(segment);
        let bytes = content(&**backend).map_err(|error| read_error(path, error))?;
        let mut reader =
            Reader { bytes: &bytes, salt, segment, checkpointed, frames: 0, frames_before };
        while let Some(frame) = reader.next().map_err(|detail| damaged(path, &detail))? {
            apply(&frame, loader, &mut checkpoint).map_err(|detail| damaged(path, &detail))?;
        }
        frames_before = Some(reader.frames);
    }
    Ok(checkpoint)
}

fn content(backend: &dyn StorageBackend) -> io::Result<Vec<u8>> {
    // A killed process may have left unsynced writes. Once they are served, a power failure must
    // not lose them.
    backend.sync_data()?;
    let mut bytes = vec![0; usize::try_from(backend.len()?).map_err(io::Error::other)?];
    backend.read(0, &mut bytes)?;
    Ok(bytes)
}

fn apply(
    frame: &Frame<'_>,
    loader: &mut Loader,
    checkpoint: &mut Checkpoint,
) -> Result<(), String> {
    loader.compact(frame.floor)?;
    for row in frame.rows() {
        let (revision, row) = row?;
        checkpoint.push(loader.apply(revision, &row)?);
    }
    checkpoint.segment = frame.position.segment;
    checkpoint.floor = frame.floor;
    Ok(())
}

/// Reads the frames of one segment.
struct Reader<'a> {
    /// The rest of the file.
    bytes: &'a [u8],
    salt: u64,
    segment: u64,
    checkpointed: u64,
    frames: u32,
    /// The number of frames in the previous segment, if it was read.
    frames_before: Option<u32>,
}

impl<'a> Reader<'a> {
    /// The next frame; `None` at the end of the log or at an incomplete last batch.
    fn next(&mut self) -> Result<Option<Frame<'a>>, String> {
        let segment = self.segment;
        let frame = Frame::decode(self.salt, self.bytes);
        let Some(frame) = frame.filter(|frame| frame.position.segment > self.checkpointed) else {
            if Frame::is_in(self.salt, segment, self.bytes) {
                let index = self.frames;
                return Err(format!(
                    "batch {index} of segment {segment} is damaged, and later batches are not"
                ));
            }
            return Ok(None);
        };
        if frame.position.segment != segment {
            let found = frame.position.segment;
            return Err(format!("it contains segment {found}, but segment {segment} is expected"));
        }
        if frame.position.index != self.frames {
            let (found, index) = (frame.position.index, self.frames);
            return Err(format!("batch {found} of segment {segment} is where {index} should be"));
        }
        if let Some(found) = self.frames_before.filter(|found| *found != frame.position.before) {
            let (expected, previous) = (frame.position.before, segment - 1);
            return Err(format!("segment {previous} had {expected} batches, but {found} are left"));
        }
        self.frames += 1;
        self.bytes = &self.bytes[frame.length..];
        Ok(Some(frame))
    }
}
