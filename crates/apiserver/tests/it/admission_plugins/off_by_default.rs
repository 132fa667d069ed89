//! Plugins that are off by default and take choices away.

use super::{PODS, plane_with, pod, refused};
use machinery::json;
use testenv::TestEnv;

#[tokio::test]
async fn images_are_always_pulled() {
    let plane = plane_with(&["AlwaysPullImages"], &[]).await;
    let spec = json!({"containers": [{"name": "c", "image": "i:1", "imagePullPolicy": "Never"}]});
    let created = plane.create(PODS, &pod("a", &spec)).await;
    assert_eq!(created["spec"]["containers"][0]["imagePullPolicy"], "Always");
    let other = TestEnv::start().await.create(PODS, &pod("a", &spec)).await;
    assert_eq!(other["spec"]["containers"][0]["imagePullPolicy"], "Never");
}

#[tokio::test]
async fn nobody_keeps_others_away_from_a_whole_zone() {
    let plane = plane_with(&["LimitPodHardAntiAffinityTopology"], &[]).await;
    let apart = |key: &str| {
        json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            [{"topologyKey": key, "labelSelector": {"matchLabels": {"a": "b"}}}]}}})
    };
    plane.create(PODS, &pod("a", &apart("kubernetes.io/hostname"))).await;
    assert_eq!(
        refused(&plane, PODS, &pod("b", &apart("zone"))).await,
        "pods \"b\" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only key kubernetes.io/hostname is allowed"
    );
}

#[tokio::test]
async fn addresses_of_others_are_denied() {
    let plane = plane_with(&["DenyServiceExternalIPs"], &[]).await;
    let service = json!({"metadata": {"name": "a"}, "spec":
        {"ports": [{"port": 80}], "externalIPs": ["192.0.2.7"]}});
    assert_eq!(
        refused(&plane, "/api/v1/namespaces/default/services", &service).await,
        "services \"a\" is forbidden: Use of external IPs is denied by admission control"
    );
}
