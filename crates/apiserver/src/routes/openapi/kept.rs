//! [`Kept`]: the OpenAPI documents of one catalog, each made for the first who asks.
//!
//! A document is half a megabyte of text that repeats itself, so it is kept packed,
//! at a quarter of its size, and goes out as it is to everyone who can unpack it. When the
//! definitions change, the catalog is replaced, and its documents with it.
//!
//! Hashes must be known before documents are: the index has those of all. So a hash is not that of
//! the document but of all that the document is made of, which is far quicker to read.

use super::document;
use crate::catalog::Catalog;
use crate::routes::discovery::below;
use crate::watch_cache::Head;
use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use machinery::{Map, Value, json};
use ring::digest::{Context, SHA512};
use schema::openapi::gnostic;
use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// The place of the document of `/version`.
pub(super) const VERSION: &str = "version";

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct Kept {
    /// By place: `apis/apps/v1`.
    hashes: OnceLock<BTreeMap<String, String>>,
    /// By place and form; the whole of version 2 is at "". Never locked while a document is made:
    /// of two who ask at once, both may make it, and one is thrown away.
    documents: Mutex<HashMap<(String, Form), Packed>>,
    /// The latest documents of version 2 with what aggregated servers add, as they were last asked
    /// for, and their hash. Locked while a document is made, so that one is made at a time.
    merged: Mutex<(String, HashMap<Form, Packed>)>,
}

/// How a document is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Form {
    Json,
    Protobuf,
}

/// A document in gzip's format. Whoever cannot unpack it shares one unpacked copy with all others
/// who read it at the time.
#[derive(Debug, Clone)]
pub(super) struct Packed {
    pub gzip: Bytes,
    unpacked: Arc<Mutex<Weak<Vec<u8>>>>,
}

impl Packed {
    fn pack(document: &[u8]) -> Self {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(document).expect("memory takes all");
        Self::of(encoder.finish().expect("memory takes all").into())
    }

    /// A document that is packed already.
    pub(super) fn of(gzip: Bytes) -> Self {
        Self { gzip, unpacked: Arc::default() }
    }

    /// The document as it is.
    pub(super) fn unpack(&self) -> Bytes {
        // Of many who ask at once, one unpacks it and the others wait: all unpacking at once is
        // what must not happen.
        let mut unpacked = self.unpacked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(document) = unpacked.upgrade() {
            return Bytes::from_owner(Unpacked(document));
        }
        let mut document = Vec::new();
        GzDecoder::new(&*self.gzip).read_to_end(&mut document).expect("it was packed here");
        document.shrink_to_fit();
        let document = Arc::new(document);
        *unpacked = Arc::downgrade(&document);
        Bytes::from_owner(Unpacked(document))
    }
}

/// The memory of an unpacked document, gone with the last who reads it.
struct Unpacked(Arc<Vec<u8>>);

impl AsRef<[u8]> for Unpacked {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Kept {
    /// The document of a group's version.
    pub(super) fn version_3(&self, catalog: &Catalog, group: &str, version: &str) -> Packed {
        self.get(&place(group, version), Form::Json, || {
            document::version_3(catalog, group, version).to_string().into_bytes()
        })
    }

    /// The document of `/version`.
    pub(super) fn of_version(&self) -> Packed {
        self.get(VERSION, Form::Json, || document::of_version().to_string().into_bytes())
    }

    /// The document of everything.
    pub(super) fn version_2(&self, catalog: &Catalog, form: Form) -> Packed {
        self.get("", form, || {
            let document = document::version_2(catalog);
            match form {
                Form::Json => document.to_string().into_bytes(),
                Form::Protobuf => gnostic::encode(&document),
            }
        })
    }

    /// The document of everything with what aggregated servers add. It is made for the first who
    /// asks after `hash` has changed, and shared by all others.
    pub(super) fn merged(&self, form: Form, hash: &str, make: impl FnOnce() -> Vec<u8>) -> Packed {
        let mut merged = self.merged.lock().unwrap_or_else(PoisonError::into_inner);
        if merged.0 != hash {
            *merged = (hash.to_owned(), HashMap::new());
        }
        merged.1.entry(form).or_insert_with(|| Packed::pack(&make())).clone()
    }

    fn get(&self, place: &str, form: Form, make: impl FnOnce() -> Vec<u8>) -> Packed {
        let key = (place.to_owned(), form);
        let documents = || self.documents.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(document) = documents().get(&key) {
            return document.clone();
        }
        let document = Packed::pack(&make());
        documents().entry(key).or_insert(document).clone()
    }

    /// Where all documents of version 3 are, and the `ETag` of that list.
    pub(super) fn index(&self, catalog: &Catalog) -> (String, String) {
        let hashes = self.hashes(catalog);
        let paths: Map<String, Value> = hashes
            .iter()
            .map(|(place, hash)| {
                (place.clone(), json!({"serverRelativeURL": address(place, hash)}))
            })
            .collect();
        let etag = format!("\"{}\"", self.hash_of_all(catalog));
        (json!({"paths": paths}).to_string(), etag)
    }

    /// The hash of a document of version 3 that there is.
    pub(super) fn hash(&self, catalog: &Catalog, place: &str) -> &str {
        self.hashes(catalog).get(place).map_or("", String::as_str)
    }

    /// The hash of the document of version 2.
    pub(super) fn hash_of_all(&self, catalog: &Catalog) -> String {
        let mut context = Context::new(&SHA512);
        self.hashes(catalog).values().for_each(|hash| context.update(hash.as_bytes()));
        hexadecimal(context)
    }

    fn hashes(&self, catalog: &Catalog) -> &BTreeMap<String, String> {
        self.hashes.get_or_init(|| {
            let mut hashes = BTreeMap::new();
            for group in catalog.groups() {
                for version in &group.versions {
                    let hash = hash(catalog, &group.name, version);
                    hashes.insert(place(&group.name, version), hash);
                }
            }
            let mut context = Context::new(&SHA512);
            context.update(document::of_version().to_string().as_bytes());
            hashes.insert(VERSION.to_owned(), hexadecimal(context));
            hashes
        })
    }
}

/// `api/v1`, `apis/apps/v1`
pub(super) fn place(group: &str, version: &str) -> String {
    match group {
        "" => format!("api/{version}"),
        group => format!("apis/{group}/{version}"),
    }
}

/// Where the document at a place is, as long as it has this hash.
pub(super) fn address(place: &str, hash: &str) -> String {
    format!("/openapi/v3/{place}?hash={hash}")
}

/// A hash of all that the document of a group's version is made of.
fn hash(catalog: &Catalog, group: &str, version: &str) -> String {
    let mut context = Context::new(&SHA512);
    context.update(env!("CARGO_PKG_VERSION").as_bytes());
    context.update(types::openapi::FINGERPRINT.as_bytes());
    context.update(place(group, version).as_bytes());
    for (served, index) in catalog.resources(group, version) {
        let resource = &served.resource;
        let below: Vec<&str> = below(served, index).iter().map(|it| it.name).collect();
        let facts = (&resource.plural, &resource.kind, &resource.list_kind, resource.namespaced);
        context.update(format!("{facts:?} {below:?}").as_bytes());
        if let Some(definition) = document::definition(catalog, resource) {
            let mut bytes = Vec::with_capacity(definition.len());
            definition.write(&mut bytes, Head::Stored, definition.revision);
            context.update(&bytes);
        }
    }
    hexadecimal(context)
}

pub(super) fn hexadecimal(context: Context) -> String {
    context.finish().as_ref().iter().fold(String::new(), |text, byte| format!("{text}{byte:02X}"))
}
