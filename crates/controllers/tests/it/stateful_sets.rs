//! StatefulSets.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;

use crate::crash::{Crash, LastWrite};
use crate::fake_node::FakeNode;
use crate::objects::{PODS, make_ready, names, template};
use crate::plane::Plane;
use machinery::{Value, json};
use testenv::Watch;

const SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const WEB: &str = "/apis/apps/v1/namespaces/default/statefulsets/web";
const EVENTS: &str = "/api/v1/namespaces/default/events";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const REVISIONS: &str = "/apis/apps/v1/namespaces/default/controllerrevisions";

const NODE: FakeNode = FakeNode;

fn set(replicas: u32, more: &Value) -> Value {
    let mut set = json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "serviceName": "web",
            "selector": {"matchLabels": {"app": "web"}},
            "template": template("web"),
        },
    });
    machinery::patch::merge::apply(&mut set, &json!({"spec": more}));
    set
}

fn claim_template() -> Value {
    json!({
        "metadata": {"name": "data", "labels": {"disk": "fast"}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    })
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
}

async fn plane() -> Plane {
    Plane::start(&["statefulset"]).await
}

/// Runs the node until the set is complete and all of its pods have the last template.
async fn until_complete(plane: &Plane, replicas: u32) -> Value {
    NODE.until(plane, WEB, |set| is_complete(set, replicas)).await
}

fn is_complete(set: &Value, replicas: u32) -> bool {
    let status = &set["status"];
    if status["updateRevision"].is_null() {
        return false;
    }
    let counts = ["replicas", "readyReplicas", "updatedReplicas", "currentReplicas"];
    counts.iter().all(|it| status[*it].as_u64().unwrap_or(0) == u64::from(replicas))
        && status["observedGeneration"] == set["metadata"]["generation"]
        && status["currentRevision"] == status["updateRevision"]
}

async fn messages(plane: &Plane, reason: &str) -> Vec<String> {
    let events = plane.read(EVENTS).await;
    let events = events["items"].as_array().unwrap().clone();
    let mut found: Vec<String> = events
        .iter()
        .filter(|it| it["reason"] == reason)
        .map(|it| it["message"].as_str().unwrap().to_owned())
        .collect();
    found.sort();
    found
}

async fn until_message(plane: &Plane, reason: &str, message: &str) {
    plane
        .until(EVENTS, |_, events| {
            let mut events = events["items"].as_array().unwrap().iter();
            events.any(|it| it["reason"] == reason && it["message"] == message)
        })
        .await;
}

#[tokio::test]
async fn an_ordered_set_creates_each_pod_after_the_former_is_ready() {
    let plane = plane().await;
    plane.create(SETS, &set(2, &json!({}))).await;
    let found = plane.until(WEB, |_, set| set["status"]["replicas"] == 1).await;
    assert_eq!(names(&plane.read(PODS).await), ["web-0"]);
    let pod = plane.read(&format!("{PODS}/web-0")).await;
    assert_eq!(pod["spec"]["hostname"], "web-0");
    assert_eq!(pod["spec"]["subdomain"], "web");
    assert_eq!(pod["metadata"]["generateName"], "web-");
    assert_eq!(
        pod["metadata"]["labels"],
        json!({
            "app": "web",
            "statefulset.kubernetes.io/pod-name": "web-0",
            "apps.kubernetes.io/pod-index": "0",
            "controller-revision-hash": found["status"]["updateRevision"],
        })
    );
    assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], found["metadata"]["uid"]);
    make_ready(&plane, "web-0").await;
    plane.until(PODS, |_, pods| names(pods) == ["web-0", "web-1"]).await;
    let found = until_complete(&plane, 2).await;
    assert_eq!(found["status"]["availableReplicas"], 2);
    assert_eq!(found["status"]["collisionCount"], 0);
    until_message(&plane, "SuccessfulCreate", "Create Pod web-0 in StatefulSet web successful")
        .await;
    plane.stop().await;
}

