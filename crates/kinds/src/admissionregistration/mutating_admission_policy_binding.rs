//! `MutatingAdmissionPolicyBinding`: the resources to which a mutating policy applies.

use super::matching::default_match_resources;
use super::policy::{SPEC, binding_cells, refuse_deletion, validate_binding};
use super::validating_admission_policy_binding::COLUMNS;
use crate::table;
use crate::validation::rules::required_subdomain;
use machinery::fields::{text, top};
use machinery::{ErrorList, Object};
use types::resource::{Columns, Resource, Strategy};

/// The resource of the kind `MutatingAdmissionPolicyBinding`.
pub fn resource() -> Resource {
    let shape = "admissionregistration/v1.MutatingAdmissionPolicyBinding";
    let version = table::v1(shape, Columns::Fixed(COLUMNS, binding_cells));
    let plural = "mutatingadmissionpolicybindings";
    super::resource("MutatingAdmissionPolicyBinding", plural, &STRATEGY, version)
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

fn validate(object: &Object, errors: &mut ErrorList) {
    let spec = top(object, "spec");
    required_subdomain(errors, &SPEC.child("policyName"), text(spec, "policyName"));
    validate_binding(object, errors);
    refuse_deletion(errors, "matchResources", spec);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::refusals;
    use machinery::json;

    #[test]
    fn a_binding_names_its_policy() {
        assert_eq!(refusals(&STRATEGY, json!({"spec": {}})), ["spec.policyName: Required value"]);
    }
}
