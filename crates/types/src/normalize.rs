//! [`normalize`]: a JSON object after decoding into Go's structs and encoding again.
//!
//! The API server does this to every built-in object, so clients see the result:
//!
//! ```text
//! {"spec":{"replicas":0,"paused":false,"foo":1,"template":{…}}}        what was sent
//! {"spec":{"replicas":0,"template":{…},"selector":null,"strategy":{}},  what a Deployment is
//!  "metadata":{},"status":{}}
//! ```
//!
//! `foo` is unknown, and reported; `paused` is zero, and omitted; `replicas` is a pointer, so that
//! its zero is kept; the others are written even if unset. Null equals absent. Quantities and times
//! get their canonical form.

mod error;
mod unstructured;

pub use error::Error;
use serde_json::{Map, Number, Value};

use super::time::{self, CanonicalTime, Precision};
use super::{Container, Emit, Field, Item, Type, bytes, go};

/// Rewrites `value` as if Go had decoded it into a `ty` and encoded it again.
///
/// `on_unknown` gets the path of each field that the type does not have, such as
/// `spec.containers[0].foo`; the field is dropped. After an error, `value` is only partly
/// rewritten.
pub fn normalize(
    ty: &'static Type,
    value: &mut Value,
    on_unknown: &mut dyn FnMut(String),
) -> Result<(), Error> {
    normalize_with(ty, value, on_unknown, &mut |_, _| {})
}

/// The same. `on_empty` gets the path and the value of each list and map that was sent without
/// elements: it is dropped, but errors show it.
pub fn normalize_with(
    ty: &'static Type,
    value: &mut Value,
    on_unknown: &mut dyn FnMut(String),
    on_empty: &mut dyn FnMut(String, Value),
) -> Result<(), Error> {
    let mut walk = Walk { on_unknown, on_empty, unchecked: 0, reported_bytes: 0 };
    match value {
        Value::Object(object) => walk.object(ty, object, None),
        other => Err(wrong_type(&json_kind(other), None, &go::of_type(ty))),
    }
}

/// The value that Go writes for an unset field that is always written.
pub fn zero(field: &Field) -> Value {
    if field.emit == Emit::Null || field.container != Container::One {
        return Value::Null;
    }
    zero_item(field.item)
}

fn zero_item(item: Item) -> Value {
    match item {
        Item::String => Value::String(String::new()),
        Item::Int32 | Item::Int64 | Item::Double | Item::IntOrString => Value::from(0),
        Item::Bool | Item::SchemaOrBool => Value::Bool(false),
        Item::Quantity => Value::from("0"),
        Item::Message(id) => Value::Object(
            id.get().always_written().map(|it| (it.json().to_owned(), zero(it))).collect(),
        ),
        Item::Bytes
        | Item::Time
        | Item::MicroTime
        | Item::RawExtension
        | Item::Json
        | Item::FieldsV1
        | Item::Strings
        | Item::SchemaOrArray
        | Item::SchemaOrStrings => Value::Null,
    }
}

/// A path in the object: a linked list on the stack, which is only written as text for reports.
#[derive(Clone, Copy)]
struct Place<'a> {
    parent: Option<&'a Place<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    /// A field and the type that has it.
    Field(&'static Type, &'static Field),
    Key(&'a str),
    Index(usize),
}

impl<'a> Place<'a> {
    fn then(&'a self, step: Step<'a>) -> Self {
        Self { parent: Some(self), step }
    }

    /// The innermost field, and the type that has it.
    fn field(&self) -> Option<(&'static Type, &'static Field)> {
        match self.step {
            Step::Field(owner, field) => Some((owner, field)),
            _ => self.parent.and_then(Place::field),
        }
    }

    /// `spec.containers[0].ports`, as strict decoding has it.
    fn write(&self, path: &mut String) {
        if let Some(parent) = self.parent {
            parent.write(path);
        }
        match self.step {
            Step::Field(_, field) => push_name(path, field.json()),
            Step::Key(key) => push_name(path, key),
            Step::Index(index) => path.push_str(&format!("[{index}]")),
        }
    }

