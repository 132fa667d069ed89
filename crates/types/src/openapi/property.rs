//! The schema of one field: what its values are, and how patches and server-side apply treat them.

use super::reference;
use crate::{Container, Emit, Field, Item, ListType, Type};
use machinery::{Map, Value, json};

/// The schema of a field of `owner`.
pub(super) fn of(owner: &'static Type, field: &Field, description: Option<&str>) -> Value {
    let mut own = extensions(field);
    if let Some(description) = description {
        own.insert("description".to_owned(), description.into());
    }
    if let Some(default) = default(field) {
        own.insert("default".to_owned(), default);
    }
    let mut item = item(owner, field.item);
    if field.enums().len() > 0 {
        item.insert("enum".to_owned(), field.enums().collect());
    }
    match field.container {
        Container::List => {
            own.insert("type".to_owned(), "array".into());
            own.insert("items".to_owned(), item.into());
        }
        Container::Map => {
            own.insert("type".to_owned(), "object".into());
            own.insert("additionalProperties".to_owned(), item.into());
        }
        // Version 3.0 ignores the siblings of a reference, so the reference is wrapped in `allOf`.
        Container::One if item.contains_key("$ref") && !own.is_empty() => {
            own.insert("allOf".to_owned(), json!([item]));
        }
        Container::One => own.extend(item),
    }
    own.into()
}

/// The schema of one value.
fn item(owner: &'static Type, item: Item) -> Map<String, Value> {
    if let Some(reference) = reference(owner, item) {
        return Map::from_iter([("$ref".to_owned(), reference.into())]);
    }
    let (kind, format) = match item {
        Item::Int32 => ("integer", "int32"),
        Item::Int64 => ("integer", "int64"),
        Item::Bool => ("boolean", ""),
        Item::Double => ("number", "double"),
        Item::Bytes => ("string", "byte"),
        Item::Strings => {
            let texts = json!({"type": "string"});
            let list = [("type".to_owned(), "array".into()), ("items".to_owned(), texts)];
            return Map::from_iter(list);
        }
        _ => ("string", ""),
    };
    let mut schema = Map::from_iter([("type".to_owned(), kind.into())]);
    if !format.is_empty() {
        schema.insert("format".to_owned(), format.into());
    }
    schema
}

/// The declared default, or else Go's zero for a field that Go always writes.
fn default(field: &Field) -> Option<Value> {
    if let Some(declared) = field.default() {
        return Some(serde_json::from_str(declared).expect("the table's defaults are JSON"));
    }
    if field.container != Container::One || field.emit != Emit::Always {
        return None;
    }
    match field.item {
        Item::String => Some(json!("")),
        Item::Int32 | Item::Int64 | Item::Double => Some(json!(0)),
        Item::Bool => Some(json!(false)),
        Item::Message(_) => Some(json!({})),
        _ => None,
    }
}

fn extensions(field: &Field) -> Map<String, Value> {
    let mut all = Map::new();
    let mut add = |name: &str, value: Value| all.insert(format!("x-kubernetes-{name}"), value);
    match field.list {
        ListType::Unset => None,
        ListType::Atomic => add("list-type", "atomic".into()),
        ListType::Set => add("list-type", "set".into()),
        ListType::Map => {
            add("list-map-keys", field.keys().collect());
            add("list-type", "map".into())
        }
    };
    match (field.merge, field.retain_keys) {
        (false, false) => None,
        (true, false) => add("patch-strategy", "merge".into()),
        (false, true) => add("patch-strategy", "retainKeys".into()),
        (true, true) => add("patch-strategy", "merge,retainKeys".into()),
    };
    if let Some(key) = field.merge_key() {
        add("patch-merge-key", key.into());
    }
    // A type declares that it is atomic; a field declares it only where it differs.
    let of_type = field.message().is_some_and(|ty| ty.atomic);
    match (field.container, field.atomic) {
        (Container::Map, true) => add("map-type", "atomic".into()),
        (Container::One, true) if !of_type => add("map-type", "atomic".into()),
        (Container::One, false) if of_type => add("map-type", "granular".into()),
        _ => None,
    };
    all
}
