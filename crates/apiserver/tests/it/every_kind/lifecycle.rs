//! Create, read, list, watch and delete, and discovery.

use super::case::{cases, plane};
use machinery::{Value, json};
use testenv::media_type::MERGE_PATCH;

#[tokio::test]
async fn a_created_object_is_read_and_listed() {
    let plane = plane().await;
    for case in cases() {
        let name = case.name();
        let created = case.create(&plane).await;
        let metadata = &created["metadata"];
        assert_eq!(metadata["uid"].as_str().map(str::len), Some(36), "{name}");
        assert_eq!(metadata["creationTimestamp"], "2024-01-01T00:00:00Z", "{name}");
        assert_eq!(created["kind"], case.resource.kind.as_str(), "{name}");
        let revision = metadata["resourceVersion"].as_str().unwrap();
        let listed = plane
            .read(&format!(
                "{}?resourceVersion={revision}&resourceVersionMatch=Exact",
                case.collection()
            ))
            .await;
        assert_eq!(listed["kind"], case.resource.list_kind.as_str(), "{name}");
        let items = listed["items"].as_array().unwrap();
        let mut expected = created.clone();
        for member in ["apiVersion", "kind"] {
            expected.as_object_mut().unwrap().remove(member);
        }
        assert!(items.contains(&expected), "{name}: {listed}");
        let (code, again) = plane.post(&case.collection(), &case.manifest).await;
        assert_eq!((code, &again["reason"]), (409, &json!("AlreadyExists")), "{name}");
        let uid = plane.read(&case.path()).await["metadata"]["uid"].take();
        assert_eq!(uid, metadata["uid"], "{name}");
    }
}

#[tokio::test]
async fn a_watch_reports_all_events_in_order() {
    let plane = plane().await;
    for case in cases() {
        let name = case.name();
        let list = plane.read(&case.collection()).await;
        let from = list["metadata"]["resourceVersion"].as_str().unwrap();
        let selector = format!("fieldSelector=metadata.name={}", case.object_name());
        let path = format!("{}?watch=true&resourceVersion={from}&{selector}", case.collection());
        let mut watch = plane.watch(&path).await;
        let created = case.create(&plane).await;
        let patch = json!({"metadata": {"labels": {"touched": "yes"}}});
        let (code, _) = plane.patch(&case.path(), MERGE_PATCH, &patch).await;
        assert_eq!(code, 200, "{name}");
        case.remove(&plane).await;

        assert_eq!(watch.expect("ADDED").await, created, "{name}");
        let mut touched = false;
        let mut revision = revision_of(&created);
        loop {
            let (kind, object) = watch.next().await.unwrap();
            assert!(revision_of(&object) > revision, "{name}: {object}");
            revision = revision_of(&object);
            touched |= object["metadata"]["labels"]["touched"] == "yes";
            assert_eq!(object["metadata"]["uid"], created["metadata"]["uid"], "{name}");
            if kind == "DELETED" {
                break;
            }
            assert_eq!(kind, "MODIFIED", "{name}");
        }
        assert!(touched, "{name}");
    }
}

fn revision_of(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_deleted_object_is_not_found() {
    let plane = plane().await;
    for case in cases() {
        let name = case.name();
        let before = plane.read(&case.collection()).await["items"].take();
        case.create(&plane).await;
        assert_ne!(plane.read(&case.collection()).await["items"], before, "{name}");
        case.remove(&plane).await;
        assert_eq!(plane.read(&case.collection()).await["items"], before, "{name}");
        let (code, answer) = plane.delete(&case.path()).await;
        assert_eq!((code, &answer["reason"]), (404, &json!("NotFound")), "{name}");
    }
}

#[tokio::test]
async fn a_dry_run_returns_the_object_and_stores_nothing() {
    let plane = plane().await;
    for case in cases() {
        let name = case.name();
        let path = format!("{}?dryRun=All", case.collection());
        let (code, shown) = plane.post(&path, &case.manifest).await;
        assert_eq!((code, &shown["kind"]), (201, &json!(case.resource.kind)), "{name}: {shown}");
        assert!(shown["metadata"]["uid"].is_string(), "{name}");
        assert_eq!(shown["metadata"].get("resourceVersion"), None, "{name}");
        assert_eq!(plane.get(&case.path()).await.0, 404, "{name}");
    }
}

#[tokio::test]
async fn discovery_lists_the_verbs_and_subresources() {
    let plane = plane().await;
    let all = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    for case in cases() {
        for (api_version, version) in case.versions() {
            let root = if api_version.contains('/') { "/apis" } else { "/api" };
            let document = plane.read(&format!("{root}/{api_version}")).await;
            let rows = document["resources"].as_array().unwrap();
            let find = |name: &str| rows.iter().find(|it| it["name"] == name);
            let name = format!("{api_version} {}", case.resource.kind);
            let row = find(&case.resource.plural).unwrap_or_else(|| panic!("{name} is not listed"));
            assert_eq!(row["kind"], case.resource.kind.as_str(), "{name}");
            assert_eq!(row["namespaced"], case.resource.namespaced, "{name}");
            assert_eq!(row["singularName"], case.resource.singular.as_str(), "{name}");
            // Namespaces have no deletecollection.
            let verbs = all
                .iter()
                .filter(|it| case.resource.kind != "Namespace" || **it != "deletecollection");
            assert_eq!(row["verbs"], json!(verbs.collect::<Vec<_>>()), "{name}");
            let status = find(&format!("{}/status", case.resource.plural));
            assert_eq!(status.is_some(), version.status, "{name}");
            let scale = find(&format!("{}/scale", case.resource.plural));
            assert_eq!(scale.is_some(), version.scale.is_some(), "{name}");
        }
    }
}
