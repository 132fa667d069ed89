//! Which objects a request means: by their labels, or by a few of their fields.

mod label;
mod field;

pub use field::{FieldRequirement, FieldSelector};
pub use label::{LabelRequirement, LabelSelector, Operator, validate_label_selector};
