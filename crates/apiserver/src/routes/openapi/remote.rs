//! The index and the version 2 document with the additions of aggregated API servers. The merged
//! version 2 document is built once for each change of its parts.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::header::HeaderValue;
use http::{HeaderMap, Response, StatusCode};
use ring::digest::{Context, SHA512};
use serde_json::value::RawValue;

use super::documents::{OpenApiDocuments, hexadecimal};
use super::{
    Format, VARY, accepted_version_2_format, compressed, empty_response, set_header,
    unless_not_modified,
};
use crate::extensions::aggregation::{OpenApiPart, PathsAndDefinitions};
use crate::http::body::Body;
use crate::plane::Plane;
use crate::storage::catalog::Catalog;
use machinery::{Value, json};
use schema::openapi::gnostic;

/// Serves `/openapi/v3`.
pub(super) fn index(plane: &Plane, catalog: &Catalog, headers: &HeaderMap) -> Response<Body> {
    let (document, _) = OpenApiDocuments(catalog).index();
    let mut document: Value =
        serde_json::from_str(&document).expect("the document was written by this server");
    for remote in plane.aggregation.remotes().iter() {
        let remote_documents = plane.aggregation.documents(remote);
        if let Some(address) = remote_documents.and_then(|it| it.openapi_v3.clone()) {
            let index_path = super::documents::index_path(&remote.group, &remote.version);
            document["paths"][index_path] = json!({"serverRelativeURL": address});
        }
    }
    let document = document.to_string();
    let etag = etag(document.as_bytes());
    let mut response =
        unless_not_modified(headers, &etag, "text/plain; charset=utf-8", || document.into());
    set_header(&mut response, VARY, HeaderValue::from_static("Accept"));
    response
}

/// Serves `/openapi/v2`.
pub(super) fn version_2(plane: &Plane, catalog: &Catalog, headers: &HeaderMap) -> Response<Body> {
    let parts = plane.aggregation.openapi_parts();
    if parts.is_empty() {
        return super::version_2(catalog, headers);
    }
    let Some((format, content_type)) = accepted_version_2_format(headers) else {
        return empty_response(StatusCode::NOT_ACCEPTABLE);
    };
    let documents = OpenApiDocuments(catalog);
    let hash = hash(&documents.version_2_hash(), &parts);
    compressed(headers, &hash, content_type, || {
        documents.merged(format, &hash, || {
            let local = documents.version_2(Format::Json).decompress();
            match format {
                Format::Json => merged_json(&local, &parts),
                Format::Protobuf => {
                    let protobuf = documents.version_2(Format::Protobuf).decompress();
                    merged_protobuf(&protobuf, &local, &parts)
                }
            }
        })
    })
}

/// The hash of a merged document. It is computed before the document is built.
fn hash(local: &str, parts: &[Arc<OpenApiPart>]) -> String {
    let mut context = Context::new(&SHA512);
    context.update(local.as_bytes());
    for part in parts {
        context.update(part.digest());
    }
    hexadecimal(context)
}

/// The paths and definitions of the parts that the local document does not have. If two parts have
/// the same one, that of the first part is used.
fn additions<'a>(
    local: &PathsAndDefinitions<'_>,
    parts: &'a [Arc<OpenApiPart>],
) -> PathsAndDefinitions<'a> {
    let mut added = PathsAndDefinitions::default();
    for part in parts {
        let pieces = part.paths_and_definitions();
        for (name, piece) in pieces.paths {
            if !local.paths.contains_key(&name) {
                added.paths.entry(name).or_insert(piece);
            }
        }
        for (name, piece) in pieces.definitions {
            if !local.definitions.contains_key(&name) {
                added.definitions.entry(name).or_insert(piece);
            }
        }
    }
    added
}

