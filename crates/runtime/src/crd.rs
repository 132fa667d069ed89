//! [`validate`]: validates the schemas of a CRD as a server does, for unit tests.
//!
//! ```
//! use runtime::{crd, kube_core::CustomResourceExt, resource};
//!
//! #[resource(group = "example.com", version = "v1", kind = "Site", namespaced,
//!     rule("self.replicas <= self.limit"))]
//! struct SiteSpec {
//!     replicas: i32,
//!     limit: i32,
//! }
//!
//! crd::validate(&Site::crd())?;
//!
//! #[resource(group = "example.com", version = "v1", kind = "Gate", rule("self.hight > 0"))]
//! struct GateSpec {
//!     height: i32,
//! }
//!
//! let errors = crd::validate(&Gate::crd()).unwrap_err().to_string();
//! assert!(errors.contains("undefined field 'hight'"), "{errors}");
//! # Ok::<(), crd::InvalidCrd>(())
//! ```

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use machinery::{ErrorList, Path};
use schema::SchemaRequirement;

/// The validation errors of a server, each with its field.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct InvalidCrd(pub Vec<String>);

/// Validates the schema of each version: it is structural, defaults are valid, list maps have keys,
/// and rules compile within their cost limit.
pub fn validate(crd: &CustomResourceDefinition) -> Result<(), InvalidCrd> {
    let mut errors = ErrorList::new();
    let spec = Path::root("spec");
    let versions = spec.child("versions");
    for (index, version) in crd.spec.versions.iter().enumerate() {
        let path = versions.index(index);
        let path = path.child("schema");
        let path = path.child("openAPIV3Schema");
        let wanted = version.schema.as_ref().and_then(|it| it.open_api_v3_schema.as_ref());
        let Some(wanted) = wanted.and_then(|it| serde_json::to_value(it).ok()) else {
            errors.required(&path, "schemas are required");
            continue;
        };
        schema::check_crd_schema(&wanted, SchemaRequirement::Structural, &path, &mut errors);
        if version.subresources.as_ref().is_some_and(|it| it.status.is_some()) {
            schema::check_root_with_status(&wanted, &path, &mut errors);
        }
    }
    let errors: Vec<String> = errors.into_inner().iter().map(ToString::to_string).collect();
    if errors.is_empty() { Ok(()) } else { Err(InvalidCrd(errors)) }
}
