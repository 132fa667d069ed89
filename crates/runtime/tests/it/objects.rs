//! Finalizers and server-side apply, against a server.

use std::sync::Mutex;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube_client::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube_client::{Api, Error};
use kube_core::{ApiResource, DynamicObject};
use serde_json::json;

use crate::plane::Plane;
use runtime::apply::{Applier, ApplyError};
use runtime::conditions;
use runtime::finalizer;
use runtime::finalizer::{Finalized, FinalizerError, Progress, Stage};
use runtime::{ClientExt, NotFoundExt, patch_status};

const OURS: &str = "example.com/cleanup";

fn map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"k": value}})).unwrap()
}

async fn create(maps: &Api<ConfigMap>, map: &ConfigMap) -> ConfigMap {
    maps.create(&PostParams::default(), map).await.unwrap()
}

/// Calls `finalizer::run` with a function that records its stages.
async fn run(maps: &Api<ConfigMap>, map: ConfigMap) -> (Finalized<()>, Vec<&'static str>) {
    let seen = Mutex::new(Vec::new());
    let done = finalizer::run(maps, OURS, map, |stage| {
        seen.lock().unwrap().push(match &stage {
            Stage::Apply(map) if finalizer::has(map, OURS) => "apply",
            Stage::Apply(_) => "apply without a finalizer",
            Stage::Cleanup(_) => "cleanup",
        });
        async { Ok::<_, FinalizerError<ApplyError>>(()) }
    });
    let done = done.await.unwrap();
    (done, seen.into_inner().unwrap())
}

#[tokio::test]
async fn an_object_is_cleaned_up_before_it_is_removed() {
    let plane = Plane::start().await;
    let maps = plane.api::<ConfigMap>();
    let created = create(&maps, &map("a", "1")).await;
    assert_eq!(run(&maps, created).await, (Finalized::Applied(()), vec!["apply"]));
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    let deleted = maps.get("a").await.unwrap();
    assert_eq!(run(&maps, deleted.clone()).await, (Finalized::CleanedUp(()), vec!["cleanup"]));
    assert!(maps.get_opt("a").await.unwrap().is_none());
    assert_eq!(run(&maps, deleted).await.0, Finalized::CleanedUp(()), "a second cleanup succeeds");
}

#[tokio::test]
async fn a_write_of_an_old_state_keeps_the_finalizers_of_others() {
    let plane = Plane::start().await;
    let maps = plane.api::<ConfigMap>();
    let old = create(&maps, &map("a", "1")).await;
    let patch = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/theirs"]}}));
    maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
    run(&maps, old).await;
    let finalizers = maps.get("a").await.unwrap().metadata.finalizers.unwrap();
    assert_eq!(finalizers, ["example.com/theirs", OURS]);
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    run(&maps, maps.get("a").await.unwrap()).await;
    let finalizers = maps.get("a").await.unwrap().metadata.finalizers.unwrap();
    assert_eq!(finalizers, ["example.com/theirs"]);
}

#[tokio::test]
async fn a_failed_cleanup_keeps_the_object() {
    let plane = Plane::start().await;
    let maps = plane.api::<ConfigMap>();
    let created = create(&maps, &map("a", "1")).await;
    run(&maps, created).await;
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    let deleted = maps.get("a").await.unwrap();
    let failed =
        finalizer::run(&maps, OURS, deleted, |_| async { Err::<(), _>(ApplyError::NoName) });
    assert!(matches!(failed.await, Err(FinalizerError::Cleanup(_))));
    assert!(finalizer::has(&maps.get("a").await.unwrap(), OURS));
}

#[tokio::test]
async fn a_cleanup_that_takes_time_keeps_the_finalizer() {
    let plane = Plane::start().await;
    let maps = plane.api::<ConfigMap>();
    let clean_up = async |map: ConfigMap, progress: Progress<u8>| {
        let done = finalizer::run(&maps, OURS, map, |_| async { Ok::<_, ApplyError>(progress) });
        done.await.unwrap()
    };
    let created = create(&maps, &map("a", "1")).await;
    let applied = clean_up(created, Progress::NotYet(1)).await;
    assert_eq!(applied, Finalized::Applied(1), "only a cleanup takes time");
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    for progress in [2, 3] {
        let deleted = maps.get("a").await.unwrap();
        let waits = clean_up(deleted, Progress::NotYet(progress)).await;
        assert_eq!(waits, Finalized::CleaningUp(progress));
    }
    let deleted = maps.get("a").await.unwrap();
    assert!(finalizer::has(&deleted, OURS));
    assert_eq!(clean_up(deleted, Progress::Done(4)).await, Finalized::CleanedUp(4));
    assert!(maps.get_opt("a").await.unwrap().is_none());
}