#[tokio::test]
async fn an_ordered_set_deletes_the_last_pod_first() {
    let plane = plane().await;
    plane.create(SETS, &set(3, &json!({}))).await;
    until_complete(&plane, 3).await;
    plane.merge(WEB, &json!({"spec": {"replicas": 1}})).await;
    // A pod that a node runs is gone after the node has ended it.
    let deleting = |pod: &Value| !pod["metadata"]["deletionTimestamp"].is_null();
    plane.until(&format!("{PODS}/web-2"), |_, pod| deleting(pod)).await;
    assert!(!deleting(&plane.read(&format!("{PODS}/web-1")).await));
    until_complete(&plane, 1).await;
    assert_eq!(names(&plane.read(PODS).await), ["web-0"]);
    until_message(&plane, "SuccessfulDelete", "Delete Pod web-1 in StatefulSet web successful")
        .await;
    plane.stop().await;
}

#[tokio::test]
async fn a_parallel_set_creates_and_deletes_all_pods_at_once() {
    let plane = plane().await;
    plane.create(SETS, &set(4, &json!({"podManagementPolicy": "Parallel"}))).await;
    plane.until(WEB, |_, set| set["status"]["replicas"] == 4).await;
    until_complete(&plane, 4).await;
    plane.merge(WEB, &json!({"spec": {"replicas": 1}})).await;
    plane
        .until(PODS, |_, pods| {
            let pods = pods["items"].as_array().unwrap().iter();
            pods.filter(|pod| !pod["metadata"]["deletionTimestamp"].is_null()).count() == 3
        })
        .await;
    until_complete(&plane, 1).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_set_may_start_at_another_ordinal() {
    let plane = plane().await;
    plane.create(SETS, &set(2, &json!({"ordinals": {"start": 5}}))).await;
    until_complete(&plane, 2).await;
    assert_eq!(names(&plane.read(PODS).await), ["web-5", "web-6"]);
    plane.merge(WEB, &json!({"spec": {"ordinals": {"start": 6}}})).await;
    NODE.until(&plane, PODS, |pods| names(pods) == ["web-6", "web-7"]).await;
    plane.stop().await;
}

#[tokio::test]
async fn each_pod_has_claims_of_its_own_which_stay() {
    let plane = plane().await;
    let set = set(2, &json!({"volumeClaimTemplates": [claim_template()]}));
    plane.create(SETS, &set).await;
    until_complete(&plane, 2).await;
    let claims = plane.read(CLAIMS).await;
    assert_eq!(names(&claims), ["data-web-0", "data-web-1"]);
    let claim = &claims["items"][0];
    assert_eq!(claim["metadata"]["labels"], json!({"app": "web", "disk": "fast"}));
    assert_eq!(claim["metadata"]["ownerReferences"], Value::Null);
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "1Gi");
    let pod = plane.read(&format!("{PODS}/web-1")).await;
    let volume = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data-web-1"}});
    assert_eq!(pod["spec"]["volumes"][0], volume);
    let message = "Create Claim data-web-0 Pod web-0 in StatefulSet web success";
    until_message(&plane, "SuccessfulCreate", message).await;

    plane.merge(WEB, &json!({"spec": {"replicas": 1}})).await;
    until_complete(&plane, 1).await;
    assert_eq!(names(&plane.read(CLAIMS).await), ["data-web-0", "data-web-1"]);
    plane.stop().await;
}

