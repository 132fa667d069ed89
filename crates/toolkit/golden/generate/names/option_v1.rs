//! The kind `Option` of example.com/v1.
//!
//! `sampan generate` has made it from the CRD options.example.com.

#![allow(clippy::all, clippy::pedantic, reason = "generated")]
#![allow(dead_code, missing_docs, unreachable_pub, reason = "generated")]

use runtime::{resource, schema};

#[resource(
    group = "example.com",
    version = "v1",
    kind = "Option",
    root = "CustomOption",
    plural = "options",
    namespaced,
    derive = "PartialEq",
    nullable = false
)]
#[derive(PartialEq, Default)]
pub struct CustomOptionSpec {
    #[serde(rename = "$ref")]
    pub r#ref: Option<String>,
    #[serde(rename = "*")]
    pub field: Option<String>,
    pub _3d: Option<bool>,
    pub foo_bar: Option<String>,
    #[serde(rename = "foo_bar")]
    pub foo_bar_2: Option<String>,
    pub operator: Option<Operator>,
    pub option: Option<SpecOption>,
    pub other: Option<Other>,
    #[serde(rename = "podCIDRs")]
    pub pod_cidrs: Option<Vec<String>>,
    pub rules: Option<Vec<SpecRule>>,
    pub self_: Option<String>,
    pub snake: Option<Snake>,
    pub r#type: Option<String>,
    #[serde(rename = "类")]
    pub field_2: Option<String>,
}

#[schema]
#[derive(Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    #[serde(rename = "=")]
    Equal,
    #[serde(rename = "!=")]
    NotEqual,
    In,
    #[serde(rename = "Self")]
    SelfValue,
    #[serde(rename = "1.2")]
    V12,
}

#[schema(nullable = false)]
#[derive(PartialEq, Default)]
pub struct SpecOption {
    pub string: Option<OptionString>,
}

#[schema(nullable = false)]
#[derive(PartialEq, Default)]
pub struct OptionString {
    pub a: Option<String>,
}

#[schema(nullable = false)]
#[derive(PartialEq, Default)]
pub struct Other {
    pub r#ref: Option<Ref>,
    pub rules: Option<Vec<OtherRule>>,
}

#[schema(nullable = false)]
#[derive(PartialEq, Default)]
pub struct Ref {
    /// The name.
    pub name: Option<String>,
}

#[schema(nullable = false)]
#[derive(PartialEq, Default)]
pub struct OtherRule {
    pub b: Option<String>,
}

#[schema(nullable = false)]
#[derive(PartialEq, Default)]
pub struct SpecRule {
    pub r#ref: Option<Ref>,
}

#[schema(nullable = false)]
#[derive(PartialEq, Default)]
#[serde(rename_all = "snake_case")]
pub struct Snake {
    #[serde(rename = "fiveSix")]
    pub five_six: Option<String>,
    pub one_two: Option<String>,
    pub three_four: Option<String>,
}
