//! `legacy-serviceaccount-token-cleaner-controller`: removes service account tokens in secrets that
//! nobody uses.
//!
//! It promises that a token which was not used for a year becomes invalid, by a label of its secret, and
//! that the secret is deleted if it is not used for another year. That concerns secrets to which their
//! account refers in `secrets`, as Kubernetes before 1.24 has created them, and which no pod refers to.
//! Removing the label makes a token valid again.
//!
//! It reads the secrets of tokens, service accounts, pods, and the config map that says since when the
//! API server records uses. It patches and deletes these secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use k8s_openapi::jiff;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::api_requests::{self, has_code};
use crate::controller_context::{ControllerContext, selecting_field};
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use crate::metadata::Metadata;
use crate::time;
use keel::{Clock, Timestamp};
use machinery::PolicyRule;
use runtime::client::json_requests;
use runtime::informer::Selection;
use runtime::{Action, Client, Controller, Failure, Lister, Request};

pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "legacy-serviceaccount-token-cleaner-controller",
    aliases: &["legacy-service-account-token-cleaner"],
    user: ControllerUser::ServiceAccount("legacy-service-account-token-cleaner"),
    rules: &[PolicyRule::new(&[""], &["secrets"], &["patch", "delete"])],
    start,
};

const SECRET_TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// The config map of `kube-system` that says since when uses are recorded.
const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";

