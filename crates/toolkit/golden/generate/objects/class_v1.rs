//! The kind `Class` of example.com/v1.
//!
//! `sampan generate` has made it from the CRD classes.example.com.

#![allow(clippy::all, clippy::pedantic, reason = "generated")]
#![allow(dead_code, missing_docs, unreachable_pub, reason = "generated")]

use std::collections::BTreeMap;

use runtime::{resource, schema};

/// A class, whose fields are those of the object.
#[resource(
    group = "example.com",
    version = "v1",
    kind = "Class",
    plural = "classes",
    status_subresource = true,
    no_spec,
    annotation("api-approved.kubernetes.io", "unapproved"),
    derive = "PartialEq",
    nullable = false
)]
#[derive(PartialEq, Default)]
pub struct ClassFields {
    pub parameters: Option<BTreeMap<String, String>>,
    pub provisioner: String,
    pub spec: Option<Spec>,
}

#[schema(nullable = false)]
#[derive(PartialEq, Default)]
pub struct Spec {
    pub a: Option<String>,
}
