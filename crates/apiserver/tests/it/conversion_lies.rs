//! Conversion webhooks that lie about the objects that they convert.
//!
//! Upstream: `apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go`

use crate::conversion::{V1, V2, names, start, v1, v2};
use crate::conversion_server::ConversionReply;
use machinery::{Value, json};
use testenv::TestEnv;
use testenv::media_type::MERGE_PATCH;

/// Asserts that no request through the version v2, which the webhook converts, succeeds or changes
/// the object `a`.
async fn assert_refused(plane: &TestEnv, why: &str, reply: ConversionReply) {
    let (path, before) = (format!("{V2}/a"), plane.read(&format!("{V1}/a")).await);
    for (verb, (code, status)) in [
        ("get", plane.get(&path).await),
        ("list", plane.get(V2).await),
        ("create", plane.post(V2, &v2("new", "h", 1)).await),
        ("update", plane.put(&path, &v2("a", "h", 9)).await),
        ("patch", plane.patch(&path, MERGE_PATCH, &json!({"spec": {"port": 9}})).await),
        ("delete", plane.delete(&path).await),
        ("deletecollection", plane.delete(V2).await),
        ("watch", plane.get(&format!("{V2}?watch=true&resourceVersion=0")).await),
    ] {
        let message = status["message"].as_str().unwrap_or_default();
        assert_eq!(code, 500, "{verb} with {reply:?}: {status}");
        assert!(message.contains(why), "{verb} with {reply:?}: {message}");
    }
    assert_eq!(plane.read(&format!("{V1}/a")).await, before, "{reply:?}");
    assert_eq!(names(&plane.read(V1).await), ["a"], "{reply:?}");
}

#[tokio::test]
async fn a_webhook_cannot_change_the_identity_or_the_type_of_an_object() {
    let (plane, webhook) = start().await;
    plane.create(V1, &v1("a", "h:1")).await;
    for (pointer, json, why) in [
        ("/metadata/name", r#""b""#, "must have the same name: "),
        ("/metadata/name", "null", "must have the same name: "),
        ("/metadata/namespace", r#""kube-system""#, "must have the same namespace: "),
        ("/metadata/uid", r#""11111111-2222-4333-8444-555555555555""#, "must have the same UID: "),
        ("/kind", r#""Secret""#, "invalid kind (expected Gate, received Secret)"),
        ("/kind", r#""""#, "Object 'Kind' is missing"),
        ("/apiVersion", r#""example.com/v3""#, "invalid groupVersion (expected example.com/v"),
        ("/apiVersion", r#""v1""#, "invalid groupVersion (expected example.com/v"),
        ("/apiVersion", "7", "invalid groupVersion (expected example.com/v"),
        ("/metadata", "null", "must have the same name: "),
        ("/metadata", r#""a""#, "must have the same name: "),
        ("/metadata", "[]", "must have the same name: "),
        ("/metadata/labels", "[]", "invalid metadata.labels of type []interface {}"),
        ("/metadata/labels", r#"{"a": 1}"#, "metadata.labels[a] must be a string"),
        ("/metadata/labels", r#"{"a b": "c"}"#, "metadata.labels: Invalid value"),
        ("/metadata/annotations", r#"{"a": {}}"#, "metadata.annotations[a] must be a string"),
    ] {
        let reply = ConversionReply::Changed(pointer, json);
        webhook.set_reply(reply);
        assert_refused(&plane, why, reply).await;
    }
    webhook.set_reply(ConversionReply::Converted);
    assert_eq!(plane.read(&format!("{V2}/a")).await["spec"]["port"], 1);
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_webhook_changes_no_metadata_but_labels_and_annotations() {
    let (plane, webhook) = start().await;
    let mut object = v1("a", "h:1");
    object["metadata"]["finalizers"] = json!(["example.com/mine"]);
    plane.create(V1, &object).await;
    for (field, json) in [
        ("finalizers", r#"["example.com/other"]"#),
        ("finalizers", "null"),
        ("ownerReferences", r#"[{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]"#),
        ("deletionTimestamp", r#""2024-01-01T00:00:00Z""#),
        ("creationTimestamp", r#""2001-01-01T00:00:00Z""#),
        ("generation", "99"),
        ("resourceVersion", r#""1""#),
        ("generateName", r#""x""#),
        ("managedFields", "[]"),
        ("unknown", "1"),
    ] {
        let pointer: &'static str = Box::leak(format!("/metadata/{field}").into_boxed_str());
        let path = format!("{V1}/a");
        // Conversions are cached until the object changes.
        let stored = plane.merge(&path, &json!({"metadata": {"annotations": {field: json}}})).await;
        webhook.set_reply(ConversionReply::Changed(pointer, json));
        let read = plane.read(&format!("{V2}/a")).await;
        assert_eq!(read["metadata"][field], stored["metadata"][field], "read: {field}");
        // The object that is written is converted, too.
        let patch = json!({"spec": {"port": 7}});
        plane.merge(&format!("{V2}/a"), &patch).await;
        let written = plane.read(&path).await;
        assert_eq!(written["spec"]["endpoint"], "h:7");
        for kept in
            ["finalizers", "ownerReferences", "deletionTimestamp", "creationTimestamp", "uid"]
        {
            let (before, after) = (&stored["metadata"][kept], &written["metadata"][kept]);
            assert_eq!(before, after, "{field} changes {kept}");
        }
        assert_eq!(written["metadata"]["unknown"], Value::Null);
        assert!(written["metadata"]["generation"].as_u64().unwrap() < 90, "{written}");
        plane.merge(&path, &json!({"spec": {"endpoint": "h:1"}})).await;
    }
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_webhook_cannot_add_drop_or_exchange_objects() {
    let (plane, webhook) = start().await;
    for name in ["a", "b"] {
        plane.create(V1, &v1(name, "h:1")).await;
    }
    for (reply, why) in [
        (ConversionReply::ExtraObject, "returned 3 objects, expected 2"),
        (ConversionReply::MissingObject, "returned 1 objects, expected 2"),
        (
            ConversionReply::Reversed,
            "returned invalid converted object at index 0: must have the same name: a != b",
        ),
    ] {
        webhook.set_reply(reply);
        let (code, status) = plane.get(V2).await;
        let message = status["message"].as_str().unwrap_or_default();
        assert!(code == 500 && message.ends_with(why), "{reply:?}: {code} {message}");
    }
    webhook.set_reply(ConversionReply::ExtraObject);
    let (code, status) = plane.get(&format!("{V2}/a")).await;
    let message = status["message"].as_str().unwrap_or_default();
    assert!(code == 500 && message.ends_with("returned 2 objects, expected 1"), "{message}");
    webhook.set_reply(ConversionReply::Converted);
    assert_eq!(names(&plane.read(V2).await), ["a", "b"]);
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn an_answer_that_is_nested_without_end_or_leads_elsewhere_is_an_error() {
    let (plane, webhook) = start().await;
    plane.create(V1, &v1("a", "h:1")).await;
    for (reply, why) in [
        (ConversionReply::Nested, "failed: couldn't get version/kind; json parse error: "),
        (ConversionReply::Redirect, "failed: the server responded with the status code 307"),
    ] {
        webhook.set_reply(reply);
        webhook.calls();
        let (code, status) = plane.get(&format!("{V2}/a")).await;
        let message = status["message"].as_str().unwrap_or_default();
        assert!(code == 500 && message.contains(why), "{reply:?}: {code} {message}");
        assert_eq!(webhook.calls().len(), 1, "{reply:?}");
    }
    plane.read(&format!("{V1}/a")).await;
    plane.stop().await.unwrap();
}
