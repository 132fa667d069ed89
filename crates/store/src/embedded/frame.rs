//! [`Frame`]: the encoding of one batch in the log.
//!
//! ```text
//! frame   crc32 u32 | index u32 | segment u64 | length u64 | before u32 | count u32 | floor u64 |
//!         count times (revision u64 | length u64 | row) | zeros up to a multiple of 8
//! ```
//!
//! The first frame of a segment has index 0 and is at the start of the file; each other frame follows
//! the previous one. `before` is the number of frames in the previous segment, which detects the
//! loss of its end.
//!
//! The checksum covers the salt and all bytes that follow. Remains of earlier segments in a file have
//! other numbers, and the author of a value does not know the salt: neither can be mistaken for a
//! frame.

use super::row::{Row, take};
use crate::{Event, Revision};

const CHECKSUM: usize = 4;
const SEGMENT: std::ops::Range<usize> = 8..16;
const LENGTH: std::ops::Range<usize> = 16..24;
const HEADER: usize = 40;

/// Frames begin at multiples of this.
const ALIGNMENT: usize = 8;

/// A frame in a buffer that holds the content of a file.
pub(super) struct Frame<'a> {
    pub(super) position: FramePosition,
    /// The oldest readable revision when the batch was written.
    pub(super) floor: Revision,
    /// The number of its bytes.
    pub(super) length: usize,
    count: u32,
    rows: &'a [u8],
}

/// The position of a frame in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FramePosition {
    /// The number of the segment.
    pub(super) segment: u64,
    /// The number of earlier frames in the segment.
    pub(super) index: u32,
    /// The number of frames in the previous segment.
    pub(super) before: u32,
}

/// Replaces the content of `buffer` with a frame.
pub(super) fn encode(
    buffer: &mut Vec<u8>,
    salt: u64,
    position: FramePosition,
    floor: Revision,
    events: &[Event],
) {
    let count = u32::try_from(events.len()).expect("a batch has a bounded number of writes");
    buffer.clear();
    buffer.extend([0; CHECKSUM]);
    buffer.extend(position.index.to_le_bytes());
    buffer.extend(position.segment.to_le_bytes());
    buffer.extend([0; 8]);
    buffer.extend(position.before.to_le_bytes());
    buffer.extend(count.to_le_bytes());
    buffer.extend(floor.to_le_bytes());
    for event in events {
        let row = Row::of(event);
        buffer.extend(event.revision.to_le_bytes());
        buffer.extend((row.len() as u64).to_le_bytes());
        let start = buffer.len();
        buffer.resize(start + row.len(), 0);
        row.encode(event.revision, &mut buffer[start..]);
    }
    buffer.resize(buffer.len().next_multiple_of(ALIGNMENT), 0);
    let length = buffer.len() as u64;
    buffer[LENGTH].copy_from_slice(&length.to_le_bytes());
    let checksum = checksum(salt, &buffer[CHECKSUM..]);
    buffer[..CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
}

impl<'a> Frame<'a> {
    /// The frame at the start of `bytes`, of any segment; `None` if there is no complete one.
    pub(super) fn decode(salt: u64, bytes: &'a [u8]) -> Option<Self> {
        let stored_length = u64::from_le_bytes(*bytes.get(LENGTH)?.first_chunk()?);
        let length = usize::try_from(stored_length).ok().filter(|length| *length >= HEADER)?;
        let mut rest = bytes.get(..length)?;
        let stored = u32::from_le_bytes(take(&mut rest)?);
        if stored != checksum(salt, rest) {
            return None;
        }
        let index = u32::from_le_bytes(take(&mut rest)?);
        let segment = u64::from_le_bytes(take(&mut rest)?);
        let _length: [u8; 8] = take(&mut rest)?;
        let before = u32::from_le_bytes(take(&mut rest)?);
        let count = u32::from_le_bytes(take(&mut rest)?);
        let floor = u64::from_le_bytes(take(&mut rest)?);
        Some(Self {
            position: FramePosition { segment, index, before },
            floor,
            length,
            count,
            rows: rest,
        })
    }

    /// Whether `bytes` contain a complete frame of `segment`.
    pub(super) fn is_in(salt: u64, segment: u64, bytes: &'a [u8]) -> bool {
        let starts = (0..bytes.len().saturating_sub(HEADER - 1)).step_by(ALIGNMENT);
        starts.map(|start| &bytes[start..]).any(|rest| {
            rest[SEGMENT] == segment.to_le_bytes() && Frame::decode(salt, rest).is_some()
        })
    }

    /// The writes; fails at the first invalid one.
    pub(super) fn rows(
        &self,
    ) -> impl Iterator<Item = Result<(Revision, Row<'a>), String>> + use<'a> {
        let (mut rest, segment) = (self.rows, self.position.segment);
        (0..self.count).map(move |_| {
            row(&mut rest).ok_or_else(|| format!("segment {segment} contains an invalid write"))
        })
    }
}

fn row<'a>(rest: &mut &'a [u8]) -> Option<(Revision, Row<'a>)> {
    let revision = u64::from_le_bytes(take(rest)?);
    let length = usize::try_from(u64::from_le_bytes(take(rest)?)).ok()?;
    let (bytes, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some((revision, Row::decode(revision, bytes)?))
}

fn checksum(salt: u64, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&salt.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Record;

    const POSITION: FramePosition = FramePosition { segment: 7, index: 2, before: 5 };

    fn events() -> Vec<Event> {
        let key: Arc<str> = "/a".into();
        let value = bytes::Bytes::from_static(b"one");
        let (created, modified) = (11, 11);
        let record = Record { key: Arc::clone(&key), value, created, modified, expires: None };
        let put =
            Event { revision: 11, key: Arc::clone(&key), new: Some(Arc::new(record)), old: None };
        vec![put, Event { revision: 12, key, new: None, old: None }]
    }

    fn encoded() -> Vec<u8> {
        let mut buffer = b"of the batch before".to_vec();
        encode(&mut buffer, 1, POSITION, 9, &events());
        buffer
    }

    #[test]
    fn a_decoded_batch_equals_the_encoded_one() {
        let (bytes, events) = (encoded(), events());
        let frame = Frame::decode(1, &bytes).unwrap();
        assert_eq!((frame.position, frame.floor, frame.length), (POSITION, 9, bytes.len()));
        let rows: Vec<_> = frame.rows().map(Result::unwrap).collect();
        assert_eq!(rows, [(11, Row::of(&events[0])), (12, Row::of(&events[1]))]);
    }

    #[test]
    fn every_flipped_bit_is_detected() {
        let bytes = encoded();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Frame::decode(1, &flipped).is_none(), "bit {bit}");
        }
    }

    #[test]
    fn a_part_of_a_frame_or_a_frame_with_another_salt_is_refused() {
        let bytes = encoded();
        assert!((0..bytes.len()).all(|length| Frame::decode(1, &bytes[..length]).is_none()));
        assert!(Frame::decode(2, &bytes).is_none());
    }

    #[test]
    fn a_frame_is_found_among_other_bytes_by_its_segment() {
        let mut bytes = vec![0xff; 24];
        bytes.extend(encoded());
        bytes.extend([0; 5]);
        assert!(Frame::is_in(1, 7, &bytes));
        assert!(!Frame::is_in(1, 8, &bytes));
        assert!(!Frame::is_in(2, 7, &bytes));
        assert!(!Frame::is_in(1, 7, &bytes[32..]));
    }
}
