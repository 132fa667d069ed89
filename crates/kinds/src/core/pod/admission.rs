//! What the admission of pods fills in: things that the spec alone does not say, such as the
//! credentials of the pod's service account.

use super::containers_mut;
use crate::fields::{at, boolean, default_text, default_value, integer, list, list_mut, text, top};
use machinery::{Map, Object, Value, json};

/// The account of pods that name none.
pub const DEFAULT_ACCOUNT: &str = "default";

const VOLUME_PREFIX: &str = "kube-api-access-";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const TOKEN_SECONDS: i64 = 3607;
const TOLERATED_SECONDS: i64 = 300;

/// The annotation of pods that a node runs by itself and only mirrors here; they have no account.
pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";

/// Whether a node made this pod as the mirror of one that it runs by itself.
pub fn is_mirror(pod: &Object) -> bool {
    pod.annotation(MIRROR).is_some()
}

/// Names the default account if none is named; returns the name of the pod's account.
pub fn default_account(pod: &mut Object) -> &str {
    let spec = pod.map_at(&["spec"]);
    default_text(spec, "serviceAccountName", DEFAULT_ACCOUNT);
    let name = spec.get("serviceAccountName").cloned().unwrap_or_default();
    spec.insert("serviceAccount".to_owned(), name);
    pod.str_at(&["spec", "serviceAccountName"])
}

/// Gives a pod what comes with its account: the volume with its token, mounted in every container,
/// and its secrets for image registries. `suffix` makes the volume's name unique.
pub fn inject_service_account(pod: &mut Object, account: &Object, suffix: &str) {
    if is_mirror(pod) {
        return;
    }
    default_account(pod);
    let wanted = boolean(top(pod, "spec"), "automountServiceAccountToken")
        .or_else(|| top(account, "automountServiceAccountToken").as_bool())
        .unwrap_or(true);
    if wanted {
        mount_token(pod, suffix);
    }
    if list(top(pod, "spec"), "imagePullSecrets").is_empty() {
        let secrets: Vec<Value> = top(account, "imagePullSecrets")
            .as_array()
            .into_iter()
            .flatten()
            .map(|secret| json!({"name": text(secret, "name")}))
            .collect();
        if !secrets.is_empty() {
            pod.map_at(&["spec"]).insert("imagePullSecrets".to_owned(), secrets.into());
        }
    }
}

fn mount_token(pod: &mut Object, suffix: &str) {
    let existing = list(top(pod, "spec"), "volumes")
        .iter()
        .map(|volume| text(volume, "name"))
        .find(|name| name.starts_with(VOLUME_PREFIX))
        .map(str::to_owned);
    let name = existing.clone().unwrap_or_else(|| format!("{VOLUME_PREFIX}{suffix}"));
    let spec = pod.map_at(&["spec"]);
    let mut is_needed = false;
    for part in ["initContainers", "containers"] {
        for container in containers_mut(spec, part) {
            is_needed |= mount_at(container, &name);
        }
    }
    if existing.is_none() && is_needed {
        list_mut(spec, "volumes").push(token_volume(&name));
    }
}

/// Mounts the token unless something else is mounted there already.
fn mount_at(container: &mut Map<String, Value>, name: &str) -> bool {
    let mounts = list_mut(container, "volumeMounts");
    let is_free = !mounts.iter().any(|mount| text(mount, "mountPath") == MOUNT_PATH);
    if is_free {
        mounts.push(json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH}));
    }
    is_free
}

fn token_volume(name: &str) -> Value {
    json!({
        "name": name,
        "projected": {
            "defaultMode": 0o644,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
                {"configMap": {
                    "name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}],
                }},
                {"downwardAPI": {"items": [{
                    "path": "namespace",
                    "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                }]}},
            ],
        },
    })
}

/// Lets a pod stay for a while on a node that is not ready or not reachable, unless the pod says
/// how long itself.
pub fn default_tolerations(pod: &mut Object) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerations = list_mut(pod.map_at(&["spec"]), "tolerations");
        let is_covered = tolerations.iter().any(|toleration| {
            matches!(text(toleration, "key"), it if it == key || it.is_empty())
                && matches!(text(toleration, "effect"), "NoExecute" | "")
        });
        if !is_covered {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": TOLERATED_SECONDS,
            }));
        }
    }
}

/// Gives a pod without a priority class the priority of nobody in particular.
pub fn default_priority(pod: &mut Object) {
    set_priority(pod, 0, "PreemptLowerPriority");
}

fn set_priority(pod: &mut Object, value: i64, policy: &str) {
    let spec = pod.map_at(&["spec"]);
    spec.insert("priority".to_owned(), value.into());
    default_value(spec, "preemptionPolicy", policy.into());
}

/// Gives a pod the priority of the class that it names; `class` is that class, if it is stored. The
/// error says why the pod is forbidden.
pub fn assign_priority(pod: &mut Object, class: Option<&Object>) -> Result<(), String> {
    let name = pod.str_at(&["spec", "priorityClassName"]);
    let (value, policy) = match (name, class) {
        (_, Some(class)) => (
            top(class, "value").as_i64().unwrap_or(0),
            Some(class.str_at(&["preemptionPolicy"])).filter(|policy| !policy.is_empty()),
        ),
        ("", None) => (0, None),
        ("system-cluster-critical", None) => (2_000_000_000, None),
        ("system-node-critical", None) => (2_000_001_000, None),
        (name, None) => return Err(format!("no PriorityClass with name {name} was found")),
    };
    let policy = policy.unwrap_or("PreemptLowerPriority").to_owned();
    let refuse = |what: &str, given: &str, computed: &str| {
        format!(
            "the {what} ({given}) must not be provided in pod spec; priority admission controller computed {computed} from the given PriorityClass name"
        )
    };
    let spec = top(pod, "spec");
    if let Some(given) = integer(spec, "priority").filter(|given| *given != value) {
        let (given, computed) = (given.to_string(), value.to_string());
        return Err(refuse("integer value of priority", &given, &computed));
    }
    let given = text(spec, "preemptionPolicy");
    if !given.is_empty() && given != policy {
        return Err(refuse("string value of PreemptionPolicy", given, &policy));
    }
    set_priority(pod, value, &policy);
    Ok(())
}

