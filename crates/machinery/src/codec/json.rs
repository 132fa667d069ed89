//! A JSON decoder that accepts the same input as Go's `encoding/json`, with the same error
//! messages.
//!
//! - A repeated key is recorded; the last value counts.
//! - Integers that fit into an i64 are integers. All other numbers are floats; [`decode`] turns
//!   floats without a fraction (`1.0`) into integers, because Go would print them so;
//!   [`decode_exact`] does not.
//! - Bytes that are not UTF-8, and halves of surrogate pairs, become U+FFFD.
//!
//! The decoder has its own stack and does not use the thread's. Upstream accepts a depth of 10,000;
//! this decoder accepts [`DEPTH_MAX`], because the value is later compared, encoded and dropped by
//! recursive functions.

mod occurrences;
mod scalar;
mod writer;

use std::fmt::Write;

use super::{DecodeError, Decoded, Literals};
use crate::{Map, Value};
use scalar::Reader;

pub use occurrences::occurrences;
pub(super) use scalar::whole_or_float;
pub use writer::{to_text, write, write_pretty, write_text};

/// Arrays and objects may be nested this deeply.
pub const DEPTH_MAX: usize = 1000;
/// More repeated keys than this are not reported.
const DUPLICATES_MAX: usize = 100;

/// Reads one JSON value and nothing after it. Floats without a fraction become integers.
pub fn decode(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let mut decoded = decode_exact(bytes)?;
    if let Some(text) = &decoded.literals.too_large {
        return Err(too_large(text));
    }
    if !decoded.literals.recorded.is_empty() {
        whole_floats_to_integers(&mut decoded.value);
    }
    Ok(decoded)
}

/// The error about a number that overflows a float, where a float is expected.
pub fn too_large(text: &str) -> DecodeError {
    DecodeError::new(format!("json: cannot unmarshal number {text} into Go value of type float64"))
}

/// Turns floats without a fraction into integers, as encoding and decoding in Go would.
pub fn whole_floats_to_integers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(whole) = number.as_f64().and_then(whole_or_float) {
                *value = whole;
            }
        }
        Value::Array(list) => list.iter_mut().for_each(whole_floats_to_integers),
        Value::Object(map) => map.values_mut().for_each(whole_floats_to_integers),
        _ => {}
    }
}

/// Whether there is a float without a fraction, see [`whole_floats_to_integers`].
pub fn has_whole_floats(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            number.is_f64() && number.as_f64().is_some_and(|float| float.fract() == 0.0)
        }
        Value::Array(list) => list.iter().any(has_whole_floats),
        Value::Object(map) => map.values().any(has_whole_floats),
        _ => false,
    }
}

/// Reads one JSON value and nothing after it. Numbers with a fraction or an exponent are floats,
/// and so are integers that do not fit into an i64; the texts of both are recorded in
/// [`Decoded::literals`]. A number beyond the range of a float becomes the largest float, and its
/// text is [`Literals::too_large`].
pub fn decode_exact(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let mut reader = Reader::new(bytes);
    let mut open: Vec<Container> = Vec::new();
    let (mut duplicates, mut literals) = (Vec::new(), Literals::default());
    loop {
        let mut value = match reader.start_of_value()? {
            b'{' => {
                open.push(Container::Object { map: Map::new(), key: String::new() });
                match reader.first_key()? {
                    Some(first) => {
                        begin_pair(&mut open, first, &mut duplicates);
                        check_depth(&open)?;
                        continue;
                    }
                    None => close(&mut open),
                }
            }
            b'[' => {
                open.push(Container::Array(Vec::new()));
                if !reader.is_empty_array()? {
                    check_depth(&open)?;
                    continue;
                }
                close(&mut open)
            }
            first => {
                let value = reader.scalar(first)?;
                if value.is_f64() {
                    literals.record(&open, reader.number_text());
                }
                value
            }
        };
        // The value is complete. Adds it to its container, which may then be complete as well.
        loop {
            match open.last_mut() {
                None => {
                    reader.end()?;
                    return Ok(Decoded { value, duplicates, literals, ..Decoded::default() });
                }
                Some(Container::Array(list)) => {
                    list.push(value);
                    if reader.after_element()? {
                        break;
                    }
                }
                Some(Container::Object { map, key }) => {
                    map.insert(std::mem::take(key), value);
                    if let Some(next) = reader.after_pair()? {
                        begin_pair(&mut open, next, &mut duplicates);
                        break;
                    }
                }
            }
            value = close(&mut open);
        }
    }
}

/// Go's name for the JSON type of a value: `json: cannot unmarshal array into …`.
pub fn kind_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

impl Literals {
    fn record(&mut self, open: &[Container], text: &str) {
        if self.too_large.is_none() && text.parse::<f64>().is_ok_and(f64::is_infinite) {
            self.too_large = Some(text.to_owned());
        }
        if self.recorded.len() < Self::MAX {
            self.recorded.push((path_of(open), text.to_owned()));
        }
    }
}

/// An array or an object whose end has not been read yet.
enum Container {
    Array(Vec<Value>),
    Object {
        map: Map<String, Value>,
        /// The key whose value is being read.
        key: String,
    },
}

fn check_depth(open: &[Container]) -> Result<(), DecodeError> {
    match open.len() {
        ..=DEPTH_MAX => Ok(()),
        _ => Err(DecodeError::new("exceeded max depth")),
    }
}

/// Ends the innermost container.
fn close(open: &mut Vec<Container>) -> Value {
    match open.pop() {
        Some(Container::Array(list)) => Value::Array(list),
        Some(Container::Object { map, .. }) => Value::Object(map),
        None => Value::Null,
    }
}

/// Begins a pair of the innermost object, and records a repeated key.
fn begin_pair(open: &mut [Container], next: String, duplicates: &mut Vec<String>) {
    let Some(Container::Object { map, key }) = open.last_mut() else {
        return;
    };
    let repeated = map.contains_key(&next);
    *key = next;
    if repeated && duplicates.len() < DUPLICATES_MAX {
        let text = format!("duplicate field \"{}\"", path_of(open));
        if !duplicates.contains(&text) {
            duplicates.push(text);
        }
    }
}

/// The path of the value that is being read: `spec.containers[0].name`.
fn path_of(open: &[Container]) -> String {
    let mut path = String::new();
    for container in open {
        match container {
            Container::Array(list) => {
                let _ = write!(path, "[{}]", list.len());
            }
            Container::Object { key, .. } => {
                if !path.is_empty() {
                    path.push('.');
                }
                path += key;
            }
        }
    }
    path
}

#[cfg(test)]
mod tests;