#[tokio::test]
async fn claims_belong_to_the_set_or_to_a_surplus_pod_as_the_policy_says() {
    let plane = plane().await;
    let policy = json!({"whenDeleted": "Delete", "whenScaled": "Delete"});
    let set = set(
        2,
        &json!({
            "volumeClaimTemplates": [claim_template()],
            "persistentVolumeClaimRetentionPolicy": policy,
        }),
    );
    plane.create(SETS, &set).await;
    until_complete(&plane, 2).await;
    let owner = |claim: &Value| claim["metadata"]["ownerReferences"][0]["kind"].clone();
    let path = format!("{CLAIMS}/data-web-1");
    plane.until(&path, |_, claim| owner(claim) == "StatefulSet").await;
    let former = plane.read(&format!("{PODS}/web-1")).await["metadata"]["uid"].clone();
    plane.merge(WEB, &json!({"spec": {"replicas": 1}})).await;
    let claim = plane.until(&path, |_, claim| owner(claim) == "Pod").await;
    assert_eq!(claim["metadata"]["ownerReferences"][0]["uid"], former);
    until_complete(&plane, 1).await;

    // The claim is being deleted: the pod is created again after it is gone.
    plane.merge(WEB, &json!({"spec": {"replicas": 2}})).await;
    plane
        .until(WEB, |_, set| set["status"]["observedGeneration"] == set["metadata"]["generation"])
        .await;
    assert_eq!(names(&plane.read(PODS).await), ["web-0"]);
    // The garbage collector does this, and the protection of claims is not part of the test.
    plane.merge(&path, &json!({"metadata": {"finalizers": null}})).await;
    plane.delete(&path).await;
    until_complete(&plane, 2).await;
    let claim = plane.read(&path).await;
    assert_eq!(owner(&claim), "StatefulSet");

    let retain = json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
    plane.merge(WEB, &json!({"spec": {"persistentVolumeClaimRetentionPolicy": retain}})).await;
    plane.until(&path, |_, claim| owner(claim).is_null()).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_failed_pod_is_deleted_and_created_again() {
    let plane = plane().await;
    plane.create(SETS, &set(2, &json!({}))).await;
    until_complete(&plane, 2).await;
    let path = format!("{PODS}/web-0");
    let former = plane.read(&path).await["metadata"]["uid"].clone();
    let failed = json!({"status": {"phase": "Failed", "conditions": null}});
    plane.merge(&format!("{path}/status"), &failed).await;
    NODE.until(&plane, &path, |pod| {
        pod["metadata"]["uid"] != former && pod["status"]["phase"] == "Running"
    })
    .await;
    until_complete(&plane, 2).await;
    plane.stop().await;
}

#[tokio::test]
async fn an_update_replaces_pods_from_the_last_to_the_first() {
    let plane = plane().await;
    plane.create(SETS, &set(3, &json!({}))).await;
    let before = until_complete(&plane, 3).await;
    let watch = watch_pods(&plane).await;
    plane.merge(WEB, &image("nginx:2")).await;
    let updating = plane
        .until(WEB, |_, set| set["status"]["updateRevision"] != set["status"]["currentRevision"])
        .await;
    assert_eq!(updating["status"]["currentRevision"], before["status"]["currentRevision"]);
    let after = until_complete(&plane, 3).await;
    assert_ne!(after["status"]["currentRevision"], before["status"]["currentRevision"]);
    let deleted = replay(&plane, watch, 3).await;
    assert_eq!(deleted, ["web-2", "web-1", "web-0"]);

    let revisions = plane.read(REVISIONS).await;
    let mut revisions = revisions["items"].as_array().unwrap().clone();
    revisions.sort_by_key(|it| it["revision"].as_i64());
    let numbers: Vec<_> = revisions.iter().map(|it| it["revision"].as_i64().unwrap()).collect();
    assert_eq!(numbers, [1, 2]);
    let patch = &revisions[0]["data"]["spec"]["template"];
    assert_eq!(patch["$patch"], "replace");
    assert_eq!(patch["spec"]["containers"][0]["image"], "nginx");
    assert_eq!(revisions[0]["metadata"]["ownerReferences"][0]["kind"], "StatefulSet");

    // What `kubectl rollout undo` sends.
    let undo = "application/strategic-merge-patch+json";
    let (code, _) = plane.patch(WEB, undo, &revisions[0]["data"]).await;
    assert_eq!(code, 200);
    NODE.until(&plane, WEB, |set| {
        is_complete(set, 3)
            && set["status"]["currentRevision"] == before["status"]["currentRevision"]
    })
    .await;
    let name = revisions[0]["metadata"]["name"].as_str().unwrap();
    let renumbered = plane.read(&format!("{REVISIONS}/{name}")).await;
    assert_eq!(renumbered["revision"], 3);
    assert_eq!(names(&plane.read(REVISIONS).await).len(), 2);
    plane.stop().await;
}

#[tokio::test]
async fn a_partition_keeps_the_first_pods_at_their_revision() {
    let plane = plane().await;
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}});
    plane.create(SETS, &set(3, &json!({"updateStrategy": strategy}))).await;
    until_complete(&plane, 3).await;
    plane.merge(WEB, &image("nginx:2")).await;
    let image_of = |pod: &Value| pod["spec"]["containers"][0]["image"].clone();
    let updated = NODE
        .until(&plane, WEB, |set| {
            set["status"]["updatedReplicas"] == 1 && set["status"]["readyReplicas"] == 3
        })
        .await;
    assert_eq!(updated["status"]["currentReplicas"], 2);
    assert_ne!(updated["status"]["currentRevision"], updated["status"]["updateRevision"]);
    assert_eq!(image_of(&plane.read(&format!("{PODS}/web-2")).await), "nginx:2");

    // A pod below the partition that is lost gets the current revision, not the new one.
    let former = plane.read(&format!("{PODS}/web-0")).await;
    plane.delete(&format!("{PODS}/web-0")).await;
    let again = NODE
        .until(&plane, &format!("{PODS}/web-0"), |pod| {
            pod["metadata"]["uid"] != former["metadata"]["uid"]
        })
        .await;
    assert_eq!(image_of(&again), "nginx");
    assert_eq!(again["metadata"]["labels"], former["metadata"]["labels"]);
    plane.stop().await;
}

