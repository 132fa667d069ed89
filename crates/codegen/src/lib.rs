//! Rust types from the schemas of CRDs.
