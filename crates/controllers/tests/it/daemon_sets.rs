//! DaemonSets.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;

use crate::crash::{Crash, LastWrite};
use crate::fake_node::FakeNode;
use crate::objects::{PODS, names, template};
use crate::plane::Plane;
use machinery::{Value, json};

const SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
const AGENT: &str = "/apis/apps/v1/namespaces/default/daemonsets/agent";
const NODES: &str = "/api/v1/nodes";
const EVENTS: &str = "/api/v1/namespaces/default/events";
const REVISIONS: &str = "/apis/apps/v1/namespaces/default/controllerrevisions";

const NODE: FakeNode = FakeNode;

fn set(more: &Value) -> Value {
    let mut set = json!({
        "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": template("agent"),
        },
    });
    machinery::patch::merge::apply(&mut set, &json!({"spec": more}));
    set
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
}

/// A plane with nodes `n1`, `n2` and so on, which have no taints.
async fn plane(nodes: usize) -> Plane {
    let plane = Plane::start(&["daemonset"]).await;
    for number in 1..=nodes {
        add_node(&plane, &format!("n{number}"), &json!({})).await;
    }
    plane
}

async fn add_node(plane: &Plane, name: &str, labels: &Value) {
    plane.create(NODES, &json!({"metadata": {"name": name, "labels": labels}})).await;
    // A new node is not ready.
    plane.merge(&format!("{NODES}/{name}"), &json!({"spec": {"taints": null}})).await;
}

async fn taint(plane: &Plane, node: &str, key: &str, effect: &str) {
    let taints = json!([{"key": key, "effect": effect}]);
    plane.merge(&format!("{NODES}/{node}"), &json!({"spec": {"taints": taints}})).await;
}

/// Runs the nodes until all desired pods are available and have the last template.
async fn until_complete(plane: &Plane, desired: u64) -> Value {
    NODE.until(plane, AGENT, |set| is_complete(set, desired)).await
}

fn is_complete(set: &Value, desired: u64) -> bool {
    let status = &set["status"];
    let count = |field: &str| status[field].as_u64().unwrap_or(0);
    let counts = [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "numberAvailable",
        "updatedNumberScheduled",
    ];
    counts.iter().all(|field| count(field) == desired)
        && count("numberUnavailable") == 0
        && status["observedGeneration"] == set["metadata"]["generation"]
}

/// The number of pods of each node, and of those with this image.
async fn pods_by_node(plane: &Plane, image: &str) -> BTreeMap<String, (usize, usize)> {
    let mut by_node = BTreeMap::new();
    for pod in plane.read(PODS).await["items"].as_array().unwrap() {
        let terms = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            ["nodeSelectorTerms"];
        let node = terms[0]["matchFields"][0]["values"][0].as_str().unwrap();
        let (all, with_image): &mut (usize, usize) = by_node.entry(node.to_owned()).or_default();
        *all += 1;
        *with_image += usize::from(pod["spec"]["containers"][0]["image"] == image);
    }
    by_node
}

fn one_each(nodes: &[&str]) -> BTreeMap<String, (usize, usize)> {
    nodes.iter().map(|node| ((*node).to_owned(), (1, 1))).collect()
}

fn has_reason(events: &Value, reason: &str) -> bool {
    events["items"].as_array().unwrap().iter().any(|it| it["reason"] == reason)
}

#[tokio::test]
async fn each_node_gets_one_pod_that_requires_it() {
    let plane = plane(2).await;
    plane.create(SETS, &set(&json!({}))).await;
    let found = until_complete(&plane, 2).await;
    assert_eq!(found["status"]["numberMisscheduled"], 0);
    assert_eq!(pods_by_node(&plane, "nginx").await, one_each(&["n1", "n2"]));
    let pods = plane.read(PODS).await;
    let pod = &pods["items"][0];
    assert_eq!(pod["metadata"]["generateName"], "agent-");
    assert_eq!(pod["metadata"]["ownerReferences"][0]["kind"], "DaemonSet");
    assert_eq!(pod["metadata"]["labels"]["pod-template-generation"], "1");
    let revisions = plane.read(REVISIONS).await;
    let revision = &revisions["items"][0];
    let hash = &revision["metadata"]["labels"]["controller-revision-hash"];
    assert_eq!(&pod["metadata"]["labels"]["controller-revision-hash"], hash);
    assert_eq!(revision["metadata"]["name"], format!("agent-{}", hash.as_str().unwrap()));
    assert_eq!(revision["data"]["spec"]["template"]["$patch"], "replace");
    let tolerated: Vec<&str> = pod["spec"]["tolerations"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|it| it["effect"] == "NoSchedule" && it["operator"] == "Exists")
        .map(|it| it["key"].as_str().unwrap())
        .collect();
    let expected = ["disk-pressure", "memory-pressure", "pid-pressure", "unschedulable"]
        .map(|it| format!("node.kubernetes.io/{it}"));
    assert_eq!(tolerated, expected);

    add_node(&plane, "n3", &json!({})).await;
    until_complete(&plane, 3).await;
    assert_eq!(pods_by_node(&plane, "nginx").await, one_each(&["n1", "n2", "n3"]));
    plane.until(EVENTS, |_, events| has_reason(events, "SuccessfulCreate")).await;
    plane.stop().await;
}

