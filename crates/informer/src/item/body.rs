//! [`Body`]: the JSON of an object, in one of the forms that it has between the wire and the cache.

use std::{
    cell::Cell,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
    thread::LocalKey,
};

use bytes::Bytes;
use serde::Deserialize;

use crate::{
    outline::{cut_of, find_path},
    own_words::OwnWords,
    packing::Dictionary,
};

/// See the [module documentation](self).
pub(super) enum Body {
    Plain(Box<Plain>),
    Packed(Box<[u8]>, Arc<Dictionary>),
}

/// JSON as it is: in a buffer that it has in common with others, as it came, or in one of its own.
pub(super) struct Plain {
    json: Bytes,
    /// Where `metadata.managedFields` are, as far as reading it has shown.
    managed_fields: Option<Range<usize>>,
}

thread_local! {
    /// Memory that each decoding needs for a moment, left for the next one; empty in between.
    static UNPACKED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    /// The same for what has marks still.
    static TEXT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// What an object that is larger than this needed is given back.
const LARGEST_UNPACKED: usize = 64 << 10;

impl Body {
    pub(super) fn plain(json: Bytes, managed_fields: Option<Range<usize>>) -> Self {
        Self::Plain(Box::new(Plain { json, managed_fields }))
    }

    /// `own` are the words of the object that this is the body of.
    pub(super) fn json(&self, own: OwnWords<'_>) -> Bytes {
        match self {
            Self::Plain(plain) => plain.json.clone(),
            Self::Packed(packed, dictionary) => {
                let (mut json, mut text) = (Vec::new(), TEXT.take());
                dictionary.unpack(packed, own, &mut text, &mut json);
                keep(&TEXT, text);
                json.into()
            }
        }
    }

    /// What to cut out of its JSON so that no managedFields are left.
    pub(super) fn managed_fields(&self, json: &[u8]) -> Option<Range<usize>> {
        let known = match self {
            Self::Plain(plain) => plain.managed_fields.clone(),
            Self::Packed(..) => None,
        };
        let member = known.or_else(|| find_path(json, &["metadata", "managedFields"]))?;
        Some(cut_of(json, member))
    }

    /// In memory.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Plain(plain) => plain.json.len(),
            Self::Packed(packed, _) => packed.len(),
        }
    }
}

/// What the JSON says. It is looked through once for whether it is UTF-8, which is faster than string
/// by string.
pub(super) fn parse<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, serde_json::Error> {
    match str::from_utf8(json) {
        Ok(text) => serde_json::from_str(text),
        // Bytes that are not may well be where nobody reads.
        Err(_) => serde_json::from_slice(json),
    }
}

/// Lets `read` read the JSON of a body, which is not locked meanwhile: reading runs foreign code.
pub(super) fn read<T>(body: &Mutex<Body>, own: OwnWords<'_>, read: impl FnOnce(&[u8]) -> T) -> T {
    let locked = body.lock().unwrap_or_else(PoisonError::into_inner);
    let (packed, dictionary) = match &*locked {
        Body::Plain(plain) => {
            let json = plain.json.clone();
            drop(locked);
            return read(&json);
        }
        Body::Packed(packed, dictionary) => (packed, dictionary),
    };
    // Reading may lead to reading: whoever is within gets memory of their own.
    let mut json = UNPACKED.take();
    let mut text = TEXT.take();
    dictionary.unpack(packed, own, &mut text, &mut json);
    drop(locked);
    keep(&TEXT, text);
    let result = read(&json);
    keep(&UNPACKED, json);
    result
}

fn keep(place: &'static LocalKey<Cell<Vec<u8>>>, mut memory: Vec<u8>) {
    if memory.capacity() <= LARGEST_UNPACKED {
        memory.clear();
        place.set(memory);
    }
}
