//! [`Body`]: the JSON of an object, in one of the forms that it has between the wire and the cache.

use std::{borrow::Cow, cell::Cell, ops::Range, sync::Arc};

use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::{
    outline::{cut_of, find_path},
    packing::Dictionary,
};

/// See the [module documentation](self).
pub(super) enum Body {
    /// As it came.
    Fresh(Box<Fresh>),
    Plain(Box<[u8]>),
    Packed(Box<[u8]>, Arc<Dictionary>),
}

/// An object in a buffer that it has in common with others: not the form in which to keep it.
pub(super) struct Fresh {
    json: Bytes,
    /// Where `metadata.managedFields` are, as far as reading it has shown.
    managed_fields: Option<Range<usize>>,
}

thread_local! {
    /// Memory that each decoding needs for a moment, left for the next one; empty in between.
    static UNPACKED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// What an object that is larger than this needed is given back.
const LARGEST_UNPACKED: usize = 64 << 10;

impl Body {
    pub(super) fn fresh(json: Bytes, managed_fields: Option<Range<usize>>) -> Self {
        Self::Fresh(Box::new(Fresh { json, managed_fields }))
    }

    pub(super) fn json(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Fresh(fresh) => Cow::Borrowed(&fresh.json),
            Self::Plain(json) => Cow::Borrowed(json),
            Self::Packed(packed, dictionary) => {
                let mut json = Vec::new();
                dictionary.unpack(packed, &mut json);
                Cow::Owned(json)
            }
        }
    }

    /// The length of the JSON, and what it says.
    pub(super) fn decode<T: DeserializeOwned>(&self) -> (usize, Result<T, serde_json::Error>) {
        let (packed, dictionary) = match self {
            Self::Fresh(fresh) => return (fresh.json.len(), serde_json::from_slice(&fresh.json)),
            Self::Plain(json) => return (json.len(), serde_json::from_slice(json)),
            Self::Packed(packed, dictionary) => (packed, dictionary),
        };
        // Reading may lead to reading: whoever is within gets memory of their own.
        let mut json = UNPACKED.take();
        dictionary.unpack(packed, &mut json);
        let (length, decoded) = (json.len(), serde_json::from_slice(&json));
        if json.capacity() <= LARGEST_UNPACKED {
            json.clear();
            UNPACKED.set(json);
        }
        (length, decoded)
    }

    /// What to cut out of the JSON so that no managedFields are left.
    pub(super) fn managed_fields(&self) -> Option<Range<usize>> {
        let known = match self {
            Self::Fresh(fresh) => fresh.managed_fields.clone(),
            Self::Plain(_) | Self::Packed(..) => None,
        };
        let json = self.json();
        let member = known.or_else(|| find_path(&json, &["metadata", "managedFields"]))?;
        Some(cut_of(&json, member))
    }

    /// In memory.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Fresh(fresh) => fresh.json.len(),
            Self::Plain(bytes) | Self::Packed(bytes, _) => bytes.len(),
        }
    }
}
