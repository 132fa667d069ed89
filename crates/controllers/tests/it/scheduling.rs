//! The scheduler against nodes that are objects only: nothing runs the pods.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::plane::Plane;
use machinery::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

async fn plane() -> Plane {
    Plane::start(&["kube-scheduler"]).await
}

/// Creates a node that is ready.
async fn add_node(plane: &Plane, name: &str, cpu: &str, labels: Value) {
    let node = json!({"metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}}});
    plane.create("/api/v1/nodes", &node).await;
    // The API server adds the taint not-ready to new nodes.
    plane.merge(&format!("/api/v1/nodes/{name}"), &json!({"spec": {"taints": null}})).await;
}

async fn add_pod(plane: &Plane, name: &str, cpu: &str, spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": name, "labels": {"app": "web"}}, "spec": spec});
    pod["spec"]["containers"] = json!([{"name": "c", "image": "nginx",
        "resources": {"requests": {"cpu": cpu}}}]);
    plane.create(PODS, &pod).await
}

async fn bound(plane: &Plane, name: &str) -> String {
    let is_bound = |_, pod: &Value| pod["spec"]["nodeName"].is_string();
    let pod = plane.until(&format!("{PODS}/{name}"), is_bound).await;
    pod["spec"]["nodeName"].as_str().unwrap().to_owned()
}

async fn is_bound(plane: &Plane, name: &str) -> bool {
    plane.read(&format!("{PODS}/{name}")).await["spec"]["nodeName"].is_string()
}

fn condition<'a>(pod: &'a Value, type_: &str) -> &'a Value {
    let conditions = pod["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|known| known["type"] == type_);
    found.unwrap_or(&Value::Null)
}

/// Waits for a message of the condition `PodScheduled`.
async fn refused(plane: &Plane, name: &str, message: &str) -> Value {
    let is_refused = |_, pod: &Value| {
        condition(pod, "PodScheduled")["message"].as_str().is_some_and(|it| it.contains(message))
    };
    plane.until(&format!("{PODS}/{name}"), is_refused).await
}

/// Waits for an Event about a pod, and returns it.
async fn event(plane: &Plane, pod: &str, reason: &str) -> Value {
    let find = |list: &Value| {
        let events = list["items"].as_array().unwrap().iter();
        let mut events = events.filter(|it| it["involvedObject"]["name"] == pod);
        events.find(|it| it["reason"] == reason).cloned()
    };
    let path = "/api/v1/namespaces/default/events";
    let list = plane.until(path, |_, list| find(list).is_some()).await;
    find(&list).unwrap()
}

async fn add_priority_class(plane: &Plane, name: &str, value: i32) {
    let class = json!({"metadata": {"name": name}, "value": value});
    plane.create("/apis/scheduling.k8s.io/v1/priorityclasses", &class).await;
}

#[tokio::test]
async fn a_pod_is_bound_and_an_event_says_so() {
    let plane = plane().await;
    add_node(&plane, "a", "4", json!({})).await;
    add_pod(&plane, "p", "1", json!({})).await;
    assert_eq!(bound(&plane, "p").await, "a");
    let pod = plane.read(&format!("{PODS}/p")).await;
    assert_eq!(condition(&pod, "PodScheduled")["status"], "True");
    let event = event(&plane, "p", "Scheduled").await;
    assert_eq!(event["message"], "Successfully assigned default/p to a");
    assert_eq!(event["source"]["component"], "default-scheduler");
    assert_eq!(event["type"], "Normal");
    plane.stop().await;
}

#[tokio::test]
async fn pods_of_another_scheduler_and_gated_pods_are_left_alone() {
    let plane = plane().await;
    add_node(&plane, "a", "4", json!({})).await;
    add_pod(&plane, "foreign", "1", json!({"schedulerName": "other"})).await;
    add_pod(&plane, "gated", "1", json!({"schedulingGates": [{"name": "example.com/g"}]})).await;
    add_pod(&plane, "p", "1", json!({})).await;
    bound(&plane, "p").await;
    assert!(!is_bound(&plane, "foreign").await);
    let gated = plane.read(&format!("{PODS}/gated")).await;
    assert_eq!(condition(&gated, "PodScheduled")["reason"], "SchedulingGated");
    plane.merge(&format!("{PODS}/gated"), &json!({"spec": {"schedulingGates": null}})).await;
    bound(&plane, "gated").await;
    assert!(!is_bound(&plane, "foreign").await);
    plane.stop().await;
}

#[tokio::test]
async fn the_condition_says_why_a_pod_is_not_scheduled() {
    let plane = plane().await;
    add_pod(&plane, "p", "5", json!({})).await;
    let pod = refused(&plane, "p", "no nodes available to schedule pods").await;
    assert_eq!(condition(&pod, "PodScheduled")["reason"], "Unschedulable");
    assert_eq!(condition(&pod, "PodScheduled")["status"], "False");
    add_node(&plane, "a", "4", json!({})).await;
    add_node(&plane, "b", "4", json!({})).await;
    add_node(&plane, "c", "8", json!({})).await;
    bound(&plane, "p").await;
    let taint = json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
    plane.merge("/api/v1/nodes/c", &taint).await;
    add_pod(&plane, "q", "6", json!({})).await;
    let message = "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. \
                   no new claims to deallocate, preemption: 0/3 nodes are available: \
                   3 Preemption is not helpful for scheduling.";
    refused(&plane, "q", message).await;
    let event = event(&plane, "q", "FailedScheduling").await;
    assert_eq!((&event["message"], &event["type"]), (&json!(message), &json!("Warning")));
    plane.stop().await;
}

#[tokio::test]
async fn a_changed_node_or_a_deleted_pod_makes_place_at_once() {
    let plane = plane().await;
    add_node(&plane, "a", "4", json!({})).await;
    let now = json!({"terminationGracePeriodSeconds": 0});
    add_pod(&plane, "first", "3", now).await;
    bound(&plane, "first").await;
    add_pod(&plane, "second", "3", json!({})).await;
    refused(&plane, "second", "1 Insufficient cpu").await;
    plane.delete(&format!("{PODS}/first")).await;
    bound(&plane, "second").await;
    add_pod(&plane, "third", "3", json!({})).await;
    refused(&plane, "third", "1 Insufficient cpu").await;
    let larger = json!({"status": {"allocatable": {"cpu": "8"}}});
    plane.merge("/api/v1/nodes/a/status", &larger).await;
    bound(&plane, "third").await;
    plane.stop().await;
}

#[tokio::test]
async fn pods_of_higher_priority_come_first() {
    let plane = plane().await;
    add_priority_class(&plane, "high", 1000).await;
    add_pod(&plane, "low", "3", json!({})).await;
    refused(&plane, "low", "no nodes available").await;
    add_pod(&plane, "high", "3", json!({"priorityClassName": "high"})).await;
    refused(&plane, "high", "no nodes available").await;
    add_node(&plane, "a", "4", json!({})).await;
    bound(&plane, "high").await;
    refused(&plane, "low", "1 Insufficient cpu").await;
    plane.stop().await;
}

#[tokio::test]
async fn pods_are_spread_by_affinity_constraints_and_ports() {
    let plane = plane().await;
    for name in ["a", "b"] {
        add_node(&plane, name, "4", json!({"zone": name, "kubernetes.io/hostname": name})).await;
    }
    let selector = json!({"matchLabels": {"app": "web"}});
    let lonely = json!({"affinity": {"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}]}}});
    let near = json!({"affinity": {"podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}]}}});
    add_pod(&plane, "l1", "100m", lonely.clone()).await;
    add_pod(&plane, "l2", "100m", lonely.clone()).await;
    assert_ne!(bound(&plane, "l1").await, bound(&plane, "l2").await);
    add_pod(&plane, "l3", "100m", lonely).await;
    refused(&plane, "l3", "2 node(s) didn't match pod anti-affinity rules").await;
    add_pod(&plane, "near", "100m", near).await;
    refused(&plane, "near", "2 node(s) didn't match pod affinity rules").await;
    for name in ["l1", "l2", "l3", "near"] {
        plane.delete_with(&format!("{PODS}/{name}"), &json!({"gracePeriodSeconds": 0})).await;
    }
    let spread = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]});
    let mut zones = BTreeMap::<String, i32>::new();
    for name in ["s1", "s2", "s3", "s4"] {
        add_pod(&plane, name, "100m", spread.clone()).await;
        *zones.entry(bound(&plane, name).await).or_default() += 1;
    }
    assert_eq!(zones.into_values().collect::<Vec<_>>(), [2, 2]);
    let web = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "nginx",
            "ports": [{"containerPort": 80, "hostPort": 80}]}]}})
    };
    for name in ["w1", "w2", "w3"] {
        plane.create(PODS, &web(name)).await;
    }
    assert_ne!(bound(&plane, "w1").await, bound(&plane, "w2").await);
    refused(&plane, "w3", "2 node(s) didn't have free ports for the requested pod ports").await;
    plane.stop().await;
}

