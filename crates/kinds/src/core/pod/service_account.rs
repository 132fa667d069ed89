//! The rules of the admission plugin `ServiceAccount`: injects the token and the image pull secrets
//! of a pod's service account, and restricts the secrets that mirror pods and the pods of some
//! accounts may use.

use std::collections::HashSet;

use super::containers_mut;
use machinery::fields::{at, boolean, default_text, list, list_mut, text, top};
use machinery::{Map, Object, Value, json};

/// The service account of pods that do not name one.
pub const DEFAULT_ACCOUNT: &str = "default";

const VOLUME_PREFIX: &str = "kube-api-access-";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The expiration of injected tokens. Upstream adds seven seconds to an hour, so that such tokens
/// can be recognized (`WarnOnlyBoundTokenExpirationSeconds`).
const TOKEN_SECONDS: i64 = 3607;
/// The annotation of mirror pods, which represent the static pods of a kubelet.
pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";

/// Whether a pod is a mirror pod: a kubelet created it to represent one of its static pods.
pub fn is_mirror(pod: &Object) -> bool {
    pod.annotation(MIRROR).is_some()
}

/// Sets the default service account if the pod has none. Returns the name of its account.
pub fn default_account(pod: &mut Object) -> &str {
    let spec = pod.map_at(&["spec"]);
    default_text(spec, "serviceAccountName", DEFAULT_ACCOUNT);
    let name = spec.get("serviceAccountName").cloned().unwrap_or_default();
    spec.insert("serviceAccount".to_owned(), name);
    pod.str_at(&["spec", "serviceAccountName"])
}

