//! Volumes and claims of simulated storage.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use kube_client::client::Body;
use serde_json::{Value, json};
use tower_service::Service;

use crate::objects::until_event;
use crate::plane::Plane;
use apiserver::auth::authentication::User;
use apiserver::in_process::InProcessClient;
use runtime::{ApiService, Connect, Identity};
use testenv::TestEnv;

const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const PODS: &str = "/api/v1/namespaces/default/pods";
const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";

async fn start() -> Plane {
    let controllers = [
        "persistentvolume-binder",
        "persistentvolume-expander",
        "pvc-protection",
        "pv-protection",
        "volumeattributesclass-protection",
        "ephemeral-volume",
    ];
    Plane::start(&controllers).await
}

async fn create_volume(plane: &Plane, name: &str, size: &str, policy: &str) -> Value {
    let volume = json!({"metadata": {"name": name}, "spec": {
        "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": policy, "hostPath": {"path": "/tmp/data"}}});
    plane.create(VOLUMES, &volume).await
}

async fn create_claim(plane: &Plane, name: &str, class: &str, size: &str) -> Value {
    let claim = json!({"metadata": {"name": name}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "resources": {"requests": {"storage": size}}}});
    plane.create(CLAIMS, &claim).await
}

async fn create_class(plane: &Plane, name: &str, provisioner: &str, mode: &str) {
    let class = json!({"metadata": {"name": name}, "provisioner": provisioner,
        "volumeBindingMode": mode, "allowVolumeExpansion": true});
    plane.create(CLASSES, &class).await;
}

async fn until_phase(plane: &Plane, path: &str, phase: &str) -> Value {
    plane.until(path, |_, it| it["status"]["phase"] == phase).await
}

#[tokio::test]
async fn a_claim_is_bound_to_the_smallest_volume_that_fits() {
    let plane = start().await;
    for (name, size) in [("large", "5Gi"), ("fitting", "2Gi"), ("small", "500Mi")] {
        create_volume(&plane, name, size, "Retain").await;
        until_phase(&plane, &format!("{VOLUMES}/{name}"), "Available").await;
    }
    create_claim(&plane, "c", "", "1Gi").await;
    let claim = until_phase(&plane, &format!("{CLAIMS}/c"), "Bound").await;
    assert_eq!(claim["spec"]["volumeName"], "fitting");
    assert_eq!(claim["status"]["capacity"]["storage"], "2Gi");
    let annotations = &claim["metadata"]["annotations"];
    assert_eq!(annotations["pv.kubernetes.io/bind-completed"], "yes");
    assert_eq!(annotations["pv.kubernetes.io/bound-by-controller"], "yes");
    let volume = until_phase(&plane, &format!("{VOLUMES}/fitting"), "Bound").await;
    assert_eq!(volume["spec"]["claimRef"]["uid"], claim["metadata"]["uid"]);

    plane.delete(&format!("{CLAIMS}/c")).await;
    until_phase(&plane, &format!("{VOLUMES}/fitting"), "Released").await;
    plane.stop().await;
}

#[tokio::test]
async fn a_claim_without_a_class_waits_for_a_volume() {
    let plane = start().await;
    create_claim(&plane, "c", "", "1Gi").await;
    let message = "no persistent volumes available for this claim and no storage class is set";
    assert_eq!(until_event(&plane, "FailedBinding").await["message"], message);
    until_phase(&plane, &format!("{CLAIMS}/c"), "Pending").await;
    create_volume(&plane, "v", "1Gi", "Delete").await;
    until_phase(&plane, &format!("{CLAIMS}/c"), "Bound").await;
    plane.delete(&format!("{CLAIMS}/c")).await;
    plane.until(&format!("{VOLUMES}/v"), |code, _| code == 404).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_volume_that_the_user_has_chosen_is_used_or_refused() {
    let plane = start().await;
    create_volume(&plane, "v", "1Gi", "Retain").await;
    let claim = |name: &str, size: &str| {
        json!({"metadata": {"name": name}, "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": "v",
            "resources": {"requests": {"storage": size}}}})
    };
    plane.create(CLAIMS, &claim("large", "2Gi")).await;
    let message = "Cannot bind to requested volume \"v\": requested PV is too small";
    assert_eq!(until_event(&plane, "VolumeMismatch").await["message"], message);
    plane.create(CLAIMS, &claim("fitting", "1Gi")).await;
    let bound = until_phase(&plane, &format!("{CLAIMS}/fitting"), "Bound").await;
    let by_controller = &bound["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"];
    assert_eq!(*by_controller, Value::Null);
    plane.stop().await;
}

