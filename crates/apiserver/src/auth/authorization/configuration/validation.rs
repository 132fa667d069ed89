//! Validates an [`AuthorizationConfiguration`], and reads the kubeconfigs and compiles the expressions
//! of its webhooks.
//!
//! Upstream: `apis/apiserver/validation` `ValidateAuthorizationConfiguration`. The fields of a webhook
//! have the path of its authorizer there as well.

use std::path::Path as FilePath;
use std::time::Duration;

use super::super::webhook::{FailurePolicy, MatchConditions, WebhookAuthorizerSettings};
use super::{
    AuthorizationConfiguration, AuthorizerType, ConfiguredAuthorizer, ConfiguredDuration,
    ConnectionInfo, WebhookConfiguration,
};
use crate::outbound::review_client::ReviewVersion;
use crate::outbound::webhook_endpoint::WebhookEndpoint;
use machinery::{ErrorList, Path, names};

/// The authorizers of a configuration. They are complete if there is no error.
pub(super) fn compile(
    configuration: &AuthorizationConfiguration,
    errors: &mut ErrorList,
) -> Vec<ConfiguredAuthorizer> {
    let list = Path::root("authorizers");
    if configuration.authorizers.is_empty() {
        errors.required(&list, "at least one authorization mode must be defined");
    }
    let mut compiled: Vec<ConfiguredAuthorizer> = Vec::new();
    let (mut types, mut names) = (Vec::new(), Vec::new());
    for (index, configured) in configuration.authorizers.iter().enumerate() {
        let path = list.index(index);
        let (type_path, name) = (path.child("type"), configured.name.as_str());
        let authorizer_type = match AuthorizerType::parse(&configured.authorizer_type) {
            Some(found) => found,
            None if configured.authorizer_type.is_empty() => {
                errors.required(&type_path, "");
                continue;
            }
            None => {
                let supported = AuthorizerType::ALL.map(AuthorizerType::as_str);
                let value = configured.authorizer_type.as_str();
                errors.not_supported(&type_path, value, &supported);
                continue;
            }
        };
        let is_webhook = authorizer_type == AuthorizerType::Webhook;
        if types.contains(&authorizer_type) && !is_webhook {
            errors.duplicate(&type_path, authorizer_type.as_str());
            continue;
        }
        types.push(authorizer_type);
        check_name(name, &names, &path.child("name"), errors);
        names.push(name);
        let webhook_path = path.child("webhook");
        match &configured.webhook {
            None if is_webhook => errors.required(&webhook_path, "required when type=Webhook"),
            Some(webhook) if is_webhook => {
                let settings = compile_webhook(name, webhook, &path, errors);
                compiled.extend(settings.map(|it| ConfiguredAuthorizer::Webhook(Box::new(it))));
            }
            None => compiled.push(ConfiguredAuthorizer::BuiltIn(authorizer_type)),
            Some(_) => {
                let why = "may only be specified when type=Webhook";
                errors.invalid(&webhook_path, "non-null", why);
            }
        }
    }
    compiled
}

fn check_name(name: &str, seen: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    let why = names::dns1123_subdomain(name);
    if name.is_empty() {
        errors.required(path, "");
    } else if seen.contains(&name) {
        errors.duplicate(path, name);
    } else if !why.is_empty() {
        errors.invalid(path, name, &format!("authorizer name is invalid: {}", why.join(", ")));
    }
}

