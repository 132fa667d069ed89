//! The kind `Weird` of example.com/v1.
//!
//! `sampan generate` has made it from the CRD weirds.example.com.

#![allow(clippy::all, clippy::pedantic, reason = "generated")]
#![allow(dead_code, missing_docs, unreachable_pub, reason = "generated")]

use std::collections::BTreeMap;

use runtime::{IntOrString, resource, schema};

#[resource(
    group = "example.com",
    version = "v1",
    kind = "Weird",
    plural = "weirds",
    namespaced,
    status = "WeirdStatus",
    derive = "PartialEq",
    nullable = false,
    object_patch(
        "properties" = {"apiVersion": {"enum": ["example.com/v1"], "type": "string"}, "spec": {"default": {"a": 1}, "nullable": true}, "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        "required" = ["spec", "status"],
        "title" = "A weird thing"
    )
)]
#[derive(PartialEq, Default)]
pub struct WeirdSpec {
    #[serde(rename = "Option")]
    pub option: Option<SpecOption>,
    #[schemars(range(min = -9.223372036854776e18, max = 1e20))]
    #[schema(patch("default" = 1.8446744073709552e+19, "format" = null))]
    pub a: Option<i64>,
    #[schemars(range(min = 0.1))]
    #[schema(patch("default" = 1.5e-7, "format" = "float"))]
    pub b: Option<f64>,
    #[schema(patch("items" = {"type": "object", "x-kubernetes-preserve-unknown-fields": true}))]
    pub c: Option<Vec<serde_json::Value>>,
    pub camel_case: Option<String>,
    #[schema(patch("items" = {"anyOf": null, "pattern": "a"}, "nullable" = true))]
    pub d: Option<Vec<IntOrString>>,
    #[schema(patch("nullable" = true))]
    pub e: Option<BTreeMap<String, Vec<E>>>,
    #[schema(patch("anyOf" = null, "enum" = [1, "a"]))]
    pub f: Option<IntOrString>,
    pub r#false: Option<False>,
    pub g: Option<BTreeMap<String, serde_json::Value>>,
    #[schema(patch(
        "additionalProperties" = {"nullable": true, "x-kubernetes-preserve-unknown-fields": true}
    ))]
    pub h: Option<BTreeMap<String, serde_json::Value>>,
    #[schema(
        embedded_resource,
        patch("properties" = {"spec": {"type": "object"}}, "type" = "object")
    )]
    pub i: Option<serde_json::Value>,
    #[schema(patch("enum" = ["a", null], "nullable" = true))]
    pub j: Option<J>,
    #[schema(patch(
        "allOf" = [{"minLength": 1}, {"maxLength": 5, "nullable": true}],
        "example" = "x",
        "externalDocs" = {"url": "http://a"},
        "not" = {"pattern": "b"},
        "title" = "K"
    ))]
    pub k: Option<String>,
    #[schema(patch("items" = {"default": "x", "enum": ["x", true]}))]
    pub l: Option<Vec<Option<String>>>,
    pub m: Option<M>,
    pub metadata: Option<Metadata>,
    #[schemars(range(max = 255))]
    #[schema(patch("format" = "uint8"))]
    pub o: Option<i64>,
    pub other: Option<String>,
    #[serde(rename = "other_fields")]
    pub other_fields: Option<String>,
    #[schema(patch("format" = "quantity"))]
    pub p: Option<String>,
    #[schema(list_type = "set", patch("items" = {"enum": [1, 2], "format": null}))]
    pub q: Option<Vec<i64>>,
    /// The fields that the schema does not name.
    #[serde(flatten)]
    pub other_fields_fields: BTreeMap<String, serde_json::Value>,
}

/// The status.
pub type WeirdStatus = serde_json::Value;

#[schema(nullable = false)]
#[derive(PartialEq, Default)]
#[serde(rename_all = "PascalCase")]
pub struct SpecOption {
    pub vec: Option<OptionVec>,
}

#[schema(nullable = false)]
#[derive(PartialEq, Default)]
#[serde(rename_all = "PascalCase")]
pub struct OptionVec {
    pub string: Option<String>,
}

#[schema(nullable = false)]
#[derive(PartialEq, Default)]
pub struct E {
    pub x: Option<bool>,
}

#[schema(nullable = false, patch("required" = ["missing", "q"]))]
#[derive(PartialEq, Default)]
pub struct False {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    #[schema(patch("default" = "", "nullable" = true))]
    pub q: Option<String>,
}

#[schema]
#[derive(Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum J {
    #[serde(rename = "a")]
    A,
}

#[schema(
    nullable = false,
    rule("true\n  && true", message = "a \"b\"\n"),
    patch(
        "anyOf" = [{"required": ["p"]}, {"properties": {"p": {"enum": ["a"]}}}],
        "minProperties" = 1
    )
)]
#[derive(PartialEq, Default)]
pub struct M {
    pub p: Option<String>,
}

#[schema(nullable = false)]
#[derive(PartialEq, Default)]
pub struct Metadata {
    pub labels: Option<BTreeMap<String, String>>,
}
