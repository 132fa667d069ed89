//! Deployments: rollouts, history, scaling, pauses and deadlines.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::objects::{PODS, make_ready, names, template};
use crate::plane::Plane;
use machinery::{Value, json};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const EVENTS: &str = "/api/v1/namespaces/default/events";

fn deployment(replicas: u32) -> Value {
    json!({
        "metadata": {"name": "web", "annotations": {"team": "blue"}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template("web"),
        },
    })
}

async fn plane() -> Plane {
    Plane::start(&["replicaset", "deployment"]).await
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
}

fn condition<'a>(object: &'a Value, type_: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.and_then(|all| all.iter().find(|it| it["type"] == type_));
    found.unwrap_or(&Value::Null)
}

fn is_observed(object: &Value) -> bool {
    object["status"]["observedGeneration"] == object["metadata"]["generation"]
}

/// Makes pods ready until the Deployment is complete, and returns the largest number of pods and the
/// smallest number of ready pods on the way.
async fn roll_out(plane: &Plane) -> (usize, usize) {
    let (mut most, mut least_ready) = (0, usize::MAX);
    loop {
        let found = plane.read(WEB).await;
        let progressing = condition(&found, "Progressing");
        let status = &found["status"];
        let wanted = &found["spec"]["replicas"];
        if is_observed(&found)
            && progressing["reason"] == "NewReplicaSetAvailable"
            && [&status["replicas"], &status["updatedReplicas"]].iter().all(|it| *it == wanted)
        {
            return (most, least_ready);
        }
        let pods = plane.read(PODS).await;
        let pods = pods["items"].as_array().unwrap();
        let is_ready = |pod: &&Value| pod["status"]["conditions"][0]["status"] == "True";
        most = most.max(pods.len());
        least_ready = least_ready.min(pods.iter().filter(is_ready).count());
        if let Some(pod) = pods.iter().find(|pod| !is_ready(pod)) {
            make_ready(plane, pod["metadata"]["name"].as_str().unwrap()).await;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_deployment_creates_a_replica_set_and_becomes_available() {
    let plane = plane().await;
    plane.create(DEPLOYMENTS, &deployment(3)).await;
    let found = plane.until(WEB, |_, it| it["status"]["replicas"] == 3).await;
    assert_eq!(found["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    assert_eq!(found["status"]["unavailableReplicas"], 3);
    let progressing = condition(&found, "Progressing");
    assert_eq!(progressing["status"], "True");
    assert_eq!(condition(&found, "Available")["reason"], "MinimumReplicasUnavailable");

    let sets = plane.read(SETS).await;
    let set = &sets["items"][0];
    let hash = set["metadata"]["labels"]["pod-template-hash"].as_str().unwrap();
    assert_eq!(set["metadata"]["name"], format!("web-{hash}"));
    assert_eq!(set["spec"]["selector"]["matchLabels"]["pod-template-hash"], hash);
    let annotations = &set["metadata"]["annotations"];
    assert_eq!(annotations["team"], "blue");
    assert_eq!(annotations["deployment.kubernetes.io/desired-replicas"], "3");
    assert_eq!(annotations["deployment.kubernetes.io/max-replicas"], "4");

    roll_out(&plane).await;
    let found = plane.read(WEB).await;
    assert_eq!(condition(&found, "Available")["message"], "Deployment has minimum availability.");
    let message = format!("ReplicaSet \"web-{hash}\" has successfully progressed.");
    assert_eq!(condition(&found, "Progressing")["message"], message);
    assert_eq!(found["status"]["readyReplicas"], 3);
    let events = plane.until(EVENTS, |_, it| it.to_string().contains("ScalingReplicaSet")).await;
    let scaled = format!("Scaled up replica set web-{hash} from 0 to 3");
    assert!(events.to_string().contains(&scaled), "{events}");
    plane.stop().await;
}

#[tokio::test]
async fn a_rolling_update_keeps_the_limits_of_surge_and_availability() {
    let plane = plane().await;
    let mut web = deployment(8);
    web["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}});
    plane.create(DEPLOYMENTS, &web).await;
    roll_out(&plane).await;
    plane.merge(WEB, &image("nginx:2")).await;
    let (most, least_ready) = roll_out(&plane).await;
    assert!(most <= 10, "{most} pods");
    assert!(least_ready >= 7, "{least_ready} ready pods");
    let sets = plane.read(SETS).await;
    let sizes: Vec<_> =
        sets["items"].as_array().unwrap().iter().map(|it| it["spec"]["replicas"].clone()).collect();
    assert!(sizes.contains(&json!(0)) && sizes.contains(&json!(8)), "{sizes:?}");
    let found = plane.read(WEB).await;
    assert_eq!(found["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
    plane.stop().await;
}

#[tokio::test]
async fn the_status_of_a_set_that_was_scaled_down_does_not_count_as_available() {
    let plane = Plane::start(&["deployment"]).await;
    let mut web = deployment(6);
    web["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}});
    plane.create(DEPLOYMENTS, &web).await;
    let sets = plane.until(SETS, |_, it| names(it).len() == 1).await;
    let [old] = &names(&sets)[..] else { panic!("{sets}") };
    let old_path = format!("{SETS}/{old}");
    report_available(&plane, old, 6).await;
    plane.until(WEB, |_, it| it["status"]["availableReplicas"] == 6).await;

    plane.merge(WEB, &image("nginx:2")).await;
    plane.until(&old_path, |_, it| it["spec"]["replicas"] == 5).await;
    let sets = plane.read(SETS).await;
    let new = names(&sets).into_iter().find(|name| name != old).unwrap();
    // The old set has not deleted a pod yet.
    report_available(&plane, &new, 2).await;
    let found = plane.until(&old_path, |_, it| it["spec"]["replicas"] != 5).await;
    assert_eq!(found["spec"]["replicas"], 3);
    plane.stop().await;
}

/// Writes a status of a set, all of whose pods are available.
async fn report_available(plane: &Plane, set: &str, count: u32) {
    let status = json!({"replicas": count, "fullyLabeledReplicas": count, "readyReplicas": count,
        "availableReplicas": count});
    plane.merge(&format!("{SETS}/{set}/status"), &json!({"status": status})).await;
}

#[tokio::test]
async fn a_rollback_reuses_the_replica_set_and_keeps_its_revisions() {
    let plane = plane().await;
    plane.create(DEPLOYMENTS, &deployment(2)).await;
    roll_out(&plane).await;
    let first = names(&plane.read(SETS).await)[0].clone();
    plane.merge(WEB, &image("nginx:2")).await;
    roll_out(&plane).await;
    plane.merge(WEB, &image("nginx")).await;
    roll_out(&plane).await;
    let set = plane.read(&format!("{SETS}/{first}")).await;
    assert_eq!(set["spec"]["replicas"], 2);
    let annotations = &set["metadata"]["annotations"];
    assert_eq!(annotations["deployment.kubernetes.io/revision"], "3");
    assert_eq!(annotations["deployment.kubernetes.io/revision-history"], "1");
    assert_eq!(names(&plane.read(SETS).await).len(), 2);
    plane.stop().await;
}

#[tokio::test]
async fn old_replica_sets_beyond_the_limit_of_the_history_are_deleted() {
    let plane = plane().await;
    let mut web = deployment(1);
    web["spec"]["revisionHistoryLimit"] = 1.into();
    plane.create(DEPLOYMENTS, &web).await;
    roll_out(&plane).await;
    for number in 2..5 {
        plane.merge(WEB, &image(&format!("nginx:{number}"))).await;
        roll_out(&plane).await;
    }
    let sets = plane.until(SETS, |_, sets| names(sets).len() == 2).await;
    let revisions: Vec<&str> = sets["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            it["metadata"]["annotations"]["deployment.kubernetes.io/revision"].as_str().unwrap()
        })
        .collect();
    assert!(revisions.contains(&"3") && revisions.contains(&"4"), "{revisions:?}");
    plane.stop().await;
}

#[tokio::test]
async fn a_paused_deployment_is_scaled_and_not_rolled_out() {
    let plane = plane().await;
    plane.create(DEPLOYMENTS, &deployment(2)).await;
    roll_out(&plane).await;
    plane.merge(WEB, &json!({"spec": {"paused": true}})).await;
    let paused = |it: &Value| condition(it, "Progressing")["reason"] == "DeploymentPaused";
    plane.until(WEB, |_, it| paused(it)).await;
    plane.merge(WEB, &image("nginx:2")).await;
    plane.merge(WEB, &json!({"spec": {"replicas": 4}})).await;
    plane.until(WEB, |_, it| is_observed(it) && it["status"]["replicas"] == 4).await;
    let sets = plane.read(SETS).await;
    assert_eq!(names(&sets).len(), 1);
    assert_eq!(sets["items"][0]["spec"]["replicas"], 4);

    plane.merge(WEB, &json!({"spec": {"paused": false}})).await;
    roll_out(&plane).await;
    assert_eq!(names(&plane.read(SETS).await).len(), 2);
    plane.stop().await;
}

#[tokio::test]
async fn a_recreation_ends_all_old_pods_first() {
    let plane = plane().await;
    let mut web = deployment(3);
    web["spec"]["strategy"] = json!({"type": "Recreate"});
    plane.create(DEPLOYMENTS, &web).await;
    roll_out(&plane).await;
    // A finalizer keeps one old pod.
    let kept = names(&plane.read(PODS).await)[0].clone();
    let finalizer = |value: Value| json!({"metadata": {"finalizers": value}});
    let path = format!("{PODS}/{kept}");
    plane.merge(&path, &finalizer(json!(["example.com/kept"]))).await;
    plane.merge(WEB, &image("nginx:2")).await;
    plane.until(PODS, |_, pods| names(pods) == [kept.clone()]).await;
    plane.until(WEB, |_, it| is_observed(it) && it["status"]["replicas"].is_null()).await;
    assert_eq!(names(&plane.read(SETS).await).len(), 1, "no new pods while an old one exists");
    plane.merge(&path, &finalizer(Value::Null)).await;
    roll_out(&plane).await;
    assert_eq!(names(&plane.read(PODS).await).len(), 3);
    plane.stop().await;
}

#[tokio::test]
async fn a_rollout_without_progress_is_reported_after_the_deadline() {
    let plane = plane().await;
    let mut web = deployment(1);
    web["spec"]["progressDeadlineSeconds"] = 60.into();
    plane.create(DEPLOYMENTS, &web).await;
    plane.until(WEB, |_, it| it["status"]["replicas"] == 1).await;
    let set = names(&plane.read(SETS).await)[0].clone();
    plane.advance(Duration::from_secs(59));
    assert_eq!(condition(&plane.read(WEB).await, "Progressing")["status"], "True");
    plane.advance(Duration::from_secs(2));
    let found = plane.until(WEB, |_, it| condition(it, "Progressing")["status"] == "False").await;
    let progressing = condition(&found, "Progressing");
    assert_eq!(progressing["reason"], "ProgressDeadlineExceeded");
    let message = format!("ReplicaSet \"{set}\" has timed out progressing.");
    assert_eq!(progressing["message"], message);
    roll_out(&plane).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_deployment_that_is_scaled_during_a_rollout_keeps_its_proportions() {
    let plane = plane().await;
    let mut web = deployment(10);
    web["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 5}});
    plane.create(DEPLOYMENTS, &web).await;
    roll_out(&plane).await;
    plane.merge(WEB, &image("nginx:2")).await;
    // The new pods do not become ready, so five pods of each set remain.
    let sizes = |sets: &Value| {
        let sets = sets["items"].as_array().unwrap().iter();
        let mut sizes: Vec<i64> =
            sets.map(|it| it["status"]["replicas"].as_i64().unwrap_or(0)).collect();
        sizes.sort_unstable();
        sizes
    };
    plane.until(SETS, |_, sets| sizes(sets) == [5, 5]).await;
    plane.merge(WEB, &json!({"spec": {"replicas": 20}})).await;
    plane.until(SETS, |_, sets| sizes(sets) == [10, 10]).await;
    plane.stop().await;
}

#[tokio::test]
async fn an_orphaned_replica_set_is_adopted() {
    let plane = plane().await;
    plane.create(DEPLOYMENTS, &deployment(2)).await;
    roll_out(&plane).await;
    let set = names(&plane.read(SETS).await)[0].clone();
    let path = format!("{SETS}/{set}");
    let released = json!({"metadata": {"ownerReferences": null}});
    plane.merge(&path, &released).await;
    let owner = &plane.read(WEB).await["metadata"]["uid"];
    plane.until(&path, |_, it| &it["metadata"]["ownerReferences"][0]["uid"] == owner).await;
    assert_eq!(names(&plane.read(SETS).await).len(), 1);
    plane.stop().await;
}

#[tokio::test]
async fn the_deadline_of_a_replica_set_that_exists_counts_from_the_time_at_which_it_is_found() {
    let plane = Plane::start(&["deployment"]).await;
    plane.create(DEPLOYMENTS, &deployment(2)).await;
    let sets = plane.until(SETS, |_, it| names(it).len() == 1).await;
    let set = names(&sets)[0].clone();
    plane.until(WEB, |_, it| is_observed(it)).await;
    plane.delete(WEB).await;
    let path = format!("{SETS}/{set}");
    plane.merge(&path, &json!({"metadata": {"ownerReferences": null}})).await;
    let owner = plane.create(DEPLOYMENTS, &deployment(2)).await["metadata"]["uid"].clone();
    plane.until(&path, |_, it| it["metadata"]["ownerReferences"][0]["uid"] == owner).await;
    let found = plane.until(WEB, |_, it| is_observed(it)).await;
    let progressing = condition(&found, "Progressing");
    assert_eq!(progressing["reason"], "FoundNewReplicaSet");
    assert_eq!(progressing["status"], "True");
    assert_eq!(progressing["message"], format!("Found new replica set \"{set}\""));
    plane.advance(Duration::from_secs(601));
    plane
        .until(WEB, |_, it| condition(it, "Progressing")["reason"] == "ProgressDeadlineExceeded")
        .await;
    plane.stop().await;
}

#[tokio::test]
async fn the_largest_number_of_replicas_does_not_overflow() {
    let plane = Plane::start(&["deployment"]).await;
    plane.create(DEPLOYMENTS, &deployment(2_147_483_647)).await;
    let is_written = |_, it: &Value| it["status"]["unavailableReplicas"] == 2_147_483_647_u32;
    plane.until(WEB, is_written).await;
    let sets = plane.read(SETS).await;
    assert_eq!(sets["items"][0]["spec"]["replicas"], 2_147_483_647_u32);
    let annotations = &sets["items"][0]["metadata"]["annotations"];
    assert_eq!(annotations["deployment.kubernetes.io/max-replicas"], "2147483647");

    // No pod is available, so the old set keeps three quarters, and the new one gets the rest.
    plane.merge(WEB, &image("nginx:2")).await;
    plane
        .until(SETS, |_, sets| {
            let sets = sets["items"].as_array().unwrap();
            let sizes = sets.iter().filter_map(|set| set["spec"]["replicas"].as_u64());
            sizes.collect::<BTreeSet<_>>() == BTreeSet::from([1_073_741_823, 1_610_612_736])
        })
        .await;
    plane.stop().await;
}
