//! The migration of stored objects to another storage version.

use std::collections::BTreeMap;
use std::time::Duration;

use http::StatusCode;

use crate::crash::{Crash, LastWrite};
use crate::interception::{self, Interception};
use crate::plane::Plane;
use machinery::{Value, json};
use testenv::TestEnv;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const MIGRATIONS: &str = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations";

async fn start() -> Plane {
    let config = |config: &mut apiserver::Config| {
        config.runtime_config = vec!["storagemigration.k8s.io/v1beta1=true".to_owned()];
    };
    Plane::start_with(TestEnv::builder().config(config), &["storage-version-migrator"]).await
}

/// The path of boats in a version.
fn boats(version: &str) -> String {
    format!("/apis/example.com/{version}/namespaces/default/boats")
}

/// The versions of the kind Boat, of which `storage` is the storage version.
fn versions(names: &[&str], storage: &str) -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = |name: &&str| {
        json!({"name": name, "served": true, "storage": *name == storage,
            "schema": {"openAPIV3Schema": schema}})
    };
    names.iter().map(version).collect::<Vec<Value>>().into()
}

async fn install_boats(plane: &Plane) {
    let names = json!({"plural": "boats", "singular": "boat", "kind": "Boat"});
    let spec = json!({"group": "example.com", "scope": "Namespaced", "names": names,
        "versions": versions(&["v1", "v2"], "v1")});
    plane.install_crd(&json!({"metadata": {"name": "boats.example.com"}, "spec": spec})).await;
}

/// Makes v2 the storage version, and waits until objects are stored in it.
async fn store_in_v2(plane: &Plane) {
    let before = plane.create(&boats("v1"), &boat("probe")).await;
    let path = format!("{CRDS}/boats.example.com");
    let versions = versions(&["v1", "v2"], "v2");
    let crd = plane.merge(&path, &json!({"spec": {"versions": versions}})).await;
    assert_eq!(crd["status"]["storedVersions"], json!(["v1", "v2"]));
    // An update without a change is written if the object is stored in another version.
    let path = format!("{}/probe", boats("v1"));
    let mut current = before["metadata"]["resourceVersion"].clone();
    while current == before["metadata"]["resourceVersion"] {
        current = plane.merge(&path, &json!({})).await["metadata"]["resourceVersion"].clone();
    }
    assert_eq!(plane.delete(&path).await.0, 200);
}

fn boat(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": name},
        "spec": {"length": 7}})
}

async fn create_migration(plane: &Plane, name: &str, group: &str, resource: &str) {
    let spec = json!({"resource": {"group": group, "resource": resource}});
    plane.create(MIGRATIONS, &json!({"metadata": {"name": name}, "spec": spec})).await;
}

