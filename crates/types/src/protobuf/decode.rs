//! Protobuf to JSON values, one field after the other.
//!
//! The bytes may be hostile: depth is limited as it is for JSON, nothing is allocated for lengths
//! that are only claimed, and a message that comes twice is merged, not kept twice.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Number, Value};

use super::wire::{Error, Reader, WireType};
use crate::{Container, Field, Item, Type};
use machinery::codec::json;
use machinery::timestamp;

/// The maximum depth of messages: less than that of JSON, whose reader does not use the thread's
/// stack, but far more than that of any schema in a CRD, the one recursive type.
pub(super) const DEPTH_MAX: usize = 300;

/// The seconds that JSON can write: from the year 0 to the end of 9999.
const TIMES: std::ops::RangeInclusive<i64> = -62_167_219_200..=253_402_300_799;

/// Merges a message into an object that is `depth` levels down.
pub(super) fn message(
    ty: &'static Type,
    bytes: &[u8],
    object: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), Error> {
    if depth >= DEPTH_MAX {
        return Err(too_deep());
    }
    let mut reader = Reader::new(bytes);
    while let Some((field_number, wire_type)) = reader.key(ty.short_name())? {
        let found = ty.wire().binary_search_by_key(&field_number, |field| field.number.into());
        match found {
            Ok(at) => field(ty, &ty.wire()[at], wire_type, &mut reader, object, depth)?,
            Err(_) => reader.skip(wire_type)?,
        }
    }
    Ok(())
}

fn field(
    owner: &'static Type,
    field: &'static Field,
    wire_type: WireType,
    reader: &mut Reader<'_>,
    object: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), Error> {
    if let Some(inline) = field.message().filter(|_| field.inline) {
        return message(inline, length_delimited(field, wire_type, reader)?, object, depth);
    }
    match field.container {
        Container::One => {
            let slot = slot(object, field.json(), Value::Null);
            value(owner, field, wire_type, reader, slot, depth + 1)
        }
        Container::List => {
            let Value::Array(list) = slot(object, field.json(), Value::Array(Vec::new())) else {
                return Ok(());
            };
            if is_packed(field.item, wire_type) {
                return packed(field.item, reader.bytes()?, list);
            }
            let mut element = Value::Null;
            value(owner, field, wire_type, reader, &mut element, depth + 2)?;
            list.push(element);
            Ok(())
        }
        Container::Map => {
            let Value::Object(map) = slot(object, field.json(), Value::Object(Map::new())) else {
                return Ok(());
            };
            entry(owner, field, length_delimited(field, wire_type, reader)?, map, depth + 2)
        }
    }
}

/// The value of a member, which is inserted as `first` if it is missing.
fn slot<'a>(object: &'a mut Map<String, Value>, name: &str, first: Value) -> &'a mut Value {
    // Looked up twice, so that only the first element of a list costs a copy of the name.
    if object.contains_key(name) {
        return &mut object[name];
    }
    object.entry(name).or_insert(first)
}

/// One entry of a map: key (1) and value (2), of which either may be missing.
fn entry(
    owner: &'static Type,
    field: &'static Field,
    bytes: &[u8],
    map: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), Error> {
    let mut reader = Reader::new(bytes);
    let mut key = String::new();
    let mut found = Value::Null;
    while let Some((field_number, wire_type)) = reader.key("entry")? {
        match field_number {
            1 => key = text(length_delimited(field, wire_type, &mut reader)?),
            2 => value(owner, field, wire_type, &mut reader, &mut found, depth)?,
            _ => reader.skip(wire_type)?,
        }
    }
    map.insert(key, found);
    Ok(())
}

/// Whether a list of numbers is packed into one field. Go reads lists in both forms.
fn is_packed(item: Item, wire_type: WireType) -> bool {
    wire_type == WireType::Length
        && matches!(item, Item::Int32 | Item::Int64 | Item::Bool | Item::Double)
}

fn packed(item: Item, bytes: &[u8], list: &mut Vec<Value>) -> Result<(), Error> {
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        list.push(match item {
            Item::Double => double(&mut reader)?,
            _ => number(item, reader.varint()?),
        });
    }
    Ok(())
}

/// Reads one value into `into`, which may hold a part of a message already.
fn value(
    owner: &'static Type,
    field: &'static Field,
    wire_type: WireType,
    reader: &mut Reader<'_>,
    into: &mut Value,
    depth: usize,
) -> Result<(), Error> {
    *into = match field.item {
        Item::Int32 | Item::Int64 | Item::Bool => {
            expect(field, wire_type, WireType::Varint)?;
            number(field.item, reader.varint()?)
        }
        Item::Double => {
            expect(field, wire_type, WireType::Fixed64)?;
            double(reader)?
        }
        Item::Message(id) => {
            let bytes = length_delimited(field, wire_type, reader)?;
            return message(id.get(), bytes, as_object(into), depth);
        }
        _ => {
            let bytes = length_delimited(field, wire_type, reader)?;
            special(owner, field.item, bytes, depth)?
        }
    };
    Ok(())
}

fn as_object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("an object was just assigned")
}

