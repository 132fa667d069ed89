//! [`merge`]: sorts the errors of expressions into the other errors of the same configuration.
//! Expressions are validated separately; kube-apiserver reports their errors between those of the
//! fields around them.

use machinery::field_path::ErrorType;
use machinery::{ErrorList, FieldError};

/// The order in which kube-apiserver validates fields, by the name of the parent field. Fields that
/// are not listed come first.
const ORDER: &[(&str, &[&str])] = &[
    ("", &["webhooks", "spec"]),
    ("webhooks", &["matchConditions", "admissionReviewVersions"]),
    (
        "spec",
        &[
            "failurePolicy",
            "paramKind",
            "matchConstraints",
            "matchConditions",
            "variables",
            "validations",
            "auditAnnotations",
            "mutations",
            "reinvocationPolicy",
        ],
    ),
    ("matchConditions", &["expression", "name"]),
    ("variables", &["name", "expression"]),
    ("validations", &["expression", "messageExpression", "message", "reason"]),
    ("auditAnnotations", &["key", "valueExpression"]),
];

/// Inserts each of `expression_errors` before the first of `errors` that has a higher rank.
pub(super) fn merge(errors: &mut ErrorList, expression_errors: ErrorList) {
    if expression_errors.is_empty() {
        return;
    }
    let mut merged = std::mem::take(errors).into_inner();
    for error in expression_errors.into_inner() {
        let error_rank = rank(&error);
        let position = merged.iter().position(|it| rank(it) > error_rank).unwrap_or(merged.len());
        merged.insert(position, error);
    }
    for error in merged {
        errors.push(error);
    }
}

/// The position of a field. `spec.variables[1].name` has the ranks of `spec`, of `variables` within
/// it, 1, and of `name` within that.
fn rank(error: &FieldError) -> Vec<usize> {
    let mut ranks = Vec::new();
    let mut parent = "";
    for segment in error.field.split('.') {
        // Upstream: fields that a mutation must not have are reported after its required ones.
        if parent == "mutations" && error.field.ends_with(segment) {
            ranks.push(usize::MAX);
            break;
        }
        let (name, rest) = segment.split_once('[').unwrap_or((segment, ""));
        let siblings = ORDER.iter().find(|(it, _)| *it == parent).map_or(&[][..], |(_, it)| it);
        ranks.push(siblings.iter().position(|it| *it == name).map_or(0, |index| index + 1));
        ranks.extend(rest.trim_end_matches(']').parse::<usize>());
        parent = name;
    }
    // Upstream: duplicates are reported after all items of the list.
    if error.kind == ErrorType::Duplicate
        && let Some(last) = ranks.last_mut()
    {
        *last = usize::MAX;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::Path;

    fn errors(fields: &[&'static str]) -> ErrorList {
        let mut errors = ErrorList::new();
        for field in fields {
            errors.required(&Path::root(field), "");
        }
        errors
    }

    /// The fields in the order in which they are reported.
    fn merged(rest: &[&'static str], expressions: &[&'static str]) -> Vec<String> {
        let mut all = errors(rest);
        merge(&mut all, errors(expressions));
        all.into_inner().into_iter().map(|it| it.field).collect()
    }

    #[test]
    fn errors_of_expressions_are_reported_in_field_order() {
        assert_eq!(
            merged(
                &["metadata.name", "spec.variables[1].name", "spec.validations[0].reason"],
                &["spec.variables[0].expression", "spec.validations[0].messageExpression"],
            ),
            [
                "metadata.name",
                "spec.variables[0].expression",
                "spec.variables[1].name",
                "spec.validations[0].messageExpression",
                "spec.validations[0].reason",
            ]
        );
        assert_eq!(
            merged(
                &["webhooks[0].rules[0].operations", "webhooks[0].admissionReviewVersions"],
                &["webhooks[0].matchConditions[0].expression"],
            ),
            [
                "webhooks[0].rules[0].operations",
                "webhooks[0].matchConditions[0].expression",
                "webhooks[0].admissionReviewVersions",
            ]
        );
    }
}