#[tokio::test]
async fn several_pods_may_be_unavailable_in_an_update() {
    let plane = plane().await;
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}});
    let more = json!({"updateStrategy": strategy, "podManagementPolicy": "Parallel"});
    plane.create(SETS, &set(5, &more)).await;
    until_complete(&plane, 5).await;
    plane.merge(WEB, &image("nginx:2")).await;
    let deleting = |pods: &Value| {
        let pods = pods["items"].as_array().unwrap().iter();
        let deleting = pods.filter(|pod| !pod["metadata"]["deletionTimestamp"].is_null());
        deleting.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    plane.until(PODS, |_, pods| deleting(pods) == ["web-3", "web-4"]).await;
    until_complete(&plane, 5).await;
    plane.stop().await;
}

#[tokio::test]
async fn with_on_delete_a_pod_is_updated_when_somebody_deletes_it() {
    let plane = plane().await;
    plane.create(SETS, &set(2, &json!({"updateStrategy": {"type": "OnDelete"}}))).await;
    until_complete(&plane, 2).await;
    plane.merge(WEB, &image("nginx:2")).await;
    plane
        .until(WEB, |_, set| set["status"]["observedGeneration"] == set["metadata"]["generation"])
        .await;
    let image_of = |pod: &Value| pod["spec"]["containers"][0]["image"].clone();
    assert_eq!(image_of(&plane.read(&format!("{PODS}/web-1")).await), "nginx");
    plane.delete(&format!("{PODS}/web-1")).await;
    NODE.until(&plane, &format!("{PODS}/web-1"), |pod| image_of(pod) == "nginx:2").await;
    assert_eq!(image_of(&plane.read(&format!("{PODS}/web-0")).await), "nginx");
    plane.stop().await;
}

#[tokio::test]
async fn the_next_pod_waits_until_the_former_is_available() {
    let plane = plane().await;
    plane.create(SETS, &set(2, &json!({"minReadySeconds": 10}))).await;
    plane.until(WEB, |_, set| set["status"]["replicas"] == 1).await;
    make_ready(&plane, "web-0").await;
    let found = plane.until(WEB, |_, set| set["status"]["readyReplicas"] == 1).await;
    assert_eq!(found["status"]["availableReplicas"], 0);
    assert_eq!(names(&plane.read(PODS).await), ["web-0"]);
    plane.advance(Duration::from_secs(10));
    plane.until(PODS, |_, pods| names(pods) == ["web-0", "web-1"]).await;
    plane.until(WEB, |_, set| set["status"]["availableReplicas"] == 1).await;
    plane.stop().await;
}

#[tokio::test]
async fn unused_revisions_are_deleted_beyond_the_limit() {
    let plane = plane().await;
    plane.create(SETS, &set(1, &json!({"revisionHistoryLimit": 1}))).await;
    until_complete(&plane, 1).await;
    for version in 2..=4 {
        plane.merge(WEB, &image(&format!("nginx:{version}"))).await;
        until_complete(&plane, 1).await;
    }
    let revisions = plane.until(REVISIONS, |_, revisions| names(revisions).len() == 2).await;
    let mut numbers: Vec<_> =
        revisions["items"].as_array().unwrap().iter().map(|it| it["revision"].as_i64()).collect();
    numbers.sort();
    assert_eq!(numbers, [Some(3), Some(4)]);
    plane.stop().await;
}

