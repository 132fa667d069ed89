//! An operator that restarts, that is down while objects are deleted, whose cache is stale, and whose
//! objects others edit.

use k8s_openapi::api::core::v1::Pod;

use crate::installation::{LIMIT, Operator, client_of, decode, install, strict};
use crate::world::{CUSTOM_PODS, EXAMPLE, SAMPLE, World};
use cluster::{Cluster, ClusterConfig};
use custompod_operator::{CustomPod, Options, add_to, manifests};
use machinery::json;
use runtime::reconcile_history::{ReconcileOutcome, Record};
use runtime::{ManagerOptions, ObjectKey, prelude::*};

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
    let refused = async {
        let is_failure = |record: &Record| matches!(record.outcome, ReconcileOutcome::Failed(_));
        while !world.manager().records("custompod").iter().any(is_failure) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, refused).await.expect("a refused creation");
    assert_eq!(world.pod_names().await.len(), 3);
    world.set_phase("custompod-sample-1", "Running").await; // the watch delivers it
    world.manager().settled(LIMIT).await.unwrap();
    assert_eq!(world.pod_names().await.len(), 3);
    world.stop().await;
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
    install(&admin(&cluster), &manifests("")).await;
    cluster
}

fn admin(cluster: &Cluster) -> Client {
    Client::new(cluster.server().in_process_client(), "default")
}

fn start_operator(cluster: &Cluster) -> Operator {
    let client = client_of(cluster.server(), "custompod-operator");
    Operator::start(client, ManagerOptions::default(), |manager| {
        add_to(manager, &Options::default()).unwrap();
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
