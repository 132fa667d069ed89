//! References from the namespace of mallory to what controllers scale, count, publish or delete.

use std::time::Duration;

use super::owners::record_requests;
use super::{OWN, own, plane};
use crate::objects::{PODS, template};
use machinery::{Value, json};

const MERGE: &str = "application/merge-patch+json";

fn deployment(replicas: u32) -> Value {
    json!({"metadata": {"name": "web"}, "spec": {"replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}}, "template": template("web")}})
}

#[tokio::test]
async fn an_autoscaler_scales_only_the_object_of_its_namespace_that_has_exactly_this_name() {
    let (mut plane, mallory) = plane(&["horizontal-pod-autoscaler"]).await;
    let requested = record_requests(&mut plane).await;
    let namespaces = ["default", OWN];
    let path = |namespace: &str| format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    for namespace in namespaces {
        plane.create(&path(namespace), &deployment(5)).await;
    }
    let autoscalers = own("apis/autoscaling/v2", "horizontalpodautoscalers");
    for (index, (name, is_valid)) in [
        ("../../default/deployments/web", false),
        ("web/scale", false),
        ("..", false),
        ("web%2fscale", false),
        ("web?", true),
        ("web?x=", true),
        ("web#", true),
        ("web ", true),
        ("missing", true),
    ]
    .into_iter()
    .enumerate()
    {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name});
        let autoscaler = json!({"metadata": {"name": format!("a{index}")},
            "spec": {"maxReplicas": 1, "scaleTargetRef": target}});
        let (code, answer) = mallory.post(&autoscalers, &autoscaler).await;
        assert_eq!(code, if is_valid { 201 } else { 422 }, "{name:?}: {answer}");
        if is_valid {
            let has_failed = |_: u16, it: &Value| {
                let conditions = it["status"]["conditions"].as_array();
                conditions.into_iter().flatten().any(|it| it["reason"] == "FailedGetScale")
            };
            plane.until(&format!("{autoscalers}/a{index}"), has_failed).await;
        }
    }
    for namespace in namespaces {
        let web = plane.read(&format!("{}/web", path(namespace))).await;
        assert_eq!(web["spec"]["replicas"], 5, "{namespace}");
    }
    let collection = path(OWN);
    for path in requested.lock().unwrap().iter().filter(|it| it.contains(&collection)) {
        assert!(path.ends_with("/scale") || path.contains(&format!("{collection}?")), "{path}");
    }
    plane.stop().await;
}

#[tokio::test]
async fn a_budget_neither_stops_nor_allows_evictions_in_another_namespace() {
    let (mut plane, mallory) = plane(&["disruption"]).await;
    let requested = record_requests(&mut plane).await;
    let own_pods = own("api/v1", "pods");
    let mut pod = template("web");
    pod["metadata"]["name"] = "web".into();
    pod["spec"]["nodeName"] = "n".into();
    pod["spec"]["terminationGracePeriodSeconds"] = 0.into();
    plane.create(PODS, &pod).await;
    // Its owner is read by the controller, and its name is any text.
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Node",
        "name": "n1/proxy/logs", "uid": "x", "controller": true}]);
    mallory.create(&own_pods, &pod).await;
    for collection in [PODS, &own_pods] {
        let status = json!({"status": {"phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}]}});
        plane.merge(&format!("{collection}/web/status"), &status).await;
    }
    let budgets = own("apis/policy/v1", "poddisruptionbudgets");
    for (name, spec) in [
        ("all", json!({"minAvailable": "100%", "selector": {}})),
        ("none", json!({"maxUnavailable": 0, "selector": {}})),
    ] {
        let budget = json!({"metadata": {"name": name}, "spec": spec});
        mallory.create(&budgets, &budget).await;
        let is_synced = |_: u16, it: &Value| it["status"]["conditions"][0]["status"] == "False";
        plane.until(&format!("{budgets}/{name}"), is_synced).await;
    }
    let eviction = json!({"metadata": {"name": "web"}});
    let victim = format!("{PODS}/web/eviction");
    assert_eq!(mallory.post(&victim, &eviction).await.0, 403);
    // A name in the body is not another object.
    let other = json!({"metadata": {"name": "web", "namespace": "default"}});
    let (code, answer) = mallory.post(&format!("{own_pods}/web/eviction"), &other).await;
    assert!((400..500).contains(&code), "{code} {answer}");
    plane.read(&format!("{PODS}/web")).await;
    assert_eq!(plane.post(&victim, &eviction).await.0, 201, "her budgets do not count here");
    for path in requested.lock().unwrap().iter() {
        assert!(!path.contains("proxy"), "{path}");
    }
    plane.stop().await;
}

#[tokio::test]
async fn an_admin_of_a_namespace_publishes_no_endpoints_of_its_services() {
    let (plane, mallory) = plane(&["endpoint", "endpointslice", "endpointslicemirroring"]).await;
    let binding = json!({
        "metadata": {"name": "mallory"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"kind": "User", "name": "mallory"}],
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    plane.create(bindings, &binding).await;
    let address = json!({"addresses": [{"ip": "10.9.9.9"}], "ports": [{"port": 6443}]});
    let endpoints = json!({"metadata": {"name": "kubernetes"}, "subsets": [address]});
    let slice = json!({"metadata": {"name": "fake",
        "labels": {"kubernetes.io/service-name": "kubernetes"}}, "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.9.9.9"]}], "ports": [{"port": 6443}]});
    for namespace in ["default", OWN] {
        let core = format!("/api/v1/namespaces/{namespace}/endpoints");
        let slices = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices");
        assert_eq!(mallory.post(&core, &endpoints).await.0, 403);
        assert_eq!(mallory.put(&format!("{core}/kubernetes"), &endpoints).await.0, 403);
        assert_eq!(mallory.patch(&format!("{core}/kubernetes"), MERGE, &endpoints).await.0, 403);
        assert_eq!(mallory.post(&slices, &slice).await.0, 403);
        assert_eq!(mallory.put(&format!("{slices}/kubernetes"), &slice).await.0, 403);
    }
    // A service of this name elsewhere is another one, also for the mirror of its endpoints.
    let service = json!({"metadata": {"name": "kubernetes"}, "spec": {"ports": [{"port": 443}]}});
    mallory.create(&own("api/v1", "services"), &service).await;
    plane.create(&own("api/v1", "endpoints"), &endpoints).await;
    let own_slices = own("apis/discovery.k8s.io/v1", "endpointslices");
    let mirrored =
        plane.until(&own_slices, |_, list| !list["items"].as_array().unwrap().is_empty()).await;
    assert_eq!(mirrored["items"][0]["metadata"]["namespace"], OWN);
    let elsewhere = plane.read("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices").await;
    assert!(!elsewhere.to_string().contains("10.9.9.9"), "{elsewhere}");
    plane.stop().await;
}