#[tokio::test]
async fn labels_and_taints_of_nodes_decide_where_pods_run() {
    let plane = plane(2).await;
    add_node(&plane, "n3", &json!({"disk": "ssd"})).await;
    let on_ssd = json!({"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}});
    plane.create(SETS, &set(&on_ssd)).await;
    until_complete(&plane, 1).await;
    assert_eq!(pods_by_node(&plane, "nginx").await, one_each(&["n3"]));

    let ssd = json!({"metadata": {"labels": {"disk": "ssd"}}});
    plane.merge(&format!("{NODES}/n1"), &ssd).await;
    until_complete(&plane, 2).await;
    let none = json!({"metadata": {"labels": {"disk": null}}});
    plane.merge(&format!("{NODES}/n3"), &none).await;
    until_complete(&plane, 1).await;
    NODE.until(&plane, PODS, |pods| names(pods).len() == 1).await;
    assert_eq!(pods_by_node(&plane, "nginx").await, one_each(&["n1"]));

    // A pod stays on a node that gets no new pods, and leaves one that evicts.
    taint(&plane, "n1", "gpu", "NoSchedule").await;
    let found = NODE.until(&plane, AGENT, |set| set["status"]["desiredNumberScheduled"] == 0).await;
    assert_eq!(found["status"]["numberMisscheduled"], 1);
    assert_eq!(names(&plane.read(PODS).await).len(), 1);
    taint(&plane, "n1", "gpu", "NoExecute").await;
    NODE.until(&plane, PODS, |pods| names(pods).is_empty()).await;

    // A node that is unschedulable gets pods of DaemonSets.
    taint(&plane, "n1", "node.kubernetes.io/unschedulable", "NoSchedule").await;
    until_complete(&plane, 1).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_pod_that_waits_for_a_deleted_node_is_deleted() {
    let plane = plane(2).await;
    plane.create(SETS, &set(&json!({}))).await;
    plane.until(AGENT, |_, set| set["status"]["currentNumberScheduled"] == 2).await;
    plane.delete(&format!("{NODES}/n2")).await;
    plane.until(AGENT, |_, set| set["status"]["desiredNumberScheduled"] == 1).await;
    plane.until(PODS, |_, pods| names(pods).len() == 1).await;
    assert_eq!(pods_by_node(&plane, "nginx").await, one_each(&["n1"]));
    plane.stop().await;
}

#[tokio::test]
async fn a_failed_pod_is_replaced_with_growing_delays() {
    let plane = plane(1).await;
    plane.create(SETS, &set(&json!({}))).await;
    until_complete(&plane, 1).await;
    let fail = async || {
        let pod = names(&plane.read(PODS).await).remove(0);
        let failed = json!({"status": {"phase": "Failed", "conditions": null}});
        plane.merge(&format!("{PODS}/{pod}/status"), &failed).await;
        pod
    };
    let replaced =
        |pods: &Value, former: &String| names(pods).len() == 1 && !names(pods).contains(former);
    let first = fail().await;
    NODE.until(&plane, PODS, |pods| replaced(pods, &first)).await;
    let found = plane.until(EVENTS, |_, events| has_reason(events, "FailedDaemonPod")).await;
    let message =
        format!("Found failed daemon pod default/{first} on node n1, will try to kill it");
    let events = found["items"].as_array().unwrap();
    assert!(events.iter().any(|it| it["message"] == message), "{found}");
    until_complete(&plane, 1).await;

    // The second failure within a second waits.
    let second = fail().await;
    plane.until(AGENT, |_, set| set["status"]["numberReady"] == 0).await;
    NODE.step(&plane).await;
    assert_eq!(names(&plane.read(PODS).await), std::slice::from_ref(&second));
    plane.advance(Duration::from_secs(1));
    NODE.until(&plane, PODS, |pods| replaced(pods, &second)).await;
    until_complete(&plane, 1).await;
    plane.stop().await;
}

#[tokio::test]
async fn an_update_replaces_pods_within_the_allowed_unavailability() {
    let plane = plane(4).await;
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}});
    plane.create(SETS, &set(&json!({"updateStrategy": strategy}))).await;
    until_complete(&plane, 4).await;
    plane.merge(AGENT, &image("nginx:2")).await;
    let deleting = |pods: &Value| {
        let pods = pods["items"].as_array().unwrap().iter();
        pods.filter(|pod| !pod["metadata"]["deletionTimestamp"].is_null()).count()
    };
    plane.until(PODS, |_, pods| deleting(pods) == 2).await;
    let found = plane.until(AGENT, |_, set| set["status"]["observedGeneration"] == 2).await;
    assert_eq!(found["status"]["updatedNumberScheduled"], Value::Null);
    assert_eq!(deleting(&plane.read(PODS).await), 2);
    until_complete(&plane, 4).await;
    assert_eq!(pods_by_node(&plane, "nginx:2").await, one_each(&["n1", "n2", "n3", "n4"]));

    // What `kubectl rollout undo` sends.
    let revisions = plane.read(REVISIONS).await;
    let revisions = revisions["items"].as_array().unwrap();
    let first = revisions.iter().find(|it| it["revision"] == 1).unwrap();
    let undo = "application/strategic-merge-patch+json";
    assert_eq!(plane.patch(AGENT, undo, &first["data"]).await.0, 200);
    until_complete(&plane, 4).await;
    assert_eq!(pods_by_node(&plane, "nginx").await, one_each(&["n1", "n2", "n3", "n4"]));
    let name = first["metadata"]["name"].as_str().unwrap();
    assert_eq!(plane.read(&format!("{REVISIONS}/{name}")).await["revision"], 3);
    plane.stop().await;
}

