//! Structural schemas: the schemas of custom resources, and their application to objects.
//!
//! A CRD's schema is validated once ([`check_crd_schema`]) and compiled once
//! ([`Structural::compile`]). Every object is then pruned, defaulted and validated by the compiled
//! tree, which contains no descriptions and is shared by all requests:
//!
//! ```
//! use machinery::{ErrorList, json};
//! use schema::Structural;
//! let schema = Structural::compile(&json!({
//!     "type": "object",
//!     "properties": {"spec": {"type": "object", "properties": {
//!         "size": {"type": "integer", "minimum": 1, "default": 0}}}},
//! }));
//! let mut object = json!({"spec": {"sise": 2}}).as_object().unwrap().clone();
//! let (mut unknown, mut errors) = (Vec::new(), ErrorList::new());
//! schema.prune(&mut object, &mut unknown);
//! schema.default(&mut object);
//! schema.validate(&object, None, &mut errors);
//! assert_eq!(unknown, ["spec.sise"]);
//! assert_eq!(
//!     errors[0].to_string(),
//!     "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"
//! );
//! ```
//!
//! Everything here is a function of its arguments: no I/O, no async, no clock, no randomness.

mod json_schema;
mod structural;
mod enum_values;
mod pattern;
mod memory;
mod paths;
mod prune;
mod default;
mod validate;
mod rules;
mod ratchet;
mod lists;
mod embedded;
mod format;
mod crd;
mod field;
pub mod openapi;

pub use cel::escaping::is_identifier;
pub use crd::{SchemaRequirement, check_crd_schema, check_root_with_status};
pub use embedded::ReadMetadata;
pub use field::{FieldPathError, field_type};
pub use format::is_absolute_uri;
pub use json_schema::{nested_sets, unknown_formats, uses_defaults, uses_extensions};
pub use memory::SchemaMemory;
pub use pattern::PatternPool;
pub use structural::Structural;
