//! [`PathElement`]: one step from a value to a part of it.
//!
//! The form in `FieldsV1`, the form in messages, and the meaning:
//!
//! ```text
//! f:spec                                   .spec                              a field
//! k:{"containerPort":80,"protocol":"TCP"}  [containerPort=80,protocol="TCP"]  an element, by its keys
//! v:"x"                                    [="x"]                             an element, by its value
//! i:3                                      [3]                                an element, by its index
//! ```

use std::cmp::Ordering;
use std::fmt;

use crate::codec::json;
use crate::field_path::quote;
use crate::{Map, Value, go_value};

/// See the [module documentation](self). Numbers are equal if their values are: `80` is `80.0`.
#[derive(Debug, Clone)]
pub enum PathElement {
    /// A field of an object or a key of a map.
    Field(Box<str>),
    /// The element of a list that has these fields, which are sorted by name.
    Key(Box<[(Box<str>, Value)]>),
    /// The element of a set.
    Value(Value),
    /// The element of a list at an index.
    Index(i64),
}

/// A text in `FieldsV1` that should be a path element.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a path element")]
pub struct ParseElementError(pub(super) String);

impl PathElement {
    /// A field.
    pub fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// The element of a list that has these fields.
    pub fn key(mut fields: Vec<(Box<str>, Value)>) -> Self {
        fields.sort_by(|(a, _), (b, _)| a.cmp(b));
        Self::Key(fields.into())
    }

    /// Parses the form in `FieldsV1`. None for an unknown kind of element, which upstream ignores.
    pub fn parse(text: &str) -> Result<Option<Self>, ParseElementError> {
        let malformed = || ParseElementError(text.to_owned());
        let Some((kind, rest)) = text.split_once(':').filter(|(kind, _)| kind.len() == 1) else {
            return Err(malformed());
        };
        Ok(Some(match kind {
            "f" => Self::field(rest),
            "k" => {
                let fields: Map<String, Value> =
                    serde_json::from_str(rest).map_err(|_| malformed())?;
                Self::key(fields.into_iter().map(|(name, value)| (name.into(), value)).collect())
            }
            "v" => Self::Value(serde_json::from_str(rest).map_err(|_| malformed())?),
            "i" => Self::Index(rest.parse().map_err(|_| malformed())?),
            _ => return Ok(None),
        }))
    }

    /// The form in `FieldsV1`.
    pub fn to_text(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(fields) => {
                let mut text = "k:{".to_owned();
                for (index, (name, value)) in fields.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    text += &format!(
                        "{comma}{}:{}",
                        json::to_text(&Value::from(&**name)),
                        json::to_text(value)
                    );
                }
                text + "}"
            }
            Self::Value(value) => format!("v:{}", json::to_text(value)),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    /// The name, if this is a field.
    pub fn as_field(&self) -> Option<&str> {
        match self {
            Self::Field(name) => Some(name),
            _ => None,
        }
    }

    /// Fields come before keys, keys before values, and values before indices.
    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => compare_fields(a.iter().map(pair), b.iter().map(pair)),
            (Self::Value(a), Self::Value(b)) => compare(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PathElement {}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|(name, value)| format!("{name}={}", value_text(value)))
                    .collect();
                write!(f, "[{}]", fields.join(","))
            }
            Self::Value(value) => write!(f, "[={}]", value_text(value)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A value inside of a path.
fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Null => "null".to_owned(),
        other => go_value::format_v(other),
    }
}

fn pair((name, value): &(Box<str>, Value)) -> (&str, &Value) {
    (name, value)
}

/// Upstream's order of values: numbers, texts, booleans, lists, objects, null.
fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a.cmp(&b),
            (Some(a), None) => compare_with_float(a, b.as_f64().unwrap_or_default()),
            (None, Some(b)) => compare_with_float(b, a.as_f64().unwrap_or_default()).reverse(),
            (None, None) => a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal),
        },
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let differing = a.iter().zip(b).map(|(a, b)| compare(a, b)).find(|it| it.is_ne());
            differing.unwrap_or(a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => {
            let text = |(name, value)| (String::as_str(name), value);
            compare_fields(a.iter().map(text), b.iter().map(text))
        }
        _ => rank(a).cmp(&rank(b)),
    }
}

/// Compares the exact values. A comparison as floats would not be a total order, because beyond
/// 2^53 several integers equal the same float.
fn compare_with_float(integer: i64, float: f64) -> Ordering {
    const TWO_TO_THE_63: f64 = 9_223_372_036_854_775_808.0;
    if float >= TWO_TO_THE_63 {
        return Ordering::Less;
    }
    if float < -TWO_TO_THE_63 {
        return Ordering::Greater;
    }
    #[allow(clippy::cast_possible_truncation, reason = "it is within the bounds of i64")]
    let whole = float.trunc() as i64;
    integer.cmp(&whole).then_with(|| 0.0.partial_cmp(&float.fract()).unwrap_or(Ordering::Equal))
}

fn compare_fields<'a>(
    a: impl ExactSizeIterator<Item = (&'a str, &'a Value)>,
    b: impl ExactSizeIterator<Item = (&'a str, &'a Value)>,
) -> Ordering {
    let by_length = a.len().cmp(&b.len());
    for ((a_name, a_value), (b_name, b_value)) in a.zip(b) {
        let order = a_name.cmp(b_name).then_with(|| compare(a_value, b_value));
        if order.is_ne() {
            return order;
        }
    }
    by_length
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(text: &str) -> PathElement {
        PathElement::parse(text).unwrap().unwrap()
    }

    #[test]
    fn parsed_elements_print_as_the_same_text() {
        for text in ["f:a:b", "f:", r#"k:{"a":1,"b":"x"}"#, r#"v:"x""#, "v:true", "v:1.5", "i:-3"] {
            assert_eq!(element(text).to_text(), text);
        }
        assert_eq!(element(r#"k:{"b":"\u003c","a":80.0}"#).to_text(), r#"k:{"a":80,"b":"\u003c"}"#);
    }

    #[test]
    fn elements_have_upstreams_form_in_messages() {
        let shown = |text| element(text).to_string();
        assert_eq!(shown("f:spec"), ".spec");
        assert_eq!(shown(r#"k:{"p":80,"q":"T\"CP"}"#), r#"[p=80,q="T\"CP"]"#);
        assert_eq!(shown("v:true"), "[=true]");
        assert_eq!(shown("i:2"), "[2]");
    }

    #[test]
    fn an_unknown_kind_of_element_is_ignored() {
        assert_eq!(PathElement::parse("x:1"), Ok(None));
        assert!(PathElement::parse("spec").is_err());
        assert!(PathElement::parse("k:[1]").is_err());
    }

    #[test]
    fn elements_are_sorted_by_kind_and_then_by_value() {
        let sorted = [
            "f:a",
            "f:b",
            r#"k:{"port":80}"#,
            r#"k:{"port":443}"#,
            "v:9",
            "v:10",
            r#"v:"9""#,
            "v:false",
            "i:1",
        ];
        let mut elements: Vec<PathElement> = sorted.iter().rev().map(|it| element(it)).collect();
        elements.sort();
        let texts: Vec<String> = elements.iter().map(PathElement::to_text).collect();
        assert_eq!(texts, sorted);
    }
}
