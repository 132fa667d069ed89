//! The pod failure policy and the success policy of a job.

use std::collections::HashSet;

use super::indexes;
use crate::validation::rules::{at_least_zero, qualified_name};
use machinery::field_path::{ErrorType, quote};
use machinery::fields::{at, integer, list, part, text};
use machinery::{ErrorList, Path, Value};

const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;
const MAX_PATTERNS: usize = 20;
const MAX_INDEXES: usize = 64 * 1024;

const ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];

/// Validates the pod failure policy.
pub(super) fn validate_failure_policy(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let rules = list(at(spec, &["podFailurePolicy"]), "rules");
    let path = path.child("rules");
    if rules.len() > MAX_RULES {
        errors.too_many(&path, rules.len(), MAX_RULES);
    }
    let pod = at(spec, &["template", "spec"]);
    let containers = list(pod, "containers").iter().chain(list(pod, "initContainers"));
    let containers: HashSet<&str> = containers.map(|it| text(it, "name")).collect();
    for (index, rule) in rules.iter().enumerate() {
        validate_failure_rule(errors, &path.index(index), rule, spec, &containers);
    }
}

fn validate_failure_rule(
    errors: &mut ErrorList,
    path: &Path<'_>,
    rule: &Value,
    spec: &Value,
    containers: &HashSet<&str>,
) {
    let action = text(rule, "action");
    if action == "FailIndex" {
        if part(spec, "backoffLimitPerIndex").is_none() {
            let message = "requires the backoffLimitPerIndex to be set";
            errors.invalid(&path.child("action"), action, message);
        }
    } else {
        one_of(errors, &path.child("action"), action, ACTIONS);
    }
    let (codes, patterns) = (part(rule, "onExitCodes"), list(rule, "onPodConditions"));
    if let Some(codes) = codes {
        validate_exit_codes(errors, &path.child("onExitCodes"), codes, containers);
    }
    validate_patterns(errors, &path.child("onPodConditions"), patterns);
    let problem = match (codes.is_some(), patterns.is_empty()) {
        (true, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, true) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    errors.add(ErrorType::Invalid, path, None, problem);
}

/// Requires one of `supported`, which the message about a missing value lists too.
fn one_of(errors: &mut ErrorList, path: &Path<'_>, value: &str, supported: &[&str]) {
    if value.is_empty() {
        let listed: Vec<String> = supported.iter().map(|it| quote(it)).collect();
        errors.required(path, &format!("valid values: [{}]", listed.join(" ")));
    } else if !supported.contains(&value) {
        errors.not_supported(path, value, supported);
    }
}

fn validate_patterns(errors: &mut ErrorList, path: &Path<'_>, patterns: &[Value]) {
    if patterns.len() > MAX_PATTERNS {
        errors.too_many(path, patterns.len(), MAX_PATTERNS);
    }
    for (index, pattern) in patterns.iter().enumerate() {
        let path = path.index(index);
        qualified_name(errors, &path.child("type"), text(pattern, "type"));
        let status = text(pattern, "status");
        one_of(errors, &path.child("status"), status, &["False", "True", "Unknown"]);
    }
}

fn validate_exit_codes(
    errors: &mut ErrorList,
    path: &Path<'_>,
    codes: &Value,
    containers: &HashSet<&str>,
) {
    let operator = text(codes, "operator");
    one_of(errors, &path.child("operator"), operator, &["In", "NotIn"]);
    if let Some(name) = part(codes, "containerName").and_then(Value::as_str)
        && !containers.contains(name)
    {
        let message = "must be one of the container or initContainer names in the pod template";
        errors.invalid(&path.child("containerName"), name, message);
    }
    let values = list(codes, "values");
    let path = path.child("values");
    if values.is_empty() {
        errors.invalid(&path, at(codes, &["values"]).clone(), "at least one value is required");
    } else if values.len() > MAX_EXIT_CODES {
        errors.too_many(&path, values.len(), MAX_EXIT_CODES);
    }
    let values: Vec<i64> = values.iter().map(|value| value.as_i64().unwrap_or(0)).collect();
    let mut seen = HashSet::new();
    for (index, value) in values.iter().enumerate() {
        if operator == "In" && *value == 0 {
            errors.invalid(&path.index(index), 0, "must not be 0 for the In operator");
        }
        if !seen.insert(*value) {
            errors.duplicate(&path.index(index), *value);
        }
    }
    if !values.is_sorted() {
        errors.invalid(&path, values, "must be ordered");
    }
}

/// Validates the success policy of a job with this number of completions.
pub(super) fn validate_success_policy(
    errors: &mut ErrorList,
    path: &Path<'_>,
    policy: &Value,
    completions: i64,
) {
    let rules = list(policy, "rules");
    let path = path.child("rules");
    if rules.is_empty() {
        let message = "at least one rules must be specified when the successPolicy is specified";
        errors.required(&path, message);
    }
    if rules.len() > MAX_RULES {
        errors.too_many(&path, rules.len(), MAX_RULES);
    }
    for (index, rule) in rules.iter().enumerate() {
        validate_success_rule(errors, &path.index(index), rule, completions);
    }
}

fn validate_success_rule(errors: &mut ErrorList, path: &Path<'_>, rule: &Value, completions: i64) {
    let (count, succeeded) = (integer(rule, "succeededCount"), part(rule, "succeededIndexes"));
    if count.is_none() && succeeded.is_none() {
        let message = "at least one of succeededCount or succeededIndexes must be specified";
        errors.required(path, message);
    }
    let mut total = 0;
    if let Some(succeeded) = succeeded.and_then(Value::as_str) {
        let path = path.child("succeededIndexes");
        if succeeded.len() > MAX_INDEXES {
            errors.too_long(&path, MAX_INDEXES);
        }
        match indexes::count(succeeded, completions) {
            Ok(found) => total = found,
            Err(why) => {
                errors.invalid(&path, succeeded, &format!("error parsing succeededIndexes: {why}"));
            }
        }
    }
    let Some(count) = count else { return };
    let path = path.child("succeededCount");
    at_least_zero(errors, &path, count);
    if count > completions {
        let message = format!(
            "must be less than or equal to {completions} (the number of specified completions)"
        );
        errors.invalid(&path, count, &message);
    }
    if succeeded.is_some() && count > total {
        let message = format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        );
        errors.invalid(&path, count, &message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::lines;
    use machinery::json;

    fn check_failure(rule: Value, expected: &[&str]) {
        let spec = json!({"podFailurePolicy": {"rules": [rule]},
            "template": {"spec": {"containers": [{"name": "c"}]}}});
        let mut errors = ErrorList::new();
        validate_failure_policy(&mut errors, &Path::root("p"), &spec);
        assert_eq!(lines(&errors), expected);
    }

    fn check_success(rule: Value, expected: &[&str]) {
        let mut errors = ErrorList::new();
        let policy = json!({"rules": [rule]});
        validate_success_policy(&mut errors, &Path::root("p"), &policy, 5);
        assert_eq!(lines(&errors), expected);
    }

    #[test]
    fn a_failure_rule_has_exit_codes_or_conditions() {
        check_failure(
            json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 2], "containerName": "c"}}),
            &[],
        );
        check_failure(
            json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}),
            &[],
        );
        check_failure(
            json!({}),
            &[
                r#"p.rules[0].action: Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]"#,
                "p.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
            ],
        );
    }

    #[test]
    fn exit_codes_are_validated() {
        check_failure(
            json!({"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [3, 0, 3], "containerName": "d"}}),
            &[
                r#"p.rules[0].action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set"#,
                r#"p.rules[0].onExitCodes.containerName: Invalid value: "d": must be one of the container or initContainer names in the pod template"#,
                "p.rules[0].onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator",
                "p.rules[0].onExitCodes.values[2]: Duplicate value: 3",
                "p.rules[0].onExitCodes.values: Invalid value: [3,0,3]: must be ordered",
            ],
        );
    }

    #[test]
    fn a_success_rule_has_indexes_or_a_count() {
        check_success(json!({"succeededIndexes": "0-2", "succeededCount": 2}), &[]);
        check_success(
            json!({}),
            &[
                "p.rules[0]: Required value: at least one of succeededCount or succeededIndexes must be specified",
            ],
        );
        check_success(
            json!({"succeededIndexes": "0,9", "succeededCount": 6}),
            &[
                r#"p.rules[0].succeededIndexes: Invalid value: "0,9": error parsing succeededIndexes: too large index: "9""#,
                "p.rules[0].succeededCount: Invalid value: 6: must be less than or equal to 5 (the number of specified completions)",
                "p.rules[0].succeededCount: Invalid value: 6: must be less than or equal to 0 (the number of indexes in the specified succeededIndexes field)",
            ],
        );
    }
}
