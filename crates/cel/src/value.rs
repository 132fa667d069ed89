//! [`Value`]: a value of the language.
//!
//! Objects, maps and lists from JSON are views: their contents are converted on access.
//! Cloning a value never copies its contents.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::error::EvalError;
use crate::time::{Duration, Timestamp};

pub(crate) mod equality;
mod fingerprint;
mod json;
pub(crate) mod list;
pub(crate) mod map;
pub(crate) mod numbers;

pub use list::List;
pub use map::{Map, Struct};

/// A value of the language.
#[derive(Debug, Clone)]
pub enum Value<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A floating point number.
    Double(f64),
    /// Text.
    String(Text<'a>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A point in time.
    Timestamp(Timestamp),
    /// A span of time.
    Duration(Duration),
    /// A list.
    List(List<'a>),
    /// A map, or an object used as one.
    Map(Map<'a>),
    /// A value or none.
    Optional(Option<Arc<Value<'a>>>),
    /// A type, by its name.
    Type(Arc<str>),
    /// A message that the expression created: `Object{spec: …}`.
    Struct(Arc<Struct<'a>>),
    /// A value of a library.
    Opaque(Arc<dyn Opaque>),
    /// Fields that are computed on demand.
    Fields(&'a dyn Fields),
}

/// A type of a library: addresses, quantities, URLs, authorization checks.
pub trait Opaque: Any + fmt::Debug + Send + Sync {
    /// The type's name, as in [`crate::Type::Opaque`].
    fn type_name(&self) -> &'static str;

    /// Whether two values of the type are equal.
    fn equals(&self, other: &dyn Opaque) -> bool;

    /// The size for the cost; 1 for most types.
    fn size(&self) -> u64 {
        1
    }

    /// For functions of the library, which downcast to the type.
    fn as_any(&self) -> &dyn Any;
}

/// A value with fields that are computed on demand, such as the variables of an admission policy.
pub trait Fields: fmt::Debug + Send + Sync {
    /// The value of the field; None if it does not exist.
    fn get(&self, name: &str) -> Option<Result<Value<'_>, EvalError>>;
}

/// A string that is borrowed from JSON or shared.
#[derive(Clone)]
pub enum Text<'a> {
    /// Borrowed from JSON.
    Borrowed(&'a str),
    /// A constant, or computed.
    Shared(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Self::Shared(text.into())
    }
}

impl<'a> Value<'a> {
    /// A string.
    pub fn string(text: impl Into<Arc<str>>) -> Self {
        Self::String(Text::Shared(text.into()))
    }

    /// A list of these values.
    pub fn list(values: Vec<Value<'a>>) -> Self {
        Self::List(List::Values(Arc::new(values)))
    }

    /// An optional with a value.
    pub fn some(value: Value<'a>) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    pub(crate) fn opaque(value: impl Opaque) -> Self {
        Self::Opaque(Arc::new(value))
    }

    /// The string, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The bool, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    pub(crate) fn downcast<T: 'static>(&self) -> Option<&T> {
        match self {
            Self::Opaque(value) => value.as_any().downcast_ref(),
            _ => None,
        }
    }

    /// The name of its type, as `type(x)` returns it.
    pub fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Map(_) | Self::Fields(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Struct(value) => &value.name,
            Self::Opaque(value) => value.type_name(),
        }
    }

    /// The name of its type in Go, which some errors show.
    pub(crate) fn go_type(&self) -> &str {
        match self {
            Self::Null => "types.Null",
            Self::Bool(_) => "types.Bool",
            Self::Int(_) => "types.Int",
            Self::Uint(_) => "types.Uint",
            Self::Double(_) => "types.Double",
            Self::String(_) => "types.String",
            Self::Bytes(_) => "types.Bytes",
            Self::Timestamp(_) => "types.Timestamp",
            Self::Duration(_) => "types.Duration",
            Self::Optional(_) => "*types.Optional",
            Self::Type(_) => "*types.Type",
            other => other.type_name(),
        }
    }

    /// The size, or 1 for a value without a size. Most costs are proportional to it.
    pub(crate) fn cost_size(&self) -> u64 {
        match self {
            Self::String(text) => text.chars().count() as u64,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(list) => list.len() as u64,
            Self::Map(map) => map.len() as u64,
            Self::Optional(Some(inner)) => inner.cost_size(),
            Self::Opaque(value) => value.size(),
            _ => 1,
        }
    }

    /// Whether it is the zero value of its type.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(value) => !value,
            Self::Int(value) => *value == 0,
            Self::Uint(value) => *value == 0,
            Self::Double(value) => *value == 0.0,
            Self::String(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Duration(duration) => duration.nanoseconds == 0,
            Self::List(list) => list.len() == 0,
            Self::Map(map) => map.len() == 0,
            Self::Optional(value) => value.is_none(),
            Self::Struct(value) => value.fields.is_empty(),
            Self::Timestamp(at) => *at == Timestamp::ZERO,
            Self::Type(_) | Self::Opaque(_) | Self::Fields(_) => false,
        }
    }
}

impl fmt::Display for Value<'_> {
    /// The text of a value in cel-go's messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Uint(value) => write!(f, "{value}"),
            Self::Double(value) => f.write_str(&numbers::go_float(*value)),
            Self::String(text) => f.write_str(text),
            Self::Bytes(bytes) => f.write_str(&String::from_utf8_lossy(bytes)),
            Self::Timestamp(value) => write!(f, "{value}"),
            Self::Duration(value) => write!(f, "{value}"),
            Self::List(list) => {
                f.write_str("[")?;
                for (index, value) in list.iter().enumerate() {
                    f.write_str(if index > 0 { ", " } else { "" })?;
                    match value {
                        Ok(value) => write!(f, "{value}")?,
                        Err(error) => write!(f, "{error}")?,
                    }
                }
                f.write_str("]")
            }
            Self::Map(_) | Self::Fields(_) => f.write_str("map"),
            Self::Optional(None) => f.write_str("optional.none()"),
            Self::Optional(Some(value)) => write!(f, "optional({value})"),
            Self::Type(name) => f.write_str(name),
            Self::Struct(value) => f.write_str(&value.name),
            Self::Opaque(value) => f.write_str(value.type_name()),
        }
    }
}
