//! The errors of upstream's other decoder, which converts values instead of text: it names no
//! fields, only Go's types.

use serde_json::Value;

use super::Item;

/// Go's word for the kind of a value.
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

/// The error about a value that is no `item`, whose Go type is `wanted`; None if the item can be
/// read from text even then.
pub(super) fn wrong_type(item: Item, found: &Value, wanted: &str) -> Option<String> {
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
    // Go would make a character of a number.
    if (basic, found) == ("string", "int64") {
        return Some(format!("cannot convert {found} to {wanted}"));
    }
    Some(format!("unrecognized type: {basic}"))
}
