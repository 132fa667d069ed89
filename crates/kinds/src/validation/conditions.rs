//! The rules for the conditions of a status that have the type `meta/v1.Condition`.

use std::collections::HashSet;

use crate::validation::rules::{qualified_name, supported_only};
use machinery::fields::{integer, text};
use machinery::{ErrorList, Path, Value};

/// The longest reason and message.
const MAX_REASON: usize = 1024;
const MAX_MESSAGE: usize = 32 * 1024;

/// Each condition is complete, and each type has one condition.
///
/// Upstream: `metav1validation.ValidateConditions`
pub(crate) fn validate_conditions(errors: &mut ErrorList, path: &Path<'_>, conditions: &[Value]) {
    let mut seen: HashSet<&str> = HashSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let path = path.index(index);
        let kind = text(condition, "type");
        if seen.contains(&kind) {
            errors.duplicate(&path.child("type"), kind);
        }
        seen.insert(kind);
        qualified_name(errors, &path.child("type"), kind);
        let statuses = &["False", "True", "Unknown"];
        supported_only(errors, &path.child("status"), text(condition, "status"), statuses);
        if let Some(generation) = integer(condition, "observedGeneration").filter(|it| *it < 0) {
            let message = "must be greater than or equal to zero";
            errors.invalid(&path.child("observedGeneration"), generation, message);
        }
        if text(condition, "lastTransitionTime").is_empty() {
            errors.required(&path.child("lastTransitionTime"), "");
        }
        validate_reason(errors, &path.child("reason"), text(condition, "reason"));
        if text(condition, "message").len() > MAX_MESSAGE {
            errors.too_long(&path.child("message"), MAX_MESSAGE);
        }
    }
}

fn validate_reason(errors: &mut ErrorList, path: &Path<'_>, reason: &str) {
    if reason.is_empty() {
        return errors.required(path, "");
    }
    if !is_reason(reason) {
        let message = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";
        errors.invalid(path, reason, message);
    }
    if reason.len() > MAX_REASON {
        errors.too_long(path, MAX_REASON);
    }
}

fn is_reason(text: &str) -> bool {
    let is_word = |it: u8| it.is_ascii_alphanumeric() || it == b'_';
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(|it| is_word(*it))
        && bytes.iter().all(|it| is_word(*it) || b",:".contains(it))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::lines;
    use machinery::json;

    #[test]
    fn a_condition_has_a_type_a_status_a_reason_and_a_time() {
        let complete = json!({"type": "Ready", "status": "True", "reason": "A,B:c",
            "lastTransitionTime": "2024-01-01T00:00:00Z"});
        let mut errors = ErrorList::new();
        let one = std::slice::from_ref(&complete);
        validate_conditions(&mut errors, &Path::root("c"), one);
        assert_eq!(lines(&errors), Vec::<String>::new());
        let incomplete = json!({"type": "Ready", "status": "Yes", "observedGeneration": -1});
        validate_conditions(&mut errors, &Path::root("c"), &[complete, incomplete]);
        assert_eq!(
            lines(&errors),
            [
                r#"c[1].type: Duplicate value: "Ready""#,
                r#"c[1].status: Unsupported value: "Yes": supported values: "False", "True", "Unknown""#,
                "c[1].observedGeneration: Invalid value: -1: must be greater than or equal to zero",
                "c[1].lastTransitionTime: Required value",
                "c[1].reason: Required value",
            ]
        );
        assert!(!is_reason("a,") && !is_reason("1a") && !is_reason("a b") && is_reason("a_1"));
    }
}
