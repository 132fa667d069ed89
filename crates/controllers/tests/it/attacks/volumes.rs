//! Claims of mallory that are to be bound to the volumes of others.

use super::{OWN, own, plane};
use machinery::{Value, json};

const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

fn volume(name: &str, claim: &Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
        "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/tmp/data"},
        "claimRef": claim}})
}

fn claim(name: &str, volume: &str, annotations: &Value) -> Value {
    let mut claim = json!({"metadata": {"name": name, "annotations": annotations}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}}}});
    if !volume.is_empty() {
        claim["spec"]["volumeName"] = volume.into();
    }
    claim
}

#[tokio::test]
async fn a_volume_that_is_reserved_for_a_claim_is_bound_to_no_other_claim() {
    let (plane, mallory) = plane(&["persistentvolume-binder"]).await;
    plane.create(VOLUMES, &volume("v", &json!({"namespace": "default", "name": "data"}))).await;
    let own_claims = own("api/v1", "persistentvolumeclaims");
    let completed = json!({"pv.kubernetes.io/bind-completed": "yes",
        "pv.kubernetes.io/bound-by-controller": "yes"});
    for (name, volume, annotations, phase) in [
        // The same name, with and without the volume.
        ("data", "", json!({}), "Pending"),
        ("named", "v", json!({}), "Pending"),
        // As if it had been bound.
        ("completed", "v", completed, "Lost"),
    ] {
        mallory.create(&own_claims, &claim(name, volume, &annotations)).await;
        let path = format!("{own_claims}/{name}");
        plane.until(&path, |_, it| it["status"]["phase"] == phase).await;
        let reserved = plane.read(&format!("{VOLUMES}/v")).await;
        let owner = &reserved["spec"]["claimRef"];
        assert_eq!(
            (&owner["namespace"], &owner["uid"]),
            (&json!("default"), &Value::Null),
            "{name}"
        );
    }
    // She may not write volumes, and not the status of her claims.
    let theft = json!({"spec": {"claimRef": {"namespace": OWN, "name": "named"}}});
    let merge = "application/merge-patch+json";
    assert_eq!(mallory.patch(&format!("{VOLUMES}/v"), merge, &theft).await.0, 403);
    let bound = json!({"status": {"phase": "Bound"}});
    let status = format!("{own_claims}/named/status");
    assert_eq!(mallory.patch(&status, merge, &bound).await.0, 403);

    plane.create(CLAIMS, &claim("data", "", &json!({}))).await;
    let is_bound = |_: u16, it: &Value| it["status"]["phase"] == "Bound";
    let bound = plane.until(&format!("{CLAIMS}/data"), is_bound).await;
    assert_eq!(bound["spec"]["volumeName"], "v");
    for name in ["data", "named", "completed"] {
        let left = plane.read(&format!("{own_claims}/{name}")).await;
        assert_ne!(left["status"]["phase"], "Bound", "{name}");
    }
    plane.stop().await;
}

#[tokio::test]
async fn a_released_volume_is_not_bound_to_a_new_claim_of_the_same_name() {
    let (plane, mallory) = plane(&["persistentvolume-binder", "pvc-protection"]).await;
    let first = plane.create(CLAIMS, &claim("data", "", &json!({}))).await;
    let reference =
        json!({"namespace": "default", "name": "data", "uid": first["metadata"]["uid"]});
    plane.create(VOLUMES, &volume("v", &reference)).await;
    let phase = |phase: &'static str| move |_: u16, it: &Value| it["status"]["phase"] == phase;
    plane.until(&format!("{CLAIMS}/data"), phase("Bound")).await;
    plane.delete(&format!("{CLAIMS}/data")).await;
    plane.until(&format!("{VOLUMES}/v"), phase("Released")).await;
    // Its data is for nobody until an administrator has removed the reference.
    let own_claims = own("api/v1", "persistentvolumeclaims");
    for (client, claims) in [(&**plane, CLAIMS), (&mallory, own_claims.as_str())] {
        client.create(claims, &claim("data", "v", &json!({}))).await;
        plane.until(&format!("{claims}/data"), phase("Pending")).await;
    }
    let left = plane.read(&format!("{VOLUMES}/v")).await;
    assert_eq!(left["spec"]["claimRef"]["uid"], first["metadata"]["uid"]);
    assert_eq!(left["status"]["phase"], "Released");
    plane.stop().await;
}

#[tokio::test]
async fn the_claim_of_a_volume_is_never_a_path_to_something_else() {
    let (mut plane, _) = plane(&["persistentvolume-binder"]).await;
    let requested = super::owners::record_requests(&mut plane).await;
    for (index, (namespace, name)) in
        [("default/pods/a/proxy", "x"), ("default", "x/proxy"), ("..", "x"), ("default?x=", "y")]
            .into_iter()
            .enumerate()
    {
        let reference = json!({"namespace": namespace, "name": name, "uid": "x"});
        plane.create(VOLUMES, &volume(&format!("v{index}"), &reference)).await;
        let path = format!("{VOLUMES}/v{index}");
        plane.until(&path, |_, it| it["status"]["phase"] == "Released").await;
    }
    for path in requested.lock().unwrap().iter() {
        assert!(!path.contains("proxy") && !path.contains(".."), "{path}");
    }
    plane.stop().await;
}
