//! Administrative access to devices, which the labels of a namespace allow.

use machinery::{Value, json};
use testenv::TestEnv;

const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const TEMPLATES: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates";
const DETAIL: &str = "Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace";

fn claim_spec(class: &str) -> Value {
    let request = json!({"name": "r", "exactly": {"deviceClassName": class, "adminAccess": true}});
    json!({"devices": {"requests": [request]}})
}

async fn allow(plane: &TestEnv) {
    let labels = json!({"resource.kubernetes.io/admin-access": "true"});
    plane.merge("/api/v1/namespaces/default", &json!({"metadata": {"labels": labels}})).await;
}

#[tokio::test]
async fn admin_access_needs_a_label_of_the_namespace() {
    let plane = TestEnv::start().await;
    let claim = json!({"metadata": {"name": "a"}, "spec": claim_spec("c")});
    let (code, refused) = plane.post(CLAIMS, &claim).await;
    let why = format!(
        "ResourceClaim.resource.k8s.io \"a\" is invalid: spec.devices.requests[0].adminAccess: {DETAIL}"
    );
    assert_eq!((code, &refused["message"]), (422, &json!(why)));
    let template = |class| json!({"metadata": {"name": "a"}, "spec": {"spec": claim_spec(class)}});
    let (code, refused) = plane.post(TEMPLATES, &template("")).await;
    let why = format!(
        "ResourceClaimTemplate.resource.k8s.io \"a\" is invalid: [spec.devices.requests[0].adminAccess: {DETAIL}, spec.spec.devices.requests[0].exactly.deviceClassName: Required value]"
    );
    assert_eq!((code, &refused["message"]), (422, &json!(why)));
    allow(&plane).await;
    plane.create(CLAIMS, &claim).await;
    plane.create(TEMPLATES, &template("c")).await;
}

#[tokio::test]
async fn an_allocation_with_admin_access_needs_the_label_as_well() {
    let plane = TestEnv::start().await;
    let mut spec = claim_spec("c");
    spec["devices"]["requests"][0]["exactly"]["adminAccess"] = Value::Null;
    plane.create(CLAIMS, &json!({"metadata": {"name": "a"}, "spec": spec})).await;
    let result = json!({"request": "r", "driver": "d.example", "pool": "p", "device": "d",
        "adminAccess": true});
    let status = json!({"status": {"allocation": {"devices": {"results": [result]}}}});
    let path = format!("{CLAIMS}/a/status");
    let (code, refused) = plane.patch(&path, testenv::media_type::MERGE_PATCH, &status).await;
    let field = &refused["details"]["causes"][0]["field"];
    assert_eq!(
        (code, field),
        (422, &json!("status.allocation.devices.results[0].adminAccess")),
        "{refused}"
    );
    allow(&plane).await;
    plane.merge(&path, &status).await;
}