/// A length-delimited value that JSON does not write as an object.
fn special(owner: &'static Type, item: Item, bytes: &[u8], depth: usize) -> Result<Value, Error> {
    let schema = |bytes: &[u8], depth: usize| {
        let mut object = Map::new();
        message(owner, bytes, &mut object, depth).map(|()| Value::Object(object))
    };
    match item {
        Item::Bytes => return Ok(BASE64_STANDARD.encode(bytes).into()),
        Item::String => return Ok(text(bytes).into()),
        Item::Time | Item::MicroTime if bytes.is_empty() => return Ok(Value::Null),
        _ => {}
    }
    let parts = Parts::read(item, bytes)?;
    let all = |field_number: u32| {
        parts.bytes.iter().filter(move |it| it.0 == field_number).map(|it| it.1)
    };
    let last = |field_number: u32| all(field_number).next_back();
    match item {
        Item::Quantity => Ok(last(1).map_or_else(|| "0".into(), |it| text(it).into())),
        Item::IntOrString => match parts.first {
            0 => Ok(number(Item::Int32, parts.second)),
            1 => Ok(last(3).map(text).unwrap_or_default().into()),
            _ => Err(Error::new("impossible IntOrString.Type")),
        },
        Item::Time | Item::MicroTime => time(item, parts.first, parts.second),
        Item::RawExtension | Item::Json | Item::FieldsV1 => {
            last(1).map_or(Ok(Value::Null), |it| raw(it, depth))
        }
        Item::Strings => Ok(all(1).map(text).collect()),
        Item::SchemaOrBool => last(2).map_or(Ok((parts.first != 0).into()), |it| schema(it, depth)),
        Item::SchemaOrArray => match last(1) {
            Some(it) => schema(it, depth),
            None => all(2).map(|it| schema(it, depth + 1)).collect(),
        },
        Item::SchemaOrStrings => match last(1) {
            Some(it) => schema(it, depth),
            None => Ok(all(2).map(text).collect()),
        },
        _ => Ok(Value::Null),
    }
}

/// The fields of one of the small messages that are not objects in JSON.
#[derive(Default)]
struct Parts<'a> {
    /// The number of field 1.
    first: u64,
    /// The number of field 2.
    second: u64,
    /// Everything else: (field number, bytes).
    bytes: Vec<(u32, &'a [u8])>,
}

impl<'a> Parts<'a> {
    fn read(item: Item, bytes: &'a [u8]) -> Result<Self, Error> {
        let mut parts = Self::default();
        let mut reader = Reader::new(bytes);
        while let Some((field_number, wire_type)) = reader.key(format_args!("{item:?}"))? {
            match (field_number, wire_type) {
                (1, WireType::Varint) => parts.first = reader.varint()?,
                (2, WireType::Varint) => parts.second = reader.varint()?,
                (_, WireType::Length) => parts.bytes.push((field_number, reader.bytes()?)),
                _ => reader.skip(wire_type)?,
            }
        }
        Ok(parts)
    }
}

fn time(item: Item, seconds: u64, nanos: u64) -> Result<Value, Error> {
    let seconds = seconds.cast_signed();
    if !TIMES.contains(&seconds) {
        return Err(Error::new("Time.MarshalJSON: year outside of range [0,9999]"));
    }
    if item == Item::Time {
        return Ok(timestamp::format_seconds(seconds).into());
    }
    let nanos = u32::try_from(nanos).ok().filter(|it| *it < 1_000_000_000);
    let nanos = nanos.ok_or_else(|| Error::new("Timestamp: nanos out of range"))?;
    Ok(timestamp::format_micros(seconds, nanos).into())
}

/// A value that is JSON text within the message.
fn raw(bytes: &[u8], depth: usize) -> Result<Value, Error> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let value = json::decode(bytes).map_err(|error| Error::new(error.to_string()))?.value;
    if depth + levels(&value) > json::DEPTH_MAX {
        return Err(too_deep());
    }
    Ok(value)
}

fn levels(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(levels).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(levels).max().unwrap_or(0),
        _ => 0,
    }
}

/// As in Go, 32-bit numbers are truncated, and every non-zero number is true.
fn number(item: Item, value: u64) -> Value {
    match item {
        Item::Bool => (value != 0).into(),
        #[expect(clippy::cast_possible_truncation, reason = "as Go does")]
        Item::Int32 => (value as i32).into(),
        _ => value.cast_signed().into(),
    }
}

fn double(reader: &mut Reader<'_>) -> Result<Value, Error> {
    let value = reader.double()?;
    let number = Number::from_f64(value).map(Value::Number);
    number.ok_or_else(|| Error::new(format!("json: unsupported value: {value}")))
}

/// Go's strings need not be UTF-8, but its JSON is.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn length_delimited<'a>(
    field: &Field,
    wire_type: WireType,
    reader: &mut Reader<'a>,
) -> Result<&'a [u8], Error> {
    expect(field, wire_type, WireType::Length)?;
    reader.bytes()
}

fn expect(field: &Field, found: WireType, wanted: WireType) -> Result<(), Error> {
    if found == wanted {
        return Ok(());
    }
    let (found, json) = (found as u8, field.json());
    // Nearly every Go field has the name of the JSON field, with an upper-case first letter.
    let mut name = json.to_owned();
    if let Some(first) = name.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    Err(Error::new(format!("proto: wrong wireType = {found} for field {name}")))
}

fn too_deep() -> Error {
    Error::new("exceeded max depth")
}
