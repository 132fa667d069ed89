//! Rules for single fields, which the validation of all kinds uses, with Kubernetes' messages. A
//! rule adds an error to `errors` if the value at `path` violates it.

use std::collections::HashSet;

use crate::validation::go_struct;
use machinery::field_path::ErrorType;
use machinery::fields::{list, same, text};
use machinery::meta::validate_labels;
use machinery::{ErrorList, Path, Value, names};

/// The error about a change of an immutable field.
pub(crate) const IMMUTABLE: &str = "field is immutable";

/// Adds an error about `value` for each message.
pub(crate) fn add_invalid(
    errors: &mut ErrorList,
    path: &Path<'_>,
    value: &str,
    messages: Vec<String>,
) {
    for message in messages {
        errors.invalid(path, value, &message);
    }
}

/// Must not be empty.
pub(crate) fn required(errors: &mut ErrorList, path: &Path<'_>, value: &str) {
    if value.is_empty() {
        errors.required(path, "");
    }
}

/// Must be one of `supported`, which the message lists in this order; empty counts as missing.
pub(crate) fn one_of(errors: &mut ErrorList, path: &Path<'_>, value: &str, supported: &[&str]) {
    if value.is_empty() {
        errors.required(path, "");
    } else {
        supported_only(errors, path, value, supported);
    }
}

/// Must be one of `supported`; an empty value is unsupported, not missing.
pub(crate) fn supported_only(
    errors: &mut ErrorList,
    path: &Path<'_>,
    value: &str,
    supported: &[&str],
) {
    if !supported.contains(&value) {
        errors.not_supported(path, value, supported);
    }
}

/// Must be between two bounds, inclusive.
pub(crate) fn in_range(errors: &mut ErrorList, path: &Path<'_>, value: i64, low: i64, high: i64) {
    if !(low..=high).contains(&value) {
        errors.invalid(path, value, &range_message(low, high));
    }
}

/// Kubernetes' message about a value that is not in a range.
pub(crate) fn range_message(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

/// Must not be negative.
pub(crate) fn at_least_zero(errors: &mut ErrorList, path: &Path<'_>, value: i64) {
    if value < 0 {
        errors.invalid(path, value, "must be greater than or equal to 0");
    }
}

/// Must be above zero.
pub(crate) fn positive(errors: &mut ErrorList, path: &Path<'_>, value: i64) {
    if value <= 0 {
        errors.invalid(path, value, "must be greater than zero");
    }
}

/// Must be the number of a port.
pub(crate) fn port(errors: &mut ErrorList, path: &Path<'_>, value: i64) {
    in_range(errors, path, value, 1, 65535);
}

/// Must be the number or the name of a port.
pub(crate) fn port_or_name(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    match value {
        Value::String(name) => add_invalid(errors, path, name, names::port_name(name)),
        other => port(errors, path, other.as_i64().unwrap_or(0)),
    }
}

/// Must be the id of a Unix user or group.
pub(crate) fn unix_id(errors: &mut ErrorList, path: &Path<'_>, value: i64) {
    in_range(errors, path, value, 0, i64::from(i32::MAX));
}

/// Must be a number that is not negative, or a percentage.
pub(crate) fn count_or_percent(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    match value {
        Value::String(text) if percent(text).is_none() => errors.invalid(
            path,
            text.as_str(),
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
        ),
        Value::String(_) => {}
        other => at_least_zero(errors, path, other.as_i64().unwrap_or(0)),
    }
}

/// Must not be more than 100 %, if it is a percentage.
pub(crate) fn at_most_100_percent(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    if value.as_str().and_then(percent).is_some_and(|percent| percent > 100) {
        errors.invalid(path, value.clone(), "must not be greater than 100%");
    }
}

/// The number before the `%`.
pub(crate) fn percent(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('%')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    // A number that overflows is only compared with 100.
    is_number.then(|| digits.parse().unwrap_or(i64::MAX))
}

/// Must not be empty, and must be valid as a segment of a URL's path.
pub(crate) fn required_segment(errors: &mut ErrorList, path: &Path<'_>, value: &str) {
    if value.is_empty() {
        errors.required(path, "");
    } else {
        add_invalid(errors, path, value, names::path_segment(value));
    }
}

/// Must not be empty, and must be a DNS subdomain.
pub(crate) fn required_subdomain(errors: &mut ErrorList, path: &Path<'_>, value: &str) {
    if value.is_empty() {
        errors.required(path, "");
    } else {
        dns_subdomain(errors, path, value);
    }
}

/// Must not have duplicates.
pub(crate) fn unique<'a>(
    errors: &mut ErrorList,
    path: &Path<'_>,
    values: impl IntoIterator<Item = &'a str>,
) {
    let mut seen: HashSet<&str> = HashSet::new();
    for (index, value) in values.into_iter().enumerate() {
        if seen.contains(&value) {
            errors.duplicate(&path.index(index), value);
        }
        seen.insert(value);
    }
}