    /// `spec.volumes.VolumeSource.emptyDir`, as errors have it.
    fn write_fields(&self, path: &mut String) {
        if let Some(parent) = self.parent {
            parent.write_fields(path);
        }
        if let Step::Field(owner, field) = self.step {
            for name in go::embedding(owner, field) {
                push_name(path, name);
            }
            push_name(path, field.json());
        }
    }
}

fn push_name(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

/// The maximum length of all reported paths together. Without a limit, a long key would be repeated
/// in the path of each field below it.
const MAX_REPORTED_BYTES: usize = 1 << 20;

struct Walk<'a> {
    on_unknown: &'a mut dyn FnMut(String),
    on_empty: &'a mut dyn FnMut(String, Value),
    /// The number of enclosing `JSONSchemaPropsOr…` values. Go decodes these with functions
    /// of their own, which drop unknown fields without reporting them.
    unchecked: usize,
    /// The length of the reported paths.
    reported_bytes: usize,
}

impl Walk<'_> {
    fn object(
        &mut self,
        ty: &'static Type,
        object: &mut Map<String, Value>,
        place: Option<&Place<'_>>,
    ) -> Result<(), Error> {
        // Most objects have nothing to drop, and collecting names is cheaper than `retain`.
        let mut dropped = Vec::new();
        for (name, value) in object.iter_mut() {
            let kept = if let Some(field) = ty.field(name) {
                self.field(ty, field, value, place)?
            } else {
                self.unknown(name, place);
                false
            };
            if !kept {
                dropped.push(name.clone());
            }
        }
        for name in dropped {
            object.remove(&name);
        }
        for field in ty.always_written() {
            if !object.contains_key(field.json()) {
                object.insert(field.json().to_owned(), zero(field));
            }
        }
        Ok(())
    }

    fn unknown(&mut self, name: &str, place: Option<&Place<'_>>) {
        if self.unchecked > 0 || self.reported_bytes > MAX_REPORTED_BYTES {
            return;
        }
        let mut path = String::new();
        if let Some(place) = place {
            place.write(&mut path);
        }
        push_name(&mut path, name);
        self.reported_bytes += path.len();
        (self.on_unknown)(path);
    }

    fn empty(&mut self, value: &Value, place: &Place<'_>) {
        if self.reported_bytes > MAX_REPORTED_BYTES {
            return;
        }
        let mut path = String::new();
        place.write(&mut path);
        self.reported_bytes += path.len();
        (self.on_empty)(path, value.clone());
    }

    /// Returns whether the field is written at all.
    fn field(
        &mut self,
        owner: &'static Type,
        field: &'static Field,
        value: &mut Value,
        parent: Option<&Place<'_>>,
    ) -> Result<bool, Error> {
        if value.is_null() {
            return Ok(false);
        }
        let place = Place { parent, step: Step::Field(owner, field) };
        match (field.container, &mut *value) {
            (Container::One, value) => self.item(field.item, value, &place)?,
            (Container::List, Value::Array(elements)) => {
                for (index, element) in elements.iter_mut().enumerate() {
                    self.element(field, element, &place.then(Step::Index(index)))?;
                }
            }
            (Container::Map, Value::Object(entries)) => {
                for (key, element) in entries.iter_mut() {
                    self.element(field, element, &place.then(Step::Key(key)))?;
                }
            }
            (container, other) => {
                let go = go::of_field(owner, field);
                let error = wrong_type(&json_kind(other), Some(&place), &go);
                let go_type = if container == Container::List { "slice" } else { "map" };
                let message =
                    format!("cannot restore {go_type} from {}", unstructured::kind(other));
                return Err(Error { from_unstructured: Some(message), ..error });
            }
        }
        if field.container != Container::One && is_empty(value) {
            self.empty(value, &place);
        }
        if field.emit == Emit::Null && value.as_array().is_some_and(Vec::is_empty) {
            // The storage form does not distinguish an empty list from an unset one.
            *value = Value::Null;
        }
        Ok(field.emit != Emit::OmitZero || !is_empty(value))
    }

    fn element(
        &mut self,
        field: &Field,
        value: &mut Value,
        place: &Place<'_>,
    ) -> Result<(), Error> {
        if value.is_null() {
            *value = match field.item {
                Item::Bytes => Value::from(""),
                item => zero_item(item),
            };
            return Ok(());
        }
        self.item(field.item, value, place)
    }

    fn item(&mut self, item: Item, value: &mut Value, place: &Place<'_>) -> Result<(), Error> {
        match (item, &mut *value) {
            (Item::String | Item::IntOrString, Value::String(_))
            | (Item::Bool, Value::Bool(_))
            | (Item::RawExtension | Item::Json | Item::FieldsV1, _) => Ok(()),
            (Item::Message(id), Value::Object(object)) => {
                self.object(id.get(), object, Some(place))
            }
            (Item::Int32, Value::Number(number)) => integer(number, i32::MAX.into(), place),
            (Item::Int64, Value::Number(number)) => integer(number, i64::MAX, place),
            (Item::Double, Value::Number(number)) => {
                shorten(number);
                Ok(())
            }
            (Item::Bytes, Value::String(text)) => bytes::rewrite(text).map_err(|message| {
                let from_unstructured = Some(format!("error decoding from json: {message}"));
                Error { from_unstructured, ..Error::new(message) }
            }),
            (Item::Bytes, Value::Array(_)) => byte_list(value, place),
            (Item::Quantity, value) => quantity(value),
            (Item::IntOrString, value) => int_or_string(value, place),
            (Item::Time, value) => time(value, Precision::Seconds, place),
            (Item::MicroTime, value) => time(value, Precision::Microseconds, place),
            (Item::Strings, Value::Array(elements)) => strings(elements, place),
            (Item::SchemaOrBool | Item::SchemaOrArray | Item::SchemaOrStrings, value) => {
                self.schema_or(item, value, place)
            }
            (item, other) => {
                let go_type = go_type(place);
                let from_unstructured = unstructured::wrong_type(item, other, &go_type);
                let error = wrong_type(&json_kind(other), Some(place), &go_type);
                Err(Error { from_unstructured, ..error })
            }
        }
    }

    /// Upstream: apiextensions' marshal.go; a schema refers to the type that the field belongs to.
    fn schema_or(&mut self, item: Item, value: &mut Value, place: &Place<'_>) -> Result<(), Error> {
        let Some((schema, _)) = place.field() else { return Ok(()) };
        self.unchecked += 1;
        let result = match (item, &mut *value) {
            (_, Value::Object(object)) => self.object(schema, object, Some(place)),
            (Item::SchemaOrBool, Value::Bool(_)) => Ok(()),
            (Item::SchemaOrBool, _) => {
                Err(Error::new("boolean or JSON schema expected".to_owned()))
            }
            (Item::SchemaOrArray, Value::Array(elements)) if !elements.is_empty() => {
                elements.iter_mut().try_for_each(|element| match element {
                    Value::Object(object) => self.object(schema, object, Some(place)),
                    other => Err(wrong_type(&json_kind(other), Some(place), &go::of_type(schema))),
                })
            }
            (Item::SchemaOrStrings, Value::Array(elements)) if !elements.is_empty() => {
                strings(elements, place)
            }
            (_, other) => {
                *other = Value::Null;
                Ok(())
            }
        };
        self.unchecked -= 1;
        result
    }
}

