//! [`Body`]: the JSON of an object, plain or packed.

use std::cell::Cell;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde::Deserialize;

use crate::json_dictionary::JsonDictionary;
use crate::json_spans::{find_member, removal_of};

/// See the [module documentation](self).
pub(super) enum Body {
    Plain(Box<Plain>),
    Packed(Box<[u8]>, Arc<JsonDictionary>),
}

/// Plain JSON, in a buffer of its own or in a part of a received buffer.
pub(super) struct Plain {
    json: Bytes,
    /// The position of `metadata.managedFields`, if it is known.
    managed_fields: Option<Range<usize>>,
}

thread_local! {
    /// A buffer for unpacked JSON, which is reused for the next object; empty in between.
    static UNPACKED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The buffer of an object that is larger than this is not reused.
const MAX_BUFFER: usize = 64 << 10;

impl Body {
    pub(super) fn plain(json: Bytes, managed_fields: Option<Range<usize>>) -> Self {
        Self::Plain(Box::new(Plain { json, managed_fields }))
    }

    pub(super) fn json(&self) -> Bytes {
        match self {
            Self::Plain(plain) => plain.json.clone(),
            Self::Packed(packed, dictionary) => {
                let mut json = Vec::new();
                dictionary.unpack(packed, &mut json);
                json.into()
            }
        }
    }

    /// The range of its JSON to remove so that no managedFields are left.
    pub(super) fn managed_fields(&self, json: &[u8]) -> Option<Range<usize>> {
        let known = match self {
            Self::Plain(plain) => plain.managed_fields.clone(),
            Self::Packed(..) => None,
        };
        let member = known.or_else(|| find_member(json, &["metadata", "managedFields"]))?;
        Some(removal_of(json, member))
    }

    /// The number of bytes in memory.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Plain(plain) => plain.json.len(),
            Self::Packed(packed, _) => packed.len(),
        }
    }
}

/// Decodes JSON. The UTF-8 of the whole text is checked at once, which is faster than checking each
/// string.
pub(super) fn parse<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, serde_json::Error> {
    match str::from_utf8(json) {
        Ok(text) => serde_json::from_str(text),
        // Bytes that are not UTF-8 may be in a part that `T` leaves out.
        Err(_) => serde_json::from_slice(json),
    }
}

/// Calls `read` with the JSON of a body, which is not locked meanwhile: decoding runs code of the
/// type.
pub(super) fn read<T>(body: &Mutex<Body>, read: impl FnOnce(&[u8]) -> T) -> T {
    let locked = body.lock().unwrap_or_else(PoisonError::into_inner);
    let (packed, dictionary) = match &*locked {
        Body::Plain(plain) => {
            let json = plain.json.clone();
            drop(locked);
            return read(&json);
        }
        Body::Packed(packed, dictionary) => (packed, dictionary),
    };
    // A nested read finds no buffer, and allocates one.
    let mut json = UNPACKED.take();
    dictionary.unpack(packed, &mut json);
    drop(locked);
    let result = read(&json);
    if json.capacity() <= MAX_BUFFER {
        json.clear();
        UNPACKED.set(json);
    }
    result
}
