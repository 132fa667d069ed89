//! `ValidatingAdmissionPolicy`: expressions that validate objects before they are stored.

use std::collections::HashSet;

use super::matching::default_match_resources;
use super::policy::{SPEC, policy_cells, validate_policy};
use crate::table;
use crate::validation::rules::{qualified_name, supported_only};
use machinery::fields::{at, default_value, list, part, text, top};
use machinery::{ErrorList, Object, Path, Value};
use types::columns::{AGE, NAME, column, integer};
use types::resource::{Column, Columns, Resource, Strategy, Version, drop_status, keep_status};

/// The resource of the kind `ValidatingAdmissionPolicy`.
pub fn resource() -> Resource {
    let cells = |object: &Object, now: &_| policy_cells(object, now, "validations");
    let shape = "admissionregistration/v1.ValidatingAdmissionPolicy";
    let version = Version { status: true, ..table::v1(shape, Columns::Fixed(COLUMNS, cells)) };
    super::resource("ValidatingAdmissionPolicy", "validatingadmissionpolicies", &STRATEGY, version)
}

static STRATEGY: Strategy = Strategy {
    defaults,
    prepare_create: drop_status,
    prepare_update: keep_status,
    validate: |object, errors| {
        validate(object, None, errors);
        super::refuse_reserved_name(object, errors);
    },
    validate_update: |new, old, errors| validate(new, Some(old), errors),
    generation: true,
    unconditional_update: false,
    ..Strategy::DEFAULT
};

const MAX_ANNOTATIONS: usize = 20;
const MAX_EXPRESSION: usize = 5 << 10;

const COLUMNS: &[Column] = &[
    NAME,
    integer("Validations", "The number of validations that this policy defines."),
    column(
        "ParamKind",
        "The kind of the objects that hold the parameters of this policy, if it has any.",
    ),
    AGE,
];

fn defaults(object: &mut Object) {
    let spec = object.map_at(&["spec"]);
    default_value(spec, "failurePolicy", "Fail".into());
    default_match_resources(spec, "matchConstraints");
}

fn validate(new: &Object, old: Option<&Object>, errors: &mut ErrorList) {
    validate_policy(new, old, errors, |_, _| {});
    let spec = top(new, "spec");
    let (validations, annotations) = (list(spec, "validations"), list(spec, "auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        let message = "validations or auditAnnotations must contain at least one item";
        errors.required(&SPEC.child("validations"), message);
        errors.required(&SPEC.child("auditAnnotations"), message);
    }
    let path = SPEC.child("validations");
    for (index, validation) in validations.iter().enumerate() {
        validate_validation(errors, &path.index(index), validation);
    }
    let path = SPEC.child("auditAnnotations");
    if annotations.len() > MAX_ANNOTATIONS {
        let message = format!("must not have more than {MAX_ANNOTATIONS} auditAnnotations");
        errors.invalid(&path, at(spec, &["auditAnnotations"]).clone(), &message);
    }
    let mut seen: HashSet<&str> = HashSet::new();
    for (index, annotation) in annotations.iter().enumerate() {
        let path = path.index(index);
        let key = text(annotation, "key");
        match new.name() {
            "" => {
                let message = "requires metadata.name be non-empty";
                errors.invalid(&path.child("key"), key, message);
            }
            // The key follows the name of the policy in the audit log.
            name => qualified_name(errors, &path.child("key"), &format!("{name}/{key}")),
        }
        let expression = text(annotation, "valueExpression").trim();
        let expression_path = path.child("valueExpression");
        if expression.is_empty() {
            errors.required(&expression_path, "valueExpression is not specified");
        } else if expression.len() > MAX_EXPRESSION {
            // As upstream: reported as a missing value.
            let message = format!("must not exceed {MAX_EXPRESSION} bytes in length");
            errors.required(&expression_path, &message);
        }
        if seen.contains(&key) {
            errors.duplicate(&path.child("key"), key);
        }
        seen.insert(key);
    }
}

fn validate_validation(errors: &mut ErrorList, path: &Path<'_>, validation: &Value) {
    if text(validation, "expression").trim().is_empty() {
        errors.required(&path.child("expression"), "expression is not specified");
    }
    for key in ["messageExpression", "message"] {
        let value = text(validation, key);
        if !value.is_empty() && value.trim().is_empty() {
            errors.invalid(&path.child(key), value, "must be non-empty if specified");
        }
    }
    let message = text(validation, "message");
    if message.trim().contains(['\n', '\r']) {
        errors.invalid(&path.child("message"), message, "must not contain line breaks");
    }
    if part(validation, "reason").is_some() {
        let reasons = &["Forbidden", "Invalid", "RequestEntityTooLarge"];
        supported_only(errors, &path.child("reason"), text(validation, "reason"), reasons);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{created, refusals};
    use machinery::json;

    #[test]
    fn a_policy_needs_match_constraints_and_validations() {
        assert_eq!(
            refusals(&STRATEGY, json!({"spec": {"failurePolicy": "Perhaps"}})),
            [
                r#"spec.failurePolicy: Unsupported value: "Perhaps": supported values: "Fail", "Ignore""#,
                "spec.matchConstraints: Required value",
                "spec.validations: Required value: validations or auditAnnotations must contain at least one item",
                "spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item",
            ]
        );
    }

    #[test]
    fn a_policy_defaults_to_fail_and_equivalent() {
        assert_eq!(
            created(&STRATEGY, json!({"spec": {"matchConstraints": {"resourceRules": [{}]}}})),
            json!({"spec": {"failurePolicy": "Fail", "matchConstraints": {"matchPolicy": "Equivalent",
                "namespaceSelector": {}, "objectSelector": {}, "resourceRules": [{"scope": "*"}]}}})
        );
    }
}
