//! [`Ordered`]: JSON with its fields in the order in which Go's encoder writes them.
//!
//! Go writes the fields of a struct as they are declared, and the keys of a map sorted. Built-in
//! kinds are structs at every depth, custom resources are maps at every depth:
//!
//! ```
//! use types::Ordered;
//! use serde_json::json;
//!
//! let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"uid": "1", "name": "a"}});
//! let text = serde_json::to_string(&Ordered::document(&object)).expect("JSON can be written");
//! assert_eq!(text, r#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a","uid":"1"}}"#);
//! ```
//!
//! A field that the type does not have comes after those that it has.

mod field_set;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

use super::{Container, Field, Item, Type, find, of_kind};
use field_set::FieldSet;

/// See the [module documentation](self).
#[derive(Debug, Clone, Copy)]
pub struct Ordered<'a>(FieldOrder, &'a Value);

/// What determines the order of an object's fields.
#[derive(Debug, Clone, Copy)]
enum FieldOrder {
    /// They are sorted, at every depth.
    Sorted,
    /// The type of one value.
    Type(&'static Type),
    /// The field that has the value, and the type that has the field.
    Field(&'static Type, &'static Field),
    /// The same, for an element of the field's list or map.
    Element(&'static Type, &'static Field),
}

impl<'a> Ordered<'a> {
    /// A value in the order of a built-in type, or sorted if there is none.
    pub fn new(ty: Option<&'static Type>, value: &'a Value) -> Self {
        Self(ty.map_or(FieldOrder::Sorted, FieldOrder::Type), value)
    }

    /// An object or a document whose `kind` and `apiVersion` determine its type.
    pub fn document(value: &'a Value) -> Self {
        Self::new(type_of(value), value)
    }
}

/// An object as [`Ordered`], without a value around its map.
pub(crate) struct OrderedMap<'a>(pub(crate) &'static Type, pub(crate) &'a Map<String, Value>);

impl Serialize for OrderedMap<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write_message(self.0, self.1, serializer)
    }
}

/// The built-in type of a document. Discovery documents and Status are of `v1`, or have no version.
fn type_of(value: &Value) -> Option<&'static Type> {
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    of_kind(api_version, kind).or_else(|| match api_version {
        "" | "v1" => of_kind("meta.k8s.io/v1", kind),
        // Its fields are those of v1.
        "admission.k8s.io/v1beta1" => find("admission/v1.AdmissionReview"),
        _ => None,
    })
}

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(order, value) = *self;
        match (order, value) {
            (FieldOrder::Type(ty), Value::Object(map)) => write_message(ty, map, serializer),
            (FieldOrder::Field(owner, field), Value::Array(list))
                if field.container == Container::List =>
            {
                serializer
                    .collect_seq(list.iter().map(|it| Self(FieldOrder::Element(owner, field), it)))
            }
            (FieldOrder::Field(owner, field), Value::Object(map))
                if field.container == Container::Map =>
            {
                let order = FieldOrder::Element(owner, field);
                serializer.collect_map(map.iter().map(|(key, it)| (key, Self(order, it))))
            }
            (FieldOrder::Field(owner, field) | FieldOrder::Element(owner, field), value) => {
                write_item(owner, field.item, value, serializer)
            }
            (FieldOrder::Sorted | FieldOrder::Type(_), value) => value.serialize(serializer),
        }
    }
}

fn write_item<S: Serializer>(
    owner: &'static Type,
    item: Item,
    value: &Value,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match (item, value) {
        (Item::Message(id), Value::Object(map)) => write_message(id.get(), map, serializer),
        (Item::FieldsV1, Value::Object(map)) => FieldSet(map).serialize(serializer),
        (Item::RawExtension, value @ Value::Object(_)) => {
            Ordered::document(value).serialize(serializer)
        }
        (
            Item::SchemaOrBool | Item::SchemaOrArray | Item::SchemaOrStrings,
            Value::Object(schema),
        ) => write_message(owner, schema, serializer),
        (Item::SchemaOrArray, Value::Array(schemas)) => {
            serializer.collect_seq(schemas.iter().map(|it| Ordered(FieldOrder::Type(owner), it)))
        }
        (_, value) => value.serialize(serializer),
    }
}

fn write_message<S: Serializer>(
    ty: &'static Type,
    map: &Map<String, Value>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut members: Vec<(u8, &String, Ordered<'_>)> = map
        .iter()
        .map(|(name, value)| match ty.declared(name) {
            Some((place, field)) => (place, name, Ordered(FieldOrder::Field(ty, field), value)),
            None => (u8::MAX, name, Ordered(FieldOrder::Sorted, value)),
        })
        .collect();
    members.sort_by_key(|(place, ..)| *place);
    let mut object = serializer.serialize_map(Some(members.len()))?;
    for (_, name, value) in &members {
        object.serialize_entry(name, value)?;
    }
    object.end()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(value: &Value, expect: &str) {
        assert_eq!(serde_json::to_string(&Ordered::document(value)).unwrap(), expect);
    }

    #[test]
    fn fields_are_in_the_order_of_their_declaration_at_every_depth() {
        check(
            &json!({"apiVersion": "v1", "kind": "Pod", "spec": {
                "containers": [{"image": "i", "name": "c", "env": [{"value": "1", "name": "e"}]}],
                "initContainers": [], "volumes": [{"emptyDir": {"sizeLimit": "1", "medium": "m"}, "name": "v"}]},
                "metadata": {"labels": {"b": "1", "a": "2"}, "name": "p"}}),
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","labels":{"a":"2","b":"1"}},"spec":{"volumes":[{"name":"v","emptyDir":{"medium":"m","sizeLimit":"1"}}],"initContainers":[],"containers":[{"name":"c","image":"i","env":[{"name":"e","value":"1"}]}]}}"#,
        );
    }

    #[test]
    fn a_field_without_a_declaration_comes_last() {
        check(
            &json!({"apiVersion": "v1", "kind": "Secret", "aaa": 1, "type": "t"}),
            r#"{"kind":"Secret","apiVersion":"v1","type":"t","aaa":1}"#,
        );
    }

    #[test]
    fn a_custom_resource_is_sorted() {
        check(
            &json!({"kind": "Widget", "apiVersion": "a.b/v1", "metadata": {"uid": "u", "name": "n"}, "data": 1}),
            r#"{"apiVersion":"a.b/v1","data":1,"kind":"Widget","metadata":{"name":"n","uid":"u"}}"#,
        );
    }

    #[test]
    fn a_custom_kind_with_the_name_of_a_built_in_one_is_sorted() {
        check(
            &json!({"kind": "Status", "apiVersion": "a.b/v1", "metadata": {}, "code": 1}),
            r#"{"apiVersion":"a.b/v1","code":1,"kind":"Status","metadata":{}}"#,
        );
    }

    #[test]
    fn a_schema_inside_a_crd_is_in_the_order_of_schemas() {
        check(
            &json!({"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1",
                "spec": {"versions": [{"schema": {"openAPIV3Schema": {"properties": {"a": {
                    "items": {"type": "object", "description": "d"}, "type": "array",
                    "additionalProperties": {"type": "string", "format": "f", "description": "d"}}}}}}]}}),
            r#"{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","spec":{"versions":[{"schema":{"openAPIV3Schema":{"properties":{"a":{"type":"array","items":{"description":"d","type":"object"},"additionalProperties":{"description":"d","type":"string","format":"f"}}}}}}]}}"#,
        );
    }
}
