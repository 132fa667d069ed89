//! The objects of requests and responses as JSON for events.

use bytes::Bytes;
use http::Response;
use http::header::CONTENT_TYPE;

use crate::http::body::Body;
use machinery::Value;
use machinery::codec::{json, yaml};
use types::protobuf::{self, Envelope};

/// What every encoded Status begins with.
const STATUS: &[u8] = br#"{"kind":"Status","apiVersion":"v1","#;

/// The field of a Status with its code.
const CODE: &[u8] = br#""code":"#;

/// The patch of a request, in JSON or YAML. None if it cannot be decoded.
pub(super) fn of_patch(bytes: &[u8]) -> Option<Vec<u8>> {
    let decoded = json::decode(bytes).or_else(|_| yaml::decode(bytes)).ok()?;
    Some(encode(&decoded.value))
}

/// The bytes of a response in memory, which are encoded now if they are not yet; None for a stream.
pub(super) fn bytes_of(response: &mut Response<Body>) -> Option<Bytes> {
    let body = response.body_mut();
    if let Body::Lazy(chunks) = body {
        *body = Body::Chunks(chunks.collect());
    }
    match body {
        Body::Chunks(chunks) if chunks.len() == 1 => chunks.front().cloned(),
        Body::Chunks(chunks) => Some(chunks.iter().flatten().copied().collect()),
        Body::Shared(bytes) => Some(bytes.clone()),
        Body::Lazy(_) | Body::Stream(_) => None,
    }
}

/// The `responseStatus` if the response is a Status in JSON, such as that of a deletion.
pub(super) fn status_of(response: &Response<Body>) -> Option<Vec<u8>> {
    let Body::Chunks(chunks) = response.body() else { return None };
    let text = chunks.front().filter(|_| chunks.len() == 1)?.trim_ascii();
    let rest = text.strip_prefix(STATUS)?.strip_suffix(b"}")?;
    if !is_one_line(rest) {
        return None;
    }
    let status = [b"{", rest].concat();
    // A success has no code. A quotation mark within a string is escaped.
    if status.windows(CODE.len()).any(|it| it == CODE) {
        return Some([&status, b"}".as_slice()].concat());
    }
    let code = response.status().as_u16().to_string();
    Some([&status, b",".as_slice(), CODE, code.as_bytes(), b"}"].concat())
}

/// The object of a response, in JSON, YAML or protobuf.
pub(super) fn of_response(
    response: &Response<Body>,
    bytes: &[u8],
    omit_managed_fields: bool,
) -> Option<Vec<u8>> {
    let media = response.headers().get(CONTENT_TYPE)?.to_str().ok()?;
    let media = media.split(';').next().unwrap_or_default().trim();
    let text = bytes.trim_ascii();
    if media == "application/json" && is_one_line(text) && !omit_managed_fields {
        return Some(text.to_vec());
    }
    let value = match media {
        "application/json" => json::decode(bytes).ok()?.value,
        "application/yaml" => yaml::decode(bytes).ok()?.value,
        protobuf::MEDIA_TYPE => decode_protobuf(bytes)?,
        _ => return None,
    };
    Some(if omit_managed_fields { encode_without_managed_fields(value) } else { encode(&value) })
}

fn decode_protobuf(bytes: &[u8]) -> Option<Value> {
    let envelope = Envelope::read(bytes).ok()?;
    let (version, kind) = (envelope.api_version, envelope.kind);
    let ty = types::of_kind(&version, &kind).or_else(|| types::of_kind("meta.k8s.io/v1", &kind))?;
    let mut object = protobuf::decode(ty, envelope.raw).ok()?;
    object.insert("kind".to_owned(), kind.into());
    object.insert("apiVersion".to_owned(), version.into());
    Some(Value::Object(object))
}

/// Whether a text can be a part of a line of JSON. A line break in JSON is outside of strings.
fn is_one_line(text: &[u8]) -> bool {
    !text.contains(&b'\n') && !text.contains(&b'\r') && std::str::from_utf8(text).is_ok()
}

fn encode(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    json::write(&mut out, value);
    out
}

/// Removes the managed fields of an object, of the items of a list and of the rows of a Table.
fn encode_without_managed_fields(mut value: Value) -> Vec<u8> {
    remove_managed_fields(&mut value);
    for items in ["items", "rows"] {
        let items = value.get_mut(items).and_then(Value::as_array_mut);
        for item in items.into_iter().flatten() {
            remove_managed_fields(item);
            if let Some(object) = item.get_mut("object") {
                remove_managed_fields(object);
            }
        }
    }
    encode(&value)
}

fn remove_managed_fields(value: &mut Value) {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_patch_in_yaml_becomes_json() {
        assert_eq!(text(of_patch(b"data: {k: v}").unwrap()), r#"{"data":{"k":"v"}}"#);
        assert_eq!(text(of_patch(br#"[{"op":"add"}]"#).unwrap()), r#"[{"op":"add"}]"#);
        assert_eq!(of_patch(b"{"), None);
    }

    #[test]
    fn managed_fields_are_removed_at_every_place_of_objects() {
        let object = || json!({"metadata": {"name": "a", "managedFields": [{}]}});
        for value in
            [object(), json!({"items": [object()]}), json!({"rows": [{"object": object()}]})]
        {
            let encoded = text(encode_without_managed_fields(value));
            assert!(encoded.contains("name") && !encoded.contains("managedFields"), "{encoded}");
        }
    }

    #[test]
    fn a_status_is_recorded_without_its_kind() {
        let body = "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"code\":200}\n";
        let response = Response::new(Body::from(body));
        assert_eq!(text(status_of(&response).unwrap()), r#"{"metadata":{},"code":200}"#);
        let body = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}"#;
        let success = status_of(&Response::new(Body::from(body))).unwrap();
        assert_eq!(text(success), r#"{"metadata":{},"status":"Success","code":200}"#);
        assert_eq!(status_of(&Response::new(Body::from("{\"kind\":\"Pod\"}"))), None);
    }

    #[test]
    fn a_protobuf_response_becomes_json() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"},
            "metadata": {"name": "a"}});
        let bytes = protobuf::encode(&object).unwrap();
        let response = Response::builder().header(CONTENT_TYPE, protobuf::MEDIA_TYPE);
        let response = response.body(Body::from(bytes.clone())).unwrap();
        let found = of_response(&response, &bytes, true).unwrap();
        let found: Value = serde_json::from_slice(&found).unwrap();
        assert_eq!((&found["data"]["k"], &found["kind"]), (&json!("v"), &json!("ConfigMap")));
    }
}
