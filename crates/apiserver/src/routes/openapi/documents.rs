//! [`OpenApiDocuments`]: the OpenAPI documents of one catalog and their hashes.
//!
//! The index has the hashes of all documents, so that hashes must be known before documents are
//! built. A hash is therefore not that of the document but of everything that the document is built
//! from, which is much faster to compute.

use std::collections::BTreeMap;

use ring::digest::{Context, SHA512};

use super::document;
use crate::cache::watch_cache::Head;
use crate::routes::discovery::subresources;
use crate::storage::catalog::Catalog;
use crate::storage::documents::{Compressed, Format};
use machinery::{Map, Value, json};
use schema::openapi::gnostic;

/// The index path of the document of `/version`.
pub(super) const VERSION: &str = "version";

/// See the [module documentation](self).
#[derive(Clone, Copy)]
pub(super) struct OpenApiDocuments<'a>(pub &'a Catalog);

impl<'a> OpenApiDocuments<'a> {
    /// The version 3 document of a group version.
    pub(super) fn version_3(self, group: &str, version: &str) -> Compressed {
        self.get(&index_path(group, version), Format::Json, || {
            document::version_3(self.0, group, version).to_string().into_bytes()
        })
    }

    /// The document of `/version`.
    pub(super) fn version_document(self) -> Compressed {
        self.get(VERSION, Format::Json, || document::version_document().to_string().into_bytes())
    }

    /// The version 2 document of all groups.
    pub(super) fn version_2(self, format: Format) -> Compressed {
        self.get("", format, || {
            let document = document::version_2(self.0);
            match format {
                Format::Json => document.to_string().into_bytes(),
                Format::Protobuf => gnostic::encode(&document),
            }
        })
    }

    /// The version 2 document with the additions of aggregated API servers.
    pub(super) fn merged(
        self,
        format: Format,
        hash: &str,
        make: impl FnOnce() -> Vec<u8>,
    ) -> Compressed {
        self.0.documents.merged_openapi(format, hash, make)
    }

    fn get(self, path: &str, format: Format, make: impl FnOnce() -> Vec<u8>) -> Compressed {
        self.0.documents.openapi(path, format, make)
    }

    /// The index of the version 3 documents, and its `ETag`.
    pub(super) fn index(self) -> (String, String) {
        let hashes = self.hashes();
        let paths: Map<String, Value> = hashes
            .iter()
            .map(|(index_path, hash)| {
                (index_path.clone(), json!({"serverRelativeURL": relative_url(index_path, hash)}))
            })
            .collect();
        let etag = format!("\"{}\"", self.version_2_hash());
        (json!({"paths": paths}).to_string(), etag)
    }

    /// The hash of a version 3 document; "" for an unknown index path.
    pub(super) fn hash(self, index_path: &str) -> &'a str {
        self.hashes().get(index_path).map_or("", String::as_str)
    }

    /// The hash of the version 2 document.
    pub(super) fn version_2_hash(self) -> String {
        let mut context = Context::new(&SHA512);
        self.hashes().values().for_each(|hash| context.update(hash.as_bytes()));
        hexadecimal(context)
    }

    fn hashes(self) -> &'a BTreeMap<String, String> {
        let catalog = self.0;
        catalog.documents.openapi_hashes.get_or_init(|| {
            let mut hashes = BTreeMap::new();
            for group in catalog.groups() {
                for version in &group.versions {
                    let hash = hash(catalog, &group.name, version);
                    hashes.insert(index_path(&group.name, version), hash);
                }
            }
            let mut context = Context::new(&SHA512);
            context.update(document::version_document().to_string().as_bytes());
            hashes.insert(VERSION.to_owned(), hexadecimal(context));
            hashes
        })
    }
}

/// The path of a group version in the index, such as `api/v1` or `apis/apps/v1`.
pub(super) fn index_path(group: &str, version: &str) -> String {
    match group {
        "" => format!("api/{version}"),
        group => format!("apis/{group}/{version}"),
    }
}

/// The URL of the document at an index path, as long as the document has this hash.
pub(super) fn relative_url(index_path: &str, hash: &str) -> String {
    format!("/openapi/v3/{index_path}?hash={hash}")
}

/// A hash of everything that the document of a group version is built from.
fn hash(catalog: &Catalog, group: &str, version: &str) -> String {
    let mut context = Context::new(&SHA512);
    context.update(env!("CARGO_PKG_VERSION").as_bytes());
    context.update(types::openapi::FINGERPRINT.as_bytes());
    context.update(index_path(group, version).as_bytes());
    for (served, index) in catalog.resources(group, version) {
        let resource = &served.resource;
        let names: Vec<&str> = subresources(served, index).iter().map(|it| it.name).collect();
        let fields = (&resource.plural, &resource.kind, &resource.list_kind, resource.namespaced);
        context.update(format!("{fields:?} {names:?}").as_bytes());
        if let Some(crd) = document::crd(catalog, resource) {
            let mut bytes = Vec::with_capacity(crd.len());
            crd.write(&mut bytes, Head::Stored, crd.revision);
            context.update(&bytes);
        }
    }
    hexadecimal(context)
}

pub(super) fn hexadecimal(context: Context) -> String {
    context.finish().as_ref().iter().fold(String::new(), |text, byte| format!("{text}{byte:02X}"))
}
