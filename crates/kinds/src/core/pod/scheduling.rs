//! Validation of the scheduling of a pod: tolerations, affinity, topology spread, gates.

use std::collections::{HashMap, HashSet};

use super::super::node::TAINT_EFFECTS;
use crate::validation::rules::{
    add_invalid, dns_subdomain, label_selector, positive, qualified_name, supported_only,
};
use machinery::fields::{at, list, number, part, text, texts};
use machinery::{ErrorList, Path, Value, names};

/// Validates tolerations.
pub(crate) fn validate_tolerations(errors: &mut ErrorList, path: &Path<'_>, tolerations: &[Value]) {
    for (index, toleration) in tolerations.iter().enumerate() {
        let path = path.index(index);
        let (key, operator) = (text(toleration, "key"), text(toleration, "operator"));
        let (value, effect) = (text(toleration, "value"), text(toleration, "effect"));
        if !key.is_empty() {
            qualified_name(errors, &path.child("key"), key);
        } else if operator != "Exists" {
            let message = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.invalid(&path.child("operator"), operator, message);
        }
        if part(toleration, "tolerationSeconds").is_some() && effect != "NoExecute" {
            let message = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(&path.child("effect"), effect, message);
        }
        match operator {
            "Equal" | "" => {
                let messages = names::label_value(value);
                if !messages.is_empty() {
                    add_invalid(errors, &path.child("operator"), value, vec![messages.join(";")]);
                }
            }
            "Exists" if value.is_empty() => {}
            "Exists" => {
                let message = "value must be empty when `operator` is 'Exists'";
                errors.invalid(&path.child("operator"), value, message);
            }
            // As upstream, the error lists them, although their feature gate is off.
            "Lt" | "Gt" => errors.not_supported(
                &path.child("operator"),
                operator,
                &["Equal", "Exists", "Lt", "Gt"],
            ),
            other => errors.not_supported(&path.child("operator"), other, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            supported_only(errors, &path.child("effect"), effect, TAINT_EFFECTS);
        }
    }
}

/// Validates `affinity`.
pub(super) fn validate_affinity(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let affinity = at(spec, &["affinity"]);
    if let Some(nodes) = part(affinity, "nodeAffinity") {
        let path = path.child("nodeAffinity");
        if let Some(selector) = part(nodes, REQUIRED) {
            validate_node_selector(errors, &path.child(REQUIRED), selector);
        }
        let path = path.child(PREFERRED);
        for (index, term) in list(nodes, PREFERRED).iter().enumerate() {
            let path = path.index(index);
            validate_weight(errors, &path, term);
            let preference = at(term, &["preference"]);
            // As upstream, the values of preferred terms are not validated.
            validate_node_term(errors, &path.child("preference"), preference, AllowedValues::Any);
        }
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(pods) = part(affinity, kind) else { continue };
        let path = path.child(kind);
        let required = path.child(REQUIRED);
        for (index, term) in list(pods, REQUIRED).iter().enumerate() {
            validate_pod_term(errors, &required.index(index), term);
        }
        let preferred = path.child(PREFERRED);
        for (index, weighted) in list(pods, PREFERRED).iter().enumerate() {
            let path = preferred.index(index);
            validate_weight(errors, &path, weighted);
            let term = at(weighted, &["podAffinityTerm"]);
            validate_pod_term(errors, &path.child("podAffinityTerm"), term);
        }
    }
}

fn validate_weight(errors: &mut ErrorList, path: &Path<'_>, term: &Value) {
    let weight = number(term, "weight");
    if !(1..=100).contains(&weight) {
        errors.invalid(&path.child("weight"), weight, "must be in the range 1-100");
    }
}

/// The values that a requirement may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AllowedValues {
    /// Valid values of labels.
    LabelValues,
    Any,
}

/// Validates a node selector, which must have terms.
pub(crate) fn validate_node_selector(errors: &mut ErrorList, path: &Path<'_>, selector: &Value) {
    let path = path.child("nodeSelectorTerms");
    let terms = list(selector, "nodeSelectorTerms");
    if terms.is_empty() {
        return errors.required(&path, "must have at least one node selector term");
    }
    for (index, term) in terms.iter().enumerate() {
        validate_node_term(errors, &path.index(index), term, AllowedValues::LabelValues);
    }
}

fn validate_node_term(
    errors: &mut ErrorList,
    path: &Path<'_>,
    term: &Value,
    allowed: AllowedValues,
) {
    let expressions = path.child("matchExpressions");
    for (index, requirement) in list(term, "matchExpressions").iter().enumerate() {
        validate_node_requirement(errors, &expressions.index(index), requirement, allowed);
    }
    let fields = path.child("matchFields");
    for (index, requirement) in list(term, "matchFields").iter().enumerate() {
        validate_node_field(errors, &fields.index(index), requirement);
    }
}

