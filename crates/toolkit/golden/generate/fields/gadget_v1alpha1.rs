//! The kind `Gadget` of example.com/v1alpha1.
//!
//! `sampan generate` has made it from the CRD gadgets.example.com.

#![allow(clippy::all, clippy::pedantic, reason = "generated")]
#![allow(dead_code, missing_docs, unreachable_pub, reason = "generated")]

use runtime::resource;

#[resource(
    group = "example.com",
    version = "v1alpha1",
    kind = "Gadget",
    plural = "gadgets",
    namespaced,
    optional_spec,
    storage = false,
    served = false,
    deprecated = "use v1",
    shortname = "gd",
    category = "all",
    category = "tools",
    derive = "PartialEq",
    nullable = false
)]
#[derive(PartialEq, Default)]
pub struct GadgetSpec {
    #[schema(patch("format" = null))]
    pub size: Option<i64>,
}
