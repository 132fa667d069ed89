//! The errors of upstream's `runtime.FromUnstructured`, which converts decoded values instead of
//! text: they name Go types, but no fields.

use serde_json::Value;

use super::Item;

/// Go's `reflect.Kind` of a value.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

/// The error about a value that is not an `item`; None if `FromUnstructured` decodes the item from
/// JSON text, and has the error of that decoder.
pub(super) fn wrong_type(item: Item, found: &Value, go_type: &str) -> Option<String> {
    let found = kind(found);
    let basic = match item {
        Item::Message(_) => return Some(format!("cannot restore struct from: {found}")),
        Item::Bytes => return Some(format!("cannot restore slice from {found}")),
        Item::String => "string",
        Item::Bool => "bool",
        Item::Int32 => "int32",
        Item::Int64 => "int64",
        Item::Double => "float64",
        _ => return None,
    };
    // Go would convert a number to the character with that code.
    if (basic, found) == ("string", "int64") {
        return Some(format!("cannot convert {found} to {go_type}"));
    }
    Some(format!("unrecognized type: {basic}"))
}
