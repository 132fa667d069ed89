//! [`validate`]: validates the schemas of a CRD as a server does, for unit tests. [`merge`]: one CRD for
//! all versions of a kind.
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
use kube_core::crd::merge_crds;

use crate::versions::MergeError;
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

/// Merges the CRDs with the same name, which are the versions of one kind. One of the versions is the
/// stored one, and the others have `storage = false`.
///
/// ```
/// use runtime::{crd, kube_core::CustomResourceExt};
///
/// mod v1 {
///     #[runtime::resource(group = "example.com", version = "v1", kind = "Site")]
///     pub struct SiteSpec { pub pages: u32 }
/// }
/// mod v2 {
///     #[runtime::resource(group = "example.com", version = "v2", kind = "Site", storage = false)]
///     pub struct SiteSpec { pub pages: u32, pub theme: Option<String> }
/// }
///
/// let merged = crd::merge([v1::Site::crd(), v2::Site::crd()])?;
/// assert_eq!(merged[0].spec.versions.len(), 2);
/// # Ok::<(), runtime::versions::MergeError>(())
/// ```
pub fn merge(
    crds: impl IntoIterator<Item = CustomResourceDefinition>,
) -> Result<Vec<CustomResourceDefinition>, MergeError> {
    let mut kinds: Vec<Vec<CustomResourceDefinition>> = Vec::new();
    for crd in crds {
        match kinds.iter_mut().find(|kind| kind[0].metadata.name == crd.metadata.name) {
            Some(kind) => kind.push(crd),
            None => kinds.push(vec![crd]),
        }
    }
    kinds.into_iter().map(merge_versions).collect()
}

fn merge_versions(
    mut versions: Vec<CustomResourceDefinition>,
) -> Result<CustomResourceDefinition, MergeError> {
    if versions.len() == 1 {
        return Ok(versions.remove(0));
    }
    let all = versions.iter().flat_map(|crd| &crd.spec.versions);
    let stored: Vec<String> =
        all.filter(|version| version.storage).map(|version| version.name.clone()).collect();
    match stored.as_slice() {
        [stored] => merge_crds(versions, stored),
        [] => Err(MergeError::MissingStoredApi("with `storage = true`".to_owned())),
        _ => {
            Err(MergeError::PropertyMismatch(format!("`storage` (true in {})", stored.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use kube_core::CustomResourceExt;

    use super::*;

    mod v1 {
        #[crate::resource(crate_path = crate, group = "example.com", version = "v1", kind = "Site")]
        pub(super) struct SiteSpec {
            pub(super) pages: u32,
        }
    }

    mod v2 {
        #[crate::resource(crate_path = crate, group = "example.com", version = "v2", kind = "Site")]
        pub(super) struct SiteSpec {
            pub(super) pages: u32,
        }
    }

    #[test]
    fn a_kind_has_exactly_one_stored_version() {
        let (first, mut second) = (v1::Site::crd(), v2::Site::crd());
        let error = merge([first.clone(), second.clone()]).unwrap_err().to_string();
        assert!(error.contains("`storage` (true in v1, v2)"), "{error}");
        second.spec.versions[0].storage = false;
        let merged = merge([first.clone(), second.clone()]).unwrap();
        let versions = merged[0].spec.versions.iter();
        assert_eq!(versions.map(|it| it.storage).collect::<Vec<_>>(), [true, false]);
        assert_eq!(merge([first]).unwrap().len(), 1);
        assert!(merge([second.clone(), second]).is_err());
    }
}
