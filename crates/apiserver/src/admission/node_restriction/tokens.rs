//! Requests for tokens: a node gets those that the volumes of its pods need, bound to the pod.

use super::NodeWrite;
use super::pods::PODS;
use crate::auth::authorization;
use crate::auth::authorization::ResourceAttributes;
use machinery::field_path::quote;
use machinery::status::aggregate_messages;
use machinery::{Object, Status, Value};

const CLAIMS: (&str, &str, &str) = ("", "persistentvolumeclaims", "persistentvolumeclaim");
const VOLUMES: (&str, &str, &str) = ("", "persistentvolumes", "persistentvolume");
const DRIVERS: (&str, &str, &str) = ("storage.k8s.io", "csidrivers", "csidriver");

/// The CSI drivers that replace the kinds of volumes that Kubernetes had itself.
///
/// Upstream: `k8s.io/csi-translation-lib`
const MIGRATED: [(&str, &str); 7] = [
    ("awsElasticBlockStore", "ebs.csi.aws.com"),
    ("gcePersistentDisk", "pd.csi.storage.gke.io"),
    ("azureDisk", "disk.csi.azure.com"),
    ("azureFile", "file.csi.azure.com"),
    ("cinder", "cinder.csi.openstack.org"),
    ("vsphereVolume", "csi.vsphere.vmware.com"),
    ("portworxVolume", "pxd.portworx.com"),
];

/// Checks a request for a token.
pub(super) async fn check(write: &NodeWrite<'_>) -> Result<(), Status> {
    let Some(request) = write.object else { return Ok(()) };
    let bound = |key: &str| request.str_at(&["spec", "boundObjectRef", key]);
    let (name, uid) = (bound("name"), bound("uid"));
    if bound("apiVersion") != "v1" || bound("kind") != "Pod" || name.is_empty() {
        return write.forbid("node requested token not bound to a pod");
    }
    if uid.is_empty() {
        return write.forbid("node requested token with a pod binding without a uid");
    }
    let pod = write.find(PODS, write.attributes.namespace, name)?;
    if uid != pod.uid() {
        return write.forbid(&format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        ));
    }
    if pod.str_at(&["spec", "nodeName"]) != write.node {
        return write.forbid("node requested token bound to a pod scheduled on a different node");
    }
    let audiences = request.get(&["spec", "audiences"]).and_then(Value::as_array);
    let audience = match audiences.map_or(&[][..], Vec::as_slice) {
        [] => "",
        [audience] => audience.as_str().unwrap_or_default(),
        _ => return write.forbid("node may only request 0 or 1 audiences"),
    };
    match refers_to_audience(write, &pod, audience) {
        Ok(true) => Ok(()),
        Ok(false) => authorize_audience(write, audience).await,
        Err(error) => {
            let audience = quote(audience);
            write.forbid(&format!("error validating audience {audience}: {error}"))
        }
    }
}

/// An error unless the authorizers allow the node an audience that no volume of its pod has.
async fn authorize_audience(write: &NodeWrite<'_>, audience: &str) -> Result<(), Status> {
    let user = &write.attributes.scope.user;
    let target = ResourceAttributes {
        version: "v1",
        resource: audience,
        namespace: write.attributes.namespace,
        name: write.name(),
        ..ResourceAttributes::default()
    };
    let verb = "request-serviceaccounts-token-audience";
    let attributes = authorization::Attributes::of_resource(user, verb, target);
    let decision = write.attributes.admission.authorizers.decide(&attributes).await;
    if decision.is_allowed() {
        return Ok(());
    }
    let (audience, name) = (quote(audience), &user.name);
    let missing = format!("audience {audience} not found in pod spec volume, ");
    match decision.evaluation_error() {
        Some(error) => write.forbid(&format!(
            "{missing}error authorizing {name} to request tokens for this audience: {error}"
        )),
        None => write.forbid(&format!(
            "{missing}{name} is not authorized to request tokens for this audience"
        )),
    }
}

/// Whether a volume of the pod has a token of the audience, or has a driver that needs one. An error
/// if that is not found and cannot be excluded.
fn refers_to_audience(write: &NodeWrite<'_>, pod: &Object, audience: &str) -> Result<bool, String> {
    let mut errors = Vec::new();
    let volumes = pod.get(&["spec", "volumes"]).and_then(Value::as_array);
    for volume in volumes.into_iter().flatten() {
        let sources = volume["projected"]["sources"].as_array().into_iter().flatten();
        let mut tokens = sources.map(|it| &it["serviceAccountToken"]).filter(|it| it.is_object());
        if tokens.any(|it| it["audience"].as_str().unwrap_or_default() == audience) {
            return Ok(true);
        }
        let needs = driver_of(write, pod, volume)
            .and_then(|driver| driver.map_or(Ok(false), |it| needs_audience(write, &it, audience)));
        match needs {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(status) => errors.push(status.message),
        }
    }
    if errors.is_empty() { Ok(false) } else { Err(aggregate_messages(errors)) }
}

/// The CSI driver of a volume of the pod.
fn driver_of(
    write: &NodeWrite<'_>,
    pod: &Object,
    volume: &Value,
) -> Result<Option<String>, Status> {
    let claim = if volume["ephemeral"]["volumeClaimTemplate"].is_object() {
        format!("{}-{}", pod.name(), volume["name"].as_str().unwrap_or_default())
    } else if volume["persistentVolumeClaim"].is_object() {
        volume["persistentVolumeClaim"]["claimName"].as_str().unwrap_or_default().to_owned()
    } else {
        return Ok(driver_of_source(volume));
    };
    let claim = write.find(CLAIMS, write.attributes.namespace, &claim)?;
    let volume = write.find(VOLUMES, "", claim.str_at(&["spec", "volumeName"]))?;
    Ok(volume.get(&["spec"]).and_then(driver_of_source))
}

fn driver_of_source(source: &Value) -> Option<String> {
    if let Some(driver) = source["csi"]["driver"].as_str() {
        return Some(driver.to_owned());
    }
    let (_, driver) = MIGRATED.iter().find(|(field, _)| source[*field].is_object())?;
    Some((*driver).to_owned())
}

fn needs_audience(write: &NodeWrite<'_>, driver: &str, audience: &str) -> Result<bool, Status> {
    let driver = write.find(DRIVERS, "", driver)?;
    let requests = driver.get(&["spec", "tokenRequests"]).and_then(Value::as_array);
    let mut audiences = requests.into_iter().flatten().map(|it| &it["audience"]);
    Ok(audiences.any(|it| it.as_str().unwrap_or_default() == audience))
}
