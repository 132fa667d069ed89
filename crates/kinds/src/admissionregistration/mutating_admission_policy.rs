//! `MutatingAdmissionPolicy`: expressions that change objects before they are stored.

use super::matching::default_match_resources;
use super::policy::{SPEC, policy_cells, refuse_deletion, validate_policy};
use crate::table;
use crate::validation::rules::{one_of, required};
use machinery::fields::{default_value, list, part, text, top};
use machinery::{ErrorList, Object, Path, Value};
use types::columns::{AGE, NAME, column, integer};
use types::resource::{Column, Columns, Resource, Strategy};

/// The resource of the kind `MutatingAdmissionPolicy`.
pub fn resource() -> Resource {
    let cells = |object: &Object, now: &_| policy_cells(object, now, "mutations");
    let shape = "admissionregistration/v1.MutatingAdmissionPolicy";
    let version = table::v1(shape, Columns::Fixed(COLUMNS, cells));
    super::resource("MutatingAdmissionPolicy", "mutatingadmissionpolicies", &STRATEGY, version)
}

static STRATEGY: Strategy = Strategy {
    defaults,
    validate: |object, errors| {
        validate(object, None, errors);
        super::refuse_reserved_name(object, errors);
    },
    validate_update: |new, old, errors| validate(new, Some(old), errors),
    generation: true,
    unconditional_update: false,
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    integer("Mutations", "The number of mutations that this policy defines."),
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
    let constraints =
        |errors: &mut ErrorList, spec: &Value| refuse_deletion(errors, "matchConstraints", spec);
    validate_policy(new, old, errors, constraints);
    let spec = top(new, "spec");
    let path = SPEC.child("mutations");
    if list(spec, "mutations").is_empty() {
        errors.required(&path, "mutations must contain at least one item");
    }
    for (index, mutation) in list(spec, "mutations").iter().enumerate() {
        validate_mutation(errors, &path.index(index), mutation);
    }
    let policies = &["IfNeeded", "Never"];
    let policy = text(spec, "reinvocationPolicy");
    one_of(errors, &SPEC.child("reinvocationPolicy"), policy, policies);
}

fn validate_mutation(errors: &mut ErrorList, path: &Path<'_>, mutation: &Value) {
    let kind = text(mutation, "patchType");
    let (wanted, other) = match kind {
        "JSONPatch" => ("jsonPatch", "applyConfiguration"),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch"),
        kind => {
            let kinds = &["ApplyConfiguration", "JSONPatch"];
            return one_of(errors, &path.child("patchType"), kind, kinds);
        }
    };
    if let Some(patch) = part(mutation, wanted) {
        let expression = text(patch, "expression").trim();
        required(errors, &path.child(wanted).child("expression"), expression);
    } else {
        let message = format!("must be specified when patchType is {kind}");
        errors.required(&path.child(wanted), &message);
    }
    if part(mutation, other).is_some() {
        let message = format!("must not be specified when patchType is {kind}");
        errors.invalid(&path.child(other), format!("{{{other}}}"), &message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::refusals;
    use machinery::json;

    #[test]
    fn a_mutating_policy_refuses_deletions_and_the_field_of_another_patch_type() {
        let rule = json!({"operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]});
        let spec = json!({"reinvocationPolicy": "Never", "matchConstraints": {"resourceRules": [rule]},
            "mutations": [{"patchType": "JSONPatch", "applyConfiguration": {"expression": "x"}}]});
        assert_eq!(
            refusals(&STRATEGY, json!({"spec": spec})),
            [
                r#"spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", "CONNECT", "CREATE", "UPDATE""#,
                "spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch",
                r#"spec.mutations[0].applyConfiguration: Invalid value: "{applyConfiguration}": must not be specified when patchType is JSONPatch"#,
            ]
        );
    }
}