#[tokio::test]
async fn a_new_plane_has_a_default_class_for_simulated_storage() {
    let plane = start().await;
    let class = plane.until(&format!("{CLASSES}/standard"), |code, _| code == 200).await;
    assert_eq!(class["provisioner"], "simulated.sampan.dev");
    assert_eq!(class["volumeBindingMode"], "WaitForFirstConsumer");
    let driver = plane.read("/apis/storage.k8s.io/v1/csidrivers/simulated.sampan.dev").await;
    assert_eq!(driver["spec"]["attachRequired"], false, "no VolumeAttachment is needed");
    let claim = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    plane.create(CLAIMS, &claim).await;
    let message = "waiting for first consumer to be created before binding";
    assert_eq!(until_event(&plane, "WaitForFirstConsumer").await["message"], message);

    plane.create("/api/v1/nodes", &json!({"metadata": {"name": "n"}})).await;
    let selected =
        json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n"}}});
    plane.merge(&format!("{CLAIMS}/c"), &selected).await;
    let claim = until_phase(&plane, &format!("{CLAIMS}/c"), "Bound").await;
    assert_eq!(claim["spec"]["storageClassName"], "standard");
    let name = format!("pvc-{}", claim["metadata"]["uid"].as_str().unwrap());
    assert_eq!(claim["spec"]["volumeName"], name.as_str());
    let message = format!("Successfully provisioned volume {name} using simulated.sampan.dev");
    assert_eq!(until_event(&plane, "ProvisioningSucceeded").await["message"], message);
    let volume = until_phase(&plane, &format!("{VOLUMES}/{name}"), "Bound").await;
    assert_eq!(volume["spec"]["persistentVolumeReclaimPolicy"], "Delete");
    plane.delete(&format!("{CLAIMS}/c")).await;
    plane.until(&format!("{VOLUMES}/{name}"), |code, _| code == 404).await;
    plane.stop().await;
}

#[tokio::test]
async fn claims_of_other_provisioners_wait_for_them() {
    let plane = start().await;
    create_class(&plane, "fast", "example.com/disk", "Immediate").await;
    create_claim(&plane, "c", "fast", "1Gi").await;
    let event = until_event(&plane, "ExternalProvisioning").await;
    let message = event["message"].as_str().unwrap();
    assert!(message.contains("the external provisioner 'example.com/disk'"), "{message}");
    let claim = plane.read(&format!("{CLAIMS}/c")).await;
    let annotations = &claim["metadata"]["annotations"];
    assert_eq!(annotations["volume.kubernetes.io/storage-provisioner"], "example.com/disk");
    create_claim(&plane, "d", "missing", "1Gi").await;
    let message = "storageclass.storage.k8s.io \"missing\" not found";
    assert_eq!(until_event(&plane, "ProvisioningFailed").await["message"], message);
    plane.stop().await;
}

#[tokio::test]
async fn a_simulated_volume_grows_with_its_claim() {
    let plane = start().await;
    create_class(&plane, "now", "simulated.sampan.dev", "Immediate").await;
    create_claim(&plane, "c", "now", "1Gi").await;
    let claim = until_phase(&plane, &format!("{CLAIMS}/c"), "Bound").await;
    // A condition of another writer stays.
    let checked = json!({"type": "Checked", "status": "True"});
    let status = json!({"status": {"conditions": [checked]}});
    plane.merge(&format!("{CLAIMS}/c/status"), &status).await;
    let larger = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    plane.merge(&format!("{CLAIMS}/c"), &larger).await;
    let is_larger = |_: u16, it: &Value| it["status"]["capacity"]["storage"] == "2Gi";
    let grown = plane.until(&format!("{CLAIMS}/c"), is_larger).await;
    let conditions = grown["status"]["conditions"].as_array().unwrap();
    assert_eq!(conditions.iter().map(|it| &it["type"]).collect::<Vec<_>>(), ["Checked"]);
    let name = claim["spec"]["volumeName"].as_str().unwrap();
    assert_eq!(
        plane.read(&format!("{VOLUMES}/{name}")).await["spec"]["capacity"]["storage"],
        "2Gi"
    );
    until_event(&plane, "VolumeResizeSuccessful").await;
    plane.stop().await;
}

