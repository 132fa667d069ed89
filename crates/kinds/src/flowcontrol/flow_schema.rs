//! `FlowSchema`: assigns requests to a priority level.

use std::collections::HashSet;

use super::GROUP;
use super::mandatory::{self, EXEMPT};
use crate::table;
use crate::validation::rules::{add_invalid, dns_subdomain, required, supported_only};
use machinery::fields::{at, default_number, flag, list, number, part, text, texts, top};
use machinery::{ErrorList, Object, Path, Value, json, names};
use types::columns::{AGE, NAME, age, column};
use types::resource::{
    Column, Columns, Now, Resource, Strategy, Version, drop_status, keep_status,
};

/// The resource of the kind `FlowSchema`.
pub fn resource() -> Resource {
    let version = Version {
        status: true,
        ..table::v1("flowcontrol/v1.FlowSchema", Columns::Fixed(COLUMNS, cells))
    };
    Resource {
        namespaced: false,
        ..table::resource(GROUP, "FlowSchema", "flowschemas", &STRATEGY, version)
    }
}

static STRATEGY: Strategy = Strategy {
    defaults: |object| default_number(object.map_at(&["spec"]), "matchingPrecedence", 1000),
    prepare_create: drop_status,
    prepare_update: keep_status,
    validate,
    validate_update: |new, _, errors| validate(new, errors),
    validate_status: |new, _, errors| validate_conditions(new, errors),
    generation: true,
    // Upstream: printers `printFlowSchemaList`.
    row_order: Some(|object| number(top(object, "spec"), "matchingPrecedence")),
    ..Strategy::DEFAULT
};

static SPEC: Path<'static> = Path::root("spec");

const MAX_PRECEDENCE: i64 = 10000;

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "PriorityLevel",
        "The name of the priority level of the requests that match this schema.",
    ),
    column(
        "MatchingPrecedence",
        "The order in which schemas are tried: the lowest number is first.",
    ),
    column(
        "DistinguisherMethod",
        "How the requests of this schema are divided into flows: by user or by namespace.",
    ),
    AGE,
    column("MissingPL", "Whether the priority level of the schema is missing or broken."),
];

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    let spec = top(object, "spec");
    let method = part(spec, "distinguisherMethod").map_or("<none>", |it| text(it, "type"));
    let dangling = match types::columns::condition(top(object, "status"), "Dangling") {
        "" => "?",
        status => status,
    };
    vec![
        object.name().into(),
        text(at(spec, &["priorityLevelConfiguration"]), "name").into(),
        number(spec, "matchingPrecedence").into(),
        method.into(),
        age(object, now),
        dangling.into(),
    ]
}

fn validate(object: &Object, errors: &mut ErrorList) {
    let spec = top(object, "spec");
    let (path, precedence) = (SPEC.child("matchingPrecedence"), number(spec, "matchingPrecedence"));
    if precedence <= 0 {
        errors.invalid(&path, precedence, "must be a positive value");
    }
    if precedence > MAX_PRECEDENCE {
        errors.invalid(&path, precedence, &format!("must not be greater than {MAX_PRECEDENCE}"));
    }
    if precedence == 1 && object.name() != EXEMPT {
        let message = "only the schema named 'exempt' may have matchingPrecedence 1";
        errors.invalid(&path, precedence, message);
    }
    if let Some(method) = part(spec, "distinguisherMethod") {
        let path = SPEC.child("distinguisherMethod");
        let (kind, kinds) = (text(method, "type"), ["ByNamespace", "ByUser"]);
        if !kinds.contains(&kind) {
            errors.not_supported(&path.child("type"), json!({"Type": kind}), &kinds);
        }
    }
    let path = SPEC.child("priorityLevelConfiguration");
    match text(at(spec, &["priorityLevelConfiguration"]), "name") {
        "" => errors.required(&path.child("name"), "must reference a priority level"),
        name => dns_subdomain(errors, &path.child("name"), name),
    }
    let path = SPEC.child("rules");
    for (index, rule) in list(spec, "rules").iter().enumerate() {
        validate_rule(errors, &path.index(index), rule);
    }
    mandatory::validate_flow_schema(object, errors);
    validate_conditions(object, errors);
}

