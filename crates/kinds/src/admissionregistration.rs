//! The kinds of `admissionregistration.k8s.io`: admission webhooks and policies.

pub mod mutating_webhook_configuration;
pub mod validating_webhook_configuration;
pub mod validating_admission_policy;
pub mod validating_admission_policy_binding;
pub mod mutating_admission_policy;
pub mod mutating_admission_policy_binding;
pub mod initializer_configuration;
mod matching;
mod policy;
pub(crate) mod webhook;

use crate::table;
use machinery::{ErrorList, Object, Path};
use types::resource::{Resource, Strategy, Version};

/// The suffix of the names that are reserved for configurations in static manifest files.
const RESERVED: &str = ".static.k8s.io";

fn refuse_reserved_name(object: &Object, errors: &mut ErrorList) {
    if object.name().ends_with(RESERVED) {
        let detail = format!(
            "names ending with \"{RESERVED}\" are reserved for static manifest-based configurations and cannot be managed via the API"
        );
        errors.invalid(&Path::root("metadata").child("name"), object.name(), &detail);
    }
}

/// The resource of a kind of this group.
fn resource(kind: &str, plural: &str, strategy: &'static Strategy, version: Version) -> Resource {
    Resource {
        namespaced: false,
        categories: vec!["api-extensions".to_owned()],
        ..table::resource("admissionregistration.k8s.io", kind, plural, strategy, version)
    }
}