#[tokio::test]
async fn a_claim_is_deleted_when_no_pod_uses_it() {
    let plane = start().await;
    create_volume(&plane, "v", "1Gi", "Retain").await;
    create_claim(&plane, "c", "", "1Gi").await;
    until_phase(&plane, &format!("{CLAIMS}/c"), "Bound").await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n",
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]}});
    plane.create(PODS, &pod).await;
    plane.delete(&format!("{CLAIMS}/c")).await;
    plane.delete(&format!("{VOLUMES}/v")).await;
    // The other claim is deleted later and is gone, so this one was considered.
    create_claim(&plane, "unused", "", "1Gi").await;
    plane.delete(&format!("{CLAIMS}/unused")).await;
    plane.until(&format!("{CLAIMS}/unused"), |code, _| code == 404).await;
    let claim = plane.read(&format!("{CLAIMS}/c")).await;
    assert_eq!(claim["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    assert_eq!(plane.get(&format!("{VOLUMES}/v")).await.0, 200);

    plane.delete(&format!("{PODS}/p")).await;
    plane.until(&format!("{CLAIMS}/c"), |code, _| code == 404).await;
    plane.until(&format!("{VOLUMES}/v"), |code, _| code == 404).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_claim_of_a_pod_that_is_not_cached_yet_is_protected() {
    let mut plane = Plane::start(&["pvc-protection"]).await;
    let connect = connect_without_cached_pods(&plane);
    plane.restart_with(connect).await;
    create_claim(&plane, "used", "", "1Gi").await;
    create_claim(&plane, "unused", "", "1Gi").await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n",
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "used"}}]}});
    plane.create(PODS, &pod).await;
    plane.advance(Duration::from_secs(1));
    let deleted_at = plane.clock().now();
    plane.delete(&format!("{CLAIMS}/used")).await;
    let is_reconciled = || {
        let controllers = plane.controllers().manager();
        let records = controllers.records("persistentvolumeclaim-protection-controller");
        records.iter().any(|it| it.request.name() == "used" && it.at >= deleted_at)
    };
    while !is_reconciled() {
        tokio::task::yield_now().await;
    }
    plane.delete(&format!("{CLAIMS}/unused")).await;
    plane.until(&format!("{CLAIMS}/unused"), |code, _| code == 404).await;
    assert_eq!(plane.get(&format!("{CLAIMS}/used")).await.0, 200);
    plane.stop().await;
}

/// Connects controllers whose cache of pods stays empty.
fn connect_without_cached_pods(env: &TestEnv) -> Connect {
    let client = env.server().in_process_client();
    Arc::new(move |identity: &Identity| {
        let user = User::component(&identity.user, identity.groups.clone());
        ApiService::new(WithoutCachedPods(client.for_user(user)), "default")
    })
}

#[derive(Clone)]
struct WithoutCachedPods(InProcessClient);

impl Service<Request<Body>> for WithoutCachedPods {
    type Response = Response<apiserver::http::body::Body>;
    type Error = Infallible;
    type Future = <InProcessClient as Service<Request<Body>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request<Body>>::poll_ready(&mut self.0, cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if request.uri().path() == "/api/v1/pods" {
            let query = request.uri().query().unwrap_or_default();
            let uri = format!("/api/v1/pods?{query}&labelSelector=not-cached");
            *request.uri_mut() = uri.parse().unwrap();
        }
        self.0.call(request)
    }
}

#[tokio::test]
async fn a_claim_that_loses_its_volume_is_lost() {
    let plane = start().await;
    create_volume(&plane, "v", "1Gi", "Retain").await;
    create_claim(&plane, "c", "", "1Gi").await;
    until_phase(&plane, &format!("{CLAIMS}/c"), "Bound").await;
    plane.delete(&format!("{VOLUMES}/v")).await;
    plane.merge(&format!("{VOLUMES}/v"), &json!({"metadata": {"finalizers": null}})).await;
    until_phase(&plane, &format!("{CLAIMS}/c"), "Lost").await;
    let message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
    assert_eq!(until_event(&plane, "ClaimLost").await["message"], message);
    plane.stop().await;
}

