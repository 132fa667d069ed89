//! The output of Go is read, the output is readable by Go, and invalid input is an error at worst.

use proptest::prelude::*;
use serde_json::json;

use super::decode::DEPTH_MAX;
use super::wire::{Nested, push_bytes, push_int};
use super::*;
use crate::normalize;
use machinery::codec::json;

macro_rules! vectors {
    ($($name:literal),*) => {
        [$((
            $name,
            include_str!(concat!("vectors/", $name, ".json")),
            include_str!(concat!("vectors/", $name, ".hex")),
        )),*]
    };
}

/// Objects as Go writes them, in JSON and in protobuf (k8s.io/api v0.35).
const VECTORS: [(&str, &str, &str); 10] = vectors![
    "config_map",
    "custom_resource_definition",
    "deployment",
    "event",
    "horizontal_pod_autoscaler",
    "lease",
    "node",
    "pod",
    "secret",
    "service"
];

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn normalized(ty: &'static Type, value: &Value) -> Value {
    let mut value = value.clone();
    normalize(ty, &mut value, &mut |path| panic!("{} has no {path}", ty.name())).unwrap();
    value
}

/// The object in an envelope, with the `apiVersion` and `kind` of the envelope.
fn read_object(bytes: &[u8]) -> Value {
    let envelope = Envelope::read(bytes).unwrap();
    let ty = of_kind(&envelope.api_version, &envelope.kind).unwrap();
    let mut object = decode(ty, envelope.raw).unwrap();
    object.insert("apiVersion".to_owned(), envelope.api_version.into());
    object.insert("kind".to_owned(), envelope.kind.into());
    normalized(ty, &Value::Object(object))
}

fn message(ty: &str, json: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write_message(crate::find(ty).unwrap(), json.to_string().as_bytes(), &mut out).unwrap();
    out
}

/// The object of a message, or the error.
fn read(ty: &str, message: &[u8]) -> Result<Value, String> {
    decode(crate::find(ty).unwrap(), message).map(Value::Object).map_err(|it| it.to_string())
}

#[test]
fn objects_written_by_go_are_decoded() {
    for (name, json, hex) in VECTORS {
        let json: Value = serde_json::from_str(json).unwrap();
        let found = read_object(&unhex(hex));
        let ty = of_kind(json["apiVersion"].as_str().unwrap(), json["kind"].as_str().unwrap());
        assert_eq!(found, normalized(ty.unwrap(), &json), "{name}");
    }
}

#[test]
fn encoded_objects_decode_as_those_of_go() {
    for (name, json, hex) in VECTORS {
        let ours = encode(&serde_json::from_str(json).unwrap()).unwrap();
        let theirs = unhex(hex);
        assert_eq!(read_object(&ours), read_object(&theirs), "{name}");
        assert!(ours.len() <= theirs.len(), "{name}: Go writes zeroes, we do not");
    }
}

#[test]
fn kinds_of_every_group_are_found_and_unknown_ones_are_not() {
    for (api_version, kind) in
        [("v1", "Status"), ("autoscaling/v1", "Scale"), ("meta.k8s.io/v1", "PartialObjectMetadata")]
    {
        assert!(encode(&json!({"apiVersion": api_version, "kind": kind})).is_some(), "{kind}");
    }
    assert!(encode(&json!({"apiVersion": "example.com/v1", "kind": "Widget"})).is_none());
}

#[test]
fn an_envelope_has_the_type_before_the_message() {
    let secret = encode(&json!({"apiVersion": "v1", "kind": "Secret", "type": "t"})).unwrap();
    assert_eq!(secret, b"k8s\0\x0a\x0c\x0a\x02v1\x12\x06Secret\x12\x03\x1a\x01t");
}

#[test]
fn an_event_has_its_length_before_it() {
    let mut out = vec![b'-'];
    write_event("ADDED", b"object", &mut out);
    assert_eq!(out, b"-\0\0\0\x11\x0a\x05ADDED\x12\x08\x0a\x06object");
}

#[test]
fn messages_of_every_length_can_be_read_back() {
    for length in [0, 1, 127, 128, 16_383, 16_384, 2_097_152] {
        let text = "x".repeat(length);
        let map = json!({"data": {"key": text}});
        let bytes = message("core/v1.ConfigMap", &map);
        assert_eq!(read("core/v1.ConfigMap", &bytes), Ok(map), "{length}");
    }
}

#[test]
fn the_fields_of_inline_messages_are_merged() {
    let container = json!({"name": "a", "image": "b", "targetContainerName": "c", "tty": true});
    let bytes = message("core/v1.EphemeralContainer", &container);
    assert_eq!(read("core/v1.EphemeralContainer", &bytes), Ok(container));
    let rule = json!({"apiGroups": [""], "operations": ["CREATE"], "resourceNames": ["x"]});
    let ty = "admissionregistration/v1.NamedRuleWithOperations";
    assert_eq!(read(ty, &message(ty, &rule)), Ok(rule));
}

#[test]
fn packed_numbers_are_decoded() {
    let mut bytes = Vec::new();
    push_bytes(&mut bytes, 4, &[1, 2, 0x80, 1]);
    push_int(&mut bytes, 4, -1);
    let expected = json!({"supplementalGroups": [1, 2, 128, -1]});
    assert_eq!(read("core/v1.PodSecurityContext", &bytes), Ok(expected));
}

