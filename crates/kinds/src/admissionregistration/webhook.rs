//! What both kinds of webhook configurations have in common.

use std::collections::HashSet;

use super::matching;
use crate::validation::rules::{add_invalid, range_message, supported_only};
use machinery::fields::{
    at, default_value, integer, list, map_mut, maps_mut, part, text, texts, top,
};
use machinery::{ErrorList, Object, Path, Value, json, names};
use types::columns::age;
use types::resource::Now;

/// The versions of `AdmissionReview` that the server supports.
const REVIEW_VERSIONS: &[&str] = &["v1", "v1beta1"];

pub(super) fn webhooks(object: &Object) -> &[Value] {
    top(object, "webhooks").as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn cells(object: &Object, now: &Now) -> Vec<Value> {
    vec![object.name().into(), webhooks(object).len().into(), age(object, now)]
}

/// Sets the defaults of a webhook.
pub(super) fn defaults(object: &mut Object) {
    for hook in maps_mut(object.map_mut(), "webhooks") {
        default_value(hook, "failurePolicy", "Fail".into());
        default_value(hook, "timeoutSeconds", 10.into());
        matching::defaults(hook, &["rules"]);
        if let Some(service) =
            map_mut(hook, "clientConfig").and_then(|config| map_mut(config, "service"))
        {
            default_value(service, "port", 443.into());
        }
    }
}

/// Resources that webhooks never intercept: a cluster could not recover from a webhook that refuses
/// them.
const EXCLUDED: &[(&str, &[&str])] = &[
    ("authentication.k8s.io", &["selfsubjectreviews", "tokenreviews"]),
    (
        "authorization.k8s.io",
        &[
            "localsubjectaccessreviews",
            "selfsubjectaccessreviews",
            "selfsubjectrulesreviews",
            "subjectaccessreviews",
        ],
    ),
];

/// Warns of rules that have no effect because their resource is excluded. A rule with a wildcard
/// may match other resources, and causes no warning.
pub(super) fn warnings(object: &Object) -> Vec<String> {
    let mut warnings = Vec::new();
    for (hook_index, hook) in webhooks(object).iter().enumerate() {
        for (index, rule) in list(hook, "rules").iter().enumerate() {
            if texts(rule, "apiGroups").chain(texts(rule, "resources")).any(|it| it == "*") {
                continue;
            }
            for group in texts(rule, "apiGroups") {
                let of_group = EXCLUDED.iter().filter(|(name, _)| *name == group);
                let excluded: Vec<&str> =
                    of_group.flat_map(|(_, all)| all.iter().copied()).collect();
                let named = texts(rule, "resources").filter(|it| excluded.contains(it));
                warnings.extend(named.map(|resource| {
                    format!("webhooks[{hook_index}].rules[{index}]: {resource}.{group} is excluded from admission webhooks; this rule will have no effect")
                }));
            }
        }
    }
    // A resource that is named several times is reported once.
    let mut seen = HashSet::new();
    warnings.retain(|it| seen.insert(it.clone()));
    warnings
}

/// The rules that are enforced. A rule that the stored configuration violates is not.
struct ValidationOptions {
    require_no_side_effects: bool,
    require_supported_version: bool,
    require_unique_names: bool,
}

impl ValidationOptions {
    fn for_update_of(old: Option<&Object>) -> Self {
        let Some(old) = old else {
            return Self {
                require_no_side_effects: true,
                require_supported_version: true,
                require_unique_names: true,
            };
        };
        let hooks = webhooks(old);
        let mut names = HashSet::new();
        Self {
            require_no_side_effects: hooks
                .iter()
                .all(|hook| matches!(text(hook, "sideEffects"), "None" | "NoneOnDryRun")),
            require_supported_version: hooks.iter().all(|hook| {
                list(hook, "admissionReviewVersions").is_empty() || accepts_supported_version(hook)
            }),
            require_unique_names: hooks.iter().all(|hook| names.insert(text(hook, "name"))),
        }
    }
}

fn accepts_supported_version(hook: &Value) -> bool {
    texts(hook, "admissionReviewVersions").any(|version| REVIEW_VERSIONS.contains(&version))
}

/// Validates all webhooks of a configuration that replaces `old`.
pub(super) fn validate(new: &Object, old: Option<&Object>, errors: &mut ErrorList) {
    let options = ValidationOptions::for_update_of(old);
    let path = Path::root("webhooks");
    let mut seen: HashSet<&str> = HashSet::new();
    for (index, hook) in webhooks(new).iter().enumerate() {
        let path = path.index(index);
        validate_hook(errors, &path, hook, &options);
        let before = old.and_then(|old| webhooks(old).get(index));
        let are_same = before.is_some_and(|it| it["matchConditions"] == hook["matchConditions"]);
        if !are_same {
            let conditions = list(hook, "matchConditions");
            matching::validate_conditions(errors, &path.child("matchConditions"), conditions);
        }
        validate_versions(errors, &path.child("admissionReviewVersions"), hook, &options);
        let name = text(hook, "name");
        if options.require_unique_names && !name.is_empty() && seen.contains(&name) {
            errors.duplicate(&path.child("name"), name);
        }
        seen.insert(name);
    }
}

fn validate_hook(
    errors: &mut ErrorList,
    path: &Path<'_>,
    hook: &Value,
    options: &ValidationOptions,
) {
    match text(hook, "name") {
        "" => errors.required(&path.child("name"), ""),
        name => add_invalid(errors, &path.child("name"), name, names::fully_qualified_name(name)),
    }
    let rules = path.child("rules");
    for (index, rule) in list(hook, "rules").iter().enumerate() {
        matching::validate_rule_with_operations(errors, &rules.index(index), rule);
    }
    if part(hook, "failurePolicy").is_some() {
        let policies = &["Fail", "Ignore"];
        supported_only(errors, &path.child("failurePolicy"), text(hook, "failurePolicy"), policies);
    }
    matching::validate_match_policy(errors, path, hook);
    let allowed: &[&str] = if options.require_no_side_effects {
        &["None", "NoneOnDryRun"]
    } else {
        &["None", "NoneOnDryRun", "Some", "Unknown"]
    };
    let side_effects_path = path.child("sideEffects");
    match part(hook, "sideEffects").and_then(Value::as_str) {
        None => {
            let message = format!("must specify one of {}", allowed.join(", "));
            errors.required(&side_effects_path, &message);
        }
        Some(effects) => supported_only(errors, &side_effects_path, effects, allowed),
    }
    if let Some(seconds) = integer(hook, "timeoutSeconds").filter(|it| !(1..=30).contains(it)) {
        let message = "the timeout value must be between 1 and 30 seconds";
        errors.invalid(&path.child("timeoutSeconds"), seconds, message);
    }
    matching::validate_selectors(errors, path, hook);
    if part(hook, "reinvocationPolicy").is_some() {
        let policies = &["IfNeeded", "Never"];
        let policy = text(hook, "reinvocationPolicy");
        supported_only(errors, &path.child("reinvocationPolicy"), policy, policies);
    }
    validate_client_config(errors, &path.child("clientConfig"), at(hook, &["clientConfig"]));
}

/// Validates a `WebhookClientConfig`: a URL or a service.
pub(crate) fn validate_client_config(errors: &mut ErrorList, path: &Path<'_>, config: &Value) {
    match (part(config, "url"), part(config, "service")) {
        (Some(url), None) => {
            validate_url(errors, &path.child("url"), url.as_str().unwrap_or_default());
        }
        (None, Some(service)) => validate_service(errors, &path.child("service"), service),
        _ => errors.required(path, "exactly one of url or service is required"),
    }
}

/// Validates that a URL has the form `https://host[/path]`.
fn validate_url(errors: &mut ErrorList, path: &Path<'_>, url: &str) {
    const FORM: &str = "; desired format: https://host[/path]";
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = rest.split_once(':').unwrap_or(("", rest));
    let authority = rest.strip_prefix("//").unwrap_or_default();
    let authority = authority.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if scheme != "https" {
        errors.invalid(path, scheme, &format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if host.is_empty() {
        errors.invalid(path, host, &format!("host must be specified{FORM}"));
    }
    if !user.is_empty() {
        errors.invalid(path, user, "user information is not permitted in the URL");
    }
    if !fragment.is_empty() {
        errors.invalid(path, fragment, "fragments are not permitted in the URL");
    }
    if !query.is_empty() {
        errors.invalid(path, query, "query parameters are not permitted in the URL");
    }
}

fn validate_service(errors: &mut ErrorList, path: &Path<'_>, service: &Value) {
    // Upstream passes name and namespace in the wrong order: an empty name is reported as a missing
    // namespace, and the reverse.
    for field in ["namespace", "name"] {
        if text(service, field).is_empty() {
            let shown = if field == "name" { "namespace" } else { "name" };
            errors.required(&path.child(shown), "");
        }
    }
    let port = integer(service, "port").unwrap_or(0);
    if !(1..=65535).contains(&port) {
        let message = format!("port is not valid: {}", range_message(1, 65535));
        errors.invalid(&path.child("port"), port, &message);
    }
    if let Some(value) = part(service, "path").and_then(Value::as_str) {
        validate_path(errors, &path.child("path"), value);
    }
}

fn validate_path(errors: &mut ErrorList, path: &Path<'_>, value: &str) {
    match value {
        "" | "/" => return,
        "//" => return errors.invalid(path, value, "segment[0] may not be empty"),
        _ => {}
    }
    if !value.starts_with('/') {
        errors.invalid(path, value, "must start with a '/'");
    }
    let rest = value.get(1..).unwrap_or_default();
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    for (index, segment) in rest.split('/').enumerate() {
        if segment.is_empty() {
            errors.invalid(path, value, &format!("segment[{index}] may not be empty"));
            continue;
        }
        for message in names::dns1123_subdomain(segment) {
            errors.invalid(path, value, &format!("segment[{index}]: {message}"));
        }
    }
}

fn validate_versions(
    errors: &mut ErrorList,
    path: &Path<'_>,
    hook: &Value,
    options: &ValidationOptions,
) {
    let versions: Vec<&str> = texts(hook, "admissionReviewVersions").collect();
    if versions.is_empty() {
        let message = format!("must specify one of {}", REVIEW_VERSIONS.join(", "));
        return errors.required(path, &message);
    }
    let mut seen = HashSet::new();
    for (index, version) in versions.iter().enumerate() {
        if !seen.insert(version) {
            errors.invalid(&path.index(index), *version, "duplicate version");
            continue;
        }
        add_invalid(errors, &path.index(index), version, names::dns1035_label(version));
    }
    if options.require_supported_version && !accepts_supported_version(hook) {
        let message = format!("must include at least one of {}", REVIEW_VERSIONS.join(", "));
        errors.invalid(path, json!(versions), &message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{lines, object};

    fn check(changes: Value, expected: &[&str]) {
        let mut hook = json!({"name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://h/x"}});
        for (key, value) in changes.as_object().into_iter().flatten() {
            hook[key] = value.clone();
        }
        let mut errors = ErrorList::new();
        validate(&object(json!({"webhooks": [hook]})), None, &mut errors);
        assert_eq!(lines(&errors), expected);
    }

    #[test]
    fn a_webhook_has_a_name_an_address_and_no_side_effects() {
        check(json!({}), &[]);
        check(
            json!({"name": "a", "sideEffects": "Some", "clientConfig": {}, "timeoutSeconds": 31}),
            &[
                r#"webhooks[0].name: Invalid value: "a": should be a domain with at least three segments separated by dots"#,
                r#"webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun""#,
                "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
                "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
            ],
        );
    }

    #[test]
    fn a_url_is_https_without_query_or_fragment() {
        check(
            json!({"clientConfig": {"url": "http://u@h/x?q#f"}}),
            &[
                r#"webhooks[0].clientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]"#,
                r#"webhooks[0].clientConfig.url: Invalid value: "u": user information is not permitted in the URL"#,
                r#"webhooks[0].clientConfig.url: Invalid value: "f": fragments are not permitted in the URL"#,
                r#"webhooks[0].clientConfig.url: Invalid value: "q": query parameters are not permitted in the URL"#,
            ],
        );
    }

    #[test]
    fn a_webhook_needs_a_supported_review_version() {
        check(
            json!({"admissionReviewVersions": ["v2"]}),
            &[
                r#"webhooks[0].admissionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, v1beta1"#,
            ],
        );
    }

    #[test]
    fn webhook_names_are_unique() {
        let hook = json!({"name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"name": "s", "namespace": "n", "port": 443}}});
        let mut errors = ErrorList::new();
        validate(&object(json!({"webhooks": [hook, hook]})), None, &mut errors);
        assert_eq!(lines(&errors), [r#"webhooks[1].name: Duplicate value: "a.b.c""#]);
    }
}
