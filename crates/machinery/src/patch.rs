//! Changes to documents: JSON patches and JSON merge patches.

pub mod json;
pub mod merge;