/// Adds what a service account provides to a pod: the volume with its token, mounted in every
/// container, and its image pull secrets. `suffix` makes the volume's name unique.
pub fn inject_service_account(pod: &mut Object, account: &Object, suffix: &str) {
    if is_mirror(pod) {
        return;
    }
    default_account(pod);
    let automount = boolean(top(pod, "spec"), "automountServiceAccountToken")
        .or_else(|| top(account, "automountServiceAccountToken").as_bool())
        .unwrap_or(true);
    if automount {
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

/// The maximum length of a volume's name. A longer one is not copied into the mounts: validation
/// refuses its pod.
const VOLUME_NAME_MAX: usize = 63;

fn mount_token(pod: &mut Object, suffix: &str) {
    let existing = list(top(pod, "spec"), "volumes")
        .iter()
        .map(|volume| text(volume, "name"))
        .find(|name| name.starts_with(VOLUME_PREFIX))
        .map(str::to_owned);
    if existing.as_ref().is_some_and(|name| name.len() > VOLUME_NAME_MAX) {
        return;
    }
    let name = existing.clone().unwrap_or_else(|| format!("{VOLUME_PREFIX}{suffix}"));
    let spec = pod.map_at(&["spec"]);
    let mut is_needed = false;
    for part in ["initContainers", "containers"] {
        for container in containers_mut(spec, part) {
            is_needed |= mount_token_in(container, &name);
        }
    }
    if existing.is_none() && is_needed {
        list_mut(spec, "volumes").push(token_volume(&name));
    }
}

/// Mounts the token unless something else is mounted at its path. Returns whether it did.
fn mount_token_in(container: &mut Map<String, Value>, name: &str) -> bool {
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

/// The reason why a mirror pod is refused, if there is one: it may not use service accounts,
/// secrets or tokens.
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

/// The annotation of accounts whose pods may only use the secrets that the account lists.
const ENFORCE_ANNOTATION: &str = "kubernetes.io/enforce-mountable-secrets";

/// Whether the pods of an account may only use the secrets that the account lists.
pub fn enforces_mountable_secrets(account: &Object) -> bool {
    matches!(
        account.annotation(ENFORCE_ANNOTATION),
        Some("1" | "t" | "T" | "true" | "TRUE" | "True")
    )
}

/// The reason why a pod is refused, if it uses a secret that its account does not list.
pub fn secret_refusal(pod: &Object, account: &Object) -> Option<String> {
    let spec = top(pod, "spec");
    let names = names_of(account, "secrets");
    for volume in list(spec, "volumes") {
        let secret = at(volume, &["secret"]);
        let name = text(secret, "secretName");
        if secret.is_object() && !names.contains(name) {
            return Some(unlisted_secret_message(
                &format!("volume with secret.secretName=\"{name}\""),
                account,
            ));
        }
    }
    for (part, word) in [("initContainers", "init container"), ("containers", "container")] {
        if let Some(what) = unlisted_secret_in_env(spec, part, word, &names) {
            return Some(unlisted_secret_message(&what, account));
        }
    }
    let names = names_of(account, "imagePullSecrets");
    let pulling = list(spec, "imagePullSecrets").iter().map(|it| text(it, "name"));
    let (index, name) = pulling.enumerate().find(|(_, name)| !names.contains(name))?;
    Some(format!(
        "imagePullSecrets[{index}].name=\"{name}\" is not allowed because service account {} does not reference that imagePullSecret",
        account.name()
    ))
}

/// The same for ephemeral containers, which are added to a running pod.
pub fn ephemeral_secret_refusal(pod: &Object, account: &Object) -> Option<String> {
    let names = names_of(account, "secrets");
    let part = "ephemeralContainers";
    let what = unlisted_secret_in_env(top(pod, "spec"), part, "ephemeral container", &names)?;
    Some(unlisted_secret_message(&what, account))
}

fn names_of<'a>(account: &'a Object, key: &str) -> HashSet<&'a str> {
    let references = top(account, key).as_array().into_iter().flatten();
    references.map(|it| text(it, "name")).collect()
}

fn unlisted_secret_message(what: &str, account: &Object) -> String {
    let account = account.name();
    format!(
        "{what} is not allowed because service account {account} does not reference that secret"
    )
}

/// The first reference in the environment of a container to a secret that is not among `names`.
fn unlisted_secret_in_env(
    spec: &Value,
    part: &str,
    word: &str,
    names: &HashSet<&str>,
) -> Option<String> {
    for container in list(spec, part) {
        let container_name = text(container, "name");
        let variables = list(container, "env").iter().map(|it| {
            let place = format!("envVar {}", text(it, "name"));
            (place, at(it, &["valueFrom", "secretKeyRef"]))
        });
        let sources = list(container, "envFrom").iter();
        let sources = sources.map(|it| ("envFrom".to_owned(), at(it, &["secretRef"])));
        for (place, secret) in variables.chain(sources) {
            let name = text(secret, "name");
            if secret.is_object() && !names.contains(name) {
                return Some(format!(
                    "{word} {container_name} with {place} referencing secret.secretName=\"{name}\""
                ));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::object;

    fn pod(spec: Value) -> Object {
        object(json!({"metadata": {"name": "a"}, "spec": spec}))
    }

    #[test]
    fn the_token_is_mounted_where_nothing_else_is_mounted() {
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
    fn the_name_of_an_invalid_volume_is_not_copied() {
        let name = format!("{VOLUME_PREFIX}{}", "x".repeat(100));
        let mut pod = pod(
            json!({"containers": [{"name": "c"}], "volumes": [{"name": name, "emptyDir": {}}]}),
        );
        inject_service_account(&mut pod, &object(json!({})), "abcde");
        assert_eq!(top(&pod, "spec")["containers"], json!([{"name": "c"}]));
    }

    #[test]
    fn automount_can_be_disabled() {
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
    fn a_mirror_pod_may_not_reference_secrets() {
        let mut pod = pod(json!({"volumes": [{"name": "s", "secret": {"secretName": "s"}}]}));
        assert_eq!(mirror_refusal(&pod), None);
        pod.map_at(&["metadata", "annotations"]).insert(MIRROR.to_owned(), "x".into());
        assert_eq!(mirror_refusal(&pod), Some("a mirror pod may not reference secrets"));
    }

    #[test]
    fn an_enforcing_account_must_list_the_secrets_of_its_pods() {
        let account =
            object(json!({"metadata": {"name": "b", "annotations": {ENFORCE_ANNOTATION: "true"}},
            "secrets": [{"name": "s"}], "imagePullSecrets": [{"name": "p"}]}));
        assert!(enforces_mountable_secrets(&account));
        let refused = |spec| secret_refusal(&pod(spec), &account);
        let env = |name| json!([{"name": "E", "valueFrom": {"secretKeyRef": {"name": name}}}]);
        assert_eq!(
            refused(json!({"volumes": [{"name": "v", "secret": {"secretName": "s"}}],
                "containers": [{"name": "c", "env": env("s")}], "imagePullSecrets": [{"name": "p"}]})),
            None
        );
        let because = "is not allowed because service account b does not reference that";
        assert_eq!(
            refused(json!({"volumes": [{"name": "v", "secret": {"secretName": "x"}}]})),
            Some(format!("volume with secret.secretName=\"x\" {because} secret"))
        );
        assert_eq!(
            refused(json!({"initContainers": [{"name": "c", "env": env("x")}]})),
            Some(format!(
                "init container c with envVar E referencing secret.secretName=\"x\" {because} secret"
            ))
        );
        assert_eq!(
            refused(json!({"imagePullSecrets": [{"name": "s"}]})),
            Some(format!("imagePullSecrets[0].name=\"s\" {because} imagePullSecret"))
        );
        let added = pod(json!({"ephemeralContainers": [{"name": "c",
            "envFrom": [{"secretRef": {"name": "x"}}]}]}));
        assert_eq!(
            ephemeral_secret_refusal(&added, &account),
            Some(format!(
                "ephemeral container c with envFrom referencing secret.secretName=\"x\" {because} secret"
            ))
        );
    }
}