#[tokio::test]
async fn a_revision_that_somebody_creates_for_a_set_is_not_merged_at_once() {
    let plane = plane(1).await;
    plane.create(SETS, &set(&json!({}))).await;
    until_complete(&plane, 1).await;
    let mut copy = plane.read(REVISIONS).await["items"][0].take();
    let metadata = copy["metadata"].take();
    copy["metadata"] = json!({"name": "copy", "labels": metadata["labels"],
        "ownerReferences": metadata["ownerReferences"]});
    copy["revision"] = json!(2);
    plane.create(REVISIONS, &copy).await;
    plane.controllers().manager().settled(Duration::from_mins(1)).await.unwrap();
    assert_eq!(names(&plane.read(REVISIONS).await).len(), 2);
    plane.stop().await;
}

#[tokio::test]
async fn an_update_with_surge_deletes_a_pod_after_its_successor_is_available() {
    let plane = plane(3).await;
    let rolling = json!({"maxSurge": 1, "maxUnavailable": 0});
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": rolling});
    plane.create(SETS, &set(&json!({"updateStrategy": strategy}))).await;
    until_complete(&plane, 3).await;
    plane.merge(AGENT, &image("nginx:2")).await;
    plane.until(PODS, |_, pods| names(pods).len() == 4).await;
    let working = async {
        loop {
            let pods = plane.read(PODS).await;
            let pods = pods["items"].as_array().unwrap();
            let ready = pods.iter().filter(|pod| pod["status"]["phase"] == "Running").count();
            assert!(ready >= 3 && pods.len() <= 5, "{ready} of {}", pods.len());
            if is_complete(&plane.read(AGENT).await, 3) && pods.len() == 3 {
                return;
            }
            NODE.step(&plane).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), working).await.unwrap();
    assert_eq!(pods_by_node(&plane, "nginx:2").await, one_each(&["n1", "n2", "n3"]));
    plane.stop().await;
}

#[tokio::test]
async fn with_on_delete_a_pod_is_updated_when_somebody_deletes_it() {
    let plane = plane(2).await;
    plane.create(SETS, &set(&json!({"updateStrategy": {"type": "OnDelete"}}))).await;
    until_complete(&plane, 2).await;
    plane.merge(AGENT, &image("nginx:2")).await;
    plane.until(AGENT, |_, set| set["status"]["observedGeneration"] == 2).await;
    assert_eq!(pods_by_node(&plane, "nginx").await, one_each(&["n1", "n2"]));
    let pod = names(&plane.read(PODS).await).remove(0);
    plane.delete(&format!("{PODS}/{pod}")).await;
    NODE.until(&plane, AGENT, |set| {
        set["status"]["updatedNumberScheduled"] == 1 && set["status"]["numberReady"] == 2
    })
    .await;
    plane.stop().await;
}

