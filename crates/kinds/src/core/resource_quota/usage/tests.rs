//! Tests of the usage of objects and of the scopes of quotas.

use super::*;
use crate::validation::testing::object;
use machinery::json;

fn used(group: &str, plural: &str, value: Value) -> String {
    shown(&Evaluator::of(group, plural).unwrap().usage(&object(value)))
}

fn quota(spec: Value) -> Quota {
    Quota::of(&object(json!({"metadata": {"name": "q"}, "spec": spec})))
}

#[test]
fn resource_claims_use_the_devices_that_they_may_get() {
    let exactly = |class: &str, mode: &str, count: i64| json!({"deviceClassName": class, "allocationMode": mode, "count": count});
    let claim = json!({"spec": {"devices": {"requests": [
        {"name": "a", "exactly": exactly("gpu", "ExactCount", 2)},
        {"name": "b", "exactly": exactly("nic", "All", 0)},
        {"name": "c", "firstAvailable": [
            exactly("gpu", "ExactCount", 1), exactly("gpu", "ExactCount", 3)]},
    ]}}});
    assert_eq!(
        used("resource.k8s.io", "resourceclaims", claim),
        "count/resourceclaims.resource.k8s.io=1,gpu.deviceclass.resource.k8s.io/devices=5,nic.deviceclass.resource.k8s.io/devices=32"
    );
    let limits = json!({"hard": {"gpu.deviceclass.resource.k8s.io/devices": "5"}});
    let limited = quota(limits).resources();
    assert!(limited.contains(&("resource.k8s.io".to_owned(), "resourceclaims".to_owned())));
}

#[test]
fn objects_of_all_resources_but_events_are_counted() {
    assert_eq!(used("apps", "deployments", json!({})), "count/deployments.apps=1");
    assert_eq!(used("", "secrets", json!({})), "count/secrets=1,secrets=1");
    assert_eq!(used("example.com", "things", json!({})), "count/things.example.com=1");
    assert_eq!(Evaluator::of("", "events"), None);
}

#[test]
fn a_pod_uses_its_requests_until_it_terminates() {
    let resources = json!({"requests": {"cpu": "1", "example.com/gpu": "2"},
        "limits": {"memory": "1Gi", "example.com/gpu": "2"}});
    let mut pod = json!({"spec": {"containers": [{"name": "c", "resources": resources}]}});
    assert_eq!(
        used("", "pods", pod.clone()),
        "count/pods=1,cpu=1,limits.memory=1Gi,pods=1,requests.cpu=1,requests.example.com/gpu=2"
    );
    pod["status"] = json!({"phase": "Succeeded"});
    assert_eq!(used("", "pods", pod), "count/pods=1");
}

#[test]
fn a_service_uses_node_ports_and_load_balancers() {
    let service =
        |kind| json!({"spec": {"type": kind, "ports": [{"port": 1}, {"port": 2, "nodePort": 9}]}});
    let plain = "count/services=1,services=1,services.loadbalancers=0,services.nodeports=0";
    assert_eq!(used("", "services", service("ClusterIP")), plain);
    let mut balanced = service("LoadBalancer");
    let full = "count/services=1,services=1,services.loadbalancers=1,services.nodeports=2";
    assert_eq!(used("", "services", balanced.clone()), full);
    balanced["spec"]["allocateLoadBalancerNodePorts"] = json!(false);
    let fewer = "count/services=1,services=1,services.loadbalancers=1,services.nodeports=1";
    assert_eq!(used("", "services", balanced), fewer);
}

#[test]
fn a_claim_uses_storage_in_total_and_of_its_class() {
    let claim = json!({"spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "1Gi"}}}});
    assert_eq!(
        used("", "persistentvolumeclaims", claim),
        "count/persistentvolumeclaims=1,gold.storageclass.storage.k8s.io/persistentvolumeclaims=1,gold.storageclass.storage.k8s.io/requests.storage=1Gi,persistentvolumeclaims=1,requests.storage=1Gi"
    );
}

#[test]
fn a_quota_only_limits_objects_in_its_scopes() {
    let covered =
        |quota: &Quota, spec: Value| Evaluator::Pods.matches(quota, &object(json!({"spec": spec})));
    let scope = |name: &str| quota(json!({"scopes": [name]}));
    assert!(covered(&scope("Terminating"), json!({"activeDeadlineSeconds": 5})));
    assert!(!covered(&scope("Terminating"), json!({})));
    assert!(covered(&scope("NotTerminating"), json!({})));
    let asks = json!({"containers": [{"resources": {"requests": {"cpu": "1"}}}]});
    assert!(!covered(&scope("BestEffort"), asks.clone()));
    assert!(covered(&scope("NotBestEffort"), asks));
    let term = json!([{"topologyKey": "k", "namespaces": ["other"]}]);
    let affinity = json!({"affinity": {"podAffinity":
        {"requiredDuringSchedulingIgnoredDuringExecution": term}}});
    assert!(covered(&scope("CrossNamespacePodAffinity"), affinity));
    let selected = |operator: &str, values: Value| {
        quota(json!({"scopeSelector": {"matchExpressions":
            [{"scopeName": "PriorityClass", "operator": operator, "values": values}]}}))
    };
    let high = json!({"priorityClassName": "high"});
    assert!(covered(&selected("In", json!(["high"])), high.clone()));
    assert!(!covered(&selected("NotIn", json!(["high"])), high.clone()));
    assert!(covered(&selected("NotIn", json!(["high"])), json!({})));
    assert!(covered(&selected("Exists", json!([])), high));
    assert!(!covered(&selected("Exists", json!([])), json!({})));
    assert!(!Evaluator::Services.matches(&scope("Terminating"), &object(json!({}))));
}

#[test]
fn containers_must_set_the_requests_that_a_quota_limits() {
    let quota = quota(json!({"hard": {"requests.cpu": "1", "limits.memory": "1Gi", "pods": "2"}}));
    let pod = |resources: Value| {
        object(
            json!({"spec": {"containers": [{"name": "b", "resources": resources}, {"name": "a"}]}}),
        )
    };
    assert_eq!(
        Evaluator::Pods.missing_requests(&pod(json!({"requests": {"cpu": "1"}})), &quota),
        Some("must specify limits.memory for: a,b; requests.cpu for: a".to_owned())
    );
    assert_eq!(Evaluator::Services.missing_requests(&pod(json!({})), &quota), None);
}

#[test]
fn the_names_in_a_quota_select_the_counted_resources() {
    let quota =
        quota(json!({"hard": {"requests.cpu": "1", "secrets": "1", "count/jobs.batch": "1",
        "gold.storageclass.storage.k8s.io/requests.storage": "1Gi", "services.nodeports": "1"}}));
    let found: Vec<String> =
        quota.resources().iter().map(|(group, plural)| format!("{plural}.{group}")).collect();
    assert_eq!(found, ["persistentvolumeclaims.", "pods.", "secrets.", "services.", "jobs.batch"]);
}