#[tokio::test]
async fn a_pod_of_higher_priority_preempts_others() {
    let plane = plane().await;
    add_priority_class(&plane, "high", 1000).await;
    add_node(&plane, "a", "4", json!({})).await;
    add_pod(&plane, "small", "1", json!({"priorityClassName": "high"})).await;
    add_pod(&plane, "victim", "3", json!({})).await;
    bound(&plane, "small").await;
    bound(&plane, "victim").await;
    let pod = add_pod(&plane, "vip", "2", json!({"priorityClassName": "high"})).await;
    let is_disrupted = |_, pod: &Value| pod["metadata"]["deletionTimestamp"].is_string();
    let victim = plane.until(&format!("{PODS}/victim"), is_disrupted).await;
    let disrupted = condition(&victim, "DisruptionTarget");
    assert_eq!(disrupted["reason"], "PreemptionByScheduler");
    assert_eq!(
        disrupted["message"],
        "default-scheduler: preempting to accommodate a higher priority pod"
    );
    let is_nominated = |_, pod: &Value| pod["status"]["nominatedNodeName"] == "a";
    plane.until(&format!("{PODS}/vip"), is_nominated).await;
    assert!(!is_bound(&plane, "vip").await);
    let event = event(&plane, "victim", "Preempted").await;
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    assert_eq!(event["message"], format!("Preempted by pod {uid} on node a"));
    plane.delete_with(&format!("{PODS}/victim"), &json!({"gracePeriodSeconds": 0})).await;
    assert_eq!(bound(&plane, "vip").await, "a");
    assert!(is_bound(&plane, "small").await);
    plane.stop().await;
}

