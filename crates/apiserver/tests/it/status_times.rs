//! Times that the server sets when a status changes.

use machinery::json;
use testenv::TestEnv;

#[tokio::test]
async fn a_new_phase_of_a_volume_has_the_time_of_the_change() {
    let plane = TestEnv::start().await;
    let volumes = "/api/v1/persistentvolumes";
    let spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/x"}});
    plane.create(volumes, &json!({"metadata": {"name": "v"}, "spec": spec})).await;
    let status = format!("{volumes}/v/status");
    let old = "2001-01-01T00:00:00Z";
    let aged = json!({"status": {"lastPhaseTransitionTime": old}});
    assert_eq!(plane.merge(&status, &aged).await["status"]["lastPhaseTransitionTime"], old);
    let bound = plane.merge(&status, &json!({"status": {"phase": "Bound"}})).await;
    assert_ne!(bound["status"]["lastPhaseTransitionTime"], old);
}
