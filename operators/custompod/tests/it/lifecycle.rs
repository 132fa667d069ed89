//! An operator that restarts, that is down while objects are deleted, whose cache is stale, and whose
//! objects others edit.

use k8s_openapi::api::core::v1::Pod;

use crate::installation::{LIMIT, Operator, client_of, decode, install, strict};
use crate::world::{CUSTOM_PODS, EXAMPLE, SAMPLE, World};
use cluster::{Cluster, ClusterConfig};
use custompod_operator::{CustomPod, Options, add_to, manifests};
use machinery::json;
use runtime::informer::Item;
use runtime::reconcile_history::ReconcileOutcome;
use runtime::{ManagerOptions, ObjectKey, prelude::*};

const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test]
async fn changes_while_the_operator_is_down_are_made_up_for() {
    let mut world = World::new(1).await;
    world.scale(5).await;
    world.start_operator();
    world.manager().settled(LIMIT).await.unwrap();
    world.kill_operator().await;
    world.delete("custompod-sample-1").await;
    world.scale(3).await;
    world.start_operator();
    world.manager().settled(LIMIT).await.unwrap();
    let names = world.pod_names().await;
    assert_eq!(names, ["custompod-sample-0", "custompod-sample-2", "custompod-sample-3"]);
    world.stop().await;
}

#[tokio::test]
async fn a_cache_without_the_latest_pods_creates_none_too_many() {
    let mut world = World::new(1).await;
    world.scale(3).await;
    world.start_operator();
    world.manager().settled(LIMIT).await.unwrap();
    // As if the watch had not delivered this pod yet.
    let pods = world.manager().informer::<Pod>();
    pods.indexer().remove(&ObjectKey::new("default", "custompod-sample-1")).unwrap();
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    world.env.merge(&format!("{CUSTOM_PODS}/{SAMPLE}"), &label).await;
    wait_for_failure(&world).await; // a refused creation
    assert_eq!(world.pod_names().await.len(), 3);
    world.set_phase("custompod-sample-1", "Running").await; // the watch delivers it
    world.manager().settled(LIMIT).await.unwrap();
    assert_eq!(world.pod_names().await.len(), 3);
    world.stop().await;
}

#[tokio::test]
async fn a_newer_pod_of_the_same_name_is_not_deleted() {
    let mut world = World::new(1).await;
    world.start_operator();
    world.manager().settled(LIMIT).await.unwrap();
    // As if the watch had not delivered yet that the pod was replaced.
    let mut older = world.env.read(&format!("{PODS}/custompod-sample-0")).await;
    older["metadata"]["uid"] = json!("6d0a6b3c-0000-0000-0000-000000000000");
    let pods = world.manager().informer::<Pod>();
    pods.indexer().insert(Item::parse(older.to_string()).unwrap()).unwrap();
    world.scale(0).await;
    wait_for_failure(&world).await;
    assert_eq!(world.pod_names().await, ["custompod-sample-0"]);
    world.set_phase("custompod-sample-0", "Running").await; // the watch delivers it
    world.manager().settled(LIMIT).await.unwrap();
    world.finish_deletions().await;
    assert!(world.pod_names().await.is_empty());
    world.stop().await;
}

#[tokio::test]
async fn a_pod_of_another_namespace_that_names_the_uid_is_neither_counted_nor_deleted() {
    const OTHER_PODS: &str = "/api/v1/namespaces/other/pods";
    let mut world = World::new(1).await;
    world.start_operator();
    world.manager().settled(LIMIT).await.unwrap();
    let mut copy = world.env.read(&format!("{PODS}/custompod-sample-0")).await;
    let metadata = &copy["metadata"];
    copy["metadata"] =
        json!({"name": "custompod-sample-1", "ownerReferences": metadata["ownerReferences"]});
    copy["spec"] = json!({"containers": [{"name": "main", "image": "busybox"}]});
    world.env.create("/api/v1/namespaces", &json!({"metadata": {"name": "other"}})).await;
    world.env.create(OTHER_PODS, &copy).await;
    let path = format!("{CUSTOM_PODS}/{SAMPLE}");
    for replicas in [2, 0] {
        world.scale(replicas).await;
        world.manager().settled(LIMIT).await.unwrap();
        assert_eq!(world.pod_names().await.len(), replicas);
        assert_eq!(world.env.read(&path).await["status"]["replicas"], replicas);
    }
    let other = world.env.read(&format!("{OTHER_PODS}/custompod-sample-1")).await;
    assert_eq!(other["metadata"].get("deletionTimestamp"), None);
    world.stop().await;
}