fn compile_webhook(
    name: &str,
    webhook: &WebhookConfiguration,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> Option<WebhookAuthorizerSettings> {
    check_durations(webhook, path, errors);
    let version_path = path.child("subjectAccessReviewVersion");
    let written = &webhook.subject_access_review_version;
    let version: Option<ReviewVersion> = written.parse().ok();
    if version.is_none() {
        required_or_supported(written, &["v1", "v1beta1"], &version_path, errors);
    }
    let version_path = path.child("matchConditionSubjectAccessReviewVersion");
    match webhook.match_condition_subject_access_review_version.as_str() {
        "" if !webhook.match_conditions.is_empty() => {
            errors.required(&version_path, "required if match conditions are specified");
        }
        "" | "v1" => {}
        other => errors.not_supported(&version_path, other, &["v1"]),
    }
    let policy_path = path.child("failurePolicy");
    let failure_policy = match webhook.failure_policy.as_str() {
        "NoOpinion" => Some(FailurePolicy::NoOpinion),
        "Deny" => Some(FailurePolicy::Deny),
        other => {
            required_or_supported(other, &["NoOpinion", "Deny"], &policy_path, errors);
            None
        }
    };
    let endpoint = endpoint(&webhook.connection_info, &path.child("connectionInfo"), errors);
    let expressions: Vec<&str> =
        webhook.match_conditions.iter().map(|it| it.expression.as_str()).collect();
    let match_conditions =
        MatchConditions::compile(&expressions, &path.child("matchConditions"), errors);
    Some(WebhookAuthorizerSettings {
        name: name.to_owned(),
        endpoint: endpoint?,
        version: version?,
        timeout: webhook.timeout.duration(),
        authorized_ttl: webhook.authorized_cache_ttl(),
        unauthorized_ttl: webhook.unauthorized_cache_ttl(),
        failure_policy: failure_policy?,
        match_conditions,
    })
}

fn required_or_supported(value: &str, supported: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    if value.is_empty() {
        errors.required(path, "");
    } else {
        errors.not_supported(path, value, supported);
    }
}

/// Checks the time-out, and the times of the cache, which have defaults.
fn check_durations(webhook: &WebhookConfiguration, path: &Path<'_>, errors: &mut ErrorList) {
    const MAX_TIMEOUT: Duration = Duration::from_secs(30);
    let (timeout, timeout_path) = (webhook.timeout, path.child("timeout"));
    if timeout.is_zero() {
        errors.required(&timeout_path, "");
    } else if timeout.is_negative() || timeout.duration() > MAX_TIMEOUT {
        errors.invalid(&timeout_path, timeout.to_string(), "must be > 0s and <= 30s");
    }
    let mut check = |ttl: ConfiguredDuration, field: &str| {
        if ttl.is_negative() {
            errors.invalid(&path.child(field), ttl.to_string(), "must be > 0s");
        }
    };
    check(webhook.authorized_ttl, "authorizedTTL");
    check(webhook.unauthorized_ttl, "unauthorizedTTL");
}

/// Reads the kubeconfig of a webhook.
fn endpoint(
    connection: &ConnectionInfo,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> Option<WebhookEndpoint> {
    const IN_CLUSTER: &str = "InClusterConfig";
    const KUBE_CONFIG_FILE: &str = "KubeConfigFile";
    let (type_path, file_path) = (path.child("type"), path.child("kubeConfigFile"));
    let file = connection.kube_config_file.as_deref();
    match (connection.connection_type.as_str(), file) {
        ("", _) => errors.required(&type_path, ""),
        (IN_CLUSTER, Some(file)) => {
            errors.invalid(&file_path, file, "can only be set when type=KubeConfigFile");
        }
        // Upstream accepts it here and then fails, since kube-apiserver is not in a cluster.
        (IN_CLUSTER, None) => {
            errors.invalid(
                &type_path,
                IN_CLUSTER,
                "not supported by this server: use KubeConfigFile",
            );
        }
        (KUBE_CONFIG_FILE, None | Some("")) => errors.required(&file_path, ""),
        (KUBE_CONFIG_FILE, Some(file)) => match read_endpoint(FilePath::new(file)) {
            Ok(endpoint) => return Some(endpoint),
            Err(why) => errors.invalid(&file_path, file, &why),
        },
        (other, _) => errors.not_supported(&type_path, other, &[IN_CLUSTER, KUBE_CONFIG_FILE]),
    }
    None
}

fn read_endpoint(file: &FilePath) -> Result<WebhookEndpoint, String> {
    if !file.is_absolute() {
        return Err("must be an absolute path".to_owned());
    }
    let metadata =
        std::fs::metadata(file).map_err(|error| format!("error loading file: {error}"))?;
    if !metadata.is_file() {
        return Err("must be a regular file".to_owned());
    }
    WebhookEndpoint::read(file).map_err(|error| keel::message_with_causes(&error))
}
