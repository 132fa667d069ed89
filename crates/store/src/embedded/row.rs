//! [`Row`]: the encoding of a write on the disk. [`Meta`]: the summary of all writes.
//!
//! ```text
//! row    crc32 u32 | kind u8 | created u64 | expires i64, u32 | key length u32 | key | value
//! meta   crc32 u32 | format u32 | newest u64 | rows u64 | floor u64 | checkpointed u64 | salt u64
//! ```
//!
//! All numbers are little-endian. The checksum of a row covers its revision, so that rows cannot be
//! exchanged. Format 1, which has no log beside the database, ends after `floor`.

use crate::{Event, Revision};
use keel::Timestamp;

/// The format that this version writes. A change that an older version would misread gets a new
/// number.
pub(super) const FORMAT: u32 = 2;

/// The format without a log, which is converted to the present one when it is opened.
pub(super) const FORMAT_WITHOUT_LOG: u32 = 1;

const PUT: u8 = 0;
const PUT_EXPIRING: u8 = 1;
const DELETE: u8 = 2;

const CHECKSUM: usize = 4;
const HEADER: usize = CHECKSUM + 1 + 8 + 8 + 4 + 4;
const META: usize = CHECKSUM + 4 + 8 + 8 + 8 + 8 + 8;

/// One write.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row<'a> {
    pub(super) key: &'a str,
    /// `None` for a deletion.
    pub(super) value: Option<&'a [u8]>,
    pub(super) created: Revision,
    pub(super) expires: Option<Timestamp>,
}

impl<'a> Row<'a> {
    pub(super) fn of(event: &'a Event) -> Self {
        let new = event.new.as_ref();
        Self {
            key: &event.key,
            value: new.map(|record| &record.value[..]),
            created: new.map_or(0, |record| record.created),
            expires: new.and_then(|record| record.expires),
        }
    }

    /// The number of bytes that [`encode`](Self::encode) writes.
    pub(super) fn len(&self) -> usize {
        HEADER + self.key.len() + self.value.map_or(0, <[u8]>::len)
    }

    pub(super) fn encode(&self, revision: Revision, bytes: &mut [u8]) {
        let kind = match (self.value, self.expires) {
            (None, _) => DELETE,
            (Some(_), None) => PUT,
            (Some(_), Some(_)) => PUT_EXPIRING,
        };
        let expires = self.expires.unwrap_or_default();
        let key_length = u32::try_from(self.key.len()).expect("a key is shorter than 4 GiB");
        let mut rest = &mut bytes[CHECKSUM..];
        for part in [
            &[kind][..],
            &self.created.to_le_bytes(),
            &expires.seconds().to_le_bytes(),
            &expires.nanos().to_le_bytes(),
            &key_length.to_le_bytes(),
            self.key.as_bytes(),
            self.value.unwrap_or_default(),
        ] {
            let (here, after) = rest.split_at_mut(part.len());
            here.copy_from_slice(part);
            rest = after;
        }
        let checksum = checksum(revision, &bytes[CHECKSUM..]);
        bytes[..CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
    }

    /// `None` if the bytes are not the row of this revision.
    pub(super) fn decode(revision: Revision, bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes;
        let stored = u32::from_le_bytes(take(&mut rest)?);
        if stored != checksum(revision, rest) {
            return None;
        }
        let [kind] = take(&mut rest)?;
        let created = u64::from_le_bytes(take(&mut rest)?);
        let seconds = i64::from_le_bytes(take(&mut rest)?);
        let nanos = u32::from_le_bytes(take(&mut rest)?);
        let key_length = usize::try_from(u32::from_le_bytes(take(&mut rest)?)).ok()?;
        let (key, value) = rest.split_at_checked(key_length)?;
        Some(Self {
            key: str::from_utf8(key).ok()?,
            value: (kind != DELETE).then_some(value),
            created,
            expires: (kind == PUT_EXPIRING).then(|| Timestamp::new(seconds, nanos)),
        })
    }
}

/// The summary of all rows, which detects lost rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meta {
    pub(super) format: u32,
    /// The revision of the newest write.
    pub(super) newest: Revision,
    /// The number of rows.
    pub(super) rows: u64,
    /// Rows up to this revision may have been removed if no later state contains them.
    pub(super) floor: Revision,
    /// The last segment of the log with a checkpoint.
    pub(super) checkpointed: u64,
    /// Part of the checksums of the log. It is secret, so no value can imitate a
    /// frame of the log.
    pub(super) salt: u64,
}

impl Meta {
    /// The summary of an empty store.
    pub(super) fn new(salt: u64) -> Self {
        Self { format: FORMAT, newest: 0, rows: 0, floor: 0, checkpointed: 0, salt }
    }

    pub(super) fn encode(&self) -> [u8; META] {
        let mut bytes = [0; META];
        bytes[4..8].copy_from_slice(&self.format.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.newest.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.rows.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.floor.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.checkpointed.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.salt.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[CHECKSUM..]);
        bytes[..CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// `None` if the bytes are not a summary. Of a newer format, only the number is valid.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let stored = u32::from_le_bytes(take(&mut rest)?);
        if stored != crc32fast::hash(rest) {
            return None;
        }
        let format = u32::from_le_bytes(take(&mut rest)?);
        let mut number = || Some(u64::from_le_bytes(take(&mut rest)?));
        let (newest, rows, floor) = (number()?, number()?, number()?);
        let (checkpointed, salt) = match format {
            FORMAT => (number()?, number()?),
            _ => (0, 0),
        };
        Some(Self { format, newest, rows, floor, checkpointed, salt })
    }
}

pub(super) fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*taken)
}

fn checksum(revision: Revision, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&revision.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> [Row<'static>; 3] {
        let expires = Some(Timestamp::new(1_700_000_000, 5));
        [
            Row { key: "/a", value: Some(b"1"), created: 3, expires: None },
            Row { key: "/a", value: Some(b""), created: 3, expires },
            Row { key: "/ä", value: None, created: 0, expires: None },
        ]
    }

    fn encoded(row: &Row<'_>) -> Vec<u8> {
        let mut bytes = vec![0; row.len()];
        row.encode(7, &mut bytes);
        bytes
    }

    #[test]
    fn a_decoded_row_equals_the_encoded_one() {
        for row in rows() {
            assert_eq!(Row::decode(7, &encoded(&row)), Some(row));
        }
    }

    #[test]
    fn every_flipped_bit_is_detected() {
        for row in rows() {
            let bytes = encoded(&row);
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Row::decode(7, &flipped), None, "bit {bit} of {row:?}");
            }
        }
    }

    #[test]
    fn a_row_of_another_revision_or_a_part_of_a_row_is_refused() {
        let bytes = encoded(&rows()[0]);
        assert_eq!(Row::decode(8, &bytes), None);
        assert!((0..bytes.len()).all(|length| Row::decode(7, &bytes[..length]).is_none()));
    }

    #[test]
    fn a_decoded_summary_equals_the_encoded_one_and_flips_are_detected() {
        let meta = Meta { format: FORMAT, newest: 9, rows: 4, floor: 2, checkpointed: 3, salt: 5 };
        assert_eq!(Meta::decode(&meta.encode()), Some(meta));
        for byte in 0..META {
            let mut flipped = meta.encode();
            flipped[byte] ^= 0x10;
            assert_eq!(Meta::decode(&flipped), None);
        }
    }
}
