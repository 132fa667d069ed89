//! The kind `Gadget` of example.com/v1.
//!
//! `sampan generate` has made it from the CRD gadgets.example.com.

#![allow(clippy::all, clippy::pedantic, reason = "generated")]
#![allow(dead_code, missing_docs, unreachable_pub, reason = "generated")]

use std::collections::BTreeMap;

use runtime::{IntOrString, resource, schema};

/// What is wanted. This sentence is long enough that it must be continued on another line of the
/// comment.
///
/// - a list, with `code<T>`
/// indented text
#[resource(
    group = "example.com",
    version = "v1",
    kind = "Gadget",
    plural = "gadgets",
    namespaced,
    status = "GadgetStatus",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    shortname = "gd",
    category = "all",
    category = "tools",
    selectable = ".spec.mode",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Since when",
        priority = 1
    ),
    doc = r"A gadget with \<angles> and a \[link\](<https://example.com/a_b>).",
    derive = "PartialEq",
    nullable = false,
    rule(
        "self.replicas <= self.weight || !has(self.pattern)",
        field_path = ".replicas",
        message = "too many",
        reason = "FieldValueInvalid"
    ),
    rule(
        "self.mode == oldSelf.mode",
        message_expression = r#""the mode was " + oldSelf.mode"#,
        optional_old_self
    ),
    object_patch(
        "properties" = {"metadata": {"properties": {"name": {"maxLength": 40, "type": "string"}}, "type": "object"}, "status": {"default": {"replicas": 0}}}
    )
)]
#[derive(PartialEq)]
pub struct GadgetSpec {
    #[schema(preserve_unknown_fields)]
    pub anything: Option<serde_json::Value>,
    #[schema(patch("default" = ["a"]))]
    pub choices: Option<Vec<Choice>>,
    #[schema(patch("additionalProperties" = null))]
    pub empty: Option<BTreeMap<String, serde_json::Value>>,
    /// Whether it runs.
    #[schema(patch("default" = false))]
    pub enabled: Option<bool>,
    pub holes: Option<Vec<Option<String>>>,
    #[schema(patch("format" = "byte"))]
    pub key: Option<String>,
    #[schema(patch("additionalProperties" = {"maxLength": 63}, "maxProperties" = 8))]
    pub labels: Option<BTreeMap<String, String>>,
    #[schema(patch("enum" = [1, 2, 3], "format" = null))]
    pub level: Option<i64>,
    pub limits: Option<BTreeMap<String, IntOrString>>,
    #[schema(patch("items" = {"x-kubernetes-list-type": "atomic"}))]
    pub matrix: Option<Vec<Vec<i32>>>,
    #[schema(patch("nullable" = true))]
    pub maybe: Option<Maybe>,
    #[schema(patch("pattern" = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))$"))]
    pub memory: Option<IntOrString>,
    pub mode: Mode,
    #[schemars(required)]
    #[schema(patch("nullable" = true))]
    pub nothing: Option<String>,
    pub open: Option<Open>,
    pub owner: Owner,
    #[schemars(length(min = 1, max = 63), regex(pattern = r#"^[a-z"]+\d$"#))]
    pub pattern: Option<String>,
    #[schema(patch("format" = null))]
    pub plain: Option<i64>,
    pub port: Option<IntOrString>,
    #[schemars(length(max = 4))]
    #[schema(list_map_keys("name", "protocol"))]
    pub ports: Option<Vec<Port>>,
    #[schemars(range(max = 1))]
    #[schema(patch("format" = null, "multipleOf" = 0.5))]
    pub ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required, range(min = 0, max = 100))]
    #[schema(patch("default" = 1))]
    pub replicas: Option<i32>,
    #[schema(preserve_unknown_fields, patch("type" = "object"))]
    pub settings: Option<serde_json::Value>,
    #[schema(patch("default" = "rolling"))]
    pub strategy: Option<Strategy>,
    #[schema(list_type = "set", patch("items" = {"minLength": 1}))]
    pub tags: Option<Vec<String>>,
    #[schema(preserve_unknown_fields, embedded_resource, patch("type" = "object"))]
    pub template: Option<serde_json::Value>,
    #[schemars(range(min = -5, max = 5000000000_i64))]
    #[schema(patch("exclusiveMaximum" = true))]
    pub weight: i64,
    #[schema(patch("format" = "date-time"))]
    pub when: Option<String>,
}

#[schema]
#[derive(Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(rename_all = "lowercase")]
pub enum Choice {
    A,
    B,
}

#[schema]
#[derive(Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(rename_all = "lowercase")]
pub enum Maybe {
    A,
    B,
}

#[schema]
#[derive(Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    Fast,
    Slow,
    #[serde(rename = "")]
    Empty,
}

#[schema(nullable = false)]
#[derive(PartialEq, Default)]
pub struct Open {
    pub other: Option<String>,
    /// The fields that the schema does not name.
    #[serde(flatten)]
    pub other_fields: BTreeMap<String, serde_json::Value>,
}

#[schema(nullable = false, map_type = "atomic")]
#[derive(PartialEq, Default)]
pub struct Owner {
    #[schema(patch("default" = "Pod"))]
    pub kind: Option<String>,
    pub name: String,
}

#[schema(nullable = false)]
#[derive(PartialEq, Default)]
pub struct Port {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    #[schema(patch("default" = "TCP"))]
    pub protocol: Option<Protocol>,
    pub range: Option<Range>,
}

#[schema]
#[derive(Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    TCP,
    UDP,
}

#[schema(
    nullable = false,
    patch(
        "oneOf" = [{"required": ["from"]}, {"properties": {"to": {"minimum": 10}}, "required": ["to"]}]
    )
)]
#[derive(PartialEq, Default)]
pub struct Range {
    #[schema(patch("format" = null))]
    pub from: Option<i64>,
    #[schema(patch("format" = null))]
    pub to: Option<i64>,
}

#[schema]
#[derive(Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    Rolling,
    Recreate,
}

#[schema(nullable = false)]
#[derive(PartialEq, Default)]
pub struct GadgetStatus {
    #[schema(list_map_keys("type"))]
    pub conditions: Option<Vec<Condition>>,
    pub replicas: Option<i32>,
    pub selector: Option<String>,
}

#[schema(nullable = false)]
#[derive(PartialEq)]
pub struct Condition {
    #[schema(patch("format" = "date-time"))]
    pub last_transition_time: Option<String>,
    pub status: ConditionStatus,
    pub r#type: String,
}

#[schema]
#[derive(Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}
