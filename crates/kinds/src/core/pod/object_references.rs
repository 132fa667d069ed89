//! The other API objects that a pod needs.

use machinery::fields::{at, list, text, top};
use machinery::{Object, Value};

/// The kinds of volumes that need no other object.
const PLAIN_VOLUMES: [&str; 22] = [
    "awsElasticBlockStore",
    "azureDisk",
    "cephfs",
    "cinder",
    "downwardAPI",
    "emptyDir",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

/// The kinds of volumes that need one, and its resource.
const REFERRING_VOLUMES: [(&str, &str); 7] = [
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    ("azureFile", "secrets (via azureFile volumes)"),
];

/// The sources of projected volumes that need one, and its resource.
const REFERRING_SOURCES: [(&str, &str); 5] = [
    ("configMap", "configmaps (via projected volumes)"),
    ("secret", "secrets (via projected volumes)"),
    ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
    ("clusterTrustBundle", "clustertrustbundles"),
    ("podCertificate", "podcertificates"),
];

/// The first resource of which a pod needs an object, if there is one. An error if the pod has a kind
/// of volume that is unknown.
///
/// Upstream: api/pod `HasAPIObjectReference`
pub fn referenced_resource(pod: &Object) -> Result<Option<&'static str>, String> {
    let spec = top(pod, "spec");
    if !text(spec, "serviceAccountName").is_empty() {
        return Ok(Some("serviceaccounts"));
    }
    if refers_to_secret(spec) {
        return Ok(Some("secrets"));
    }
    if refers_to_config_map(spec) {
        return Ok(Some("configmaps"));
    }
    if !list(spec, "resourceClaims").is_empty() {
        return Ok(Some("resourceclaims"));
    }
    for volume in list(spec, "volumes") {
        if let Some(resource) = of_volume(volume)? {
            return Ok(Some(resource));
        }
    }
    Ok(None)
}

fn of_volume(volume: &Value) -> Result<Option<&'static str>, String> {
    let has = |field: &str| at(volume, &[field]).is_object();
    if PLAIN_VOLUMES.iter().any(|it| has(it)) {
        return Ok(None);
    }
    if let Some((_, resource)) = REFERRING_VOLUMES.iter().find(|(field, _)| has(field)) {
        return Ok(Some(resource));
    }
    let name = text(volume, "name");
    if !has("projected") {
        return Err(format!("unknown volume type for volume  \"{name}\""));
    }
    for source in list(at(volume, &["projected"]), "sources") {
        let has = |field: &str| at(source, &[field]).is_object();
        if let Some((_, resource)) = REFERRING_SOURCES.iter().find(|(field, _)| has(field)) {
            return Ok(Some(resource));
        }
        if !has("downwardAPI") {
            return Err(format!("unknown source for projected volume \"{name}\""));
        }
    }
    Ok(None)
}

/// The kinds of volumes with the name of a secret, and its place.
const SECRET_NAMES: [(&str, &[&str]); 10] = [
    ("azureFile", &["secretName"]),
    ("cephfs", &["secretRef", "name"]),
    ("cinder", &["secretRef", "name"]),
    ("flexVolume", &["secretRef", "name"]),
    ("rbd", &["secretRef", "name"]),
    ("secret", &["secretName"]),
    ("scaleIO", &["secretRef", "name"]),
    ("iscsi", &["secretRef", "name"]),
    ("storageos", &["secretRef", "name"]),
    ("csi", &["nodePublishSecretRef", "name"]),
];

fn refers_to_secret(spec: &Value) -> bool {
    let in_volume = |volume: &Value| {
        let named = |(kind, path): &(&str, &[&str])| is_text(at(at(volume, &[kind]), path));
        SECRET_NAMES.iter().any(named) || projects(volume, "secret")
    };
    list(spec, "imagePullSecrets").iter().any(|it| is_text(at(it, &["name"])))
        || refers_in_environment(spec, "secretRef", "secretKeyRef")
        || list(spec, "volumes").iter().any(in_volume)
}

