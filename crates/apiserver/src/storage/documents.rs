//! [`Documents`]: discovery and OpenAPI documents of one catalog, each made for the first request.
//!
//! An OpenAPI document is half a megabyte of repetitive text. It is stored compressed, at a quarter of
//! its size, and is sent as it is to every client that accepts gzip. When a CRD changes, the catalog
//! is replaced, and its documents with it.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct Documents {
    /// The entity tag and the body of aggregated discovery for `/apis`.
    pub aggregated: OnceLock<(String, Bytes)>,
    /// The entity tag and the body of aggregated discovery for `/api`.
    pub aggregated_core: OnceLock<(String, Bytes)>,
    /// The hashes of OpenAPI documents, by path: `apis/apps/v1`.
    pub openapi_hashes: OnceLock<BTreeMap<String, String>>,
    /// OpenAPI documents by path and format; that of version 2 is at "". Never locked while a document
    /// is made: two concurrent requests may both make it, and one of the results is dropped.
    openapi: Mutex<HashMap<(String, Format), Compressed>>,
    /// Locked while a document is made, so that one is made at a time.
    merged: Mutex<MergedOpenApi>,
}

/// The OpenAPI documents of version 2 that include the documents of aggregated API servers.
#[derive(Default)]
struct MergedOpenApi {
    /// The hash of the merged documents.
    hash: String,
    by_format: HashMap<Format, Compressed>,
}

impl Documents {
    /// The OpenAPI document at a path.
    pub(crate) fn openapi(
        &self,
        path: &str,
        format: Format,
        make: impl FnOnce() -> Vec<u8>,
    ) -> Compressed {
        let key = (path.to_owned(), format);
        let documents = || self.openapi.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(document) = documents().get(&key) {
            return document.clone();
        }
        let document = Compressed::compress(&make());
        documents().entry(key).or_insert(document).clone()
    }

    /// The OpenAPI document of version 2 that includes the documents of aggregated API servers. It is
    /// made for the first request after `hash` has changed, and shared by all others.
    pub(crate) fn merged_openapi(
        &self,
        format: Format,
        hash: &str,
        make: impl FnOnce() -> Vec<u8>,
    ) -> Compressed {
        let mut merged = self.merged.lock().unwrap_or_else(PoisonError::into_inner);
        if merged.hash != hash {
            *merged = MergedOpenApi { hash: hash.to_owned(), by_format: HashMap::new() };
        }
        merged.by_format.entry(format).or_insert_with(|| Compressed::compress(&make())).clone()
    }
}

/// The format of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Format {
    Json,
    Protobuf,
}

/// A document in gzip's format. All clients that do not accept gzip share one uncompressed copy while
/// one of them reads it.
#[derive(Debug, Clone)]
pub(crate) struct Compressed {
    pub gzip: Bytes,
    uncompressed: Arc<Mutex<Weak<Vec<u8>>>>,
}

impl Compressed {
    fn compress(document: &[u8]) -> Self {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(document).expect("a write to a Vec does not fail");
        Self::of(encoder.finish().expect("a write to a Vec does not fail").into())
    }

    /// A document that is already compressed.
    pub(crate) fn of(gzip: Bytes) -> Self {
        Self { gzip, uncompressed: Arc::default() }
    }

    /// The uncompressed document.
    pub(crate) fn decompress(&self) -> Bytes {
        // Locked while one request decompresses it, so that others wait and share the result.
        let mut uncompressed = self.uncompressed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(document) = uncompressed.upgrade() {
            return Bytes::from_owner(Uncompressed(document));
        }
        let mut document = Vec::new();
        GzDecoder::new(&*self.gzip)
            .read_to_end(&mut document)
            .expect("the data was compressed by this server");
        document.shrink_to_fit();
        let document = Arc::new(document);
        *uncompressed = Arc::downgrade(&document);
        Bytes::from_owner(Uncompressed(document))
    }
}

/// The memory of an uncompressed document, released with its last reader.
struct Uncompressed(Arc<Vec<u8>>);

impl AsRef<[u8]> for Uncompressed {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