#[tokio::test]
async fn a_revision_of_a_former_set_is_not_used() {
    let plane = plane().await;
    plane.create(SETS, &set(0, &json!({}))).await;
    until_complete(&plane, 0).await;
    let former = names(&plane.read(REVISIONS).await);
    // The garbage collector, which does not run here, has not deleted the revision yet.
    plane.delete(WEB).await;
    plane.until(WEB, |code, _| code == 404).await;
    plane.create(SETS, &set(0, &json!({}))).await;
    let found = until_complete(&plane, 0).await;
    assert_eq!(found["status"]["collisionCount"], 1);
    assert_ne!(found["status"]["currentRevision"], former[0]);
    assert_eq!(names(&plane.read(REVISIONS).await).len(), 2);
    plane.stop().await;
}

#[tokio::test]
async fn an_orphan_with_the_name_of_a_replica_is_adopted() {
    let plane = plane().await;
    for name in ["web-0", "other-0"] {
        let mut orphan = template("web");
        orphan["metadata"]["name"] = name.into();
        plane.create(PODS, &orphan).await;
    }
    let set = plane.create(SETS, &set(1, &json!({}))).await;
    let adopted = plane
        .until(&format!("{PODS}/web-0"), |_, pod| pod["metadata"]["ownerReferences"].is_array())
        .await;
    assert_eq!(adopted["metadata"]["ownerReferences"][0]["uid"], set["metadata"]["uid"]);
    // Its identity is completed, and then it is replaced by one of the right revision.
    until_complete(&plane, 1).await;
    let other = plane.read(&format!("{PODS}/other-0")).await;
    assert_eq!(other["metadata"]["ownerReferences"], Value::Null);
    plane.stop().await;
}