#[tokio::test]
async fn pods_become_available_after_they_were_ready_for_the_minimum_time() {
    let plane = plane(1).await;
    plane.create(SETS, &set(&json!({"minReadySeconds": 10}))).await;
    let found = NODE.until(&plane, AGENT, |set| set["status"]["numberReady"] == 1).await;
    assert_eq!(found["status"]["numberUnavailable"], 1);
    plane.advance(Duration::from_secs(10));
    let found = plane.until(AGENT, |_, set| set["status"]["numberAvailable"] == 1).await;
    assert_eq!(found["status"]["numberUnavailable"], Value::Null);
    plane.stop().await;
}

#[tokio::test]
async fn an_orphan_is_adopted_and_a_surplus_pod_is_deleted() {
    let plane = plane(1).await;
    plane.create(SETS, &set(&json!({}))).await;
    until_complete(&plane, 1).await;
    let kept = names(&plane.read(PODS).await);
    let field = json!({"key": "metadata.name", "operator": "In", "values": ["n1"]});
    let required = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
    let mut orphan = template("agent");
    orphan["metadata"]["name"] = "orphan".into();
    orphan["spec"]["affinity"] = json!({"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": required,
    }});
    plane.create(PODS, &orphan).await;
    NODE.until(&plane, PODS, |pods| names(pods) == kept).await;
    plane.stop().await;
}

#[tokio::test]
async fn unused_revisions_are_deleted_beyond_the_limit() {
    let plane = plane(1).await;
    plane.create(SETS, &set(&json!({"revisionHistoryLimit": 1}))).await;
    until_complete(&plane, 1).await;
    for version in 2..=4 {
        plane.merge(AGENT, &image(&format!("nginx:{version}"))).await;
        until_complete(&plane, 1).await;
    }
    let revisions = plane.until(REVISIONS, |_, found| names(found).len() == 2).await;
    let revisions = revisions["items"].as_array().unwrap().iter();
    let mut numbers: Vec<_> = revisions.map(|it| it["revision"].as_i64()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [Some(3), Some(4)]);
    plane.stop().await;
}

#[tokio::test]
async fn a_crash_after_any_write_leaves_one_pod_per_node() {
    let crashes = (1..=5).map(|writes| async move {
        let mut plane = plane(3).await;
        plane.restart_until(&Crash::after(writes, LastWrite::ResponseLost)).await;
        plane.create(SETS, &set(&json!({}))).await;
        for _ in 0..20 {
            NODE.step(&plane).await;
            tokio::task::yield_now().await;
        }
        let before = plane.read(AGENT).await;
        assert!(!is_complete(&before, 3), "{writes} writes are enough");
        plane.restart_controllers().await;
        until_complete(&plane, 3).await;
        let found = pods_by_node(&plane, "nginx").await;
        assert_eq!(found, one_each(&["n1", "n2", "n3"]), "after {writes} writes");
        assert_eq!(names(&plane.read(REVISIONS).await).len(), 1, "after {writes} writes");
        plane.stop().await;
    });
    join_all(crashes).await;
}

#[tokio::test]
async fn an_idle_set_is_not_written_to() {
    let plane = plane(2).await;
    plane.create(SETS, &set(&json!({}))).await;
    until_complete(&plane, 2).await;
    plane.until(EVENTS, |_, events| names(events).len() == 2).await;
    let before = plane.read(AGENT).await;
    for _ in 0..30 {
        plane.advance(Duration::from_secs(1));
        // A heartbeat of a node concerns no set.
        let time = jiff::Timestamp::from_second(plane.clock().now().seconds()).unwrap();
        let ready =
            json!({"type": "Ready", "status": "True", "lastHeartbeatTime": time.to_string()});
        let status = json!({"status": {"conditions": [ready]}});
        plane.merge(&format!("{NODES}/n1/status"), &status).await;
    }
    assert_eq!(plane.read(AGENT).await, before);
    assert_eq!(names(&plane.read(PODS).await).len(), 2);
    assert_eq!(names(&plane.read(EVENTS).await).len(), 2);
    plane.stop().await;
}
