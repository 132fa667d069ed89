//! Writes a document of version 2 as the protobuf message that kubectl requests:
//! `openapi.v2.Document` of google/gnostic.
//!
//! A message is described by a [`MessageShape`]: which keyword goes into which field, and how.
//! Other keywords (`x-kubernetes-…`) are vendor extensions, and become YAML.

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
    for (keyword, tag, how) in shape.fields {
        if let Some(value) = map.get(*keyword) {
            field(&mut message, *tag, how, value);
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

/// A message within others, through the fields of these numbers.
fn wrapped(path: &[u32], mut message: Message) -> Message {
    for tag in path.iter().rev() {
        let mut outer = Message::default();
        outer.message(*tag, &message);
        message = outer;
    }
    message
}

fn field(into: &mut Message, tag: u32, how: &Encoding, value: &Value) {
    match (how, value) {
        (Encoding::Text, Value::String(text)) => into.text(tag, text),
        (Encoding::Texts, Value::Array(texts)) => {
            texts.iter().filter_map(Value::as_str).for_each(|it| into.text(tag, it));
        }
        (Encoding::Bool, Value::Bool(value)) => into.bool(tag, *value),
        (Encoding::Int, value) => into.int(tag, value.as_i64().unwrap_or_default()),
        (Encoding::Double, value) => into.double(tag, value.as_f64().unwrap_or_default()),
        (Encoding::Any, value) => into.message(tag, &any(value)),
        (Encoding::Anys, Value::Array(values)) => {
            for it in values {
                into.message(tag, &any(it));
            }
        }
        (Encoding::One(shape), value) => into.message(tag, &message(shape(), value)),
        (Encoding::Named(inner, path, shape), Value::Object(map)) => {
            let mut all = Message::default();
            for (name, value) in map {
                all.message(*inner, &named(name, &wrapped(path, message(shape(), value))));
            }
            into.message(tag, &all);
        }
        (Encoding::Type, value) => {
            let mut types = Message::default();
            let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
            list.iter().filter_map(Value::as_str).for_each(|it| types.text(1, it));
            into.message(tag, &types);
        }
        (Encoding::Wrapped(path, shape), value) => {
            into.message(tag, &wrapped(path, message(shape(), value)));
        }
        (Encoding::SchemaOrBool, Value::Bool(value)) => {
            let mut item = Message::default();
            item.bool(2, *value);
            into.message(tag, &item);
        }
        (Encoding::SchemaOrBool, value) => {
            into.message(tag, &wrapped(&[1], message(shape::schema(), value)));
        }
        (Encoding::Parameters, Value::Array(values)) => {
            for it in values {
                into.message(tag, &parameter(it));
            }
        }
        _ => {}
    }
}

/// `ParametersItem` → `Parameter` → the body, or `NonBodyParameter` → one that is in the query or
/// in the path.
fn parameter(value: &Value) -> Message {
    match value["in"].as_str() {
        Some("body") => wrapped(&[1, 1], message(&BODY_PARAMETER, value)),
        Some("path") => wrapped(&[1, 2, 4], message(&PATH_PARAMETER, value)),
        _ => wrapped(&[1, 2, 3], message(&QUERY_PARAMETER, value)),
    }
}

/// A value of any kind, as YAML.
fn any(value: &Value) -> Message {
    let mut any = Message::default();
    any.text(2, &machinery::codec::yaml::encode(value));
    any
}

#[cfg(test)]
mod tests;
