//! The OpenAPI documents of kinds, for `kubectl explain` and client-side validation.
//!
//! The schema of a custom kind is published unchanged, plus the common fields (type and metadata)
//! and the extension with its group, version and kind. [`paths`] lists the operations of a kind,
//! [`document`] combines everything of one group and version. [`swagger`] converts it to version 2
//! for older clients, and [`gnostic`] encodes that as protobuf.

mod parameters;
mod operations;
pub mod swagger;
pub mod gnostic;

use std::borrow::Cow;

use crate::json_schema::{COMBINATIONS, JsonSchema, is_zero};
use machinery::{Map, Value, json};

pub use operations::{SCALE, Subresource, paths};

/// The path of schemas in a document.
const SCHEMAS: &str = "#/components/schemas/";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// The properties of one version of a kind that a document contains.
#[derive(Debug, Clone, Copy)]
pub struct Kind<'a> {
    /// Empty for the core group.
    pub group: &'a str,
    /// `v1`
    pub version: &'a str,
    /// `Widget`
    pub kind: &'a str,
    /// `WidgetList`
    pub list_kind: &'a str,
    /// `widgets`
    pub plural: &'a str,
    /// Whether objects are namespaced.
    pub namespaced: bool,
    /// Whether this is the kind of a CRD, which has no strategic merge patch.
    pub crd: bool,
    /// Whether the verb `deletecollection` is supported.
    pub deletes_collections: bool,
}

impl Kind<'_> {
    /// The name of the kind's schema: `dev.example.v1.Widget`.
    pub fn model(&self) -> String {
        model_name(self.group, self.version, self.kind)
    }

    /// The name of the schema of its lists.
    pub fn list_model(&self) -> String {
        model_name(self.group, self.version, self.list_kind)
    }

    fn identity(&self, kind: &str) -> Value {
        json!([{"group": self.group, "version": self.version, "kind": kind}])
    }
}

/// The descriptions of the fields that every kind has. The defaults are brief; a server can pass
/// Kubernetes' full texts.
#[derive(Debug, Clone)]
pub struct Descriptions {
    /// The description of `apiVersion`.
    pub api_version: Cow<'static, str>,
    /// The description of `kind`.
    pub kind: Cow<'static, str>,
    /// The description of `metadata`.
    pub metadata: Cow<'static, str>,
    /// The description of a list's `metadata`.
    pub list_metadata: Cow<'static, str>,
    /// The description of `apiVersion` in an embedded resource.
    pub embedded_api_version: Cow<'static, str>,
    /// The description of `kind` in an embedded resource.
    pub embedded_kind: Cow<'static, str>,
}

impl Default for Descriptions {
    fn default() -> Self {
        Self {
            api_version:
                "The group and the version in which this object is written, as in apps/v1.".into(),
            kind:
                "The kind of this object, in CamelCase, as the API's discovery documents list it."
                    .into(),
            metadata:
                "What every object has: its name, labels, annotations, owners and finalizers."
                    .into(),
            list_metadata: "What every list has: the revision it was read at, and how to read on."
                .into(),
            embedded_api_version:
                "The group and the version in which the embedded object is written.".into(),
            embedded_kind: "The kind of the embedded object, in CamelCase.".into(),
        }
    }
}

/// `dev.example.v1.Widget`: the group's parts in reverse, the version, the kind.
fn model_name(group: &str, version: &str, kind: &str) -> String {
    let group: Vec<&str> = group.rsplit('.').collect();
    format!("{}.{version}.{kind}", group.join("."))
}