#[tokio::test]
async fn a_class_of_attributes_is_deleted_when_nothing_names_it() {
    let plane = start().await;
    let classes = "/apis/storage.k8s.io/v1/volumeattributesclasses";
    let class = json!({"metadata": {"name": "gold"}, "driverName": "simulated.sampan.dev",
        "parameters": {"iops": "1000"}});
    plane.create(classes, &class).await;
    let claim = json!({"metadata": {"name": "c"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "",
        "volumeAttributesClassName": "gold", "resources": {"requests": {"storage": "1Gi"}}}});
    plane.create(CLAIMS, &claim).await;
    until_event(&plane, "FailedBinding").await;
    plane.delete(&format!("{classes}/gold")).await;
    let (code, class) = plane.get(&format!("{classes}/gold")).await;
    assert_eq!(
        (code, &class["metadata"]["finalizers"]),
        (200, &json!(["kubernetes.io/vac-protection"]))
    );
    plane.delete(&format!("{CLAIMS}/c")).await;
    plane.until(&format!("{classes}/gold"), |code, _| code == 404).await;
    plane.stop().await;
}

#[tokio::test]
async fn an_ephemeral_volume_gets_a_claim_that_its_pod_owns() {
    let plane = start().await;
    create_class(&plane, "now", "simulated.sampan.dev", "Immediate").await;
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "now",
        "resources": {"requests": {"storage": "1Gi"}}}});
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]}});
    let pod = plane.create(PODS, &pod).await;
    let claim = until_phase(&plane, &format!("{CLAIMS}/p-scratch"), "Bound").await;
    let owner = &claim["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["uid"], &owner["controller"]), (&pod["metadata"]["uid"], &json!(true)));
    assert_eq!(claim["metadata"]["labels"], json!({"a": "b"}));

    create_claim(&plane, "q-scratch", "now", "1Gi").await;
    let other = json!({"metadata": {"name": "q"}, "spec": pod["spec"]});
    plane.create(PODS, &other).await;
    let message = "ephemeral volume scratch: PVC default/q-scratch was not created for pod default/q \
        (pod is not owner)";
    assert_eq!(until_event(&plane, "FailedBinding").await["message"], message);
    plane.stop().await;
}

/// Creates a claim that requests more than its volume has, which belongs to it or to `owner`.
async fn create_growing_claim(plane: &Plane, name: &str, owner: Option<&Value>) {
    let claim = json!({"metadata": {"name": name}, "spec": {"volumeName": name,
        "accessModes": ["ReadWriteOnce"], "storageClassName": "",
        "resources": {"requests": {"storage": "2Gi"}}}});
    let claim = plane.create(CLAIMS, &claim).await;
    let owner = &owner.unwrap_or(&claim)["metadata"];
    let volume = json!({"metadata": {"name": name}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "claimRef": {"namespace": "default", "name": owner["name"], "uid": owner["uid"]},
        "csi": {"driver": "simulated.sampan.dev", "volumeHandle": name}}});
    plane.create(VOLUMES, &volume).await;
    let status = json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}});
    plane.merge(&format!("{CLAIMS}/{name}/status"), &status).await;
}

fn size(volume: &Value) -> &str {
    volume["spec"]["capacity"]["storage"].as_str().unwrap_or_default()
}

/// Changes a claim, which is looked at then, until its volume is seen and expanded.
async fn until_expanded(plane: &Plane, name: &str) {
    let mut changes = 0;
    while size(&plane.read(&format!("{VOLUMES}/{name}")).await) != "2Gi" {
        changes += 1;
        let change = json!({"metadata": {"annotations": {"changes": changes.to_string()}}});
        plane.merge(&format!("{CLAIMS}/{name}"), &change).await;
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_claim_does_not_expand_the_volume_of_another() {
    let plane = Plane::start(&["persistentvolume-expander"]).await;
    let victim = create_claim(&plane, "victim", "", "1Gi").await;
    create_growing_claim(&plane, "thief", Some(&victim)).await;
    create_growing_claim(&plane, "own", None).await;
    // Volumes are seen in their order, and claims are looked at in theirs.
    until_expanded(&plane, "own").await;
    let change = json!({"metadata": {"annotations": {"changes": "1"}}});
    plane.merge(&format!("{CLAIMS}/thief"), &change).await;
    create_growing_claim(&plane, "last", None).await;
    until_expanded(&plane, "last").await;
    assert_eq!(size(&plane.read(&format!("{VOLUMES}/thief")).await), "1Gi");
    plane.stop().await;
}