#[tokio::test]
async fn a_status_that_cannot_be_written_does_not_hide_why_pods_are_missing() {
    const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/custompod-operator";
    let mut world = World::new(1).await;
    let quota = json!({"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}});
    world.env.create("/api/v1/namespaces/default/resourcequotas", &quota).await;
    let mut role = world.env.read(ROLE).await;
    let rules = role["rules"].as_array_mut().unwrap();
    rules.retain(|rule| rule["resources"] != json!(["custompods/status"]));
    assert_eq!(world.env.put(ROLE, &role).await.0, 200);
    world.start_operator();
    let failure = wait_for_failure(&world).await;
    assert!(failure.contains("exceeded quota: none"), "{failure}");
    world.stop().await;
}

/// Waits until a reconcile has failed; returns why.
async fn wait_for_failure(world: &World) -> String {
    let failing = async {
        loop {
            for record in world.manager().records("custompod") {
                if let ReconcileOutcome::Failed(failure) = record.outcome {
                    return failure;
                }
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, failing).await.expect("a failed reconcile")
}

#[tokio::test]
async fn edits_by_others_conflict_with_no_write_of_the_operator() {
    let mut world = World::new(1).await;
    world.start_operator();
    let path = format!("{CUSTOM_PODS}/{SAMPLE}");
    for number in 0..30 {
        let replicas = json!({"spec": {"replicas": number % 7}});
        let label = json!({"metadata": {"labels": {"number": number.to_string()}}});
        let status = json!({"status": {"replicas": 99, "podNames": ["wrong"]}});
        world.env.merge(&path, &replicas).await;
        world.env.merge(&path, &label).await;
        world.env.merge(&format!("{path}/status"), &status).await;
    }
    world.manager().settled(LIMIT).await.unwrap();
    let sample = world.env.read(&path).await;
    let names = ["custompod-sample-0", "custompod-sample-1"];
    assert_eq!(sample["metadata"]["labels"]["number"], "29");
    assert_eq!(sample["spec"]["replicas"], 1);
    assert_eq!(sample["status"]["podNames"], json!([names[0]]));
    assert_eq!(world.pod_names().await, names[..1]);
    world.stop().await;
}

/// A plane with all controllers and a node.
async fn start_cluster() -> Cluster {
    let mut config = ClusterConfig::default();
    strict(&mut config.server);
    let cluster = Cluster::start(config).await.unwrap();
    install(&admin(&cluster), &manifests()).await;
    cluster
}

fn admin(cluster: &Cluster) -> Client {
    Client::new(cluster.server().in_process_client(), "default")
}

fn start_operator(cluster: &Cluster) -> Operator {
    let client = client_of(cluster.server(), "custompod-operator");
    Operator::start(client, ManagerOptions::default(), |manager| {
        add_to(manager, &Options::default());
    })
}

/// Waits until the pods that are not being deleted are as expected.
async fn wait_for(pods: &Api<Pod>, is_expected: impl Fn(&[Pod]) -> bool) -> Vec<Pod> {
    let polling = async {
        loop {
            let mut found = pods.list(&ListParams::default()).await.unwrap().items;
            found.retain(|pod| pod.metadata.deletion_timestamp.is_none());
            if is_expected(&found) {
                return found;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, polling).await.expect("the pods are as expected")
}

fn is_running(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
}

#[tokio::test]
async fn pods_of_an_object_that_is_deleted_while_the_operator_is_down_are_deleted() {
    let cluster = start_cluster().await;
    let (sets, pods) =
        (admin(&cluster).api_in::<CustomPod>("default"), admin(&cluster).api_in::<Pod>("default"));
    let example: CustomPod =
        serde_json::from_value(decode(&EXAMPLE.replace("replicas: 1", "replicas: 3"))).unwrap();
    let operator = start_operator(&cluster);
    sets.create(&PostParams::default(), &example).await.unwrap();
    let first = wait_for(&pods, |pods| pods.len() == 3 && pods.iter().all(is_running)).await;
    operator.kill().await;

    sets.delete(SAMPLE, &DeleteParams::default()).await.unwrap();
    wait_for(&pods, <[Pod]>::is_empty).await;
    let operator = start_operator(&cluster);
    operator.manager.settled(LIMIT).await.unwrap();
    wait_for(&pods, <[Pod]>::is_empty).await;

    // An object with the same name has pods of its own.
    sets.create(&PostParams::default(), &example).await.unwrap();
    let second = wait_for(&pods, |pods| pods.len() == 3 && pods.iter().all(is_running)).await;
    let uids = |pods: &[Pod]| pods.iter().map(|pod| pod.uid().unwrap()).collect::<Vec<_>>();
    assert!(uids(&second).iter().all(|uid| !uids(&first).contains(uid)));
    operator.stop().await;
    cluster.stop().await.unwrap();
}

#[tokio::test]
async fn a_deleted_object_has_no_pods_left_and_gets_no_new_ones() {
    let cluster = start_cluster().await;
    let (sets, pods) =
        (admin(&cluster).api_in::<CustomPod>("default"), admin(&cluster).api_in::<Pod>("default"));
    let example: CustomPod = serde_json::from_value(decode(EXAMPLE)).unwrap();
    let operator = start_operator(&cluster);
    sets.create(&PostParams::default(), &example).await.unwrap();
    wait_for(&pods, |pods| pods.len() == 1).await;
    // The object exists until its pods are gone.
    sets.delete(SAMPLE, &DeleteParams::foreground()).await.unwrap();
    let gone = async { while sets.get_opt(SAMPLE).await.unwrap().is_some() {} };
    tokio::time::timeout(LIMIT, gone).await.unwrap();
    operator.manager.settled(LIMIT).await.unwrap();
    wait_for(&pods, <[Pod]>::is_empty).await;
    operator.stop().await;
    cluster.stop().await.unwrap();
}