/// Each condition has a type, and each type has one condition.
pub(super) fn validate_conditions(object: &Object, errors: &mut ErrorList) {
    let path = Path::root("status");
    let path = path.child("conditions");
    let mut seen: HashSet<&str> = HashSet::new();
    for (index, condition) in list(top(object, "status"), "conditions").iter().enumerate() {
        let path = path.index(index);
        let (path, kind) = (path.child("type"), text(condition, "type"));
        if seen.contains(&kind) {
            errors.duplicate(&path, kind);
        }
        seen.insert(kind);
        required(errors, &path, kind);
    }
}

fn validate_rule(errors: &mut ErrorList, path: &Path<'_>, rule: &Value) {
    let subjects = path.child("subjects");
    if list(rule, "subjects").is_empty() {
        errors.required(&subjects, "subjects must contain at least one value");
    }
    for (index, subject) in list(rule, "subjects").iter().enumerate() {
        validate_subject(errors, &subjects.index(index), subject);
    }
    let (resources, urls) = (list(rule, "resourceRules"), list(rule, "nonResourceRules"));
    if resources.is_empty() && urls.is_empty() {
        let message = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.required(path, message);
    }
    let rules = path.child("resourceRules");
    for (index, rule) in resources.iter().enumerate() {
        validate_resource_rule(errors, &rules.index(index), rule);
    }
    let rules = path.child("nonResourceRules");
    for (index, rule) in urls.iter().enumerate() {
        let path = rules.index(index);
        validate_verbs(errors, &path, rule);
        let items = validate_items(
            errors,
            &path,
            rule,
            "nonResourceURLs",
            "nonResourceURLs must contain at least one value",
            "non-resource URLs",
        );
        let urls = path.child("nonResourceURLs");
        for (index, url) in items.iter().enumerate().filter(|(_, it)| **it != "*") {
            if let Some(message) = bad_url(url) {
                errors.invalid(&urls.index(index), *url, message);
            }
        }
    }
}

/// The kinds of subjects, and the field of each.
const SUBJECTS: [(&str, &str); 3] =
    [("Group", "group"), ("ServiceAccount", "serviceAccount"), ("User", "user")];

fn validate_subject(errors: &mut ErrorList, path: &Path<'_>, subject: &Value) {
    let kind = text(subject, "kind");
    let kinds = SUBJECTS.map(|(kind, _)| kind);
    supported_only(errors, &path.child("kind"), kind, &kinds);
    if !kinds.contains(&kind) {
        return;
    }
    for (other, field) in SUBJECTS {
        let path = path.child(field);
        match part(subject, field) {
            None if other == kind => {
                let message = format!("{field} is required when subject kind is '{kind}'");
                errors.required(&path, &message);
            }
            Some(it) if other == kind => validate_subject_name(errors, &path, kind, it),
            Some(_) => {
                let message = format!("{field} is forbidden when subject kind is not '{other}'");
                errors.forbidden(&path, &message);
            }
            None => {}
        }
    }
}

fn validate_subject_name(errors: &mut ErrorList, path: &Path<'_>, kind: &str, subject: &Value) {
    let name = text(subject, "name");
    required(errors, &path.child("name"), name);
    if kind != "ServiceAccount" {
        return;
    }
    if !name.is_empty() && name != "*" {
        dns_subdomain(errors, &path.child("name"), name);
    }
    match text(subject, "namespace") {
        "" => {
            let message = "must specify namespace for service account";
            errors.required(&path.child("namespace"), message);
        }
        it => add_invalid(errors, &path.child("namespace"), it, names::namespace_name(it)),
    }
}

