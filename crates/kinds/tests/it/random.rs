//! Random objects of a type: each field is set with some probability, and never to a value that
//! protobuf cannot distinguish from an unset field.

use serde_json::{Map, Value, json};

use types::{Container, Field, Item, Type};

/// An object of `ty`, always the same for the same seed.
pub(crate) fn object(ty: &'static Type, seed: u64) -> Value {
    Value::Object(Random { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }.object(ty, 0))
}

struct Random {
    state: u64,
}

impl Random {
    /// The next number of an xorshift generator, less than `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 16) % limit
    }

    fn object(&mut self, ty: &'static Type, depth: u64) -> Map<String, Value> {
        let mut object = Map::new();
        for field in ty.fields() {
            // Without `kind` and `apiVersion`, which messages do not have.
            if field.number != 0 && depth < 8 && self.below(depth + 2) == 0 {
                object.insert(field.json().to_owned(), self.field(ty, field, depth));
            }
        }
        object
    }

    fn field(&mut self, owner: &'static Type, field: &Field, depth: u64) -> Value {
        let count = 1 + self.below(3);
        match field.container {
            Container::One => self.item(owner, field.item, depth),
            Container::List => (0..count).map(|_| self.item(owner, field.item, depth)).collect(),
            Container::Map => {
                let entry = |_| (self.text(), self.item(owner, field.item, depth));
                Value::Object((0..count).map(entry).collect())
            }
        }
    }

    fn item(&mut self, owner: &'static Type, item: Item, depth: u64) -> Value {
        let schema = |random: &mut Self| Value::Object(random.object(owner, depth + 1));
        match item {
            Item::String => self.text().into(),
            Item::Int32 => json!(self.below(1 << 32).cast_signed() - (1 << 31)),
            Item::Int64 => json!((self.below(1 << 48) << 12).cast_signed() - (1 << 59)),
            Item::Bool => (self.below(2) == 0).into(),
            Item::Double => json!(f64::from(u32::try_from(self.below(1000)).unwrap()) / 8.0),
            Item::Bytes => ["AA==", "AAEC", "/+8="][self.index(3)].into(),
            Item::Quantity => ["1", "250m", "1Gi", "0"][self.index(4)].into(),
            Item::IntOrString => {
                [json!(-7), json!("25%"), json!(0), json!("")][self.index(4)].clone()
            }
            Item::Time => "2026-01-02T03:04:05Z".into(),
            Item::MicroTime => "1969-01-02T03:04:05.678901Z".into(),
            Item::RawExtension | Item::FieldsV1 => json!({"a": [1, null, {"b": self.text()}]}),
            Item::Json => {
                [json!([1.5, "x"]), json!({"a": {}}), json!(false)][self.index(3)].clone()
            }
            Item::Strings => json!([self.text(), self.text()]),
            Item::SchemaOrBool if self.below(2) == 0 => (self.below(2) == 0).into(),
            Item::SchemaOrArray if self.below(2) == 0 => json!([schema(self), schema(self)]),
            Item::SchemaOrStrings if self.below(2) == 0 => json!([self.text()]),
            Item::SchemaOrBool | Item::SchemaOrArray | Item::SchemaOrStrings => schema(self),
            Item::Message(id) => Value::Object(self.object(id.get(), depth + 1)),
        }
    }

    fn text(&mut self) -> String {
        ["", "a", "ü", "with space", "x.y/z"][self.index(5)].to_owned()
    }

    fn index(&mut self, limit: u64) -> usize {
        usize::try_from(self.below(limit)).unwrap()
    }
}
