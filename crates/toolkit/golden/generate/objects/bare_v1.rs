//! The kind `Bare` of example.com/v1.
//!
//! `sampan generate` has made it from the CRD bares.example.com.

#![allow(clippy::all, clippy::pedantic, reason = "generated")]
#![allow(dead_code, missing_docs, unreachable_pub, reason = "generated")]

use std::collections::BTreeMap;

use runtime::resource;

#[resource(
    group = "example.com",
    version = "v1",
    kind = "Bare",
    plural = "bares",
    namespaced,
    status = "BareStatus",
    status_subresource = false,
    no_spec,
    derive = "PartialEq",
    nullable = false,
    object_patch(
        "properties" = {"status": {"additionalProperties": null}},
        "x-kubernetes-preserve-unknown-fields" = true
    )
)]
#[derive(PartialEq, Default)]
pub struct BareFields {}

/// The status.
pub type BareStatus = BTreeMap<String, serde_json::Value>;