fn refers_to_config_map(spec: &Value) -> bool {
    let in_volume = |volume: &Value| {
        is_text(at(volume, &["configMap", "name"])) || projects(volume, "configMap")
    };
    refers_in_environment(spec, "configMapRef", "configMapKeyRef")
        || list(spec, "volumes").iter().any(in_volume)
}

fn projects(volume: &Value, kind: &str) -> bool {
    let sources = list(at(volume, &["projected"]), "sources");
    sources.iter().any(|it| is_text(at(it, &[kind, "name"])))
}

/// Whether a container has variables from `source`, or a variable from a key of `key`.
fn refers_in_environment(spec: &Value, source: &str, key: &str) -> bool {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    lists.iter().flat_map(|it| list(spec, it)).any(|container| {
        list(container, "envFrom").iter().any(|it| is_text(at(it, &[source, "name"])))
            || list(container, "env").iter().any(|it| is_text(at(it, &["valueFrom", key, "name"])))
    })
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|it| !it.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    fn check(spec: Value, expected: Result<Option<&str>, &str>) {
        let pod = Object::from_value(json!({"spec": spec})).unwrap();
        let found = referenced_resource(&pod);
        assert_eq!(found.as_ref().map(|it| *it).map_err(String::as_str), expected, "{spec}");
    }

    fn check_volume(source: &Value, expected: Result<Option<&str>, &str>) {
        let mut volume = source.clone();
        volume["name"] = "v".into();
        check(json!({"volumes": [volume]}), expected);
    }

    #[test]
    fn the_first_referenced_resource_is_named() {
        check(
            json!({"containers": [{"name": "c", "env": [{"name": "A", "value": "b"}]}]}),
            Ok(None),
        );
        check(json!({"serviceAccountName": "a"}), Ok(Some("serviceaccounts")));
        check(json!({"imagePullSecrets": [{"name": "a"}]}), Ok(Some("secrets")));
        check(json!({"resourceClaims": [{"name": "a"}]}), Ok(Some("resourceclaims")));
        let env = |source: Value| json!({"containers": [{"env": [{"valueFrom": source}]}]});
        check(env(json!({"secretKeyRef": {"name": "a"}})), Ok(Some("secrets")));
        check(env(json!({"configMapKeyRef": {"name": "a"}})), Ok(Some("configmaps")));
        check(env(json!({"fieldRef": {"fieldPath": "metadata.name"}})), Ok(None));
        let all = |source: Value| json!({"initContainers": [{"envFrom": [source]}]});
        check(all(json!({"secretRef": {"name": "a"}})), Ok(Some("secrets")));
        check(all(json!({"configMapRef": {"name": "a"}})), Ok(Some("configmaps")));
    }

    #[test]
    fn volumes_refer_to_objects_by_their_kind() {
        check_volume(&json!({"emptyDir": {}}), Ok(None));
        check_volume(&json!({"hostPath": {"path": "/"}}), Ok(None));
        check_volume(&json!({"secret": {"secretName": "a"}}), Ok(Some("secrets")));
        check_volume(&json!({"secret": {}}), Ok(Some("secrets (via secret volumes)")));
        check_volume(&json!({"rbd": {"secretRef": {"name": "a"}}}), Ok(Some("secrets")));
        check_volume(&json!({"configMap": {}}), Ok(Some("configmaps (via configmap volumes)")));
        check_volume(&json!({"csi": {"driver": "d"}}), Ok(Some("csidrivers (via CSI volumes)")));
        check_volume(&json!({"persistentVolumeClaim": {}}), Ok(Some("persistentvolumeclaims")));
        let projected = |source: Value| json!({"projected": {"sources": [source]}});
        check_volume(&projected(json!({"downwardAPI": {}})), Ok(None));
        let token = projected(json!({"serviceAccountToken": {"path": "t"}}));
        check_volume(&token, Ok(Some("serviceaccounts (via projected volumes)")));
        let unknown = Err("unknown source for projected volume \"v\"");
        check_volume(&projected(json!({"other": {}})), unknown);
        check_volume(&json!({"other": {}}), Err("unknown volume type for volume  \"v\""));
    }
}
