//! [`Type`]: the static type of an expression.

use std::fmt;
use std::sync::Arc;

use crate::decl::Object;

/// A type of the language. `Display` writes it as cel-go's messages do: `list(int)`.
#[derive(Debug, Clone)]
pub enum Type {
    /// Known only when the expression runs.
    Dyn,
    /// The type of `null`.
    Null,
    /// `true` or `false`.
    Bool,
    /// A signed integer of 64 bits.
    Int,
    /// An unsigned integer of 64 bits.
    Uint,
    /// A floating point number.
    Double,
    /// Unicode text; its size is counted in code points.
    String,
    /// Any bytes.
    Bytes,
    /// A point in time.
    Timestamp,
    /// A span of time.
    Duration,
    /// Elements of one type.
    List(Arc<Type>),
    /// Keys of one type, values of another.
    Map(Arc<Type>, Arc<Type>),
    /// A value or none.
    Optional(Arc<Type>),
    /// An object with declared fields. Two object types are equal if their names are.
    Object(Arc<Object>),
    /// A type of a library, identified by its name: `net.IP`, `kubernetes.Quantity`.
    Opaque(&'static str),
    /// The type of a type.
    Type(Arc<Type>),
    /// A type variable of the checker, or a type parameter of a signature.
    Param(Arc<str>),
    /// The type of an expression with an error, so that the error is reported once.
    Error,
}

impl Type {
    /// `list(element)`.
    pub fn list(element: Type) -> Self {
        Self::List(Arc::new(element))
    }

    /// `map(key, value)`.
    pub fn map(key: Type, value: Type) -> Self {
        Self::Map(Arc::new(key), Arc::new(value))
    }

    /// `optional_type(value)`.
    pub fn optional(value: Type) -> Self {
        Self::Optional(Arc::new(value))
    }

    pub(crate) fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn)
    }

    /// Whether all values of the type have the same size for cost estimates.
    pub(crate) fn is_scalar(&self) -> bool {
        match self {
            Self::Bool
            | Self::Double
            | Self::Duration
            | Self::Int
            | Self::Timestamp
            | Self::Uint => true,
            Self::Optional(inner) => inner.is_scalar(),
            _ => false,
        }
    }

    /// The type with this name in expressions.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "bool" => Self::Bool,
            "int" => Self::Int,
            "uint" => Self::Uint,
            "double" => Self::Double,
            "string" => Self::String,
            "bytes" => Self::Bytes,
            "null_type" => Self::Null,
            "dyn" => Self::Dyn,
            "list" => Self::list(Self::Dyn),
            "map" => Self::map(Self::Dyn, Self::Dyn),
            "type" => Self::Type(Arc::new(Self::Dyn)),
            "optional_type" => Self::optional(Self::Dyn),
            "google.protobuf.Timestamp" => Self::Timestamp,
            "google.protobuf.Duration" => Self::Duration,
            _ => return None,
        })
    }

    /// The name that `type(x)` returns for values of this type.
    pub(crate) fn runtime_name(&self) -> &str {
        match self {
            Self::Dyn => "dyn",
            Self::Null => "null_type",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::Duration => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Map(..) => "map",
            Self::Optional(_) => "optional_type",
            Self::Object(object) => &object.name,
            Self::Opaque(name) => name,
            Self::Type(_) => "type",
            Self::Param(name) => name,
            Self::Error => "!error!",
        }
    }
}

impl PartialEq for Type {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::List(a), Self::List(b))
            | (Self::Optional(a), Self::Optional(b))
            | (Self::Type(a), Self::Type(b)) => a == b,
            (Self::Map(a, b), Self::Map(c, d)) => a == c && b == d,
            (Self::Object(a), Self::Object(b)) => a.name == b.name,
            (Self::Opaque(a), Self::Opaque(b)) => a == b,
            (Self::Param(a), Self::Param(b)) => a == b,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl Eq for Type {}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::List(element) => write!(f, "list({element})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Optional(value) => write!(f, "optional_type({value})"),
            Self::Type(inner) => write!(f, "type({inner})"),
            other => f.write_str(other.runtime_name()),
        }
    }
}
