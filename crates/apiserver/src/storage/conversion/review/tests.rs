//! Tests of the responses that are accepted from a conversion webhook, and of the error messages for
//! all others.

use super::*;
use machinery::json;

const DESIRED_API_VERSION: &str = "example.com/v2";

fn original() -> Object {
    let value = json!({"apiVersion": "example.com/v1", "kind": "Thing",
        "metadata": {"name": "a", "namespace": "ns", "uid": "u", "labels": {"x": "y"},
            "finalizers": ["example.com/f"], "managedFields": [{"manager": "m"}]}});
    Object::from_value(value).unwrap()
}

/// Validates `count` valid objects of which the last is changed by `change`.
fn check(count: usize, change: impl Fn(&mut Value)) -> Result<Vec<Object>, String> {
    let valid = json!({"apiVersion": DESIRED_API_VERSION, "kind": "Thing",
        "metadata": {"name": "a", "namespace": "ns", "uid": "u", "labels": {"x": "y"}}});
    let mut returned = vec![valid; count];
    change(returned.last_mut().unwrap());
    validate_objects(&original().gvk(), DESIRED_API_VERSION, vec![original(); count], returned)
}

/// The error of [`check`], after its common prefix.
fn refusal(count: usize, change: impl Fn(&mut Value)) -> String {
    let prefix = "conversion webhook for example.com/v1, Kind=Thing returned ";
    check(count, change).unwrap_err().strip_prefix(prefix).unwrap().to_owned()
}

/// The converted objects in a review with this response.
fn decoded(review: ReviewVersion, response: &Value) -> Result<Vec<Value>, String> {
    let kind = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "response": response});
    review.decode_response("the-uid", kind.to_string().as_bytes())
}

#[test]
fn metadata_except_labels_and_annotations_is_restored() {
    let converted = check(1, |it| {
        it["metadata"]["labels"] = json!({"new": "label"});
        it["metadata"]["annotations"] = json!({"new": "annotation"});
        it["metadata"]["finalizers"] = json!([]);
        it["metadata"]["generation"] = 99.into();
    });
    assert_eq!(
        *converted.unwrap()[0].metadata().unwrap(),
        *json!({"name": "a", "namespace": "ns", "uid": "u", "labels": {"new": "label"},
            "annotations": {"new": "annotation"}, "finalizers": ["example.com/f"],
            "managedFields": [{"manager": "m"}]})
        .as_object()
        .unwrap()
    );
    let without = check(1, |it| it["metadata"]["labels"] = Value::Null).unwrap();
    assert_eq!(without[0].get(&["metadata", "labels"]), None);
}

#[test]
fn a_returned_object_with_another_identity_is_refused() {
    assert_eq!(
        refusal(1, |it| it["metadata"]["name"] = "b".into()),
        "invalid object: must have the same name: a != b"
    );
    assert_eq!(
        refusal(2, |it| it["metadata"]["uid"] = "w".into()),
        "invalid converted object at index 1: must have the same UID: u != w"
    );
    assert_eq!(
        refusal(1, |it| it["apiVersion"] = "example.com/v3".into()),
        "invalid object at index 0: invalid groupVersion (expected example.com/v2, received example.com/v3)"
    );
    assert_eq!(
        refusal(2, |it| it["kind"] = "Other".into()),
        "invalid converted object at index 1: invalid kind (expected Thing, received Other)"
    );
}

#[test]
fn invalid_metadata_is_refused() {
    assert_eq!(
        refusal(1, |it| it["metadata"]["labels"] = json!({"a": 1})),
        "invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object"
    );
    assert_eq!(
        refusal(2, |it| it["metadata"]["annotations"] = json!([])),
        "invalid metadata in object at index 1: invalid metadata.annotations of type []interface {} in converted object"
    );
    assert!(
        refusal(1, |it| it["metadata"]["labels"] = json!({"a b": "c"}))
            .starts_with("invalid metadata: metadata.labels: Invalid value: \"a b\": ")
    );
}

#[test]
fn a_wrong_number_of_objects_is_refused() {
    let error =
        validate_objects(&original().gvk(), DESIRED_API_VERSION, vec![original()], Vec::new())
            .unwrap_err();
    assert_eq!(
        error,
        "conversion webhook for example.com/v1, Kind=Thing returned 0 objects, expected 1"
    );
}

#[test]
fn a_response_must_be_a_success_with_the_uid_of_the_request() {
    let success = json!({"uid": "the-uid", "result": {"status": "Success"},
        "convertedObjects": [1]});
    assert_eq!(decoded(ReviewVersion::V1, &success), Ok(vec![json!(1)]));
    let mut other = success.clone();
    other["uid"] = "other".into();
    let refused = r#"expected response.uid="the-uid", got "other""#;
    assert_eq!(decoded(ReviewVersion::V1, &other), Err(refused.to_owned()));
    assert_eq!(decoded(ReviewVersion::V1Beta1, &other), Ok(vec![json!(1)]));
    let mut failed = success.clone();
    failed["result"] = json!({"status": "Failed"});
    let refused = "response.result.status was 'Failed', not 'Success'";
    assert_eq!(decoded(ReviewVersion::V1, &failed), Err(refused.to_owned()));
    failed["result"]["message"] = "not today".into();
    assert_eq!(decoded(ReviewVersion::V1, &failed), Err("not today".to_owned()));
    assert_eq!(decoded(ReviewVersion::V1, &Value::Null), Err("no response provided".to_owned()));
}

#[test]
fn a_body_that_is_not_a_review_is_refused() {
    let refused = ReviewVersion::V1.decode_response("u", b"rubbish").unwrap_err();
    assert!(refused.starts_with("couldn't get version/kind; json parse error: "), "{refused}");
    assert_eq!(
        ReviewVersion::V1.decode_response("u", b"{}").unwrap_err(),
        "Object 'Kind' is missing in '{}'"
    );
    assert_eq!(
        ReviewVersion::V1.decode_response("u", br#"{"apiVersion":"v1","kind":"Pod"}"#).unwrap_err(),
        "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got v1, Kind=Pod"
    );
}

#[test]
fn a_request_has_the_desired_version_and_the_objects() {
    let body = ReviewVersion::V1Beta1.request(
        "u",
        DESIRED_API_VERSION,
        &[b"{\"a\":1}".to_vec(), b"{}".to_vec()],
    );
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["apiVersion"], "apiextensions.k8s.io/v1beta1");
    assert_eq!(
        body["request"],
        json!({"uid": "u", "desiredAPIVersion": DESIRED_API_VERSION, "objects": [{"a": 1}, {}]})
    );
}
