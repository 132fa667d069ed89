//! Reads the log after a start, and tells the end that a crash cut short from damage.
//!
//! A batch is written only after the one before it was synced. So what follows the last whole
//! frame of the log is a batch that nobody was told of, and is dropped; but if a whole frame comes
//! after one that is not, something that was synced is gone, and the store is refused.

use std::io;

use redb::StorageBackend;

use super::{
    disk::{damaged, translate_io},
    fold::Fold,
    frame::Frame,
    load::Loader,
    segment::LogFile,
};
use crate::Error;

/// A segment is written while the one before it is folded, never more.
const SEGMENTS_AT_ONCE: u64 = 2;

/// Gives the loader what the log holds beyond the base, and returns it to be folded.
pub(super) fn replay<'a>(
    loader: &mut Loader,
    file_of: impl Fn(u64) -> &'a LogFile,
) -> Result<Fold, Error> {
    let (folded, salt) = (loader.meta().folded, loader.meta().salt);
    let mut fold = Fold::new(folded, loader.meta().floor, Vec::new());
    let mut frames_before = None;
    for segment in folded + 1..=folded + SEGMENTS_AT_ONCE {
        let LogFile { path, backend } = file_of(segment);
        let bytes = content(&**backend).map_err(|error| translate_io(path, error))?;
        let mut reader = Reader { bytes: &bytes, salt, segment, folded, frames: 0, frames_before };
        while let Some(frame) = reader.next().map_err(|detail| damaged(path, &detail))? {
            apply(&frame, loader, &mut fold).map_err(|detail| damaged(path, &detail))?;
        }
        frames_before = Some(reader.frames);
    }
    Ok(fold)
}

fn content(backend: &dyn StorageBackend) -> io::Result<Vec<u8>> {
    // A process that was killed may have written what is not on the disk yet. Once somebody has
    // seen it, it must not vanish in a power cut.
    backend.sync_data()?;
    let mut bytes = vec![0; usize::try_from(backend.len()?).map_err(io::Error::other)?];
    backend.read(0, &mut bytes)?;
    Ok(bytes)
}

fn apply(frame: &Frame<'_>, loader: &mut Loader, fold: &mut Fold) -> Result<(), String> {
    loader.forget(frame.floor)?;
    for row in frame.rows() {
        let (revision, row) = row?;
        fold.push(loader.apply(revision, &row)?);
    }
    fold.segment = frame.place.segment;
    fold.floor = frame.floor;
    Ok(())
}

/// Reads the frames of one segment.
struct Reader<'a> {
    /// What is left of the file.
    bytes: &'a [u8],
    salt: u64,
    segment: u64,
    folded: u64,
    frames: u32,
    /// How many frames the segment before this one had, if it was read.
    frames_before: Option<u32>,
}

impl<'a> Reader<'a> {
    /// The next frame; `None` at the end of the log, or where a crash cut it short.
    fn next(&mut self) -> Result<Option<Frame<'a>>, String> {
        let segment = self.segment;
        let frame = Frame::decode(self.salt, self.bytes);
        let Some(frame) = frame.filter(|frame| frame.place.segment > self.folded) else {
            if Frame::is_in(self.salt, segment, self.bytes) {
                let index = self.frames;
                return Err(format!(
                    "batch {index} of segment {segment} is damaged, and later ones are not"
                ));
            }
            return Ok(None);
        };
        if frame.place.segment != segment {
            let found = frame.place.segment;
            return Err(format!("segment {found} is here, but {segment} is the next to be read"));
        }
        if frame.place.index != self.frames {
            let (found, index) = (frame.place.index, self.frames);
            return Err(format!("batch {found} of segment {segment} is where {index} should be"));
        }
        if let Some(found) = self.frames_before.filter(|found| *found != frame.place.before) {
            let (kept, before) = (frame.place.before, segment - 1);
            return Err(format!("segment {before} had {kept} batches, but {found} are left"));
        }
        self.frames += 1;
        self.bytes = &self.bytes[frame.length..];
        Ok(Some(frame))
    }
}