#[test]
fn a_zero_time_is_null_and_text_need_not_be_utf_8() {
    assert_eq!(
        read("meta/v1.ObjectMeta", b"\x42\x00\x0a\x02a\xff"),
        Ok(json!({"creationTimestamp": null, "name": "a\u{fffd}"}))
    );
}

#[test]
fn mismatched_values_are_not_written() {
    let mismatched = json!({
        "spec": [], "metadata": {"name": 7, "labels": "x", "finalizers": {"a": 1}, "uid": "u"},
        "status": {"startTime": "yesterday", "conditions": 1, "phase": {"a": []}}, "kind": null,
    });
    let left = json!({"metadata": {"uid": "u"}, "status": {}});
    assert_eq!(read("core/v1.Pod", &message("core/v1.Pod", &mismatched)), Ok(left));
}

#[test]
fn errors_about_malformed_messages_are_those_of_go() {
    let check = |ty: &str, bytes: &[u8], expected: &str| {
        assert_eq!(read(ty, bytes), Err(expected.to_owned()), "{bytes:?}");
    };
    let meta = "meta/v1.ObjectMeta";
    check(meta, b"\x0a", "unexpected EOF");
    check(meta, b"\x0a\x05abc", "unexpected EOF");
    check(
        meta,
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        "proto: negative length found during unmarshaling",
    );
    check(meta, b"\x08\x01", "proto: wrong wireType = 0 for field Name");
    check(meta, b"\x0c", "proto: ObjectMeta: wiretype end group for non-group");
    check(meta, b"\x02\x00", "proto: ObjectMeta: illegal tag 0 (wire type 2)");
    check(meta, b"\x0f", "proto: illegal wireType 7");
    check(meta, &[0xff; 11], "proto: integer overflow");
    check("apps/v1.ControllerRevision", b"\x12\x03\x0a\x01{", "unexpected end of JSON input");
    let date = "Time.MarshalJSON: year outside of range [0,9999]";
    check(meta, b"\x42\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f", date);
}

#[test]
fn malformed_envelopes_are_refused() {
    let why = |bytes: &[u8]| Envelope::read(bytes).unwrap_err().to_string();
    assert_eq!(why(b""), "empty data");
    assert_eq!(why(b"k8s\0"), "empty body");
    let prefix =
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
    assert_eq!(why(b"{}"), prefix);
    assert_eq!(why(b"k8s\0\x12\x05abc"), "unexpected EOF");
}

#[test]
fn unknown_fields_and_groups_are_skipped() {
    let mut bytes = b"\xf8\x07\x01\xf9\x0700000000\xfd\x070000\xfa\x07\x01x".to_vec();
    bytes.extend(b"\xfb\x07\x08\x01\xfb\x07\xfc\x07\xfc\x07\x0a\x01n");
    assert_eq!(read("meta/v1.ObjectMeta", &bytes), Ok(json!({"name": "n"})));
}

/// A schema nested to the given depth.
fn deep(levels: usize) -> Vec<u8> {
    const NOT: u16 = 28;
    let mut out = Vec::new();
    let nested: Vec<Nested> = (0..levels).map(|_| Nested::begin(&mut out, NOT)).collect();
    nested.into_iter().rev().for_each(|it| it.end(&mut out));
    out
}

#[test]
fn depth_is_limited_and_objects_within_the_limit_can_be_written() {
    let schema = "apiextensions/v1.JSONSchemaProps";
    let object = read(schema, &deep(DEPTH_MAX - 1)).unwrap();
    assert_eq!(message(schema, &object), deep(DEPTH_MAX - 1));
    assert_eq!(read(schema, &deep(DEPTH_MAX)), Err("exceeded max depth".to_owned()));
    assert_eq!(read(schema, &deep(20 * DEPTH_MAX)), Err("exceeded max depth".to_owned()));
}

#[test]
fn json_within_a_message_counts_towards_its_depth() {
    let mut out = Vec::new();
    let list = "[".repeat(json::DEPTH_MAX) + &"]".repeat(json::DEPTH_MAX);
    let data = Nested::begin(&mut out, 2);
    push_bytes(&mut out, 1, list.as_bytes());
    data.end(&mut out);
    let found = read("apps/v1.ControllerRevision", &out);
    assert_eq!(found, Err("exceeded max depth".to_owned()));
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_an_object_or_an_error(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        index in any::<prop::sample::Index>(),
    ) {
        let ty = index.get(crate::all());
        if let Ok(object) = decode(ty, &bytes) {
            let mut out = Vec::new();
            prop_assert!(write_message(ty, Value::Object(object).to_string().as_bytes(), &mut out).is_ok());
        }
        let _ = Envelope::read(&[b"k8s\0", &*bytes].concat());
    }

    /// These bytes are mostly valid, so that they reach the innermost functions.
    #[test]
    fn damaged_objects_are_an_object_or_an_error(
        vector in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = unhex(vector.get(&VECTORS).2);
        for (at, value) in damage {
            *at.get_mut(&mut bytes) = value;
        }
        if let Ok(envelope) = Envelope::read(&bytes)
            && let Some(ty) = of_kind(&envelope.api_version, &envelope.kind)
            && let Ok(object) = decode(ty, envelope.raw)
        {
            let mut object = Value::Object(object);
            let _ = normalize(ty, &mut object, &mut |_| {});
        }
    }
}
