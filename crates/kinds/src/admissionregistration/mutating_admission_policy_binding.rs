//! `MutatingAdmissionPolicyBinding`: where a policy that changes things holds.

use super::matching::default_resources;
use super::policy::{SPEC, binding_cells, no_deletion, validate_binding};
use super::validating_admission_policy_binding::COLUMNS;
use crate::fields::{text, top};
use crate::resource::{Behavior, Columns, Resource};
use crate::rules::required_subdomain;
use crate::table;
use machinery::{Faults, Object};

/// The row of `MutatingAdmissionPolicyBinding`.
pub fn resource() -> Resource {
    let shape = "admissionregistration/v1.MutatingAdmissionPolicyBinding";
    let version = table::v1(shape, Columns::Fixed(COLUMNS, binding_cells));
    let plural = "mutatingadmissionpolicybindings";
    super::row("MutatingAdmissionPolicyBinding", plural, &BEHAVIOR, version)
}

static BEHAVIOR: Behavior = Behavior {
    defaults: |object| default_resources(object.map_at(&["spec"]), "matchResources"),
    validate: |object, faults| {
        validate(object, faults);
        super::refuse_reserved_name(object, faults);
    },
    validate_update: |new, _, faults| validate(new, faults),
    generation: true,
    unconditional_update: false,
    ..Behavior::PLAIN
};

fn validate(object: &Object, faults: &mut Faults) {
    let spec = top(object, "spec");
    required_subdomain(faults, &SPEC.child("policyName"), text(spec, "policyName"));
    validate_binding(object, faults);
    no_deletion(faults, "matchResources", spec);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::refusals;
    use machinery::json;

    #[test]
    fn a_binding_names_its_policy() {
        assert_eq!(refusals(&BEHAVIOR, json!({"spec": {}})), ["spec.policyName: Required value"]);
    }
}