#[tokio::test]
async fn a_refused_pod_is_shown_by_an_event_and_created_later() {
    let plane = plane().await;
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let quota = json!({"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}});
    plane.create(quotas, &quota).await;
    plane.until(&format!("{quotas}/none"), |_, quota| quota["status"]["hard"]["pods"] == "0").await;
    plane.create(SETS, &set(1, &json!({}))).await;
    plane
        .until(EVENTS, |_, events| {
            events["items"].as_array().unwrap().iter().any(|it| it["reason"] == "FailedCreate")
        })
        .await;
    let messages = messages(&plane, "FailedCreate").await;
    let expected = "Create Pod web-0 in StatefulSet web failed error: pods \"web-0\" is forbidden: \
                    exceeded quota: none";
    assert!(messages[0].starts_with(expected), "{messages:?}");
    plane.delete(&format!("{quotas}/none")).await;
    plane.advance(Duration::from_mins(1));
    until_complete(&plane, 1).await;
    plane.stop().await;
}

#[tokio::test]
async fn an_idle_set_is_not_written_to() {
    let plane = plane().await;
    let set = set(2, &json!({"volumeClaimTemplates": [claim_template()]}));
    plane.create(SETS, &set).await;
    until_complete(&plane, 2).await;
    plane.until(EVENTS, |_, events| names(events).len() == 4).await;
    let state = || async {
        let mut state = Vec::new();
        for path in [WEB, PODS, CLAIMS, REVISIONS] {
            let found = plane.read(path).await;
            let items = found["items"].as_array().cloned();
            state.push(items.unwrap_or_else(|| vec![found]));
        }
        state
    };
    let before = state().await;
    for _ in 0..30 {
        plane.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    assert_eq!(state().await, before);
    assert_eq!(names(&plane.read(EVENTS).await).len(), 4);
    plane.stop().await;
}

#[tokio::test]
async fn a_restart_in_the_middle_of_an_update_continues_it() {
    let mut plane = plane().await;
    plane.create(SETS, &set(3, &json!({}))).await;
    until_complete(&plane, 3).await;
    let watch = watch_pods(&plane).await;
    plane.merge(WEB, &image("nginx:2")).await;
    plane
        .until(&format!("{PODS}/web-2"), |_, pod| !pod["metadata"]["deletionTimestamp"].is_null())
        .await;
    plane.restart_controllers().await;
    NODE.until(&plane, WEB, |set| set["status"]["updatedReplicas"] == 1).await;
    plane.restart_controllers().await;
    until_complete(&plane, 3).await;
    assert_eq!(replay(&plane, watch, 3).await, ["web-2", "web-1", "web-0"]);
    plane.stop().await;
}

#[tokio::test]
async fn a_crash_after_any_write_leaves_one_pod_per_ordinal() {
    let crashes = (1..=10).map(|writes| async move {
        let mut plane = plane().await;
        let set = set(3, &json!({"volumeClaimTemplates": [claim_template()]}));
        plane.create(SETS, &set).await;
        until_complete(&plane, 3).await;
        let watch = watch_pods(&plane).await;
        plane.restart_until(&Crash::after(writes, LastWrite::ResponseLost)).await;
        let changed = plane.merge(WEB, &image("nginx:2")).await;
        for _ in 0..40 {
            NODE.step(&plane).await;
            tokio::task::yield_now().await;
        }
        let before = plane.read(WEB).await;
        assert!(!is_complete(&before, 3), "{writes} writes are enough");
        plane.restart_controllers().await;
        until_complete(&plane, 3).await;
        let deleted = replay(&plane, watch, 3).await;
        assert_eq!(deleted, ["web-2", "web-1", "web-0"], "after {writes} writes");
        assert_eq!(names(&plane.read(REVISIONS).await).len(), 2, "after {writes} writes");
        let after = plane.read(WEB).await;
        assert_eq!(after["spec"], changed["spec"]);
        plane.stop().await;
    });
    join_all(crashes).await;
}

/// The changes of pods from now on.
async fn watch_pods(plane: &Plane) -> Watch {
    let version =
        plane.read(PODS).await["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    plane.watch(&format!("{PODS}?watch=1&resourceVersion={version}")).await
}

/// The names of the pods that were deleted, in this order, while at most one of the pods of an ordered
/// set was missing or not ready, and none was created beside a former one of its name.
async fn replay(plane: &Plane, mut watch: Watch, replicas: usize) -> Vec<String> {
    let end = json!({"metadata": {"name": "end"}, "spec": template("end")["spec"]});
    plane.create(PODS, &end).await;
    let initial = (0..replicas).map(|ordinal| (format!("web-{ordinal}"), true));
    let mut ready: BTreeMap<String, bool> = initial.collect();
    let mut deleted = Vec::new();
    loop {
        let (event, pod) = watch.next().await.unwrap();
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        match event.as_str() {
            _ if name == "end" => return deleted,
            "ADDED" => assert_eq!(ready.insert(name, false), None, "two pods: {pod}"),
            "MODIFIED" => {
                let is_ready = pod["status"]["phase"] == "Running";
                ready.insert(name, is_ready && pod["metadata"]["deletionTimestamp"].is_null());
            }
            _ => {
                ready.remove(&name);
                deleted.push(name);
            }
        }
        let available = ready.values().filter(|it| **it).count();
        assert!(available + 1 >= replicas, "{ready:?}");
    }
}

#[tokio::test]
async fn the_work_of_a_huge_set_depends_on_the_pods_that_exist() {
    let plane = plane().await;
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "3"}}});
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    plane.create(quotas, &quota).await;
    plane.until(&format!("{quotas}/q"), |_, quota| !quota["status"]["hard"].is_null()).await;
    plane.create(SETS, &set(2_147_483_647, &json!({}))).await;
    plane.until(WEB, |_, set| set["status"]["replicas"] == 1).await;
    make_ready(&plane, "web-0").await;
    plane.until(WEB, |_, set| set["status"]["replicas"] == 2).await;
    plane.delete(WEB).await;
    for pod in ["web-0", "web-1"] {
        plane.delete(&format!("{PODS}/{pod}?gracePeriodSeconds=0")).await;
    }

    let more = json!({"podManagementPolicy": "Parallel", "ordinals": {"start": 5}});
    plane.create(SETS, &set(2_147_483_647, &more)).await;
    plane.until(WEB, |_, set| set["status"]["replicas"] == 3).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_pod_with_the_name_of_no_member_is_released() {
    let plane = plane().await;
    let owner = plane.create(SETS, &set(0, &json!({}))).await;
    let mut stranger = template("web");
    stranger["metadata"]["name"] = "stranger".into();
    stranger["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1",
        "kind": "StatefulSet", "name": "web", "uid": owner["metadata"]["uid"],
        "controller": true}]);
    plane.create(PODS, &stranger).await;
    let path = format!("{PODS}/stranger");
    let released = plane.until(&path, |_, pod| pod["metadata"]["ownerReferences"].is_null()).await;
    assert_eq!(released["metadata"]["labels"]["app"], "web");
    plane.stop().await;
}