fn validate_node_requirement(
    errors: &mut ErrorList,
    path: &Path<'_>,
    requirement: &Value,
    allowed: AllowedValues,
) {
    let count = list(requirement, "values").len();
    let values_path = path.child("values");
    match text(requirement, "operator") {
        "In" | "NotIn" if count == 0 => {
            errors.required(&values_path, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if count > 0 => errors.forbidden(
            &values_path,
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
        "Gt" | "Lt" if count != 1 => errors.required(
            &values_path,
            "must be specified single value when `operator` is 'Lt' or 'Gt'",
        ),
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => errors.invalid(&path.child("operator"), other, "not a valid selector operator"),
    }
    qualified_name(errors, &path.child("key"), text(requirement, "key"));
    if allowed == AllowedValues::LabelValues {
        for (index, value) in texts(requirement, "values").enumerate() {
            add_invalid(errors, &values_path.index(index), value, names::label_value(value));
        }
    }
}

fn validate_node_field(errors: &mut ErrorList, path: &Path<'_>, requirement: &Value) {
    let values = path.child("values");
    match text(requirement, "operator") {
        "In" | "NotIn" => {
            if list(requirement, "values").len() != 1 {
                let message = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                errors.required(&values, message);
            }
        }
        other => errors.invalid(&path.child("operator"), other, "not a valid selector operator"),
    }
    match text(requirement, "key") {
        "metadata.name" => {
            for (index, value) in texts(requirement, "values").enumerate() {
                dns_subdomain(errors, &values.index(index), value);
            }
        }
        other => errors.invalid(&path.child("key"), other, "not a valid field selector key"),
    }
}

fn validate_pod_term(errors: &mut ErrorList, path: &Path<'_>, term: &Value) {
    label_selector(errors, &path.child("labelSelector"), at(term, &["labelSelector"]));
    label_selector(errors, &path.child("namespaceSelector"), at(term, &["namespaceSelector"]));
    for namespace in texts(term, "namespaces") {
        add_invalid(errors, &path.child("namespace"), namespace, names::namespace_name(namespace));
    }
    validate_label_keys(errors, path, term);
    let key = text(term, "topologyKey");
    if key.is_empty() {
        errors.required(&path.child("topologyKey"), "can not be empty");
    }
    qualified_name(errors, &path.child("topologyKey"), key);
}

/// Validates `matchLabelKeys` and `mismatchLabelKeys`, after they were merged into the selector.
fn validate_label_keys(errors: &mut ErrorList, path: &Path<'_>, term: &Value) {
    let selector = at(term, &["labelSelector"]);
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        let path = path.child(field);
        if !selector.is_object() && !list(term, field).is_empty() {
            errors.forbidden(&path, "must not be specified when labelSelector is not set");
            continue;
        }
        for (index, key) in texts(term, field).enumerate() {
            qualified_name(errors, &path.index(index), key);
        }
    }
    let match_keys: Vec<&str> = texts(term, "matchLabelKeys").collect();
    let mut seen: HashSet<&str> = at(selector, &["matchLabels"])
        .as_object()
        .into_iter()
        .flatten()
        .map(|it| it.0.as_str())
        .collect();
    let mut indexes: HashMap<&str, usize> = HashMap::new();
    for (index, key) in match_keys.iter().enumerate() {
        indexes.entry(key).or_insert(index);
    }
    // The expressions include those that were made from the keys, so a key that the selector
    // already has occurs twice.
    for expression in list(selector, "matchExpressions") {
        let key = text(expression, "key");
        if let Some(index) = indexes.get(key).filter(|_| seen.contains(key)) {
            let message = "exists in both matchLabelKeys and labelSelector";
            // As upstream, the path has no `matchLabelKeys`.
            errors.invalid(&path.index(*index), key, message);
        }
        seen.insert(key);
    }
    let keys = path.child("matchLabelKeys");
    let mismatched: HashSet<&str> = texts(term, "mismatchLabelKeys").collect();
    for (index, key) in match_keys.iter().enumerate() {
        if mismatched.contains(key) {
            let message = "exists in both matchLabelKeys and mismatchLabelKeys";
            errors.invalid(&keys.index(index), *key, message);
        }
    }
}

/// Validates `topologySpreadConstraints`.
pub(super) fn validate_spread(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let constraints = list(spec, "topologySpreadConstraints");
    // As upstream, a duplicate is reported at each constraint that an equal one follows.
    let mut remaining: HashMap<(&str, &str), usize> = HashMap::new();
    for it in constraints {
        *remaining.entry((text(it, "topologyKey"), text(it, "whenUnsatisfiable"))).or_default() +=
            1;
    }
    for (index, constraint) in constraints.iter().enumerate() {
        let path = path.index(index);
        let (key, action) =
            (text(constraint, "topologyKey"), text(constraint, "whenUnsatisfiable"));
        positive(errors, &path.child("maxSkew"), number(constraint, "maxSkew"));
        if key.is_empty() {
            errors.required(&path.child("topologyKey"), "can not be empty");
        }
        let actions = &["DoNotSchedule", "ScheduleAnyway"];
        supported_only(errors, &path.child("whenUnsatisfiable"), action, actions);
        let later = remaining.get_mut(&(key, action)).map_or(0, |it| {
            *it -= 1;
            *it
        });
        if later > 0 {
            let path = path.child("{topologyKey, whenUnsatisfiable}");
            errors.duplicate(&path, format!("{{{key}, {action}}}"));
        }
        if let Some(domains) = constraint.get("minDomains").and_then(Value::as_i64) {
            positive(errors, &path.child("minDomains"), domains);
            if action != "DoNotSchedule" {
                let message = format!(
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                );
                errors.invalid(&path.child("minDomains"), domains, &message);
            }
        }
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if part(constraint, policy).is_some() {
                let value = text(constraint, policy);
                supported_only(errors, &path.child(policy), value, &["Honor", "Ignore"]);
            }
        }
        validate_label_keys(errors, &path, constraint);
        label_selector(errors, &path.child("labelSelector"), at(constraint, &["labelSelector"]));
    }
}

/// Validates `schedulingGates` and `readinessGates`.
pub(super) fn validate_gates(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let readiness = path.child("readinessGates");
    for (index, gate) in list(spec, "readinessGates").iter().enumerate() {
        let path = readiness.index(index);
        qualified_name(errors, &path.child("conditionType"), text(gate, "conditionType"));
    }
    let scheduling = path.child("schedulingGates");
    let mut seen = HashSet::new();
    for (index, gate) in list(spec, "schedulingGates").iter().enumerate() {
        let (path, name) = (scheduling.index(index), text(gate, "name"));
        qualified_name(errors, &path, name);
        if seen.contains(&name) {
            errors.duplicate(&path, name);
        }
        seen.insert(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::lines;
    use machinery::json;

    #[test]
    fn invalid_tolerations_are_refused() {
        let mut errors = ErrorList::new();
        let tolerations = [
            json!({"operator": "Exists"}),
            json!({"operator": "Equal"}),
            json!({"key": "k", "operator": "Exists", "value": "v"}),
            json!({"key": "k", "tolerationSeconds": 1, "effect": "NoSchedule"}),
            json!({"key": "k", "operator": "Like", "effect": "Never"}),
        ];
        validate_tolerations(&mut errors, &Path::root("t"), &tolerations);
        assert_eq!(
            lines(&errors),
            [
                r#"t[1].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, which means "match all values and all keys""#,
                r#"t[2].operator: Invalid value: "v": value must be empty when `operator` is 'Exists'"#,
                r#"t[3].effect: Invalid value: "NoSchedule": effect must be 'NoExecute' when `tolerationSeconds` is set"#,
                r#"t[4].operator: Unsupported value: "Like": supported values: "Equal", "Exists""#,
                r#"t[4].effect: Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute""#,
            ]
        );
    }

    #[test]
    fn invalid_affinity_is_refused() {
        let mut errors = ErrorList::new();
        let spec = json!({"affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "preference":
                    {"matchFields": [{"key": "x", "operator": "In", "values": ["a"]}]}}]},
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone",
                "matchLabelKeys": ["a"]}]}}});
        validate_affinity(&mut errors, &Path::root("a"), &spec);
        assert_eq!(
            lines(&errors),
            [
                "a.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: must have at least one node selector term",
                "a.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be in the range 1-100",
                r#"a.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchFields[0].key: Invalid value: "x": not a valid field selector key"#,
                "a.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
            ]
        );
    }

    #[test]
    fn invalid_topology_spread_constraints_are_refused() {
        let mut errors = ErrorList::new();
        let spec = json!({"topologySpreadConstraints": [
            {"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"},
            {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"},
            {"maxSkew": 1, "topologyKey": "", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2}]});
        validate_spread(&mut errors, &Path::root("s"), &spec);
        assert_eq!(
            lines(&errors),
            [
                "s[0].maxSkew: Invalid value: 0: must be greater than zero",
                r#"s[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{z, DoNotSchedule}""#,
                "s[2].topologyKey: Required value: can not be empty",
                "s[2].minDomains: Invalid value: 2: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
            ]
        );
    }
}
