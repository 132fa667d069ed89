//! Objects in their last state, and the metadata of objects.

use super::*;

#[test]
fn metadata_only_accepts_metadata_that_are_not_utf_8() {
    let json = b"{\"metadata\":{\"name\":\"a\",\"labels\":{\"x\":\"\xff\"}},\"spec\":{}}";
    let metadata = metadata_only(&Item::parse(json.as_slice()).unwrap()).object().unwrap();
    assert_eq!((metadata.kind(), metadata.label("x")), ("PartialObjectMetadata", Some("\u{fffd}")));
    assert!(metadata.get(&["spec"]).is_none());
}

#[test]
fn an_object_without_finalizers_that_is_being_deleted_is_in_its_last_state() {
    let is_last = |metadata: &str, spec: &str| {
        let json = format!(r#"{{"metadata":{{"name":"a"{metadata}}},"spec":{spec}}}"#);
        is_last_state(&Item::parse(json).unwrap())
    };
    let deleted = r#","deletionTimestamp":"2026-01-01T00:00:00Z""#;
    assert!(is_last(deleted, "{}"));
    assert!(is_last(deleted, "\"no map\""));
    assert!(is_last(&format!(r#"{deleted},"finalizers":[],"deletionGracePeriodSeconds":0"#), "{}"));
    assert!(!is_last("", "{}"));
    assert!(!is_last(r#","deletionTimestamp":null"#, "{}"));
    assert!(!is_last(&format!(r#"{deleted},"finalizers":["x/y"]"#), "{}"));
    assert!(!is_last(&format!(r#"{deleted},"deletionGracePeriodSeconds":30"#), "{}"));
    assert!(is_last(deleted, r#"{"finalizers":["a"]}"#), "a field of a custom kind");
}

#[test]
fn a_namespace_with_finalizers_in_its_spec_is_not_in_its_last_state() {
    let is_last = |finalizers: &str| {
        let json = format!(
            r#"{{"kind":"Namespace","apiVersion":"v1","metadata":{{"name":"a",
            "deletionTimestamp":"2026-01-01T00:00:00Z"}},"spec":{{"finalizers":[{finalizers}]}}}}"#
        );
        is_last_state(&Item::parse(json).unwrap())
    };
    assert!(!is_last(r#""kubernetes""#));
    assert!(is_last(""));
}
