//! Plugins that are off by default and restrict objects.

use super::{PODS, plane_with, pod, refused};
use machinery::json;
use testenv::TestEnv;

#[tokio::test]
async fn always_pull_images_sets_the_pull_policy() {
    let plane = plane_with(&["AlwaysPullImages"], &[]).await;
    let spec = json!({"containers": [{"name": "c", "image": "i:1", "imagePullPolicy": "Never"}]});
    let created = plane.create(PODS, &pod("a", &spec)).await;
    assert_eq!(created["spec"]["containers"][0]["imagePullPolicy"], "Always");
    let other = TestEnv::start().await.create(PODS, &pod("a", &spec)).await;
    assert_eq!(other["spec"]["containers"][0]["imagePullPolicy"], "Never");
}

#[tokio::test]
async fn hard_anti_affinity_is_limited_to_the_host_name_topology() {
    let plane = plane_with(&["LimitPodHardAntiAffinityTopology"], &[]).await;
    let anti_affinity = |key: &str| {
        json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            [{"topologyKey": key, "labelSelector": {"matchLabels": {"a": "b"}}}]}}})
    };
    plane.create(PODS, &pod("a", &anti_affinity("kubernetes.io/hostname"))).await;
    assert_eq!(
        refused(&plane, PODS, &pod("b", &anti_affinity("zone"))).await,
        "pods \"b\" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only key kubernetes.io/hostname is allowed"
    );
}

#[tokio::test]
async fn external_ips_of_services_are_denied() {
    let plane = plane_with(&["DenyServiceExternalIPs"], &[]).await;
    let service = json!({"metadata": {"name": "a"}, "spec":
        {"ports": [{"port": 80}], "externalIPs": ["192.0.2.7"]}});
    assert_eq!(
        refused(&plane, "/api/v1/namespaces/default/services", &service).await,
        "services \"a\" is forbidden: Use of external IPs is denied by admission control"
    );
}