/// Why a mirror pod is not admitted: it may refer to nothing in the API that has to be protected.
pub fn mirror_refusal(pod: &Object) -> Option<&'static str> {
    let spec = top(pod, "spec");
    if !is_mirror(pod) {
        return None;
    }
    if !text(spec, "serviceAccountName").is_empty() {
        return Some("a mirror pod may not reference service accounts");
    }
    let volumes = list(spec, "volumes");
    let containers = ["initContainers", "containers", "ephemeralContainers"]
        .iter()
        .flat_map(|part| list(spec, part));
    let in_env = |container: &Value| {
        list(container, "env").iter().any(|env| at(env, &["valueFrom", "secretKeyRef"]).is_object())
            || list(container, "envFrom").iter().any(|env| at(env, &["secretRef"]).is_object())
    };
    let has_secrets = volumes.iter().any(|volume| at(volume, &["secret"]).is_object())
        || !list(spec, "imagePullSecrets").is_empty()
        || containers.into_iter().any(in_env);
    if has_secrets {
        return Some("a mirror pod may not reference secrets");
    }
    let has_token = volumes
        .iter()
        .flat_map(|volume| list(at(volume, &["projected"]), "sources"))
        .any(|source| at(source, &["serviceAccountToken"]).is_object());
    has_token.then_some("a mirror pod may not use ServiceAccountToken volume projections")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    fn pod(spec: Value) -> Object {
        object(json!({"metadata": {"name": "a"}, "spec": spec}))
    }

    #[test]
    fn the_token_is_mounted_in_every_container() {
        let mut pod = pod(json!({"containers": [{"name": "c"}, {"name": "d",
            "volumeMounts": [{"name": "own", "mountPath": MOUNT_PATH}]}]}));
        let account =
            object(json!({"metadata": {"name": "default"}, "imagePullSecrets": [{"name": "s"}]}));
        inject_service_account(&mut pod, &account, "abcde");
        let spec = top(&pod, "spec");
        assert_eq!(spec["serviceAccountName"], "default");
        assert_eq!(spec["serviceAccount"], "default");
        assert_eq!(spec["imagePullSecrets"], json!([{"name": "s"}]));
        assert_eq!(spec["volumes"][0]["name"], "kube-api-access-abcde");
        assert_eq!(spec["volumes"][0]["projected"]["defaultMode"], 420);
        assert_eq!(
            spec["containers"][0]["volumeMounts"],
            json!([{"name": "kube-api-access-abcde", "readOnly": true, "mountPath": MOUNT_PATH}])
        );
        assert_eq!(spec["containers"][1]["volumeMounts"][0]["name"], "own");
    }

    #[test]
    fn who_does_not_want_the_token_does_not_get_it() {
        let account = object(json!({"automountServiceAccountToken": false}));
        let mut first = pod(json!({"containers": [{"name": "c"}]}));
        inject_service_account(&mut first, &account, "x");
        assert_eq!(top(&first, "spec").get("volumes"), None);
        let mut second =
            pod(json!({"automountServiceAccountToken": true, "containers": [{"name": "c"}]}));
        inject_service_account(&mut second, &account, "x");
        assert!(top(&second, "spec").get("volumes").is_some());
    }

    #[test]
    fn tolerations_are_added_unless_they_are_there() {
        let mut pod = pod(json!({"tolerations": [{"key": "node.kubernetes.io/not-ready",
            "operator": "Exists", "effect": "NoExecute"}]}));
        default_tolerations(&mut pod);
        let keys: Vec<&str> =
            list(top(&pod, "spec"), "tolerations").iter().map(|it| text(it, "key")).collect();
        assert_eq!(keys, ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]);
    }

    #[test]
    fn a_class_gives_its_priority() {
        let class = object(json!({"value": 7, "preemptionPolicy": "Never"}));
        let mut named = pod(json!({"priorityClassName": "c"}));
        assert_eq!(assign_priority(&mut named, Some(&class)), Ok(()));
        assert_eq!(top(&named, "spec")["priority"], 7);
        assert_eq!(top(&named, "spec")["preemptionPolicy"], "Never");
        assert_eq!(
            assign_priority(&mut pod(json!({"priorityClassName": "none"})), None),
            Err("no PriorityClass with name none was found".to_owned())
        );
        assert!(assign_priority(&mut pod(json!({"priority": 9})), None).is_err());
    }

    #[test]
    fn a_mirror_pod_refers_to_nothing_secret() {
        let mut pod = pod(json!({"volumes": [{"name": "s", "secret": {"secretName": "s"}}]}));
        assert_eq!(mirror_refusal(&pod), None);
        pod.map_at(&["metadata", "annotations"]).insert(MIRROR.to_owned(), "x".into());
        assert_eq!(mirror_refusal(&pod), Some("a mirror pod may not reference secrets"));
    }
}