/// The published schema of a custom kind; without a schema it is any object.
pub fn v3_schema(
    openapi_v3_schema: Option<&Value>,
    kind: &Kind<'_>,
    selectable_fields: &[&str],
    descriptions: &Descriptions,
) -> Value {
    let mut schema = match openapi_v3_schema.and_then(JsonSchema::of) {
        Some(source) => {
            let mut schema = publish(source, descriptions);
            let properties = map_in(&mut schema, "properties");
            properties
                .insert("metadata".to_owned(), reference(OBJECT_META, &descriptions.metadata));
            properties.insert("apiVersion".to_owned(), text(&descriptions.api_version));
            properties.insert("kind".to_owned(), text(&descriptions.kind));
            schema
        }
        None => map(json!({"type": "object"})),
    };
    extend(&mut schema, kind.identity(kind.kind), selectable_fields);
    Value::Object(schema)
}

/// The published schema of lists of a custom kind.
pub fn v3_list_schema(
    kind: &Kind<'_>,
    selectable_fields: &[&str],
    descriptions: &Descriptions,
) -> Value {
    let mut schema = map(json!({
        "description": format!("{} is a list of {}", kind.list_kind, kind.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": text(&descriptions.api_version),
            "kind": text(&descriptions.kind),
            "items": {
                "description": format!("List of {}.", kind.plural),
                "type": "array",
                "items": {"$ref": format!("{SCHEMAS}{}", kind.model())},
            },
            "metadata": reference(LIST_META, &descriptions.list_metadata),
        },
    }));
    extend(&mut schema, kind.identity(kind.list_kind), selectable_fields);
    Value::Object(schema)
}

/// The document of one group and version.
pub fn document(
    title: &str,
    version: &str,
    paths: Map<String, Value>,
    schemas: Map<String, Value>,
) -> Value {
    let mut document = json!({
        "openapi": "3.0.0", "info": {"title": title, "version": version}, "components": {},
    });
    // Moved into the document; the macro above would copy them.
    document["paths"] = paths.into();
    document["components"]["schemas"] = schemas.into();
    document
}

fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn map_in<'a>(schema: &'a mut Map<String, Value>, keyword: &str) -> &'a mut Map<String, Value> {
    let value = schema.entry(keyword).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("it was made a map above")
}

fn text(description: &str) -> Value {
    json!({"description": description, "type": "string"})
}

fn reference(model: &str, description: &str) -> Value {
    json!({"description": description, "allOf": [{"$ref": format!("{SCHEMAS}{model}")}]})
}

fn extend(schema: &mut Map<String, Value>, identity: Value, selectable_fields: &[&str]) {
    schema.insert("x-kubernetes-group-version-kind".to_owned(), identity);
    if !selectable_fields.is_empty() {
        let fields = selectable_fields.iter().map(|path| json!({"fieldPath": path})).collect();
        schema.insert("x-kubernetes-selectable-fields".to_owned(), fields);
    }
}

/// A schema and all below it, without empty keywords and with the keywords that extensions imply.
fn publish(source: JsonSchema<'_>, descriptions: &Descriptions) -> Map<String, Value> {
    let mut schema = Map::new();
    for (keyword, value) in source.map() {
        let published = match (keyword.as_str(), value) {
            (_, Value::Null) => continue,
            ("properties", Value::Object(_)) => source
                .properties()
                .map(|(name, it)| (name.to_owned(), Value::Object(publish(it, descriptions))))
                .collect(),
            ("items" | "additionalProperties" | "not", Value::Object(map)) => JsonSchema::of(value)
                .map_or_else(|| map.clone().into(), |it| publish(it, descriptions).into()),
            (combination, Value::Array(_)) if COMBINATIONS.contains(&combination) => source
                .schemas(combination)
                .map(|it| Value::Object(publish(it, descriptions)))
                .collect(),
            ("default" | "example" | "additionalProperties", value)
            | (_, value @ Value::Number(_)) => value.clone(),
            (_, value) if is_zero(value) => continue,
            (_, value) => value.clone(),
        };
        schema.insert(keyword.clone(), published);
    }
    if source.flag("x-kubernetes-int-or-string") {
        expand_int_or_string(source, &mut schema);
    }
    if source.flag("x-kubernetes-embedded-resource") {
        expand_resource(&mut schema, descriptions);
    }
    schema
}

