//! The documents that tell of everything, with what others serve in them. The document of version 2
//! is made once for each change of its parts.

use super::documents::{OpenApiDocuments, hexadecimal};
use super::{Format, VARY, accepted_of_version_2, nothing, packed, set, unless_known};
use crate::cache::catalog::Catalog;
use crate::extensions::aggregation::{OpenApiPart, PathsAndDefinitions};
use crate::http::body::Body;
use crate::plane::Plane;
use http::header::HeaderValue;
use http::{HeaderMap, Response, StatusCode};
use machinery::{Value, json};
use ring::digest::{Context, SHA512};
use schema::openapi::gnostic;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::Arc;

/// `/openapi/v3`
pub(super) fn index(plane: &Plane, catalog: &Catalog, headers: &HeaderMap) -> Response<Body> {
    let (document, _) = OpenApiDocuments(catalog).index();
    let mut document: Value = serde_json::from_str(&document).expect("it was written here");
    for remote in plane.aggregation.remotes().iter() {
        let documents = plane.aggregation.documents(remote);
        if let Some(address) = documents.and_then(|it| it.openapi_v3.clone()) {
            let place = super::documents::place(&remote.group, &remote.version);
            document["paths"][place] = json!({"serverRelativeURL": address});
        }
    }
    let document = document.to_string();
    let etag = tag(document.as_bytes());
    let mut response =
        unless_known(headers, &etag, "text/plain; charset=utf-8", || document.into());
    set(&mut response, VARY, HeaderValue::from_static("Accept"));
    response
}

/// `/openapi/v2`
pub(super) fn everything(plane: &Plane, catalog: &Catalog, headers: &HeaderMap) -> Response<Body> {
    let parts = plane.aggregation.openapi_parts();
    if parts.is_empty() {
        return super::everything(catalog, headers);
    }
    let Some((form, content_type)) = accepted_of_version_2(headers) else {
        return nothing(StatusCode::NOT_ACCEPTABLE);
    };
    let documents = OpenApiDocuments(catalog);
    let hash = hash(&documents.hash_of_all(), &parts);
    packed(headers, &hash, content_type, || {
        documents.merged(form, &hash, || {
            let ours = documents.version_2(Format::Json).decompress();
            match form {
                Format::Json => merged_json(&ours, &parts),
                Format::Protobuf => {
                    let protobuf = documents.version_2(Format::Protobuf).decompress();
                    merged_protobuf(&protobuf, &ours, &parts)
                }
            }
        })
    })
}

/// The hash of a merged document. It is known before the document is made.
fn hash(ours: &str, parts: &[Arc<OpenApiPart>]) -> String {
    let mut context = Context::new(&SHA512);
    context.update(ours.as_bytes());
    for part in parts {
        context.update(part.digest());
    }
    hexadecimal(context)
}

/// What the parts have and our document has not. Of two parts with the same piece, the first counts.
fn additions<'a>(
    ours: &PathsAndDefinitions<'_>,
    parts: &'a [Arc<OpenApiPart>],
) -> PathsAndDefinitions<'a> {
    let mut added = PathsAndDefinitions::default();
    for part in parts {
        let pieces = part.paths_and_definitions();
        for (name, piece) in pieces.paths {
            if !ours.paths.contains_key(&name) {
                added.paths.entry(name).or_insert(piece);
            }
        }
        for (name, piece) in pieces.definitions {
            if !ours.definitions.contains_key(&name) {
                added.definitions.entry(name).or_insert(piece);
            }
        }
    }
    added
}

/// Our document in JSON with what the parts add.
fn merged_json(ours: &[u8], parts: &[Arc<OpenApiPart>]) -> Vec<u8> {
    const OURS: &str = "it was written here";
    let mut pieces: PathsAndDefinitions<'_> = serde_json::from_slice(ours).expect(OURS);
    let added = additions(&pieces, parts);
    pieces.paths.extend(added.paths);
    pieces.definitions.extend(added.definitions);
    let raw = |it| serde_json::value::to_raw_value(it).expect("text is written to memory");
    let (paths, definitions) = (raw(&pieces.paths), raw(&pieces.definitions));
    let mut document: BTreeMap<String, &RawValue> = serde_json::from_slice(ours).expect(OURS);
    document.insert("paths".to_owned(), &paths);
    document.insert("definitions".to_owned(), &definitions);
    serde_json::to_vec(&document).expect(OURS)
}

/// Our document in protobuf with what the parts add. Protobuf merges a message that follows another:
/// their lists of paths and definitions become one. One piece at a time is decoded.
fn merged_protobuf(protobuf: &[u8], ours: &[u8], parts: &[Arc<OpenApiPart>]) -> Vec<u8> {
    let ours: PathsAndDefinitions<'_> = serde_json::from_slice(ours).expect("it was written here");
    let added = additions(&ours, parts);
    let mut document = protobuf.to_vec();
    for (field, pieces) in [("paths", added.paths), ("definitions", added.definitions)] {
        for (name, piece) in pieces {
            let piece: Value =
                serde_json::from_str(piece.get()).expect("its depth was checked when it was read");
            document.extend(gnostic::encode(&json!({field: {name: piece}})));
        }
    }
    document
}

fn tag(bytes: &[u8]) -> String {
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
            "paths": {"/apis/g/v1/y": {"get": refer("B")}, "/apis/g/v1/ours": refer("B")},
            "definitions": {"B": {"type": "second"}},
        });
        [part(&first), part(&second)]
    }

    fn ours() -> Value {
        json!({"info": {"title": "a"}, "paths": {"/apis/g/v1/ours": {}}, "definitions": {"A": {}}})
    }

    #[test]
    fn others_add_their_own_paths_and_never_change_ours() {
        let merged = merged_json(ours().to_string().as_bytes(), &parts());
        let merged: Value = serde_json::from_slice(&merged).unwrap();
        assert_eq!(merged["info"], ours()["info"]);
        let paths: Vec<_> = merged["paths"].as_object().unwrap().keys().collect();
        assert_eq!(paths, ["/apis/g/v1/ours", "/apis/g/v1/x", "/apis/g/v1/y"]);
        assert_eq!(merged["paths"]["/apis/g/v1/ours"], json!({}));
        assert_eq!(merged["definitions"], json!({"A": {}, "B": {"type": "first"}}));
    }

    #[test]
    fn protobuf_has_what_others_add_behind_what_is_ours() {
        let protobuf = gnostic::encode(&ours());
        let merged = merged_protobuf(&protobuf, ours().to_string().as_bytes(), &parts());
        let added = merged.strip_prefix(&*protobuf).unwrap();
        let definition = gnostic::encode(&json!({"definitions": {"B": {"type": "first"}}}));
        assert!(added.ends_with(&definition));
    }

    #[test]
    fn a_hash_changes_with_each_part() {
        let [first, second] = parts();
        assert_ne!(hash("a", &[Arc::clone(&first)]), hash("a", &[second]));
        assert_ne!(hash("a", &[Arc::clone(&first)]), hash("b", &[first]));
    }
}