#[tokio::test]
async fn a_refused_binding_is_tried_again_after_a_backoff() {
    let plane = plane().await;
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["pods/binding"]});
    let policy = json!({"metadata": {"name": "no"}, "spec": {"failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "false", "message": "not today"}]}});
    plane.create(policies, &policy).await;
    let bindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
    let binding = json!({"metadata": {"name": "no"},
        "spec": {"policyName": "no", "validationActions": ["Deny"]}});
    plane.create(bindings, &binding).await;
    add_node(&plane, "a", "4", json!({})).await;
    add_pod(&plane, "p", "1", json!({})).await;
    let pod = refused(&plane, "p", "not today").await;
    let condition = condition(&pod, "PodScheduled");
    assert_eq!(condition["reason"], "SchedulerError");
    let message = condition["message"].as_str().unwrap();
    assert!(message.starts_with("binding rejected: running Bind plugin \"DefaultBinder\": "));
    plane.delete(&format!("{bindings}/no")).await;
    plane.delete(&format!("{policies}/no")).await;
    // The resources of the pod were given back, and its backoff delays no other pod.
    add_pod(&plane, "q", "4", json!({})).await;
    assert_eq!(bound(&plane, "q").await, "a");
    assert!(!is_bound(&plane, "p").await);
    plane.delete_with(&format!("{PODS}/q"), &json!({"gracePeriodSeconds": 0})).await;
    plane.until(&format!("{PODS}/q"), |code, _| code == 404).await;
    plane.advance(Duration::from_secs(1));
    assert_eq!(bound(&plane, "p").await, "a");
    plane.stop().await;
}

#[tokio::test]
async fn volumes_are_bound_before_their_pod() {
    let plane = plane().await;
    add_node(&plane, "a", "4", json!({})).await;
    let class = json!({"metadata": {"name": "late"}, "provisioner": "example.com/p",
        "volumeBindingMode": "WaitForFirstConsumer"});
    plane.create("/apis/storage.k8s.io/v1/storageclasses", &class).await;
    let volumes =
        json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]});
    add_pod(&plane, "p", "1", volumes).await;
    refused(&plane, "p", r#"0/1 nodes are available: persistentvolumeclaim "data" not found."#)
        .await;
    let claim = json!({"metadata": {"name": "data"}, "spec": {"storageClassName": "late",
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    plane.create(CLAIMS, &claim).await;
    let selected = "volume.kubernetes.io/selected-node";
    let is_selected = |_, claim: &Value| claim["metadata"]["annotations"][selected] == "a";
    plane.until(&format!("{CLAIMS}/data"), is_selected).await;
    assert!(!is_bound(&plane, "p").await);
    let volume = json!({"metadata": {"name": "v1"}, "spec": {"storageClassName": "late",
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}});
    plane.create("/api/v1/persistentvolumes", &volume).await;
    let bind = json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": "v1"}});
    plane.merge(&format!("{CLAIMS}/data"), &bind).await;
    assert_eq!(bound(&plane, "p").await, "a");
    plane.stop().await;
}

#[tokio::test]
async fn a_restarted_scheduler_counts_the_pods_that_are_bound() {
    let mut plane = plane().await;
    add_node(&plane, "a", "4", json!({})).await;
    add_pod(&plane, "first", "3", json!({})).await;
    bound(&plane, "first").await;
    plane.stop_controllers().await;
    add_pod(&plane, "large", "2", json!({})).await;
    add_pod(&plane, "small", "1", json!({})).await;
    plane.restart_controllers().await;
    assert_eq!(bound(&plane, "small").await, "a");
    refused(&plane, "large", "1 Insufficient cpu").await;
    plane.stop().await;
}

#[tokio::test]
async fn a_restarted_scheduler_keeps_the_place_of_a_pod_that_has_preempted_others() {
    let mut plane = plane().await;
    add_priority_class(&plane, "high", 1000).await;
    add_node(&plane, "a", "4", json!({})).await;
    add_pod(&plane, "victim", "3", json!({})).await;
    bound(&plane, "victim").await;
    add_pod(&plane, "vip", "4", json!({"priorityClassName": "high"})).await;
    let is_nominated = |_, pod: &Value| pod["status"]["nominatedNodeName"] == "a";
    plane.until(&format!("{PODS}/vip"), is_nominated).await;
    plane.restart_controllers().await;
    add_pod(&plane, "huge", "100", json!({})).await;
    refused(&plane, "huge", "1 Insufficient cpu").await;
    // There is room for them beside the victim, but not beside the pod that waits for its end.
    add_pod(&plane, "lower", "1", json!({})).await;
    add_pod(&plane, "equal", "1", json!({"priorityClassName": "high"})).await;
    refused(&plane, "lower", "1 Insufficient cpu").await;
    refused(&plane, "equal", "1 Insufficient cpu").await;
    plane.delete_with(&format!("{PODS}/victim"), &json!({"gracePeriodSeconds": 0})).await;
    assert_eq!(bound(&plane, "vip").await, "a");
    plane.stop().await;
}

#[tokio::test]
async fn two_hundred_pods_fill_ten_nodes_evenly() {
    let plane = plane().await;
    for index in 0..10 {
        add_node(&plane, &format!("n{index}"), "64", json!({})).await;
    }
    for index in 0..200 {
        add_pod(&plane, &format!("p{index}"), "1", json!({})).await;
    }
    let mut nodes = BTreeMap::<String, i32>::new();
    for index in 0..200 {
        *nodes.entry(bound(&plane, &format!("p{index}")).await).or_default() += 1;
    }
    assert_eq!(nodes.into_values().collect::<Vec<_>>(), [20; 10]);
    plane.stop().await;
}

#[tokio::test]
async fn a_pod_with_resource_claims_waits_and_says_why() {
    let plane = plane().await;
    add_node(&plane, "a", "4", json!({})).await;
    let claims = json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]});
    add_pod(&plane, "p", "1", claims).await;
    let why = "0/1 nodes are available: resource claims are not allocated by this scheduler.";
    refused(&plane, "p", why).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_pod_with_thousands_of_constraints_is_not_scheduled_and_is_told_the_limit() {
    let plane = plane().await;
    add_node(&plane, "a", "4", json!({})).await;
    let tolerations = |count: usize| {
        let toleration = |index| json!({"key": format!("k{index}"), "operator": "Exists"});
        json!({"tolerations": (0..count).map(toleration).collect::<Vec<_>>()})
    };
    add_pod(&plane, "many", "1", tolerations(2_000)).await;
    add_pod(&plane, "usual", "1", tolerations(20)).await;
    let why = "0/1 nodes are available: the affinity, node selector, tolerations and topology spread \
               constraints of the pod have 2002 conditions, and this scheduler considers at most 1000.";
    refused(&plane, "many", why).await;
    let event = event(&plane, "many", "FailedScheduling").await;
    assert!(event["message"].as_str().unwrap().starts_with(why), "{event}");
    assert_eq!(bound(&plane, "usual").await, "a");
    plane.stop().await;
}
