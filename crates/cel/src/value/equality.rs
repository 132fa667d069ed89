//! Equality and order of values. Numbers of different types are comparable.

use std::cmp::Ordering;

use super::Value;
use super::numbers::Number;
use crate::error::EvalError;

/// Values that are nested deeper are not compared completely and count as unequal, so that the JSON
/// of a client cannot exhaust the stack.
const MAX_DEPTH: usize = 256;

/// Whether two values are equal; values of different types are not.
pub(crate) fn equal(a: &Value<'_>, b: &Value<'_>) -> bool {
    equal_within(a, b, MAX_DEPTH)
}

/// Like [`equal`], for parts of values, with the remaining number of levels.
pub(super) fn equal_within(a: &Value<'_>, b: &Value<'_>, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else {
        return false;
    };
    match (a, b) {
        (Value::Null, Value::Null) | (Value::Optional(None), Value::Optional(None)) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::String(a), Value::String(b)) => **a == **b,
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::List(a), Value::List(b)) => a.equals(b, depth),
        (Value::Map(a), Value::Map(b)) => a.equals(b, depth),
        (Value::Optional(Some(a)), Value::Optional(Some(b))) => equal_within(a, b, depth),
        (Value::Type(a), Value::Type(b)) => a == b,
        (Value::Opaque(a), Value::Opaque(b)) => a.equals(&**b),
        (Value::Struct(a), Value::Struct(b)) => {
            a.name == b.name
                && a.fields.len() == b.fields.len()
                && a.fields.iter().all(|(name, value)| {
                    b.fields.get(name).is_some_and(|other| equal_within(value, other, depth))
                })
        }
        _ => match (number(a), number(b)) {
            (Some(a), Some(b)) => a.compare(b) == Some(Ordering::Equal),
            _ => false,
        },
    }
}

/// The order of two values; an error if their types have none.
pub(crate) fn compare(a: &Value<'_>, b: &Value<'_>) -> Result<Ordering, EvalError> {
    Ok(match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::String(a), Value::String(b)) => (**a).cmp(&**b),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(b),
        (Value::Duration(a), Value::Duration(b)) => a.cmp(b),
        _ => {
            let (a, b) = number(a).zip(number(b)).ok_or_else(EvalError::no_such_overload)?;
            a.compare(b).ok_or("NaN values cannot be ordered")?
        }
    })
}

fn number(value: &Value<'_>) -> Option<Number> {
    match value {
        Value::Int(value) => Some(Number::Int(*value)),
        Value::Uint(value) => Some(Number::Uint(*value)),
        Value::Double(value) => Some(Number::Double(*value)),
        _ => None,
    }
}