/// Must not change; the message shows the new value.
pub(crate) fn immutable(errors: &mut ErrorList, path: &Path<'_>, new: &Value, old: &Value) {
    if !same(new, old) {
        errors.invalid(path, new.clone(), IMMUTABLE);
    }
}

/// The same for a rule that upstream [declares](ErrorList::declarative) at the field's type: the
/// message does not show the value.
pub(crate) fn declared_immutable(
    errors: &mut ErrorList,
    path: &Path<'_>,
    new: &Value,
    old: &Value,
) {
    if !same(new, old) {
        errors.declarative(|errors| errors.invalid(path, Value::Null, IMMUTABLE));
    }
}

/// The same for a value that Kubernetes prints as the Go struct `name`.
pub(crate) fn immutable_struct(
    errors: &mut ErrorList,
    path: &Path<'_>,
    name: &str,
    new: &Value,
    old: &Value,
) {
    if !same(new, old) {
        invalid_struct(errors, path, name, new, IMMUTABLE);
    }
}

/// Adds an error about a value; the message shows it as the Go struct `name`.
pub(crate) fn invalid_struct(
    errors: &mut ErrorList,
    path: &Path<'_>,
    name: &str,
    value: &Value,
    message: &str,
) {
    let detail = format!("{}: {message}", go_struct::line(name, value));
    errors.add(ErrorType::Invalid, path, None, &detail);
}

/// Must be a DNS label.
pub(crate) fn dns_label(errors: &mut ErrorList, path: &Path<'_>, value: &str) {
    add_invalid(errors, path, value, names::dns1123_label(value));
}

/// Must be a DNS subdomain.
pub(crate) fn dns_subdomain(errors: &mut ErrorList, path: &Path<'_>, value: &str) {
    add_invalid(errors, path, value, names::dns1123_subdomain(value));
}

/// Must be a name with an optional DNS subdomain before a slash, as label keys are.
pub(crate) fn qualified_name(errors: &mut ErrorList, path: &Path<'_>, value: &str) {
    add_invalid(errors, path, value, names::qualified_name(value));
}

/// Must be a map of labels, or absent.
pub(crate) fn labels(errors: &mut ErrorList, path: &Path<'_>, map: &Value) {
    if let Some(map) = map.as_object() {
        validate_labels(map, path, errors);
    }
}

