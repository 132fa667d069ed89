//! Encodes a document of version 2 as the protobuf message `openapi.v2.Document` of google/gnostic,
//! which kubectl requests.
//!
//! A [`MessageShape`] maps the keywords of a message to fields and their encodings. Keywords that
//! begin with `x-` are vendor extensions and become YAML.

mod shape;
mod wire;

use machinery::Value;
use shape::{BODY_PARAMETER, DOCUMENT, Encoding, MessageShape, PATH_PARAMETER, QUERY_PARAMETER};
use wire::Message;

/// The document as protobuf.
pub fn encode(document: &Value) -> Vec<u8> {
    message(&DOCUMENT, document).into_bytes()
}

fn message(shape: &MessageShape, value: &Value) -> Message {
    let mut message = Message::default();
    let Value::Object(map) = value else { return message };
    // In the order of the fields' numbers, as protobuf's own encoders write them.
    for (keyword, field_number, encoding) in shape.fields {
        if let Some(value) = map.get(*keyword) {
            field(&mut message, *field_number, encoding, value);
        }
    }
    for (name, value) in map.iter().filter(|(name, _)| name.starts_with("x-")) {
        message.message(shape.extensions, &named(name, &any(value)));
    }
    message
}

fn named(name: &str, value: &Message) -> Message {
    let mut named = Message::default();
    named.text(1, name);
    named.message(2, value);
    named
}

/// Wraps a message into others, the outermost first, each in the field of the given number.
fn wrapped(path: &[u32], mut message: Message) -> Message {
    for field_number in path.iter().rev() {
        let mut outer = Message::default();
        outer.message(*field_number, &message);
        message = outer;
    }
    message
}

fn field(into: &mut Message, field_number: u32, encoding: &Encoding, value: &Value) {
    match (encoding, value) {
        (Encoding::Text, Value::String(text)) => into.text(field_number, text),
        (Encoding::Texts, Value::Array(texts)) => {
            texts.iter().filter_map(Value::as_str).for_each(|it| into.text(field_number, it));
        }
        (Encoding::Bool, Value::Bool(value)) => into.bool(field_number, *value),
        (Encoding::Int, value) => into.int(field_number, value.as_i64().unwrap_or_default()),
        (Encoding::Double, value) => into.double(field_number, value.as_f64().unwrap_or_default()),
        (Encoding::Any, value) => into.message(field_number, &any(value)),
        (Encoding::Anys, Value::Array(values)) => {
            for it in values {
                into.message(field_number, &any(it));
            }
        }
        (Encoding::One(shape), value) => into.message(field_number, &message(shape(), value)),
        (Encoding::Named(inner, path, shape), Value::Object(map)) => {
            let mut all = Message::default();
            for (name, value) in map {
                all.message(*inner, &named(name, &wrapped(path, message(shape(), value))));
            }
            into.message(field_number, &all);
        }
        (Encoding::Type, value) => {
            let mut types = Message::default();
            let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
            list.iter().filter_map(Value::as_str).for_each(|it| types.text(1, it));
            into.message(field_number, &types);
        }
        (Encoding::Wrapped(path, shape), value) => {
            into.message(field_number, &wrapped(path, message(shape(), value)));
        }
        (Encoding::SchemaOrBool, Value::Bool(value)) => {
            let mut item = Message::default();
            item.bool(2, *value);
            into.message(field_number, &item);
        }
        (Encoding::SchemaOrBool, value) => {
            into.message(field_number, &wrapped(&[1], message(shape::schema(), value)));
        }
        (Encoding::Parameters, Value::Array(values)) => {
            for it in values {
                into.message(field_number, &parameter(it));
            }
        }
        _ => {}
    }
}

/// `ParametersItem` → `Parameter` → `BodyParameter`, or `NonBodyParameter` →
/// `PathParameterSubSchema` or `QueryParameterSubSchema`.
fn parameter(value: &Value) -> Message {
    match value["in"].as_str() {
        Some("body") => wrapped(&[1, 1], message(&BODY_PARAMETER, value)),
        Some("path") => wrapped(&[1, 2, 4], message(&PATH_PARAMETER, value)),
        _ => wrapped(&[1, 2, 3], message(&QUERY_PARAMETER, value)),
    }
}

/// The message `Any`, which contains a value as YAML.
fn any(value: &Value) -> Message {
    let mut any = Message::default();
    any.text(2, &machinery::codec::yaml::encode(value));
    any
}

#[cfg(test)]
mod tests;