#[tokio::test]
async fn objects_that_cannot_be_deleted_do_not_keep_controllers_busy() {
    let controllers =
        ["ttl-after-finished-controller", "garbage-collector-controller", "namespace"];
    let (mut plane, mallory) = plane(&controllers).await;
    let requested = record_requests(&mut plane).await;
    let jobs = own("apis/batch/v1", "jobs");
    let pods = json!({"spec": {"restartPolicy": "Never",
        "containers": [{"name": "a", "image": "a"}]}});
    let job = json!({"metadata": {"name": "stays", "finalizers": ["example.com/never"]},
        "spec": {"template": pods, "ttlSecondsAfterFinished": 0}});
    mallory.create(&jobs, &job).await;
    let at = "2024-01-01T00:00:00Z";
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": at});
    let status = json!({"status": {"startTime": at, "completionTime": at, "succeeded": 1,
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")]}});
    plane.merge(&format!("{jobs}/stays/status"), &status).await;
    let maps = own("api/v1", "configmaps");
    let map = json!({"metadata": {"name": "stays", "finalizers": ["example.com/never"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "x"}]}});
    mallory.create(&maps, &map).await;
    let is_deleting = |_: u16, it: &Value| !it["metadata"]["deletionTimestamp"].is_null();
    for path in [format!("{jobs}/stays"), format!("{maps}/stays")] {
        plane.until(&path, is_deleting).await;
    }
    // Hours later, and after changes that concern nobody, there was one deletion of each.
    for number in 0..10 {
        plane.advance(Duration::from_hours(1));
        for path in [format!("{jobs}/stays"), format!("{maps}/stays")] {
            let label = json!({"metadata": {"labels": {"number": number.to_string()}}});
            mallory.merge(&path, &label).await;
        }
    }
    // The controllers have seen all of that: they see changes in their order. A watch that ended in
    // one of the hours begins again after a pause.
    let last = json!({"metadata": {"name": "last",
        "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "x"}]}});
    mallory.create(&maps, &last).await;
    let path = format!("{maps}/last");
    for second in 0.. {
        if plane.get(&path).await.0 == 404 {
            break;
        }
        assert!(second < 100_000, "{path} is not deleted");
        plane.advance(Duration::from_secs(1));
        // A read within the process may not wait for anything, so that nobody else would run.
        tokio::task::yield_now().await;
    }
    let count = |path: &str| {
        let deletion = format!("DELETE {path}");
        requested.lock().unwrap().iter().filter(|it| **it == deletion).count()
    };
    for path in [format!("{jobs}/stays"), format!("{maps}/stays")] {
        assert!((1..=2).contains(&count(&path)), "{path}: {}", count(&path));
    }
    plane.stop().await;
}