/// Go's name for the kind of a JSON value.
fn json_kind(value: &Value) -> String {
    let name = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    name.to_owned()
}

/// The Go type of the value at a place.
fn go_type(place: &Place<'_>) -> String {
    match (place.step, place.field()) {
        (Step::Field(owner, field), _) => go::of_field(owner, field),
        (_, Some((owner, field))) => go::of_element(owner, field),
        (_, None) => String::new(),
    }
}

fn wrong_type(sent: &str, place: Option<&Place<'_>>, go_type: &str) -> Error {
    let into = match place.and_then(|place| Some((place, place.field()?.0))) {
        None => "value".to_owned(),
        Some((place, owner)) => {
            let mut path = format!("struct field {}", owner.short_name());
            place.write_fields(&mut path);
            path
        }
    };
    Error::new(format!("json: cannot unmarshal {sent} into Go {into} of type {go_type}"))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(object) => object.is_empty(),
    }
}

fn integer(number: &Number, max: i64, place: &Place<'_>) -> Result<(), Error> {
    match number.as_i64() {
        Some(value) if (-max - 1..=max).contains(&value) => Ok(()),
        _ => {
            let go_type = go_type(place);
            let error = wrong_number(number, place, &go_type);
            let is_whole = number.is_i64() || number.is_u64();
            let message = (!is_whole).then(|| format!("cannot convert float64 to {go_type}"));
            Err(Error { from_unstructured: message, ..error })
        }
    }
}

