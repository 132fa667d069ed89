//! JSON text to protobuf in one pass: fields are written in the order in which they come, without
//! a tree in between.
//!
//! A field of an inline message becomes a message around that one field. A reader must merge such
//! messages, which is protobuf's rule for a repeated occurrence.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize as _;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::wire::{Nested, push_bytes, push_double, push_int};
use crate::{Container, Field, Item, Type};
use machinery::timestamp;

/// Appends the message of a JSON object. Values that do not fit the type are omitted; a value from
/// [`crate::normalize()`] has none.
pub fn write_message(
    ty: &'static Type,
    json: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), serde_json::Error> {
    read(json, Fields { ty, out })
}

/// Appends the message as a field of another message, e.g. as an item of a list.
pub fn write_field(
    field_number: u16,
    ty: &'static Type,
    json: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), serde_json::Error> {
    let nested = Nested::begin(out, field_number);
    read(json, Fields { ty, out })?;
    nested.end(out);
    Ok(())
}

fn read(json: &[u8], fields: Fields<'_>) -> Result<(), serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    // The depth was limited when the object was decoded.
    reader.disable_recursion_limit();
    fields.deserialize(&mut reader)?;
    reader.end()
}

/// The fields of a message.
struct Fields<'a> {
    ty: &'static Type,
    out: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { ty, out } = self;
        while let Some(field) = map.next_key_seed(FieldName(ty))? {
            match field {
                // `kind` and `apiVersion` are in the envelope.
                Some(field) if field.number != 0 => {
                    let inline_messages = begin_inline(ty, field, out);
                    let expected = ExpectedValue::of(field);
                    map.next_value_seed(Slot {
                        owner: ty,
                        expected,
                        field_number: field.number,
                        out: &mut *out,
                    })?;
                    inline_messages.into_iter().rev().for_each(|it| it.end(out));
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// Begins the inline messages that contain a field, the outermost first. Most fields have none.
fn begin_inline(ty: &Type, field: &Field, out: &mut Vec<u8>) -> Vec<Nested> {
    let mut begun = Vec::new();
    let mut ty = ty;
    while !ty.wire().as_ptr_range().contains(&std::ptr::from_ref(field)) {
        let has_field =
            |it: &&Type| it.field(field.json()).is_some_and(|it| std::ptr::eq(it, field));
        let mut inline = ty.wire().iter().filter(|it| it.inline);
        let found = inline.find_map(|it| Some((it.number, it.message().filter(has_field)?)));
        let Some((field_number, inner)) = found else { break };
        begun.push(Nested::begin(out, field_number));
        ty = inner;
    }
    begun
}

/// Looks up a field by its name.
struct FieldName(&'static Type);

impl<'de> DeserializeSeed<'de> for FieldName {
    type Value = Option<&'static Field>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for FieldName {
    type Value = Option<&'static Field>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.field(name))
    }
}

/// Begins an entry of a map with its key: (field number of the map, output).
struct EntryKey<'a>(u16, &'a mut Vec<u8>);

impl<'de> DeserializeSeed<'de> for EntryKey<'_> {
    type Value = Nested;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Nested, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for EntryKey<'_> {
    type Value = Nested;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Nested, E> {
        let Self(field_number, out) = self;
        let entry = Nested::begin(out, field_number);
        push_bytes(out, 1, key.as_bytes());
        Ok(entry)
    }
}

/// The type of a value.
#[derive(Clone, Copy)]
enum ExpectedValue {
    List(&'static Field),
    Map(&'static Field),
    Message(&'static Type),
    Other(Item),
}

impl ExpectedValue {
    fn of(field: &'static Field) -> Self {
        match field.container {
            Container::One => Self::one(field),
            Container::List => Self::List(field),
            Container::Map => Self::Map(field),
        }
    }

    /// One value of a field.
    fn one(field: &'static Field) -> Self {
        field.message().map_or(Self::Other(field.item), Self::Message)
    }
}

/// The destination of a value: a field of the message that is being written.
struct Slot<'a> {
    /// The type that the field belongs to.
    owner: &'static Type,
    expected: ExpectedValue,
    field_number: u16,
    out: &'a mut Vec<u8>,
}

impl Slot<'_> {
    /// The slot of a field of this message, or of an element of this list.
    fn inner(&mut self, expected: ExpectedValue, field_number: u16) -> Slot<'_> {
        Slot { owner: self.owner, expected, field_number, out: self.out }
    }

    /// Writes a value that is a message, with the output of `fields`.
    fn message(self, fields: impl FnOnce(&mut Vec<u8>)) {
        let nested = Nested::begin(self.out, self.field_number);
        fields(self.out);
        nested.end(self.out);
    }

    fn integer(self, value: i64) {
        let ExpectedValue::Other(item) = self.expected else { return };
        match item {
            Item::Int32 | Item::Int64 => push_int(self.out, self.field_number, value),
            #[expect(clippy::cast_precision_loss, reason = "as JSON's numbers are read elsewhere")]
            Item::Double => push_double(self.out, self.field_number, value as f64),
            Item::Quantity => self.message(|out| push_bytes(out, 1, value.to_string().as_bytes())),
            // {type (1), intVal (2)}
            Item::IntOrString => self.message(|out| {
                push_int(out, 1, 0);
                push_int(out, 2, value);
            }),
            _ => {}
        }
    }

    fn text(self, text: &str) {
        let ExpectedValue::Other(item) = self.expected else { return };
        match item {
            Item::String => push_bytes(self.out, self.field_number, text.as_bytes()),
            Item::Bytes => {
                if let Ok(bytes) = BASE64_STANDARD.decode(text) {
                    push_bytes(self.out, self.field_number, &bytes);
                }
            }
            Item::Quantity => self.message(|out| push_bytes(out, 1, text.as_bytes())),
            // {type (1), strVal (3)}
            Item::IntOrString => self.message(|out| {
                push_int(out, 1, 1);
                push_bytes(out, 3, text.as_bytes());
            }),
            // {seconds (1), nanos (2)}
            Item::Time | Item::MicroTime => {
                let Some((seconds, nanos)) = timestamp::parse(text) else { return };
                self.message(|out| {
                    push_int(out, 1, seconds);
                    if item == Item::MicroTime {
                        push_int(out, 2, (nanos - nanos % 1000).into());
                    }
                });
            }
            _ => {}
        }
    }
}

impl<'de> DeserializeSeed<'de> for Slot<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.expected {
            // {raw (1)}, with the JSON text unchanged
            ExpectedValue::Other(Item::RawExtension | Item::Json | Item::FieldsV1) => {
                let raw = Box::<RawValue>::deserialize(deserializer)?;
                if raw.get() != "null" {
                    self.message(|out| push_bytes(out, 1, raw.get().as_bytes()));
                }
                Ok(())
            }
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Slot<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        match self.expected {
            ExpectedValue::Other(Item::Bool) => push_int(self.out, self.field_number, value.into()),
            // {allows (1)}
            ExpectedValue::Other(Item::SchemaOrBool) => {
                self.message(|out| push_int(out, 1, value.into()));
            }
            _ => {}
        }
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.integer(value);
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        if let Ok(value) = i64::try_from(value) {
            self.integer(value);
        }
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        if let ExpectedValue::Other(Item::Double) = self.expected {
            push_double(self.out, self.field_number, value);
        }
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.text(text);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        let (element, field_number) = match self.expected {
            ExpectedValue::List(field) => {
                while list
                    .next_element_seed(self.inner(ExpectedValue::one(field), field.number))?
                    .is_some()
                {}
                return Ok(());
            }
            // {items (1)}
            ExpectedValue::Other(Item::Strings) => (ExpectedValue::Other(Item::String), 1),
            // {property (2)}
            ExpectedValue::Other(Item::SchemaOrStrings) => (ExpectedValue::Other(Item::String), 2),
            // {jSONSchemas (2)}
            ExpectedValue::Other(Item::SchemaOrArray) => (ExpectedValue::Message(self.owner), 2),
            _ => {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(());
            }
        };
        let nested = Nested::begin(self.out, self.field_number);
        while list.next_element_seed(self.inner(element, field_number))?.is_some() {}
        nested.end(self.out);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        match self.expected {
            // Each entry is a message, {key (1), value (2)}.
            ExpectedValue::Map(field) => {
                while let Some(entry) = map.next_key_seed(EntryKey(self.field_number, self.out))? {
                    map.next_value_seed(self.inner(ExpectedValue::one(field), 2))?;
                    entry.end(self.out);
                }
            }
            ExpectedValue::Message(ty) => {
                let nested = Nested::begin(self.out, self.field_number);
                Fields { ty, out: self.out }.visit_map(map)?;
                nested.end(self.out);
            }
            // {allows (1), schema (2)}, or {schema (1)}
            ExpectedValue::Other(
                it @ (Item::SchemaOrBool | Item::SchemaOrArray | Item::SchemaOrStrings),
            ) => {
                let nested = Nested::begin(self.out, self.field_number);
                let mut field_number = 1;
                if it == Item::SchemaOrBool {
                    push_int(self.out, 1, 1);
                    field_number = 2;
                }
                self.inner(ExpectedValue::Message(self.owner), field_number).visit_map(map)?;
                nested.end(self.out);
            }
            _ => while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {},
        }
        Ok(())
    }
}
