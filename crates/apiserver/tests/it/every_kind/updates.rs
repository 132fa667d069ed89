//! Patches, updates, status updates, and all versions of a kind.

use super::case::{cases, plane};
use machinery::{Value, json, patch};
use testenv::media_type::{MERGE_PATCH, STRATEGIC_MERGE_PATCH};

/// Kinds whose status can be set by a create: a node registers itself.
const CREATED_WITH_STATUS: [&str; 1] = ["Node"];

/// Kinds whose generation also counts changes of labels.
const GENERATION_COUNTS_LABELS: [&str; 1] = ["EndpointSlice"];

/// The object without the fields that count its changes.
fn without_change_counters(mut object: Value) -> Value {
    for counter in ["resourceVersion", "generation", "managedFields"] {
        object["metadata"].as_object_mut().unwrap().remove(counter);
    }
    object
}

#[tokio::test]
async fn a_patch_changes_only_the_named_fields() {
    let plane = plane().await;
    for case in cases() {
        let name = case.name();
        let before = case.create_and_settle(&plane).await;
        let label = json!({"metadata": {"labels": {"tier": "front"}}});
        let (code, merged) = plane.patch(&case.path(), MERGE_PATCH, &label).await;
        assert_eq!(code, 200, "{name}: {merged}");
        let note = json!({"metadata": {"annotations": {"note": "read me"}}});
        let (code, patched) = plane.patch(&case.path(), STRATEGIC_MERGE_PATCH, &note).await;
        assert_eq!(code, 200, "{name}: {patched}");
        let before_generation = before["metadata"]["generation"].clone();
        let mut expected = before;
        expected["metadata"]["labels"]["tier"] = "front".into();
        expected["metadata"]["annotations"]["note"] = "read me".into();
        assert_eq!(
            without_change_counters(patched.clone()),
            without_change_counters(expected),
            "{name}"
        );
        assert_eq!(plane.read(&case.path()).await, patched, "{name}");
        let generation = |it: &Value| it["metadata"]["generation"].clone();
        let counts = GENERATION_COUNTS_LABELS.contains(&case.resource.kind.as_str());
        assert_eq!(generation(&merged) != before_generation, counts, "{name}");
    }
}

#[tokio::test]
async fn a_put_without_changes_stores_nothing() {
    let plane = plane().await;
    for case in cases() {
        let name = case.name();
        let read = case.create_and_settle(&plane).await;
        let (code, same) = plane.put(&case.path(), &read).await;
        assert_eq!((code, &same), (200, &read), "{name}");
        let mut labeled = read.clone();
        labeled["metadata"]["labels"]["tier"] = "front".into();
        let (code, changed) = plane.put(&case.path(), &labeled).await;
        assert_eq!(code, 200, "{name}: {changed}");
        assert_eq!(changed["metadata"]["labels"]["tier"], "front", "{name}");
        assert_ne!(changed["metadata"]["resourceVersion"], read["metadata"]["resourceVersion"]);
        let (code, refused) = plane.put(&case.path(), &labeled).await;
        assert_eq!((code, &refused["reason"]), (409, &json!("Conflict")), "{name}");
    }
}

#[tokio::test]
async fn only_the_status_subresource_changes_the_status() {
    let plane = plane().await;
    for case in cases().iter().filter(|it| it.status.is_some()) {
        let name = case.name();
        let status = case.status.as_ref().unwrap();
        let created = case.create_and_settle(&plane).await;
        let mut reported = created.clone();
        patch::merge::apply(&mut reported["status"], status);
        let (code, ignored) = plane.put(&case.path(), &reported).await;
        assert_eq!(code, 200, "{name}: {ignored}");
        assert_eq!(ignored["status"], created["status"], "{name}: PUT of the object");
        let (code, shown) = plane.put(&format!("{}/status", case.path()), &reported).await;
        assert_eq!(code, 200, "{name}: {shown}");
        assert!(contains(&shown["status"], status), "{name}: {}", shown["status"]);
        assert_eq!(shown["spec"], created["spec"], "{name}");
        assert_eq!(plane.read(&case.path()).await["status"], shown["status"], "{name}");
        assert_eq!(plane.read(&format!("{}/status", case.path())).await, shown, "{name}");
    }
}

#[tokio::test]
async fn a_create_ignores_the_status_except_of_nodes() {
    let plane = plane().await;
    for case in cases().iter().filter(|it| it.status.is_some()) {
        let mut manifest = case.manifest.clone();
        manifest["status"].clone_from(case.status.as_ref().unwrap());
        let created = plane.create(&case.collection(), &manifest).await;
        let is_stored = contains(&created["status"], case.status.as_ref().unwrap());
        let can_set = CREATED_WITH_STATUS.contains(&case.resource.kind.as_str());
        assert_eq!(is_stored, can_set, "{}: {}", case.name(), created["status"]);
    }
}

/// Returns whether all fields of `part` are in `whole`; nulls are ignored.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (_, Value::Null) => true,
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(key, value)| contains(whole.get(key).unwrap_or(&Value::Null), value))
        }
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(a, b)| contains(a, b))
        }
        (whole, part) => whole == part,
    }
}

#[tokio::test]
async fn every_version_has_all_fields_of_the_object() {
    let plane = plane().await;
    let mut several = Vec::new();
    for case in cases().iter().filter(|it| it.versions().len() > 1) {
        several.push(case.resource.kind.clone());
        let before = case.create_and_settle(&plane).await;
        for (api_version, _) in case.versions() {
            let name = format!("{} through {api_version}", case.name());
            let path = case.path_in(&api_version);
            let shown = plane.read(&path).await;
            assert_eq!(shown["apiVersion"], api_version, "{name}");
            assert_eq!(shown["metadata"]["uid"], before["metadata"]["uid"], "{name}");
            let (code, written) = plane.put(&path, &shown).await;
            assert_eq!((code, &written), (200, &shown), "{name}");
            assert_eq!(plane.read(&case.path()).await, before, "{name}");
        }
    }
    several.sort();
    let expected =
        ["ClusterTrustBundle", "CustomResourceDefinition", "Event", "HorizontalPodAutoscaler"];
    assert_eq!(several, expected);
}