/// Must be a label selector, or absent.
pub(crate) fn label_selector(errors: &mut ErrorList, path: &Path<'_>, selector: &Value) {
    labels(errors, &path.child("matchLabels"), selector.get("matchLabels").unwrap_or(&Value::Null));
    let expressions = path.child("matchExpressions");
    for (index, requirement) in list(selector, "matchExpressions").iter().enumerate() {
        let path = expressions.index(index);
        let values = list(requirement, "values");
        match text(requirement, "operator") {
            "In" | "NotIn" if values.is_empty() => errors.required(
                &path.child("values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            ),
            "Exists" | "DoesNotExist" if !values.is_empty() => errors.forbidden(
                &path.child("values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            ),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                errors.invalid(&path.child("operator"), other, "not a valid selector operator");
            }
        }
        qualified_name(errors, &path.child("key"), text(requirement, "key"));
        let values_path = path.child("values");
        for (index, value) in values.iter().filter_map(Value::as_str).enumerate() {
            add_invalid(errors, &values_path.index(index), value, names::label_value(value));
        }
    }
}

/// Must not contain `..` as an element of a file path.
pub(crate) fn no_backsteps(errors: &mut ErrorList, path: &Path<'_>, value: &str) {
    if has_backsteps(value) {
        errors.invalid(path, value, "must not contain '..'");
    }
}

/// Whether an element of a file path is `..`.
pub(crate) fn has_backsteps(value: &str) -> bool {
    value.split('/').any(|element| element == "..")
}

/// Must be a relative file path without `..`.
pub(crate) fn descending_path(errors: &mut ErrorList, path: &Path<'_>, value: &str) {
    if value.starts_with('/') {
        errors.invalid(path, value, "must be a relative path");
    }
    no_backsteps(errors, path, value);
}

/// Must be a [`descending_path`] that does not begin with `..`: kubelet uses such names in volumes.
pub(crate) fn local_path(errors: &mut ErrorList, path: &Path<'_>, value: &str) {
    descending_path(errors, path, value);
    if value.starts_with("..") && !value.starts_with("../") {
        errors.invalid(path, value, "must not start with '..'");
    }
}

/// Must be the permissions of a file, if they are set.
pub(crate) fn file_mode(errors: &mut ErrorList, path: &Path<'_>, mode: Option<i64>) {
    if let Some(mode) = mode.filter(|mode| !(0..=0o777).contains(mode)) {
        let message = "must be a number between 0 and 0777 (octal), both inclusive";
        errors.invalid(path, mode, message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    fn check(rule: impl Fn(&mut ErrorList, &Path<'_>), expected: &[&str]) {
        let mut errors = ErrorList::new();
        rule(&mut errors, &Path::root("f"));
        let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn an_empty_value_is_missing_not_unsupported() {
        check(|errors, path| one_of(errors, path, "", &["A"]), &["f: Required value"]);
        check(
            |errors, path| one_of(errors, path, "x", &["A", "B"]),
            &[r#"f: Unsupported value: "x": supported values: "A", "B""#],
        );
    }

    #[test]
    fn a_port_must_be_a_valid_number_or_name() {
        check(
            |errors, path| port_or_name(errors, path, &json!(0)),
            &["f: Invalid value: 0: must be between 1 and 65535, inclusive"],
        );
        check(
            |errors, path| port_or_name(errors, path, &json!("a--1")),
            &[r#"f: Invalid value: "a--1": must not contain consecutive hyphens"#],
        );
        check(|errors, path| port_or_name(errors, path, &json!("http")), &[]);
    }

    #[test]
    fn a_local_path_may_not_contain_or_begin_with_two_dots() {
        check(
            |errors, path| local_path(errors, path, "a/../b"),
            &[r#"f: Invalid value: "a/../b": must not contain '..'"#],
        );
        check(
            |errors, path| local_path(errors, path, "..a"),
            &[r#"f: Invalid value: "..a": must not start with '..'"#],
        );
    }

    #[test]
    fn a_selector_needs_values_for_some_operators_only() {
        let selector = json!({"matchExpressions": [
            {"key": "a", "operator": "In"}, {"key": "b", "operator": "Exists", "values": ["x"]},
            {"key": "c", "operator": "Like"}]});
        check(
            |errors, path| label_selector(errors, path, &selector),
            &[
                "f.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                "f.matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                r#"f.matchExpressions[2].operator: Invalid value: "Like": not a valid selector operator"#,
            ],
        );
    }
}
