//! Checks that `x-kubernetes-list-type` and `x-kubernetes-map-type` are consistent with the schema
//! that contains them.

use crate::json_schema::JsonSchema;
use machinery::{ErrorList, Path, Value};

const LIST_TYPE: &str = "x-kubernetes-list-type";
const LIST_KEYS: &str = "x-kubernetes-list-map-keys";
const MAP_TYPE: &str = "x-kubernetes-map-type";

/// Checks one schema, not those below.
pub(super) fn check(source: JsonSchema<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    check_map_type(source, path, errors);
    let keys: Vec<&str> = source.texts(LIST_KEYS).collect();
    let list_type = source.value(LIST_TYPE).and_then(Value::as_str);
    let is_known = list_type.is_none_or(|it| ["atomic", "set", "map"].contains(&it));
    let is_array = match list_type {
        None => false,
        Some(_) => has_type(source, "array", LIST_TYPE, path, errors),
    };
    if let Some(other) = list_type.filter(|_| is_array && !is_known) {
        errors.not_supported(&path.child(LIST_TYPE), other, &["atomic", "set", "map"]);
    }
    if !keys.is_empty() && list_type != Some("map") {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        match list_type {
            None => errors.required(&path.child(LIST_TYPE), detail),
            Some(other) => errors.invalid(&path.child(LIST_TYPE), other, detail),
        }
    }
    let Some(list_type) = list_type.filter(|_| is_known) else { return };
    match list_type {
        "set" if is_array => check_set(source, path, errors),
        "map" => check_map(source, &keys, path, errors),
        _ => {}
    }
    let nullable = source.schema("items").is_some_and(|items| items.flag("nullable"));
    if nullable && list_type != "atomic" {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.forbidden(&path.child("items").child("nullable"), &detail);
    }
}

/// Checks that the schema has the type that the extension needs, and adds an error if not.
fn has_type(
    source: JsonSchema<'_>,
    kind: &str,
    extension: &str,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> bool {
    let found = source.text("type");
    let detail = format!("must be {kind} if {extension} is specified");
    match found {
        "" => errors.required(&path.child("type"), &detail),
        found if found != kind => errors.invalid(&path.child("type"), found, &detail),
        _ => return true,
    }
    false
}

fn check_map_type(source: JsonSchema<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(map_type) = source.value(MAP_TYPE).and_then(Value::as_str) else { return };
    has_type(source, "object", MAP_TYPE, path, errors);
    if !matches!(map_type, "atomic" | "granular") {
        errors.not_supported(&path.child(MAP_TYPE), map_type, &["atomic", "granular"]);
    }
}

/// The items of a set are compared as wholes, so they may not be merged field by field.
fn check_set(source: JsonSchema<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(items) = source.schema("items") else { return };
    let extension = match items.text("type") {
        "array" if !matches!(items.list_type(), "" | "atomic") => LIST_TYPE,
        "object" if items.text(MAP_TYPE) != "atomic" => MAP_TYPE,
        _ => return,
    };
    let value = items.value(LIST_TYPE).cloned().unwrap_or_default();
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    errors.invalid(&path.child("items").child(extension), value, detail);
}

fn check_map(source: JsonSchema<'_>, keys: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    let keys_path = path.child(LIST_KEYS);
    let items_path = path.child("items");
    if keys.is_empty() {
        errors.required(&keys_path, "must not be empty if x-kubernetes-list-type is map");
    }
    let Some(items) = source.schema("items") else {
        let detail = "must have a schema if x-kubernetes-list-type is map";
        if source.value("items").is_none() {
            errors.required(&items_path, detail);
        }
        return;
    };
    let kind = items.text("type");
    if kind != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.invalid(&items_path.child("type"), kind, detail);
    }
    for (index, key) in keys.iter().enumerate() {
        if let Some(property) = items.property(key) {
            check_key(items, key, property, &items_path, errors);
        } else if kind == "object" {
            let detail = "entries must all be names of item properties";
            errors.invalid(&keys_path, keys.to_vec(), detail);
        }
        if kind == "object" && keys[..index].contains(key) {
            errors.invalid(&keys_path, keys.to_vec(), "must not contain duplicate entries");
        }
    }
}

/// A key must be a scalar that is required or has a default.
fn check_key(
    items: JsonSchema<'_>,
    key: &str,
    property: JsonSchema<'_>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let properties = path.child("properties");
    let path = properties.key(key);
    if items.text("type") == "object" && matches!(property.text("type"), "array" | "object") {
        let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
        errors.invalid(&path.child("type"), items.text("type"), detail);
    }
    if property.value("default").is_none() && !items.texts("required").any(|it| it == key) {
        let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
        errors.required(&path.child("default"), detail);
    }
    if property.flag("nullable") {
        let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
        errors.forbidden(&path.child("nullable"), detail);
    }
}
