//! `ValidatingAdmissionPolicyBinding`: the resources to which a policy applies, and the actions
//! that a failed validation causes.

use super::matching::default_match_resources;
use super::policy::{SPEC, binding_cells, validate_binding};
use crate::table;
use crate::validation::rules::{dns_subdomain, required, supported_only, unique};
use machinery::fields::{at, text, texts, top};
use machinery::{ErrorList, Object};
use types::columns::{AGE, NAME, column};
use types::resource::{Column, Columns, Resource, Strategy};

/// The resource of the kind `ValidatingAdmissionPolicyBinding`.
pub fn resource() -> Resource {
    let shape = "admissionregistration/v1.ValidatingAdmissionPolicyBinding";
    let version = table::v1(shape, Columns::Fixed(COLUMNS, binding_cells));
    let plural = "validatingadmissionpolicybindings";
    super::resource("ValidatingAdmissionPolicyBinding", plural, &STRATEGY, version)
}

static STRATEGY: Strategy = Strategy {
    defaults: |object| default_match_resources(object.map_at(&["spec"]), "matchResources"),
    validate: |object, errors| {
        validate(object, errors);
        super::refuse_reserved_name(object, errors);
    },
    validate_update: |new, _, errors| validate(new, errors),
    generation: true,
    unconditional_update: false,
    ..Strategy::DEFAULT
};

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    column("PolicyName", "The name of the policy that is bound; the policy need not exist yet."),
    column(
        "ParamRef",
        "The object that holds the parameters of the policy: its namespace and its name.",
    ),
    AGE,
];

fn validate(object: &Object, errors: &mut ErrorList) {
    let spec = top(object, "spec");
    let policy = text(spec, "policyName");
    if !policy.is_empty() {
        dns_subdomain(errors, &SPEC.child("policyName"), policy);
    }
    validate_binding(object, errors);
    let path = SPEC.child("validationActions");
    let actions: Vec<&str> = texts(spec, "validationActions").collect();
    for (index, action) in actions.iter().enumerate() {
        supported_only(errors, &path.index(index), action, &["Audit", "Deny", "Warn"]);
    }
    unique(errors, &path, actions.iter().copied());
    if actions.contains(&"Deny") && actions.contains(&"Warn") {
        let message = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.invalid(&path, at(spec, &["validationActions"]).clone(), message);
    }
    errors.declarative(|errors| {
        required(errors, &SPEC.child("policyName"), policy);
        if actions.is_empty() {
            errors.required(&path, "");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::refusals;
    use machinery::json;

    #[test]
    fn a_binding_needs_a_policy_and_actions() {
        assert_eq!(
            refusals(&STRATEGY, json!({"spec": {}})),
            ["spec.policyName: Required value", "spec.validationActions: Required value"]
        );
        let spec = json!({"policyName": "p", "validationActions": ["Deny", "Warn"]});
        assert_eq!(refusals(&STRATEGY, json!({"spec": spec})).len(), 1);
    }

    #[test]
    fn a_param_ref_needs_a_name_or_a_selector() {
        let spec = json!({"policyName": "p", "validationActions": ["Deny"], "paramRef": {}});
        assert_eq!(
            refusals(&STRATEGY, json!({"spec": spec})),
            [
                "spec.paramRef: Required value: one of name or selector must be specified",
                "spec.paramRef.parameterNotFoundAction: Required value",
            ]
        );
    }
}
