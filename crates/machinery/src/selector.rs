//! Selectors: they select objects by labels, or by some of their fields.

mod label;
mod field;

pub use field::{FieldRequirement, FieldSelector};
pub use label::{LabelRequirement, LabelSelector, Operator, validate_label_selector};
