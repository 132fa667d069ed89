//! [`IntOrString`]: a field that is an integer or a string.

use std::borrow::Cow;
use std::fmt;

use k8s_openapi::apimachinery::pkg::util::intstr;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// An integer or a string, such as the port or the quantity of a resource. In a schema, it has
/// `x-kubernetes-int-or-string`.
///
/// The type of `k8s-openapi` has integers of 32 bits, which are too small for the bytes of a quantity.
///
/// ```
/// use runtime::IntOrString;
///
/// let memory: IntOrString = serde_json::from_str("8589934592")?;
/// assert_eq!(memory, IntOrString::Int(8_589_934_592));
/// assert_eq!(IntOrString::from("50%").to_string(), "50%");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrString {
    /// An integer.
    Int(i64),
    /// A string.
    String(String),
}

impl Default for IntOrString {
    fn default() -> Self {
        Self::Int(0)
    }
}

impl fmt::Display for IntOrString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => number.fmt(f),
            Self::String(text) => text.fmt(f),
        }
    }
}

impl From<i64> for IntOrString {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<&str> for IntOrString {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for IntOrString {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl From<intstr::IntOrString> for IntOrString {
    fn from(value: intstr::IntOrString) -> Self {
        match value {
            intstr::IntOrString::Int(number) => Self::Int(number.into()),
            intstr::IntOrString::String(text) => Self::String(text),
        }
    }
}

impl JsonSchema for IntOrString {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "IntOrString".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // A patch, since kube removes the types of alternatives.
        let types = r#"{"anyOf":[{"type":"integer"},{"type":"string"}]}"#;
        json_schema!({"x-kubernetes-int-or-string": true, "x-sampan-type-patch": types})
    }
}
