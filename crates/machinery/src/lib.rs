//! The grammar of the API: what an object is, how it is named, selected and patched, and how a
//! request fails.
//!
//! Everything here is a function of its arguments: no I/O, no async, no clock, no randomness.

pub mod field_path;
pub mod gvk;
pub mod object;
pub mod nested;
pub mod fields;
mod go_value;
pub mod go_duration;
pub mod cron;
pub mod status;
pub mod watch;
pub mod names;
pub mod meta;
pub mod policy_rule;
pub mod node_matching;
pub mod selector;
pub mod quantity;
pub mod json_path;
pub mod codec;
pub mod patch;
pub mod timestamp;
#[cfg(test)]
mod seeded;

pub use field_path::{ErrorList, FieldError, Path};
pub use gvk::{GroupKind, GroupResource, GroupVersion, GroupVersionKind};
pub use object::Object;
pub use policy_rule::PolicyRule;
pub use serde_json::{Map, Value, json};
pub use status::{Reason, Status};
