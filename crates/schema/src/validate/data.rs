//! [`Data`]: a JSON value as the walk reads it, with integers distinguished from other numbers.

use crate::structural::Type;
use machinery::{Map, Value};

/// A borrowed JSON value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Data<'a> {
    Null,
    Bool(bool),
    Number(Number),
    Text(&'a str),
    List(&'a [Value]),
    Object(&'a Map<String, Value>),
}

/// A number as Go's decoder would hold it: 64 bits, with or without a fraction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    Integer(i64),
    Float(f64),
}

impl<'a> From<&'a Value> for Data<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(flag) => Self::Bool(*flag),
            Value::Number(number) => Self::Number(number.as_i64().map_or_else(
                || Number::Float(number.as_f64().unwrap_or(f64::NAN)),
                Number::Integer,
            )),
            Value::String(text) => Self::Text(text),
            Value::Array(items) => Self::List(items),
            Value::Object(map) => Self::Object(map),
        }
    }
}

impl<'a> Data<'a> {
    /// The JSON type.
    pub(crate) fn type_name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Number(Number::Integer(_)) => "integer",
            Self::Number(Number::Float(_)) => "number",
            Self::Text(_) => "string",
            Self::List(_) => "array",
            Self::Object(_) => "object",
        }
    }

    /// What upstream calls the format of the decoded value.
    pub(crate) fn format(self) -> &'static str {
        match self {
            Self::Number(Number::Integer(_)) => "int64",
            Self::Number(Number::Float(_)) => "float64",
            _ => "",
        }
    }

    /// Whether the value has the declared type; no value has an undeclared one.
    pub(crate) fn is_of(self, kind: Type) -> bool {
        match (self, kind) {
            (Self::Bool(_), Type::Boolean)
            | (Self::Text(_), Type::String | Type::IntOrString)
            | (Self::List(_), Type::Array)
            | (Self::Object(_), Type::Object)
            | (Self::Number(_), Type::Number) => true,
            (Self::Number(number), Type::Integer | Type::IntOrString) => number.is_integral(),
            _ => false,
        }
    }

    /// A field of an object.
    pub(crate) fn field(self, name: &str) -> Option<Data<'a>> {
        match self {
            Self::Object(map) => map.get(name).map(Data::from),
            _ => None,
        }
    }

    /// Whether this is the listed choice. Null is never one: upstream cannot compare it.
    pub(crate) fn is(self, choice: &Value) -> bool {
        match (self, Data::from(choice)) {
            (Self::Bool(a), Data::Bool(b)) => a == b,
            (Self::Text(a), Data::Text(b)) => a == b,
            (Self::Number(a), Data::Number(b)) => a.is_choice(b),
            (Self::List(a), Data::List(b)) => a == b,
            (Self::Object(a), Data::Object(b)) => a == b,
            _ => false,
        }
    }

    /// The value for an error that shows it.
    pub(crate) fn to_value(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(flag) => flag.into(),
            Self::Number(number) => number.to_value(),
            Self::Text(text) => text.into(),
            Self::List(items) => items.into(),
            Self::Object(map) => Value::Object(map.clone()),
        }
    }
}

impl Number {
    /// The largest number up to which doubles hold every integer.
    const SAFE: f64 = 9_007_199_254_740_991.0;

    #[allow(clippy::cast_precision_loss, reason = "upstream compares as doubles too")]
    pub(crate) fn to_f64(self) -> f64 {
        match self {
            Self::Integer(integer) => integer as f64,
            Self::Float(float) => float,
        }
    }

    /// Whether this is the listed choice. Upstream converts it to the type of the choice, so that 1.5
    /// is taken for the integer 1.
    #[allow(clippy::cast_possible_truncation, reason = "Go converts with the same rule")]
    fn is_choice(self, choice: Number) -> bool {
        match (self, choice) {
            (Self::Float(float), Self::Integer(choice)) => float as i64 == choice,
            _ => self.to_f64().total_cmp(&choice.to_f64()).is_eq(),
        }
    }

    /// Whether it has no fraction; beyond 2^53 every number is whole.
    pub(crate) fn is_integral(self) -> bool {
        match self {
            Self::Integer(_) => true,
            Self::Float(float) => float.fract() == 0.0 && float.abs() <= Self::SAFE,
        }
    }

    pub(crate) fn to_value(self) -> Value {
        match self {
            Self::Integer(integer) => integer.into(),
            Self::Float(float) => float.into(),
        }
    }
}
