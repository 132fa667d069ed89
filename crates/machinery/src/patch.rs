//! Patches: JSON patch, JSON merge patch and server-side apply.

pub mod json;
pub mod merge;
pub mod apply;
