//! Changes to documents: JSON patches, JSON merge patches and server-side apply.

pub mod json;
pub mod merge;
pub mod apply;