#[tokio::test]
async fn an_object_that_is_being_deleted_without_our_finalizer_is_not_applied() {
    let plane = Plane::start().await;
    let maps = plane.api::<ConfigMap>();
    let mut held = map("a", "1");
    held.metadata.finalizers = Some(vec!["example.com/theirs".to_owned()]);
    let old = create(&maps, &held).await;
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(run(&maps, old).await, (Finalized::NotOurs, vec![]));
    let deleted = maps.get("a").await.unwrap();
    assert_eq!(run(&maps, deleted).await, (Finalized::NotOurs, vec![]));
}

#[tokio::test]
async fn a_conflict_names_the_owners_of_the_fields() {
    let plane = Plane::start().await;
    let maps = plane.api::<ConfigMap>();
    Applier::new("one").apply(&maps, &map("a", "1")).await.unwrap();
    let refused = Applier::new("two").apply(&maps, &map("a", "2")).await.unwrap_err();
    let ApplyError::Conflict(conflicts) = refused else {
        panic!("{refused}");
    };
    assert_eq!(conflicts.to_string(), ".data.k: conflict with \"one\"");
    let applied = Applier::new("two").force().apply(&maps, &map("a", "2")).await.unwrap();
    assert_eq!(applied.data.clone().unwrap()["k"], "2");
    let again = Applier::new("two").apply(&maps, &applied).await.unwrap();
    assert_eq!(again.metadata.resource_version, applied.metadata.resource_version);
}

#[tokio::test]
async fn an_object_of_a_kind_that_is_known_at_run_time_is_applied() {
    let plane = Plane::start().await;
    let resource = ApiResource::erase::<ConfigMap>(&());
    let maps = Api::<DynamicObject>::namespaced_with(plane.client.clone(), "default", &resource);
    let mut map = DynamicObject::new("a", &resource);
    map.data = json!({"data": {"k": "1"}});
    let applied = Applier::new("one").apply(&maps, &map).await.unwrap();
    assert_eq!(applied.data["data"]["k"], "1");
    map.types = None;
    let refused = Applier::new("one").apply(&maps, &map).await;
    assert!(matches!(refused, Err(ApplyError::NoKind)));
}

#[tokio::test]
async fn a_status_is_patched_only_if_it_changes() {
    let plane = Plane::start().await;
    let namespaces = plane.all::<Namespace>();
    let namespace = namespaces.get("default").await.unwrap();
    let status = namespace.status.clone().unwrap();
    assert!(patch_status(&namespaces, &namespace, &status).await.unwrap().is_none());
    let condition = json!({
        "type": "Clean", "status": "True", "reason": "Swept", "message": "by hand",
        "lastTransitionTime": conditions::now(&plane.clock),
    });
    let mut status = status;
    status.conditions = Some(vec![serde_json::from_value(condition).unwrap()]);
    let patched = patch_status(&namespaces, &namespace, &status).await.unwrap().unwrap();
    assert_eq!(patched.status.as_ref(), Some(&status), "the phase stays");
    assert!(patch_status(&namespaces, &patched, &status).await.unwrap().is_none());
    status.conditions = None;
    let removed = patch_status(&namespaces, &patched, &status).await.unwrap().unwrap();
    assert_eq!(removed.status.unwrap().conditions, None);
    status.phase = Some("Terminating".to_owned());
    let outdated = patch_status(&namespaces, &patched, &status).await.unwrap_err();
    assert!(matches!(outdated, Error::Api(status) if status.code == 409));
}

#[tokio::test]
async fn an_object_that_does_not_exist_is_no_error() {
    let plane = Plane::start().await;
    let maps = plane.client.api_in::<ConfigMap>("default");
    assert!(maps.get("a").await.optional().unwrap().is_none());
    maps.delete("a", &DeleteParams::default()).await.ignore_not_found().unwrap();
    create(&maps, &map("a", "1")).await;
    let found = maps.get("a").await.optional().unwrap().unwrap();
    let same = plane.client.api_of(&found).get("a").await.unwrap();
    assert_eq!(same.metadata.uid, found.metadata.uid);
    maps.delete("a", &DeleteParams::default()).await.ignore_not_found().unwrap();
    let clusterwide = plane.client.api_in::<Namespace>("ignored");
    assert!(clusterwide.get("default").await.is_ok());
}
