//! The kind `String` of example.com/v1.
//!
//! `sampan generate` has made it from the CRD odds.example.com.

#![allow(clippy::all, clippy::pedantic, reason = "generated")]
#![allow(dead_code, missing_docs, unreachable_pub, reason = "generated")]

use std::collections::BTreeMap;

use runtime::{resource, schema};

#[resource(
    group = "example.com",
    version = "v1",
    kind = "String",
    root = "CustomString",
    plural = "odds",
    singular = "oddity",
    status = "CustomStringStatus",
    status_subresource = false,
    no_spec,
    shortname = "o",
    derive = "PartialEq",
    nullable = false,
    object_rule("self.metadata.name != ''")
)]
#[derive(PartialEq, Default)]
#[serde(rename_all = "snake_case")]
pub struct CustomStringFields {
    #[serde(rename = "api_version")]
    pub api_version_2: Option<String>,
    pub kind_of: Option<String>,
    #[schema(preserve_unknown_fields, patch("nullable" = true, "type" = "object"))]
    pub other: Option<serde_json::Value>,
    pub spec: Option<BTreeMap<String, Spec>>,
}

#[schema(nullable = false)]
#[derive(PartialEq)]
pub struct Spec {
    pub mode: Mode,
}

#[schema]
#[derive(Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    #[serde(rename = "a")]
    A,
}

#[schema]
#[derive(Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(rename_all = "lowercase")]
pub enum CustomStringStatus {
    Ok,
    Bad,
}