fn is_true(migration: &Value, condition: &str) -> bool {
    let conditions = migration["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|it| it["type"] == condition && it["status"] == "True")
}

async fn until_finished(plane: &Plane, name: &str) -> Value {
    let is_finished = |_: u16, it: &Value| is_true(it, "Succeeded") || is_true(it, "Failed");
    plane.until(&format!("{MIGRATIONS}/{name}"), is_finished).await
}

/// The resource versions of all boats, by name.
async fn resource_versions(plane: &Plane, version: &str) -> BTreeMap<String, u64> {
    let list = plane.read(&boats(version)).await;
    let metadata = list["items"].as_array().unwrap().iter().map(|it| &it["metadata"]);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    metadata.map(|it| (text(&it["name"]), text(&it["resourceVersion"]).parse().unwrap())).collect()
}

#[tokio::test]
async fn a_former_version_of_a_crd_can_be_removed_after_a_migration() {
    let plane = start().await;
    install_boats(&plane).await;
    for name in ["a", "b"] {
        plane.create(&boats("v1"), &boat(name)).await;
    }
    store_in_v2(&plane).await;
    plane.create(&boats("v1"), &boat("c")).await;
    let before = resource_versions(&plane, "v2").await;
    create_migration(&plane, "boats", "example.com", "boats").await;
    let migration = until_finished(&plane, "boats").await;
    let conditions = &migration["status"]["conditions"];
    let summary = |it: &Value| json!([it["type"], it["status"], it["reason"]]);
    let summaries: Vec<Value> = conditions.as_array().unwrap().iter().map(summary).collect();
    assert_eq!(
        json!(summaries),
        json!([
            ["Running", "False", "StorageVersionMigrationInProgress"],
            ["Succeeded", "True", "StorageVersionMigrationSucceeded"]
        ])
    );
    let after = resource_versions(&plane, "v2").await;
    assert!(after["a"] > before["a"] && after["b"] > before["b"], "{before:?} {after:?}");
    assert_eq!(after["c"], before["c"], "it was stored in v2 already");
    let migrated = plane.read(&format!("{}/a", boats("v2"))).await;
    assert_eq!(migrated["metadata"]["generation"], 1);
    assert_eq!(migrated["spec"], json!({"length": 7}));
    let managers: Vec<&Value> =
        migrated["metadata"]["managedFields"].as_array().unwrap().iter().collect();
    assert_eq!(managers.len(), 1, "the migration owns no fields: {managers:?}");

    create_migration(&plane, "again", "example.com", "boats").await;
    assert!(is_true(&until_finished(&plane, "again").await, "Succeeded"));
    assert_eq!(resource_versions(&plane, "v2").await, after);

    let path = format!("{CRDS}/boats.example.com");
    let only_v2 = json!({"spec": {"versions": versions(&["v2"], "v2")}});
    let (code, refused) = plane.patch(&path, "application/merge-patch+json", &only_v2).await;
    assert_eq!(code, 422, "{refused}");
    plane.merge(&format!("{path}/status"), &json!({"status": {"storedVersions": ["v2"]}})).await;
    plane.merge(&path, &only_v2).await;
    plane.until(&boats("v1"), |code, _| code == 404).await;
    assert_eq!(resource_versions(&plane, "v2").await, after);
    plane.stop().await;
}

#[tokio::test]
async fn a_migration_that_was_interrupted_writes_each_object_once() {
    const COUNT: usize = 40;
    let mut plane = start().await;
    install_boats(&plane).await;
    for index in 0..COUNT {
        plane.create(&boats("v1"), &boat(&format!("boat-{index}"))).await;
    }
    store_in_v2(&plane).await;
    let before = resource_versions(&plane, "v2").await;
    let written = |now: &BTreeMap<String, u64>| {
        now.iter().filter(|(name, version)| before[*name] < **version).count()
    };
    plane.restart_until(&Crash::after(15, LastWrite::ResponseLost)).await;
    create_migration(&plane, "boats", "example.com", "boats").await;
    while written(&resource_versions(&plane, "v2").await) == 0 {
        tokio::task::yield_now().await;
    }
    plane.stop_controllers().await;
    let interrupted = resource_versions(&plane, "v2").await;
    // Two of the 15 writes are those of the status.
    assert!(written(&interrupted) <= 13, "{interrupted:?}");
    plane.restart_controllers().await;
    assert!(is_true(&until_finished(&plane, "boats").await, "Succeeded"));
    let end = resource_versions(&plane, "v2").await;
    assert_eq!(written(&end), COUNT);
    for (name, version) in interrupted.iter().filter(|(name, it)| before[*name] < **it) {
        assert_eq!(end[name], *version, "{name} was written twice");
    }
    plane.stop().await;
}

#[tokio::test]
async fn a_resource_that_cannot_be_migrated_fails_the_migration() {
    let plane = start().await;
    let failure = |migration: &Value| {
        let conditions = migration["status"]["conditions"].as_array().unwrap();
        let failed = conditions.iter().find(|it| it["type"] == "Failed").unwrap();
        assert_eq!(failed["reason"], "StorageVersionMigrationFailed");
        failed["message"].clone()
    };
    create_migration(&plane, "reviews", "authorization.k8s.io", "subjectaccessreviews").await;
    assert_eq!(
        failure(&until_finished(&plane, "reviews").await),
        r#"resource "authorization.k8s.io/v1, Resource=subjectaccessreviews" does not support discovery operations: [update patch list]"#
    );
    create_migration(&plane, "unknown", "example.com", "planes").await;
    // The resource may appear for a minute.
    for _ in 0..11 {
        plane.advance(Duration::from_secs(5));
    }
    assert!(!is_true(&plane.read(&format!("{MIGRATIONS}/unknown")).await, "Failed"));
    plane.advance(Duration::from_secs(5));
    assert_eq!(
        failure(&until_finished(&plane, "unknown").await),
        "resource does not exist in discovery"
    );
    plane.stop().await;
}

#[tokio::test]
async fn a_list_that_is_forbidden_fails_the_migration() {
    let mut plane = start().await;
    install_boats(&plane).await;
    let connect = interception::connect(&plane, |request| {
        let is_list = request.uri().path().ends_with("/boats") && request.method() == "GET";
        if is_list { Interception::Refused(StatusCode::FORBIDDEN) } else { Interception::None }
    });
    plane.restart_with(connect).await;
    create_migration(&plane, "boats", "example.com", "boats").await;
    let migration = until_finished(&plane, "boats").await;
    let failed = &migration["status"]["conditions"][0];
    assert_eq!((&failed["type"], &failed["status"]), (&json!("Failed"), &json!("True")));
    let message = failed["message"].as_str().unwrap();
    assert!(message.starts_with("migration encountered unhandled error: "), "{message}");
    plane.stop().await;
}

#[tokio::test]
async fn a_resource_of_a_crd_that_is_created_later_is_migrated() {
    let plane = start().await;
    create_migration(&plane, "boats", "example.com", "boats").await;
    install_boats(&plane).await;
    plane.create(&boats("v1"), &boat("a")).await;
    plane.advance(Duration::from_secs(5));
    assert!(is_true(&until_finished(&plane, "boats").await, "Succeeded"));
    plane.stop().await;
}
