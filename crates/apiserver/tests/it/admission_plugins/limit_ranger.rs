//! `LimitRanger`: defaults and limits of resources.

use super::{CLAIMS, PODS, pod, pod_with_resources, refused};
use machinery::{Value, json};
use testenv::TestEnv;

const RANGES: &str = "/api/v1/namespaces/default/limitranges";

async fn plane_with_limit(limit: &Value) -> TestEnv {
    let plane = TestEnv::start().await;
    let range = json!({"metadata": {"name": "l"}, "spec": {"limits": [limit]}});
    plane.create(RANGES, &range).await;
    plane
}

#[tokio::test]
async fn containers_without_resources_get_the_defaults() {
    let limit = json!({"type": "Container", "default": {"cpu": "1"},
        "defaultRequest": {"cpu": "250m", "memory": "64Mi"}});
    let plane = plane_with_limit(&limit).await;
    let created = plane.create(PODS, &pod("a", &json!({}))).await;
    assert_eq!(
        created["spec"]["containers"][0]["resources"],
        json!({"limits": {"cpu": "1"}, "requests": {"cpu": "250m", "memory": "64Mi"}})
    );
    assert_eq!(
        created["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu, memory request for container c; cpu limit for container c"
    );
    assert_eq!(created["status"]["qosClass"], "Burstable");
}

#[tokio::test]
async fn pods_outside_of_the_limits_are_refused() {
    let plane = plane_with_limit(&json!({"type": "Pod", "max": {"memory": "1Gi"}})).await;
    assert_eq!(
        refused(&plane, PODS, &pod_with_resources("a", &json!({"limits": {"memory": "2Gi"}})))
            .await,
        "pods \"a\" is forbidden: maximum memory usage per Pod is 1Gi, but limit is 2Gi"
    );
    plane.create(PODS, &pod_with_resources("a", &json!({"limits": {"memory": "1Gi"}}))).await;
}

#[tokio::test]
async fn all_violations_are_reported_together() {
    let plane = plane_with_limit(
        &json!({"type": "Container", "min": {"cpu": "1"}, "max": {"memory": "1Gi"}}),
    )
    .await;
    let resources = json!({"requests": {"cpu": "500m"}, "limits": {"memory": "2Gi", "cpu": "1"}});
    assert_eq!(
        refused(&plane, PODS, &pod_with_resources("a", &resources)).await,
        "pods \"a\" is forbidden: [minimum cpu usage per Container is 1, but request is 500m, maximum memory usage per Container is 1Gi, but limit is 2Gi]"
    );
}

#[tokio::test]
async fn limit_ranges_apply_to_claims_of_their_namespace() {
    let limit = json!({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}});
    let plane = plane_with_limit(&limit).await;
    let claim = json!({"metadata": {"name": "a"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "2Gi"}}}});
    assert_eq!(
        refused(&plane, CLAIMS, &claim).await,
        "persistentvolumeclaims \"a\" is forbidden: maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi"
    );
    let other = "/api/v1/namespaces/kube-public/persistentvolumeclaims";
    plane.create(other, &claim).await;
}
