//! [`Data`]: a borrowed JSON value that distinguishes integers from other numbers.

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

/// A number as Go's decoder represents it: an `int64` or a `float64`.
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

    /// Upstream's name for the format of a decoded number.
    pub(crate) fn format(self) -> &'static str {
        match self {
            Self::Number(Number::Integer(_)) => "int64",
            Self::Number(Number::Float(_)) => "float64",
            _ => "",
        }
    }

    /// Whether the value has the declared type; false for [`Type::Any`].
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

    /// Whether this equals a value of `enum`. As upstream, null equals none.
    pub(crate) fn equals_enum_value(self, choice: &Value) -> bool {
        match (self, Data::from(choice)) {
            (Self::Bool(a), Data::Bool(b)) => a == b,
            (Self::Text(a), Data::Text(b)) => a == b,
            (Self::Number(a), Data::Number(b)) => a.equals_enum_value(b),
            (Self::List(a), Data::List(b)) => a == b,
            (Self::Object(a), Data::Object(b)) => a == b,
            _ => false,
        }
    }

    /// A copy as a JSON value, for errors.
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
    /// 2^53 - 1: up to it, doubles represent every integer exactly.
    const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

    #[allow(clippy::cast_precision_loss, reason = "upstream compares as doubles too")]
    pub(crate) fn to_f64(self) -> f64 {
        match self {
            Self::Integer(integer) => integer as f64,
            Self::Float(float) => float,
        }
    }

    /// Whether this equals a value of `enum`. As upstream, converts to the type of that value
    /// first, so 1.5 equals the integer 1.
    #[allow(clippy::cast_possible_truncation, reason = "Go converts with the same rule")]
    fn equals_enum_value(self, choice: Number) -> bool {
        match (self, choice) {
            (Self::Float(float), Self::Integer(choice)) => float as i64 == choice,
            _ => self.to_f64().total_cmp(&choice.to_f64()).is_eq(),
        }
    }

    /// Whether it is an integer; a float beyond 2^53 is not exact and does not count as one.
    pub(crate) fn is_integral(self) -> bool {
        match self {
            Self::Integer(_) => true,
            Self::Float(float) => float.fract() == 0.0 && float.abs() <= Self::MAX_SAFE_INTEGER,
        }
    }

    pub(crate) fn to_value(self) -> Value {
        match self {
            Self::Integer(integer) => integer.into(),
            Self::Float(float) => float.into(),
        }
    }
}