const DAY: Duration = Duration::from_hours(24);
/// The time without a use after which a token becomes invalid, and then is deleted.
const UNUSED_TIME: Duration = Duration::from_hours(365 * 24);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TrackingView {
    data: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SecretView {
    metadata: Metadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AccountView {
    metadata: Metadata,
    secrets: Vec<Reference>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Reference {
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodView {
    spec: Value,
}

struct Cleaner {
    client: Client,
    clock: Clock,
    tracking: Lister<TrackingView>,
    secrets: Lister<SecretView>,
    accounts: Lister<AccountView>,
    pods: Lister<PodView>,
}

/// What is to be done about a secret.
#[derive(Debug, PartialEq, Eq)]
enum TokenAction {
    Keep,
    Invalidate,
    Delete,
}

fn start(cx: &ControllerContext) {
    let tracking = Selection {
        namespace: Some("kube-system".to_owned()),
        ..selecting_field("metadata.name", TRACKING)
    };
    let tokens = selecting_field("type", SECRET_TYPE);
    let context = Cleaner {
        client: cx.client.clone(),
        clock: cx.clock().clone(),
        tracking: cx.manager.informer_selecting::<ConfigMap>(&tracking).lister(),
        secrets: cx.manager.informer_selecting::<Secret>(&tokens).lister(),
        accounts: cx.manager.informer::<ServiceAccount>().lister(),
        pods: cx.pods(),
    };
    let controller = Controller::for_::<ConfigMap>().selecting(tracking).named(cx.name).workers(1);
    cx.manager.add(controller.reconcile(reconcile, context));
}

/// Looks at all tokens once a day, when uses are recorded for long enough. The request is the config map.
///
/// Upstream: `legacy_serviceaccount_token_cleaner.go` evaluateSATokens
async fn reconcile(request: Request, cx: Arc<Cleaner>) -> Result<Action, Failure> {
    let Some(tracking) = cx.tracking.get_key(&request)? else { return Ok(Action::Done) };
    let Some(since) = tracking.data.get("since").and_then(|it| start_of(it)) else {
        return Ok(Action::Done);
    };
    let now = cx.clock.now();
    // The first day is not complete.
    let left = (since + DAY + UNUSED_TIME).since(now);
    if !left.is_zero() {
        return Ok(Action::RequeueAfter(left));
    }
    let mut mounted = BTreeMap::new();
    for secret in cx.secrets.list().objects {
        cx.clean(&secret, now, &mut mounted).await?;
    }
    Ok(Action::RequeueAfter(DAY))
}

impl Cleaner {
    /// `mounted` has the names of the secrets that pods refer to, by namespace.
    async fn clean(
        &self,
        secret: &SecretView,
        now: Timestamp,
        mounted: &mut BTreeMap<String, BTreeSet<String>>,
    ) -> Result<(), Failure> {
        let Metadata { namespace, name, uid, resource_version, .. } = &secret.metadata;
        let action = action_for(&secret.metadata, now);
        if action == TokenAction::Keep || !self.is_referenced(&secret.metadata)? {
            return Ok(());
        }
        if !mounted.contains_key(namespace) {
            let mut names = BTreeSet::new();
            for pod in self.pods.list_namespace(namespace).objects {
                add_secret_names(&pod.spec, &mut names);
            }
            mounted.insert(namespace.clone(), names);
        }
        if mounted.get(namespace).is_some_and(|names| names.contains(name)) {
            return Ok(());
        }
        let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
        let result = if action == TokenAction::Invalidate {
            let patch = json!({"metadata": {"uid": uid, "labels": {INVALID_SINCE: date(now)}}});
            api_requests::merge::<IgnoredAny>(&self.client, &path, &patch).await
        } else {
            let preconditions = json!({"uid": uid, "resourceVersion": resource_version});
            let options = json!({"preconditions": preconditions});
            json_requests::delete(&self.client, &path, &options).await
        };
        match result {
            Err(error) if !has_code(&error, 404) && !has_code(&error, 409) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Whether the account of a secret refers to it.
    fn is_referenced(&self, secret: &Metadata) -> Result<bool, Failure> {
        let annotation = |key: &str| secret.annotations.get(key).map_or("", String::as_str);
        let account = self.accounts.get(&secret.namespace, annotation(ACCOUNT_NAME))?;
        let uid = annotation(ACCOUNT_UID);
        Ok(account.is_some_and(|account| {
            (uid.is_empty() || account.metadata.uid == uid)
                && account.secrets.iter().any(|it| it.name == secret.name)
        }))
    }
}

/// Decides by the times of a secret.
fn action_for(secret: &Metadata, now: Timestamp) -> TokenAction {
    let limit = Timestamp::from_seconds(now.seconds() - UNUSED_TIME.as_secs().cast_signed());
    let used_limit = date(limit);
    let label = |key: &str| secret.labels.get(key).map(String::as_str);
    let is_new = secret
        .creation_timestamp
        .as_ref()
        .is_none_or(|created| time::to_timestamp(created) >= limit);
    // A date that cannot be read says nothing.
    let is_used = label(LAST_USED).is_some_and(|it| start_of(it).is_none() || *it >= *used_limit);
    if is_new || is_used || secret.is_deleting() {
        return TokenAction::Keep;
    }
    match label(INVALID_SINCE).filter(|it| start_of(it).is_some()) {
        None => TokenAction::Invalidate,
        Some(since) if *since >= *used_limit => TokenAction::Keep,
        Some(_) => TokenAction::Delete,
    }
}

/// The date of a time, as in `2024-01-01`; dates are ordered as texts.
fn date(time: Timestamp) -> String {
    time::from_timestamp(time).0.strftime("%Y-%m-%d").to_string()
}

/// The time at which a date begins.
fn start_of(date: &str) -> Option<Timestamp> {
    let start: jiff::Timestamp = format!("{date}T00:00:00Z").parse().ok()?;
    Some(Timestamp::from_seconds(start.as_second()))
}

/// Adds the names of the secrets that a part of a pod's spec refers to.
fn add_secret_names(part: &Value, names: &mut BTreeSet<String>) {
    match part {
        Value::Array(items) => items.iter().for_each(|it| add_secret_names(it, names)),
        Value::Object(fields) => {
            for (key, value) in fields {
                match key.as_str() {
                    "secretName" => names.extend(value.as_str().map(str::to_owned)),
                    "imagePullSecrets" => {
                        let secrets = value.as_array().into_iter().flatten();
                        names
                            .extend(secrets.filter_map(|it| Some(it["name"].as_str()?.to_owned())));
                    }
                    "secret" | "secretRef" | "secretKeyRef" | "nodePublishSecretRef" => {
                        names.extend(value["name"].as_str().map(str::to_owned));
                        add_secret_names(value, names);
                    }
                    _ => add_secret_names(value, names),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(created: &str, labels: &[(&str, &str)]) -> Metadata {
        let labels: BTreeMap<_, _> = labels.iter().copied().collect();
        let metadata =
            json!({"creationTimestamp": format!("{created}T00:00:00Z"), "labels": labels});
        serde_json::from_value(metadata).unwrap()
    }

    #[test]
    fn a_token_is_invalid_after_a_year_without_a_use_and_deleted_after_another() {
        let now = start_of("2026-01-02").unwrap();
        let of = |created: &str, labels: &[(&str, &str)]| action_for(&secret(created, labels), now);
        assert_eq!(of("2025-06-01", &[]), TokenAction::Keep, "it is new");
        assert_eq!(of("2024-01-01", &[]), TokenAction::Invalidate);
        assert_eq!(of("2024-01-01", &[(LAST_USED, "2025-01-02")]), TokenAction::Keep);
        assert_eq!(of("2024-01-01", &[(LAST_USED, "2025-01-01")]), TokenAction::Invalidate);
        assert_eq!(of("2024-01-01", &[(LAST_USED, "lately")]), TokenAction::Keep);
        assert_eq!(of("2024-01-01", &[(INVALID_SINCE, "2025-01-02")]), TokenAction::Keep);
        assert_eq!(of("2024-01-01", &[(INVALID_SINCE, "2025-01-01")]), TokenAction::Delete);
        assert_eq!(of("2024-01-01", &[(INVALID_SINCE, "?")]), TokenAction::Invalidate);
    }

    #[test]
    fn the_secrets_of_a_pod_are_found_at_every_depth() {
        let spec = json!({
            "imagePullSecrets": [{"name": "a"}],
            "volumes": [{"secret": {"secretName": "b"}}, {"projected": {"sources": [{"secret": {"name": "c"}}]}},
                {"csi": {"nodePublishSecretRef": {"name": "d"}}}],
            "containers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "e", "key": "k"}}}],
                "envFrom": [{"secretRef": {"name": "f"}}, {"configMapRef": {"name": "g"}}]}],
        });
        let mut names = BTreeSet::new();
        add_secret_names(&spec, &mut names);
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["a", "b", "c", "d", "e", "f"]);
    }
}