fn expand_int_or_string(source: JsonSchema<'_>, schema: &mut Map<String, Value>) {
    let in_all_of = source.schemas("allOf").next().is_some_and(JsonSchema::is_int_or_string_any_of);
    if source.is_int_or_string_any_of() || in_all_of {
        return;
    }
    let types = json!([{"type": "integer"}, {"type": "string"}]);
    if schema.contains_key("anyOf") {
        let all_of = schema.entry("allOf").or_insert_with(|| json!([]));
        if let Value::Array(all_of) = all_of {
            all_of.insert(0, json!({"anyOf": types}));
        }
    } else {
        schema.insert("anyOf".to_owned(), types);
    }
}

fn expand_resource(schema: &mut Map<String, Value>, descriptions: &Descriptions) {
    let properties = map_in(schema, "properties");
    properties.insert("apiVersion".to_owned(), text(&descriptions.embedded_api_version));
    properties.insert("kind".to_owned(), text(&descriptions.embedded_kind));
    properties.insert("metadata".to_owned(), reference(OBJECT_META, &descriptions.metadata));
    if let Value::Array(required) = schema.entry("required").or_insert_with(|| json!([])) {
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|it| it == name) {
                required.push(name.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDGET: Kind<'static> = Kind {
        group: "example.dev",
        version: "v1",
        kind: "Widget",
        list_kind: "WidgetList",
        plural: "widgets",
        namespaced: true,
        crd: true,
        deletes_collections: true,
    };

    #[test]
    fn a_schema_is_published_unchanged_with_the_common_fields() {
        let schema = json!({"type": "object", "properties": {"spec": {
            "type": "object", "description": "what is wanted", "required": ["size"], "nullable": false,
            "properties": {
                "size": {"type": "integer", "minimum": 0, "default": 2},
                "port": {"x-kubernetes-int-or-string": true}}}}});
        let published = v3_schema(Some(&schema), &WIDGET, &["spec.size"], &Descriptions::default());
        assert_eq!(
            published["properties"]["spec"],
            json!({"type": "object", "description": "what is wanted", "required": ["size"],
                "properties": {
                    "size": {"type": "integer", "minimum": 0, "default": 2},
                    "port": {"anyOf": [{"type": "integer"}, {"type": "string"}],
                        "x-kubernetes-int-or-string": true}}})
        );
        assert_eq!(
            published["properties"]["metadata"]["allOf"],
            json!([{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}])
        );
        assert_eq!(
            published["x-kubernetes-group-version-kind"],
            json!([{"group": "example.dev", "kind": "Widget", "version": "v1"}])
        );
        assert_eq!(
            published["x-kubernetes-selectable-fields"],
            json!([{"fieldPath": "spec.size"}])
        );
    }

    #[test]
    fn models_are_named_by_the_group_in_reverse() {
        assert_eq!(WIDGET.model(), "dev.example.v1.Widget");
        let list = v3_list_schema(&WIDGET, &[], &Descriptions::default());
        assert_eq!(list["required"], json!(["items"]));
        assert_eq!(
            list["properties"]["items"]["items"]["$ref"],
            "#/components/schemas/dev.example.v1.Widget"
        );
    }

    #[test]
    fn a_kind_without_a_schema_is_any_object() {
        let published = v3_schema(None, &WIDGET, &[], &Descriptions::default());
        assert_eq!(published["type"], "object");
        assert!(published.get("properties").is_none());
    }

    #[test]
    fn an_embedded_resource_has_type_and_metadata() {
        let schema = json!({"type": "object", "properties": {"t": {"type": "object",
            "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}}});
        let published = v3_schema(Some(&schema), &WIDGET, &[], &Descriptions::default());
        let embedded = &published["properties"]["t"];
        assert_eq!(embedded["required"], json!(["kind", "apiVersion"]));
        assert_eq!(embedded["properties"].as_object().unwrap().len(), 3);
    }
}