fn wrong_number(number: &Number, place: &Place<'_>, go_type: &str) -> Error {
    let mut path = String::new();
    place.write(&mut path);
    let error = wrong_type(&format!("number {number}"), Some(place), go_type);
    Error { number: Some((path, number.to_string())), ..error }
}

/// Go writes a whole floating point number without a fraction.
fn shorten(number: &mut Number) {
    #[expect(clippy::cast_possible_truncation, reason = "whole, and far smaller than 2^63")]
    if let Some(value) =
        number.as_f64().filter(|it| number.is_f64() && it.fract() == 0.0 && it.abs() < 1e15)
    {
        *number = Number::from(value as i64);
    }
}

fn quantity(value: &mut Value) -> Result<(), Error> {
    let canonical = match &*value {
        Value::String(text) => machinery::quantity::canonical(text.trim()),
        other => machinery::quantity::canonical(&other.to_string()),
    };
    *value = Value::String(canonical.map_err(|error| Error::new(error.to_string()))?);
    Ok(())
}

fn int_or_string(value: &Value, place: &Place<'_>) -> Result<(), Error> {
    let sent = match value {
        Value::Number(number) => match number.as_i64() {
            Some(number) if i32::try_from(number).is_ok() => return Ok(()),
            _ => return Err(wrong_number(number, place, "int32")),
        },
        other => json_kind(other),
    };
    Err(wrong_type(&sent, Some(place), "int32"))
}

fn time(value: &mut Value, precision: Precision, place: &Place<'_>) -> Result<(), Error> {
    let Value::String(text) = &*value else {
        return Err(wrong_type(&json_kind(value), Some(place), "string"));
    };
    match time::rewrite(text, precision).map_err(Error::new)? {
        CanonicalTime::Unchanged => {}
        CanonicalTime::Null => *value = Value::Null,
        CanonicalTime::Rewritten(written) => *value = Value::String(written),
    }
    Ok(())
}

/// Rewrites bytes that were sent as a list of numbers, which Go accepts too.
fn byte_list(value: &mut Value, place: &Place<'_>) -> Result<(), Error> {
    let sent = value.as_array().into_iter().flatten().map(|element| match element {
        Value::Null => Ok(0),
        Value::Number(number) => number
            .as_u64()
            .and_then(|it| u8::try_from(it).ok())
            .ok_or_else(|| wrong_type(&format!("number {number}"), Some(place), "uint8")),
        other => Err(wrong_type(&json_kind(other), Some(place), "uint8")),
    });
    let sent: Vec<u8> = sent.collect::<Result<_, _>>()?;
    *value = Value::String(bytes::encode(&sent));
    Ok(())
}

fn strings(elements: &mut [Value], place: &Place<'_>) -> Result<(), Error> {
    for element in elements {
        match element {
            Value::String(_) => {}
            Value::Null => *element = Value::String(String::new()),
            other => return Err(wrong_type(&json_kind(other), Some(place), "string")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
