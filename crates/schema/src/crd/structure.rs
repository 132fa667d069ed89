//! Checks that a schema is structural.

use crate::json_schema::{COMBINATIONS, JsonSchema};
use cel::go_regexp;
use machinery::{ErrorList, Path, Value};

/// The position of a schema.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Reports everything that keeps the schema from being structural.
pub(super) fn check(source: JsonSchema<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    check_node(source, Level::Root, path, errors);
    check_complete(source, source, path, path, errors);
}

fn check_node(source: JsonSchema<'_>, level: Level, path: &Path<'_>, errors: &mut ErrorList) {
    let items = source.schema("items");
    if source.text("type") == "array" && items.is_none() {
        errors.required(&path.child("items"), "must be specified");
    }
    if let Some(items) = items {
        check_node(items, Level::Item, &path.child("items"), errors);
    }
    let properties = path.child("properties");
    for (name, property) in source.properties() {
        check_node(property, Level::Field, &properties.key(name), errors);
    }
    let embedded = source.flag("x-kubernetes-embedded-resource");
    if source.value("additionalProperties").is_some() {
        let path = path.child("additionalProperties");
        if level == Level::Root {
            errors.forbidden(&path, "must not be used at the root");
        }
        if embedded {
            errors.forbidden(&path, "must not be used if x-kubernetes-embedded-resource is set");
        }
        if let Some(schema) = source.schema("additionalProperties") {
            check_node(schema, Level::Field, &path, errors);
        }
    }
    check_extensions(source, path, errors);
    let in_all_of = source.schemas("allOf").next().is_some_and(JsonSchema::is_int_or_string_any_of);
    let skipped = match (source.is_int_or_string_any_of(), in_all_of) {
        (true, _) => Skipped::AnyOf,
        (false, true) => Skipped::AnyOfInFirstAllOf,
        (false, false) => Skipped::Nothing,
    };
    check_values(source, skipped, path, errors);
    if embedded
        && !source.flag("x-kubernetes-preserve-unknown-fields")
        && source.non_empty("properties").is_none()
    {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.required(&properties, detail);
    }
    check_type(source, level, path, errors);
    if level == Level::Root || embedded {
        check_resource(source, level, path, errors);
    }
}

fn check_extensions(source: JsonSchema<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    if source.flag("x-kubernetes-int-or-string") {
        for other in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
            if source.flag(other) {
                let detail = "must be false if x-kubernetes-int-or-string is true";
                errors.invalid(&path.child(other), true, detail);
            }
        }
    }
}

fn check_type(source: JsonSchema<'_>, level: Level, path: &Path<'_>, errors: &mut ErrorList) {
    let kind = source.text("type");
    let path = path.child("type");
    let may_have_no_type = source.flag("x-kubernetes-int-or-string")
        || source.flag("x-kubernetes-preserve-unknown-fields");
    if source.flag("x-kubernetes-embedded-resource") && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        match kind {
            "" => errors.required(&path, detail),
            kind => errors.invalid(&path, kind, detail),
        }
    } else if kind.is_empty() && !may_have_no_type {
        errors.required(
            &path,
            match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            },
        );
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.invalid(&path, kind, "must be object at the root");
    }
}

/// The type and the metadata of a resource, the outermost or an embedded one, have fixed types.
fn check_resource(source: JsonSchema<'_>, level: Level, path: &Path<'_>, errors: &mut ErrorList) {
    let properties = path.child("properties");
    for (name, expected) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        let Some(property) = source.property(name) else { continue };
        let here = properties.key(name);
        let kind = property.text("type");
        if kind != expected {
            errors.invalid(&here.child("type"), kind, &format!("must be {expected}"));
        }
        if name == "metadata" && level == Level::Root && restricts_more_than_names(property) {
            let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            errors.forbidden(&here, detail);
        }
    }
}

/// Whether the schema of metadata has keywords for more than `name` and `generateName`.
fn restricts_more_than_names(metadata: JsonSchema<'_>) -> bool {
    metadata.map().keys().any(|keyword| match keyword.as_str() {
        "type" | "default" => false,
        "properties" => {
            metadata.properties().any(|(name, _)| !matches!(name, "name" | "generateName"))
        }
        keyword => metadata.non_empty(keyword).is_some(),
    })
}

