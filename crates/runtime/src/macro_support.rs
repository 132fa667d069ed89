//! The items that the expansions of `#[resource]`, `#[schema]` and `#[derive(Versions)]` use: crates,
//! so that an operator's `Cargo.toml` need not list them, and what changes a derived CRD. Operators do not
//! use this module.

pub use k8s_openapi;
pub use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
pub use kube_derive;
pub use schemars;
pub use serde;
pub use serde_json;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceSubresourceStatus;
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

/// kube-core, with one more transformation of schemas.
pub mod kube_core {
    pub use ::kube_core::*;

    /// kube-core's transformations, the last of which is ours.
    pub mod schema {
        pub use ::kube_core::schema::*;

        pub use crate::schema_patch::SchemaPatches as OptionalIntOrString;
    }
}

/// kube-core for a kind whose CRD is changed after kube-derive has made it: the macro implements the
/// real `CustomResourceExt`.
pub mod draft_kube_core {
    pub use super::kube_core::*;

    /// Custom resource definitions.
    pub mod crd {
        pub use ::kube_core::crd::*;

        /// The version that kube-derive implements.
        pub mod v1 {
            use crate::macro_support::{CustomResourceDefinition, kube_core::ApiResource};

            /// The functions of kube-core's trait of this name, before the change.
            #[doc(hidden)]
            #[allow(missing_docs, reason = "as in kube-core")]
            pub trait CustomResourceExt {
                fn crd() -> CustomResourceDefinition;
                fn crd_name() -> &'static str;
                fn api_resource() -> ApiResource;
                fn shortnames() -> &'static [&'static str];
            }
        }
    }
}

/// The CRD with the status subresource, or without it.
#[doc(hidden)]
pub fn with_status_subresource(
    mut crd: CustomResourceDefinition,
    has_status: bool,
) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        let subresources = version.subresources.get_or_insert_default();
        subresources.status = has_status.then(|| CustomResourceSubresourceStatus(json!({})));
        if subresources.status.is_none() && subresources.scale.is_none() {
            version.subresources = None;
        }
    }
    crd
}

/// A type that can be a part of a custom resource. The expansion of `#[schema]` requires it of the type
/// of each field, so that the error of the compiler says what to do.
///
/// ```compile_fail
/// struct Theme { color: String } // add #[schema]
///
/// #[runtime::schema]
/// struct Site { theme: Theme }
/// ```
///
/// ```
/// use runtime::macro_support::{Part, is_part};
///
/// #[runtime::schema]
/// struct Theme { color: String }
///
/// fn is_theme(_: &impl Part) {}
/// is_theme(&Theme { color: "red".to_owned() });
/// is_part::<Theme>();
/// ```
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no schema, so it cannot be a part of a custom resource",
    label = "add `#[schema]` to this type",
    note = "add `#[schema]` (`use runtime::schema`) to the definition of `{Self}`",
    note = "a type of another crate needs its feature `schemars`, or `#[schemars(with = \"…\")]` on the field"
)]
pub trait Part {}

#[diagnostic::do_not_recommend]
impl<T: JsonSchema> Part for T {}

#[doc(hidden)]
pub fn is_part<T: Part>() {}

/// Removes the number formats that API servers warn about, such as `uint16`, from a schema. Minimum and
/// maximum stay.
///
/// ```
/// # use runtime::{kube_core::CustomResourceExt, resource};
/// #[resource(group = "example.com", version = "v1", kind = "Gate")]
/// struct GateSpec {
///     port: u16,
/// }
/// let crd = serde_json::to_value(Gate::crd())?;
/// let port = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/port";
/// let limits = serde_json::json!({"type": "integer", "minimum": 0.0, "maximum": 65535.0});
/// assert_eq!(crd.pointer(port), Some(&limits));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[doc(hidden)]
pub fn remove_unsupported_formats(schema: &mut Schema) {
    let format = schema.get("format").and_then(Value::as_str).unwrap_or_default().to_owned();
    if format == "uint32" && schema.get("maximum").is_none() {
        schema.insert("maximum".to_owned(), json!(u32::MAX));
    }
    if format.starts_with("uint") || matches!(&*format, "int" | "int8" | "int16" | "int128") {
        schema.remove("format");
    }
    transform_subschemas(&mut remove_unsupported_formats, schema);
}
