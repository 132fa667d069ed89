//! `ResourceClaimTemplate`: the template of the claims that are created for pods.

use super::device_class::{COLUMNS, cells};
use super::{GROUP, device_claim};
use crate::table;
use crate::validation::rules::{immutable_struct, labels};
use machinery::fields::{at, map_mut, top};
use machinery::{ErrorList, Object, Path};
use types::resource::{Columns, Resource, Strategy};

/// The resource of the kind `ResourceClaimTemplate`.
pub fn resource() -> Resource {
    let version = table::v1("resource/v1.ResourceClaimTemplate", Columns::Fixed(COLUMNS, cells));
    table::resource(GROUP, "ResourceClaimTemplate", "resourceclaimtemplates", &STRATEGY, version)
}

static STRATEGY: Strategy = Strategy {
    defaults: |object| {
        if let Some(spec) = map_mut(object.map_at(&["spec"]), "spec") {
            device_claim::defaults(spec);
        }
    },
    validate,
    validate_update: |new, old, errors| {
        let (path, spec, before) = (Path::root("spec"), top(new, "spec"), top(old, "spec"));
        immutable_struct(errors, &path, "ResourceClaimTemplateSpec", spec, before);
        validate(new, errors);
    },
    returns_deleted: true,
    ..Strategy::DEFAULT
};

fn validate(object: &Object, errors: &mut ErrorList) {
    let spec = top(object, "spec");
    let path = Path::root("spec");
    let metadata = path.child("metadata");
    labels(errors, &metadata.child("labels"), at(spec, &["metadata", "labels"]));
    device_claim::validate(errors, &path.child("spec"), at(spec, &["spec"]));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::refusals;
    use machinery::json;

    #[test]
    fn the_claim_spec_of_a_template_is_validated() {
        assert_eq!(
            refusals(
                &STRATEGY,
                json!({"spec": {"spec": {"devices": {"requests": [{"name": "r"}]}}}})
            ),
            [
                "spec.spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required"
            ]
        );
    }
}
