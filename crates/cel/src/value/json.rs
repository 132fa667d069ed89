//! Converts JSON to values by a declared type, and values to JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Number, Value as Json};

use super::{List, Map, Text, Value, numbers};
use crate::decl::{DeclKind, DeclType, ListKind};
use crate::error::EvalError;
use crate::time::{Duration, Timestamp};

static DYN: DeclType = DeclType::DYN;
static ATOMIC: ListKind = ListKind::Atomic;

/// The value of `json` with the declared type `decl`.
pub(crate) fn view<'a>(json: &'a Json, decl: &'a DeclType) -> Result<Value<'a>, EvalError> {
    if json.is_null() && !matches!(decl.kind, DeclKind::Dyn) {
        return if decl.nullable {
            Ok(Value::Null)
        } else {
            Err("invalid data, got null for schema with nullable=false".into())
        };
    }
    match (&decl.kind, json) {
        (DeclKind::Dyn | DeclKind::Value(_), _) => Ok(dynamic(json)),
        (DeclKind::Bool, Json::Bool(value)) => Ok(Value::Bool(*value)),
        (DeclKind::Int, Json::Number(number)) => match number.as_i64() {
            Some(value) => Ok(Value::Int(value)),
            None => Err(unexpected("int", json)),
        },
        (DeclKind::Double, Json::Number(number)) => Ok(Value::Double(float(number))),
        (DeclKind::String | DeclKind::IntOrString, Json::String(text)) => {
            Ok(Value::String(Text::Borrowed(text)))
        }
        (DeclKind::Bytes, Json::String(text)) => match STANDARD.decode(text) {
            Ok(bytes) => Ok(Value::Bytes(bytes.into())),
            Err(error) => Err(format!("Invalid byte formatted string {text}: {error}").into()),
        },
        (DeclKind::Timestamp, Json::String(text)) => Timestamp::parse(text)
            .map(Value::Timestamp)
            .ok_or_else(|| format!("Invalid date-time formatted string {text}").into()),
        (DeclKind::Date, Json::String(text)) => Timestamp::parse_date(text)
            .map(Value::Timestamp)
            .ok_or_else(|| format!("Invalid date formatted string {text}").into()),
        (DeclKind::Duration, Json::String(text)) => Duration::parse_lenient(text)
            .map(Value::Duration)
            .ok_or_else(|| format!("Invalid duration {text}").into()),
        (DeclKind::IntOrString, Json::Number(number)) if number.is_i64() => {
            Ok(Value::Int(number.as_i64().unwrap_or_default()))
        }
        (DeclKind::List(element, kind), Json::Array(items)) => {
            Ok(Value::List(List::Json { items, element, kind }))
        }
        (DeclKind::Map(value), Json::Object(entries)) => {
            Ok(Value::Map(Map::Json { entries, value }))
        }
        (DeclKind::Object(object), Json::Object(entries)) => {
            Ok(Value::Map(Map::Object { entries, object }))
        }
        (kind, _) => Err(mismatch(kind, json)),
    }
}

fn mismatch(kind: &DeclKind, json: &Json) -> EvalError {
    match kind {
        DeclKind::IntOrString => {
            "invalid data, expected XIntOrString value to be either a string or integer".into()
        }
        DeclKind::List(..) => {
            "invalid data, expected an array for the provided schema with type=array".into()
        }
        DeclKind::Map(_) | DeclKind::Object(_) => {
            "invalid data, expected a map for the provided schema with type=object".into()
        }
        DeclKind::Bool => unexpected("bool", json),
        DeclKind::Int => unexpected("int", json),
        DeclKind::Double => unexpected("float", json),
        _ => unexpected("string", json),
    }
}

/// The error about JSON of another type, with Go's name for the type.
fn unexpected(expected: &str, json: &Json) -> EvalError {
    let found = match json {
        Json::Null => "<nil>",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_f64() => "float64",
        Json::Number(_) => "int64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    };
    format!("invalid data, expected {expected}, got {found}").into()
}

fn float(number: &Number) -> f64 {
    number.as_f64().unwrap_or_default()
}

fn dynamic(json: &Json) -> Value<'_> {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match number.as_i64() {
            Some(value) => Value::Int(value),
            None => Value::Double(float(number)),
        },
        Json::String(text) => Value::String(Text::Borrowed(text)),
        Json::Array(items) => Value::List(List::Json { items, element: &DYN, kind: &ATOMIC }),
        Json::Object(entries) => Value::Map(Map::Json { entries, value: &DYN }),
    }
}

impl<'a> Value<'a> {
    /// Converts `json` by the declared type.
    pub fn from_json(json: &'a Json, decl: &'a DeclType) -> Result<Self, EvalError> {
        view(json, decl)
    }

    /// The value as JSON: times and durations as strings, bytes in base64. An error for values that
    /// JSON cannot represent.
    pub fn to_json(&self) -> Result<Json, EvalError> {
        Ok(match self {
            Self::Null | Self::Optional(None) => Json::Null,
            Self::Bool(value) => Json::Bool(*value),
            Self::Int(value) => Json::from(*value),
            Self::Uint(value) => Json::from(*value),
            Self::Double(value) => match Number::from_f64(*value) {
                Some(number) => Json::Number(number),
                None => {
                    return Err(format!("unsupported value: {}", numbers::go_float(*value)).into());
                }
            },
            Self::String(text) => Json::String(text.to_string()),
            Self::Bytes(bytes) => Json::String(STANDARD.encode(bytes)),
            Self::Timestamp(value) => Json::String(value.to_string()),
            Self::Duration(value) => Json::String(value.to_string()),
            Self::List(list) => {
                Json::Array(list.iter().map(|value| value?.to_json()).collect::<Result<_, _>>()?)
            }
            Self::Map(Map::Object { entries, .. }) => Json::Object((*entries).clone()),
            Self::Map(map) => {
                let mut entries = serde_json::Map::new();
                for key in map.keys() {
                    if let Some(value) = map.get(&key) {
                        entries.insert(key.to_string(), value?.to_json()?);
                    }
                }
                Json::Object(entries)
            }
            Self::Optional(Some(value)) => value.to_json()?,
            Self::Struct(value) => {
                let mut entries = serde_json::Map::new();
                for (name, value) in &value.fields {
                    entries.insert(name.clone(), value.to_json()?);
                }
                Json::Object(entries)
            }
            Self::Type(_) | Self::Opaque(_) | Self::Fields(_) => {
                return Err(format!("unsupported value: {self}").into());
            }
        })
    }
}
