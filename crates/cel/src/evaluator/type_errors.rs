//! Errors about values of the wrong type, with cel-go's messages.

use super::{EvalError, List, Map, Value};

/// The error about a range that is neither a list nor a map.
pub(super) fn not_iterable(value: &Value<'_>) -> EvalError {
    format!("got '{}', expected iterable type", value.go_type()).into()
}

/// The error about arguments for which a function has no overload. As in cel-go, it names the
/// function if it is a conversion, or if no overload accepts the first argument and the type of
/// that argument has no methods.
pub(super) fn no_overload(function: &str, args: &[Value<'_>]) -> EvalError {
    let Some(first) = args.first() else { return EvalError::no_such_overload() };
    let takes_first = match function {
        "bool" | "bytes" | "double" | "duration" | "int" | "string" | "timestamp" | "uint" => {
            return format!("no such overload: {function}({})", first.type_name()).into();
        }
        "size" => is_sized(first),
        "_+_" => is_number(first) || is_time(first) || is_text(first) || is_list(first),
        "_-_" => is_number(first) || is_time(first),
        "_*_" | "_/_" | "_%_" | "-_" => is_number(first),
        "_<_" | "_<=_" | "_>_" | "_>=_" => {
            is_number(first) || is_time(first) || is_text(first) || matches!(first, Value::Bool(_))
        }
        _ => true,
    };
    let has_methods = is_time(first) || matches!(first, Value::String(_));
    if takes_first || has_methods {
        return EvalError::no_such_overload();
    }
    format!("no such overload: {function}").into()
}

/// Whether `==` fails for values of these types. It only fails for values from JSON and opaque
/// values; computed values of different types are unequal.
pub(super) fn cannot_equal(left: &Value<'_>, right: &Value<'_>) -> bool {
    match (left, right) {
        (_, Value::Null) => false,
        (Value::Map(Map::Json { .. } | Map::Object { .. }), right) => {
            !matches!(right, Value::Map(_) | Value::Fields(_))
        }
        (Value::List(List::Json { .. }), right) => !is_list(right),
        (Value::Opaque(left), Value::Opaque(right)) => left.type_name() != right.type_name(),
        (Value::Opaque(_), _) => true,
        _ => false,
    }
}

fn is_sized(value: &Value<'_>) -> bool {
    is_text(value) || is_list(value) || matches!(value, Value::Map(_) | Value::Fields(_))
}

fn is_number(value: &Value<'_>) -> bool {
    matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_))
}

fn is_time(value: &Value<'_>) -> bool {
    matches!(value, Value::Timestamp(_) | Value::Duration(_))
}

fn is_text(value: &Value<'_>) -> bool {
    matches!(value, Value::String(_) | Value::Bytes(_))
}

fn is_list(value: &Value<'_>) -> bool {
    matches!(value, Value::List(_))
}
