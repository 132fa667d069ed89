//! The `ServiceCIDR` with the name `kubernetes`: the network from which services get their addresses.
//!
//! Upstream: `pkg/controlplane/controller/defaultservicecidr`.

use super::{Error, ensure};
use crate::in_process::loopback::Answer;
use crate::plane::Plane;
use machinery::{Value, json, timestamp};

const SERVICE_CIDRS: &str = "/apis/networking.k8s.io/v1/servicecidrs";
/// The name of the object.
pub(super) const NAME: &str = "kubernetes";

/// Creates the object if it is missing, and sets its condition `Ready` if it has no conditions. An
/// object with another network is left as it is.
pub(super) async fn sync(plane: &Plane) -> Result<(), Error> {
    let (client, network) = (&plane.loopback, plane.service_allocator.network());
    let path = format!("{SERVICE_CIDRS}/{NAME}");
    let mut found = client.get(&path).await;
    if found.code == 404 {
        let spec = json!({"spec": {"cidrs": [network]}});
        ensure(client, SERVICE_CIDRS, NAME, spec).await?;
        found = client.get(&path).await;
    }
    if found.code != 200 {
        return Err(error(path, &found));
    }
    let object = found.object();
    if object.get(&["spec", "cidrs"]) != Some(&json!([network])) {
        let found = object.get(&["spec", "cidrs"]).map(Value::to_string).unwrap_or_default();
        tracing::warn!(
            "the ServiceCIDR {NAME} has {found}, but services get addresses from {network}"
        );
        return Ok(());
    }
    let conditions = object.get(&["status", "conditions"]).and_then(Value::as_array);
    if conditions.is_some_and(|it| !it.is_empty()) {
        return Ok(());
    }
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "",
        "message": "Kubernetes default Service CIDR is ready",
        "lastTransitionTime": timestamp::format_seconds(plane.storage.clock.now().seconds()),
    });
    let status = format!("{path}/status");
    let patched = client.merge(&status, &json!({"status": {"conditions": [condition]}})).await;
    match patched.code {
        200 | 404 | 409 => Ok(()),
        _ => Err(error(status, &patched)),
    }
}

fn error(path: String, answer: &Answer) -> Error {
    Error { path, message: answer.message() }
}
