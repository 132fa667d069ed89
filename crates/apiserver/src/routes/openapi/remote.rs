//! The documents that tell of everything, with what others serve in them. They are made for each
//! who asks: aggregated servers change without telling.

use super::{
    Form, JSON, PROTOBUF, PROTOBUF_DEPRECATED, VARY, accepted, nothing, packed, set, unless_known,
};
use crate::body::Body;
use crate::catalog::Catalog;
use crate::plane::Plane;
use http::header::HeaderValue;
use http::{HeaderMap, Response, StatusCode};
use machinery::{Value, json};
use ring::digest::{SHA512, digest};
use schema::openapi::gnostic;

/// `/openapi/v3`
pub(super) fn index(plane: &Plane, catalog: &Catalog, headers: &HeaderMap) -> Response<Body> {
    let (document, _) = catalog.documents.openapi.index(catalog);
    let mut document: Value = serde_json::from_str(&document).expect("it was written here");
    for remote in plane.aggregation.remotes(plane).iter() {
        let told = plane.aggregation.told(remote);
        if let Some(address) = told.and_then(|it| it.openapi_v3.clone()) {
            let place = super::kept::place(&remote.group, &remote.version);
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
    let forms =
        [(JSON, Form::Json), (PROTOBUF, Form::Protobuf), (PROTOBUF_DEPRECATED, Form::Protobuf)];
    let Some(form) = accepted(headers, &forms) else {
        return nothing(StatusCode::NOT_ACCEPTABLE);
    };
    let ours = catalog.documents.openapi.version_2(catalog, Form::Json).unpack();
    let mut document: Value = serde_json::from_slice(&ours).expect("it was written here");
    for remote in plane.aggregation.remotes(plane).iter() {
        if let Some(told) = plane.aggregation.told(remote) {
            let path = format!("/apis/{}/{}", remote.group, remote.version);
            merge(&mut document, &told.openapi_v2, &path);
        }
    }
    let (content_type, bytes) = match form {
        Form::Json => (JSON, document.to_string().into_bytes()),
        Form::Protobuf => (PROTOBUF, gnostic::encode(&document)),
    };
    let etag = tag(&bytes);
    let kept = &catalog.documents.openapi;
    packed(headers, etag.trim_matches('"'), content_type, || kept.share(form, &etag, &bytes))
}

/// Adds the paths below `path`, and the definitions that we have not.
fn merge(document: &mut Value, theirs: &Value, path: &str) {
    let is_below =
        |it: &str| it.strip_prefix(path).is_some_and(|it| matches!(it.as_bytes(), [] | [b'/', ..]));
    for part in ["paths", "definitions"] {
        let Some(ours) = document[part].as_object_mut() else { continue };
        for (name, value) in theirs[part].as_object().into_iter().flatten() {
            if !ours.contains_key(name) && (part == "definitions" || is_below(name)) {
                ours.insert(name.clone(), value.clone());
            }
        }
    }
}

fn tag(bytes: &[u8]) -> String {
    let digest = digest(&SHA512, bytes);
    let text = digest.as_ref().iter().fold(String::new(), |text, it| format!("{text}{it:02X}"));
    format!("\"{text}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_add_their_own_paths_and_never_change_ours() {
        let mut ours = json!({"paths": {"/api": 1}, "definitions": {"A": 1}});
        let theirs = json!({
            "paths": {"/api": 2, "/apis/g/v1/x": 2, "/apis/g/v10": 2},
            "definitions": {"A": 2, "B": 2},
        });
        merge(&mut ours, &theirs, "/apis/g/v1");
        let expected =
            json!({"paths": {"/api": 1, "/apis/g/v1/x": 2}, "definitions": {"A": 1, "B": 2}});
        assert_eq!(ours, expected);
    }
}