/// The location of `anyOf: [{type: integer}, {type: string}]`, the only types that are allowed
/// below `allOf`, `anyOf`, `oneOf` and `not`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Skipped {
    Nothing,
    AnyOf,
    AnyOfInFirstAllOf,
}

fn check_values(source: JsonSchema<'_>, skipped: Skipped, path: &Path<'_>, errors: &mut ErrorList) {
    for keyword in COMBINATIONS {
        if keyword == "anyOf" && skipped == Skipped::AnyOf {
            continue;
        }
        let list = path.child(keyword);
        for (index, schema) in source.schemas(keyword).enumerate() {
            let first = index == 0 && keyword == "allOf" && skipped == Skipped::AnyOfInFirstAllOf;
            let skipped = if first { Skipped::AnyOf } else { Skipped::Nothing };
            check_nested(schema, skipped, &list.index(index), errors);
        }
    }
    if let Some(not) = source.schema("not") {
        check_nested(not, Skipped::Nothing, &path.child("not"), errors);
    }
    let pattern = source.text("pattern");
    if let Err(error) = go_regexp::translate(pattern) {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        errors.invalid(&path.child("pattern"), pattern, &detail);
    }
}

/// Keywords that define the type of a value, as opposed to constraints, and the error about each.
const STRUCTURAL_ONLY: [(&str, &str); 12] = [
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
];

/// Checks a schema below `allOf`, `anyOf`, `oneOf` or `not`.
fn check_nested(source: JsonSchema<'_>, skipped: Skipped, path: &Path<'_>, errors: &mut ErrorList) {
    check_values(source, skipped, path, errors);
    if let Some(items) = source.schema("items") {
        check_nested(items, Skipped::Nothing, &path.child("items"), errors);
    }
    let properties = path.child("properties");
    for (name, property) in source.properties() {
        check_nested(property, Skipped::Nothing, &properties.key(name), errors);
    }
    for (keyword, detail) in STRUCTURAL_ONLY {
        let non_empty = match keyword {
            "default" => source.value(keyword),
            "additionalProperties" => {
                source.value(keyword).filter(|value| **value != Value::Bool(false))
            }
            _ => source.non_empty(keyword),
        };
        if non_empty.is_some() {
            errors.forbidden(&path.child(keyword), detail);
        }
    }
    if source.non_empty("x-kubernetes-validations").is_some() {
        let path = path.child("x-kubernetes-validations");
        errors.forbidden(&path, "must be empty to be structural");
    }
    if source.property("metadata").is_some() {
        errors.forbidden(&properties.key("metadata"), "must not be specified in a nested context");
    }
}

/// Checks that every field that `allOf`, `anyOf`, `oneOf` or `not` of `values` constrains is also
/// specified in `structure`.
fn check_complete(
    values: JsonSchema<'_>,
    structure: JsonSchema<'_>,
    values_path: &Path<'_>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    for keyword in COMBINATIONS {
        let list = values_path.child(keyword);
        for (index, nested) in values.schemas(keyword).enumerate() {
            check_nested_complete(nested, structure, &list.index(index), path, errors);
        }
    }
    if let Some(nested) = values.schema("not") {
        check_nested_complete(nested, structure, &values_path.child("not"), path, errors);
    }
}

fn check_nested_complete(
    values: JsonSchema<'_>,
    structure: JsonSchema<'_>,
    values_path: &Path<'_>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    check_complete(values, structure, values_path, path, errors);
    let mut pair = |inner: JsonSchema<'_>,
                    outer: Option<JsonSchema<'_>>,
                    values_path: &Path<'_>,
                    path: &Path<'_>| {
        match outer {
            Some(outer) => check_nested_complete(inner, outer, values_path, path, errors),
            None => errors.required(path, &format!("because it is defined in {values_path}")),
        }
    };
    if let Some(items) = values.schema("items") {
        pair(items, structure.schema("items"), &values_path.child("items"), &path.child("items"));
    }
    let (values_properties, properties) =
        (values_path.child("properties"), path.child("properties"));
    for (name, property) in values.properties() {
        let outer = structure.property(name);
        pair(property, outer, &values_properties.key(name), &properties.key(name));
    }
}
