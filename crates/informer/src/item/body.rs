//! [`Body`]: the JSON of an object: plain, packed, or shared with a server in this process.

use std::cell::Cell;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde::Deserialize;
use serde::de::Error as _;

use super::shared_json::SharedJson;
use crate::json_dictionary::JsonDictionary;
use crate::json_spans::{find_member, removal_of};

/// See the [module documentation](self). It has two variants, so that it is as small as the larger
/// one.
pub(super) enum Body {
    Unpacked(Box<Unpacked>),
    Packed(Box<[u8]>, Arc<JsonDictionary>),
}

/// JSON that is not packed.
pub(super) enum Unpacked {
    Plain(Plain),
    Shared(SharedJson),
}

/// Plain JSON, in a buffer of its own or in a part of a received buffer.
pub(super) struct Plain {
    json: Bytes,
    /// The position of `metadata.managedFields`; empty if it is not known.
    managed_fields: (u32, u32),
}

thread_local! {
    /// A buffer for unpacked or assembled JSON, which is reused for the next object; empty in between.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The buffer of an object that is larger than this is not reused.
const MAX_BUFFER: usize = 64 << 10;

impl Body {
    pub(super) fn plain(json: Bytes, managed_fields: Option<Range<usize>>) -> Self {
        let positions =
            |it: Range<usize>| Some((u32::try_from(it.start).ok()?, u32::try_from(it.end).ok()?));
        let managed_fields = managed_fields.and_then(positions).unwrap_or_default();
        Self::Unpacked(Box::new(Unpacked::Plain(Plain { json, managed_fields })))
    }

    pub(super) fn shared(json: SharedJson) -> Self {
        Self::Unpacked(Box::new(Unpacked::Shared(json)))
    }

    pub(super) fn as_plain(&self) -> Option<&Bytes> {
        match self.as_unpacked()? {
            Unpacked::Plain(plain) => Some(&plain.json),
            Unpacked::Shared(_) => None,
        }
    }

    pub(super) fn as_shared(&self) -> Option<&SharedJson> {
        match self.as_unpacked()? {
            Unpacked::Plain(_) => None,
            Unpacked::Shared(shared) => Some(shared),
        }
    }

    fn as_unpacked(&self) -> Option<&Unpacked> {
        match self {
            Self::Unpacked(unpacked) => Some(unpacked),
            Self::Packed(..) => None,
        }
    }

    pub(super) fn json(&self, resource_version: &str) -> Bytes {
        if let Some(plain) = self.as_plain() {
            return plain.clone();
        }
        let mut json = Vec::new();
        self.write(resource_version, &mut json);
        json.into()
    }

    /// Appends the JSON.
    fn write(&self, resource_version: &str, out: &mut Vec<u8>) {
        match self {
            Self::Unpacked(unpacked) => match &**unpacked {
                Unpacked::Plain(plain) => out.extend_from_slice(&plain.json),
                Unpacked::Shared(shared) => shared.write(resource_version, out),
            },
            Self::Packed(packed, dictionary) => dictionary.unpack(packed, out),
        }
    }

    /// The range of its JSON to remove so that no managedFields are left.
    pub(super) fn managed_fields(&self, json: &[u8]) -> Option<Range<usize>> {
        let known = match self.as_unpacked() {
            Some(Unpacked::Plain(plain)) => Some(plain.managed_fields).filter(|it| it.1 > 0),
            Some(Unpacked::Shared(_)) | None => None,
        };
        let known = known.map(|(start, end)| start as usize..end as usize);
        let member = known.or_else(|| find_member(json, &["metadata", "managedFields"]))?;
        Some(removal_of(json, member))
    }

    /// The number of bytes in memory.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Unpacked(unpacked) => match &**unpacked {
                Unpacked::Plain(plain) => plain.json.len(),
                Unpacked::Shared(shared) => shared.bytes().len(),
            },
            Self::Packed(packed, _) => packed.len(),
        }
    }
}

/// Decodes JSON. The UTF-8 of the whole text is checked at once, which is faster than checking each
/// string.
pub(super) fn parse<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, serde_json::Error> {
    let text = str::from_utf8(json).map_err(serde_json::Error::custom)?;
    serde_json::from_str(text)
}

/// Calls `read` with the JSON of a body, which is not locked meanwhile: decoding runs code of the
/// type.
pub(super) fn read<T>(
    body: &Mutex<Body>,
    resource_version: &str,
    read: impl FnOnce(&[u8]) -> T,
) -> T {
    let locked = body.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(plain) = locked.as_plain() {
        let json = plain.clone();
        drop(locked);
        return read(&json);
    }
    // A nested read finds no buffer, and allocates one.
    let mut json = BUFFER.take();
    locked.write(resource_version, &mut json);
    drop(locked);
    let result = read(&json);
    if json.capacity() <= MAX_BUFFER {
        json.clear();
        BUFFER.set(json);
    }
    result
}