/// Validates and returns the items of a list, in which `*` must be the only one. `missing` is the
/// message about an empty list; a list without such a message may be empty. `plural` is the items'
/// name in the message about `*`.
fn validate_items<'a>(
    errors: &mut ErrorList,
    path: &Path<'_>,
    rule: &'a Value,
    key: &str,
    missing: &str,
    plural: &str,
) -> Vec<&'a str> {
    let path = path.child(key);
    let items: Vec<&str> = texts(rule, key).collect();
    if items.is_empty() && !missing.is_empty() {
        errors.required(&path, missing);
    }
    if items.len() > 1 && items.contains(&"*") {
        let message = format!("if '*' is present, must not specify other {plural}");
        errors.invalid(&path, json!(items), &message);
    }
    items
}

fn validate_verbs(errors: &mut ErrorList, path: &Path<'_>, rule: &Value) {
    const VERBS: &[&str] = &[
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "proxy",
        "update",
        "watch",
    ];
    let verbs = validate_items(
        errors,
        path,
        rule,
        "verbs",
        "verbs must contain at least one value",
        "verbs",
    );
    if !verbs.contains(&"*") && !verbs.iter().all(|verb| VERBS.contains(verb)) {
        errors.not_supported(&path.child("verbs"), json!(verbs), VERBS);
    }
}

fn validate_resource_rule(errors: &mut ErrorList, path: &Path<'_>, rule: &Value) {
    validate_verbs(errors, path, rule);
    let missing = "resource rules must supply at least one api group";
    validate_items(errors, path, rule, "apiGroups", missing, "api groups");
    let missing = "resource rules must supply at least one resource";
    validate_items(errors, path, rule, "resources", missing, "resources");
    let missing = if flag(rule, "clusterScope") {
        ""
    } else {
        "resource rules that are not cluster scoped must supply at least one namespace"
    };
    let namespaces = validate_items(errors, path, rule, "namespaces", missing, "namespaces");
    if namespaces.contains(&"*") {
        return;
    }
    let path = path.child("namespaces");
    for (index, namespace) in namespaces.iter().enumerate() {
        for message in names::namespace_name(namespace) {
            let message =
                format!("each member of this list must be '*' or a DNS-1123 label; {message}");
            errors.invalid(&path.index(index), *namespace, &message);
        }
    }
}

fn bad_url(url: &str) -> Option<&'static str> {
    let stars = url.matches('*').count();
    match url {
        "" => Some("must not be empty"),
        "/" => None,
        url if !url.starts_with('/') => Some("must start with slash"),
        url if url.contains(' ') => Some("must not contain white-space"),
        url if url.contains("//") => Some("must not contain double slash"),
        url if stars > 1 || stars == 1 && !url.ends_with("/*") => {
            Some("wildcard can only do suffix matching")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::refusals;

    fn check(spec: Value, expected: &[&str]) {
        let mut whole = json!({"priorityLevelConfiguration": {"name": "p"}});
        for (key, value) in spec.as_object().into_iter().flatten() {
            whole[key] = value.clone();
        }
        assert_eq!(refusals(&STRATEGY, json!({"spec": whole})), expected);
    }

    #[test]
    fn only_the_exempt_schema_may_have_precedence_1() {
        check(json!({}), &[]);
        check(
            json!({"matchingPrecedence": 1}),
            &[
                "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1",
            ],
        );
    }

    #[test]
    fn subjects_verbs_and_urls_of_rules_are_validated() {
        check(
            json!({"rules": [{"subjects": [{"kind": "User", "group": {"name": "g"}}],
                "nonResourceRules": [{"verbs": ["look"], "nonResourceURLs": ["a*b"]}]}]}),
            &[
                "spec.rules[0].subjects[0].group: Forbidden: group is forbidden when subject kind is not 'Group'",
                "spec.rules[0].subjects[0].user: Required value: user is required when subject kind is 'User'",
                r#"spec.rules[0].nonResourceRules[0].verbs: Unsupported value: ["look"]: supported values: "create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch""#,
                r#"spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: "a*b": must start with slash"#,
            ],
        );
    }
}