/// The local document in JSON with the additions of the parts.
fn merged_json(local: &[u8], parts: &[Arc<OpenApiPart>]) -> Vec<u8> {
    const LOCAL: &str = "the document was written by this server";
    let mut pieces: PathsAndDefinitions<'_> = serde_json::from_slice(local).expect(LOCAL);
    let added = additions(&pieces, parts);
    pieces.paths.extend(added.paths);
    pieces.definitions.extend(added.definitions);
    let raw = |it| serde_json::value::to_raw_value(it).expect("a map of texts serializes to JSON");
    let (paths, definitions) = (raw(&pieces.paths), raw(&pieces.definitions));
    let mut document: BTreeMap<String, &RawValue> = serde_json::from_slice(local).expect(LOCAL);
    document.insert("paths".to_owned(), &paths);
    document.insert("definitions".to_owned(), &definitions);
    serde_json::to_vec(&document).expect(LOCAL)
}

/// The local document in protobuf with the additions of the parts. Protobuf merges concatenated
/// messages: their lists of paths and definitions become one. One path or definition at a time is
/// decoded.
fn merged_protobuf(protobuf: &[u8], local: &[u8], parts: &[Arc<OpenApiPart>]) -> Vec<u8> {
    let local: PathsAndDefinitions<'_> =
        serde_json::from_slice(local).expect("the document was written by this server");
    let added = additions(&local, parts);
    let mut document = protobuf.to_vec();
    for (field, pieces) in [("paths", added.paths), ("definitions", added.definitions)] {
        for (name, piece) in pieces {
            let piece: Value = serde_json::from_str(piece.get())
                .expect("the depth was checked when the document was received");
            document.extend(gnostic::encode(&json!({field: {name: piece}})));
        }
    }
    document
}

fn etag(bytes: &[u8]) -> String {
    let mut context = Context::new(&SHA512);
    context.update(bytes);
    format!("\"{}\"", hexadecimal(context))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(document: &Value) -> Arc<OpenApiPart> {
        let document = document.to_string();
        Arc::new(OpenApiPart::from_document(document.as_bytes(), "/apis/g/v1").unwrap())
    }

    fn parts() -> [Arc<OpenApiPart>; 2] {
        let refer = |name: &str| json!({"$ref": format!("#/definitions/{name}")});
        let first = json!({
            "paths": {"/apis/g/v1/x": [refer("A"), refer("B")]},
            "definitions": {"A": {"type": "theirs"}, "B": {"type": "first"}},
        });
        let second = json!({
            "paths": {"/apis/g/v1/y": {"get": refer("B")}, "/apis/g/v1/local": refer("B")},
            "definitions": {"B": {"type": "second"}},
        });
        [part(&first), part(&second)]
    }

    fn local() -> Value {
        json!({"info": {"title": "a"}, "paths": {"/apis/g/v1/local": {}}, "definitions": {"A": {}}})
    }

    #[test]
    fn aggregated_servers_add_paths_and_never_change_local_ones() {
        let merged = merged_json(local().to_string().as_bytes(), &parts());
        let merged: Value = serde_json::from_slice(&merged).unwrap();
        assert_eq!(merged["info"], local()["info"]);
        let paths: Vec<_> = merged["paths"].as_object().unwrap().keys().collect();
        assert_eq!(paths, ["/apis/g/v1/local", "/apis/g/v1/x", "/apis/g/v1/y"]);
        assert_eq!(merged["paths"]["/apis/g/v1/local"], json!({}));
        assert_eq!(merged["definitions"], json!({"A": {}, "B": {"type": "first"}}));
    }

    #[test]
    fn merged_protobuf_appends_the_additions() {
        let protobuf = gnostic::encode(&local());
        let merged = merged_protobuf(&protobuf, local().to_string().as_bytes(), &parts());
        let added = merged.strip_prefix(&*protobuf).unwrap();
        let definition = gnostic::encode(&json!({"definitions": {"B": {"type": "first"}}}));
        assert!(added.ends_with(&definition));
    }

    #[test]
    fn the_hash_changes_with_each_part() {
        let [first, second] = parts();
        assert_ne!(hash("a", &[Arc::clone(&first)]), hash("a", &[second]));
        assert_ne!(hash("a", &[Arc::clone(&first)]), hash("b", &[first]));
    }
}
