//! The items that the expansions of `#[resource]`, `#[schema]` and `#[derive(Versions)]` use: crates,
//! so that an operator's `Cargo.toml` need not list them, and [`remove_unsupported_formats`]. Operators do
//! not use this module.

pub use k8s_openapi;
pub use kube_core;
pub use kube_derive;
pub use schemars;
pub use serde;
pub use serde_json;

use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

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
