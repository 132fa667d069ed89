//! OpenAPI documents in version 2 ("Swagger"), which kubectl uses up to 1.26.
//!
//! Version 2 has no alternatives (`anyOf`) and no `nullable`. Keywords that it lacks are omitted,
//! so that an old kubectl, which validates objects by this document before it sends them, never
//! refuses an object that the server would accept.

use super::SCHEMAS;
use machinery::{Map, Value, json};

/// The path of schemas in a document of version 2.
const DEFINITIONS: &str = "#/definitions/";

/// The keywords that version 2 lacks.
const ALTERNATIVES: &[&str] = &["allOf", "anyOf", "oneOf", "not"];

/// The document of version 2, from paths of [`path_item`] and definitions of [`builtin`] and
/// [`custom`].
pub fn document(
    title: &str,
    version: &str,
    paths: Map<String, Value>,
    definitions: Map<String, Value>,
) -> Value {
    let mut document = json!({"swagger": "2.0", "info": {"title": title, "version": version}});
    document["paths"] = paths.into();
    document["definitions"] = definitions.into();
    document
}

/// The definition of a built-in type.
pub fn builtin(schema: Value) -> Value {
    match schema {
        Value::Object(map) => builtin_map(map).into(),
        other => other,
    }
}

fn builtin_map(mut schema: Map<String, Value>) -> Map<String, Value> {
    // Upstream: defaults are omitted, because some clients would apply them.
    schema.remove("default");
    // Upstream publishes int-or-string as a string.
    if schema.remove("oneOf").is_some() {
        schema.insert("type".to_owned(), "string".into());
    }
    if let Some(Value::Array(wrapped)) = schema.remove("allOf") {
        schema.extend(wrapped.into_iter().filter_map(into_map).flatten());
    }
    convert_below(&mut schema, builtin_map);
    schema
}

/// The definition of a custom kind.
pub fn custom(schema: Value) -> Value {
    let mut schema = into_map(schema).unwrap_or_default();
    // Upstream: if any property is specified, kubectl refuses all others as unknown.
    if is_true(&schema, "x-kubernetes-preserve-unknown-fields") {
        schema.retain(|keyword, _| keyword == "x-kubernetes-group-version-kind");
        schema.insert("type".to_owned(), "object".into());
        return schema.into();
    }
    custom_map(schema).into()
}

fn custom_map(mut schema: Map<String, Value>) -> Map<String, Value> {
    // `openapi::reference` wraps a reference with a description into an `allOf`.
    let reference = schema.get("allOf").and_then(|it| it.get(0)?.get("$ref")).cloned();
    schema.retain(|keyword, _| !ALTERNATIVES.contains(&keyword.as_str()));
    schema.extend(reference.map(|it| ("$ref".to_owned(), it)));
    let nullable = schema.remove("nullable").is_some_and(|it| it == true);
    let preserves_unknown = is_true(&schema, "x-kubernetes-preserve-unknown-fields");
    // Upstream: kubectl cannot handle items or properties of a value without a type.
    if nullable || preserves_unknown {
        schema.remove("items");
        schema.remove("properties");
    }
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default();
    let has_no_type =
        kind == "array" && !schema.contains_key("items") || kind == "object" && preserves_unknown;
    if nullable || has_no_type {
        schema.remove("type");
    }
    let may_be_null: Vec<String> = schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter(|(_, it)| it.get("nullable") == Some(&Value::Bool(true)))
        .map(|(name, _)| name.clone())
        .collect();
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|it| !may_be_null.iter().any(|name| it == name));
        if required.is_empty() {
            schema.remove("required");
        }
    }
    convert_below(&mut schema, custom_map);
    schema
}

/// Applies a function to all schemas in a schema, and converts its reference to version 2.
fn convert_below(
    schema: &mut Map<String, Value>,
    change: fn(Map<String, Value>) -> Map<String, Value>,
) {
    let apply = |value: &mut Value| {
        if let Value::Object(map) = value {
            *map = change(std::mem::take(map));
        }
    };
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(apply);
    }
    for keyword in ["items", "additionalProperties"] {
        schema.get_mut(keyword).into_iter().for_each(apply);
    }
    if let Some(Value::String(reference)) = schema.get_mut("$ref") {
        *reference = reference.replace(SCHEMAS, DEFINITIONS);
    }
}

fn into_map(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(map) => Some(map),
        _ => None,
    }
}

fn is_true(schema: &Map<String, Value>, keyword: &str) -> bool {
    schema.get(keyword) == Some(&Value::Bool(true))
}

/// A path with its operations.
pub fn path_item(item: Value) -> Value {
    let mut changed = Map::new();
    for (method, value) in into_map(item).unwrap_or_default() {
        let value = match value {
            Value::Array(parameters) => parameters.into_iter().map(parameter).collect(),
            Value::Object(operation) => self::operation(operation),
            other => other,
        };
        changed.insert(method, value);
    }
    changed.into()
}

fn operation(mut operation: Map<String, Value>) -> Value {
    let mut parameters: Vec<Value> = Vec::new();
    if let Some(mut body) = operation.remove("requestBody") {
        let content = into_map(body["content"].take()).unwrap_or_default();
        operation.insert("consumes".to_owned(), content.keys().cloned().collect());
        parameters.push(json!({
            "name": "body", "in": "body", "required": body["required"],
            "schema": schema_in(content),
        }));
    }
    if let Some(Value::Array(options)) = operation.remove("parameters") {
        parameters.extend(options.into_iter().map(parameter));
    }
    if let Some(Value::Object(responses)) = operation.get_mut("responses") {
        for response in responses.values_mut().filter_map(Value::as_object_mut) {
            if let Some(Value::Object(content)) = response.remove("content") {
                response.insert("schema".to_owned(), schema_in(content));
            }
        }
    }
    operation.insert("parameters".to_owned(), parameters.into());
    operation.insert("produces".to_owned(), json!(["application/json", "application/yaml"]));
    operation.insert("schemes".to_owned(), json!(["https"]));
    operation.into()
}

/// In version 2, a parameter has its type next to its name.
fn parameter(parameter: Value) -> Value {
    let mut parameter = into_map(parameter).unwrap_or_default();
    let schema = parameter.remove("schema").and_then(into_map);
    parameter.extend(schema.unwrap_or_default());
    parameter.into()
}

/// The schema of a body, which is the same in every media type.
fn schema_in(content: Map<String, Value>) -> Value {
    let first = content.into_iter().next().map(|(_, it)| it).unwrap_or_default();
    builtin(first.get("schema").cloned().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schema: Value, expect: &Value) {
        assert_eq!(&custom(schema), expect);
    }

    #[test]
    fn a_reference_keeps_its_description_and_defaults_are_removed() {
        let schema = json!({"type": "object", "properties": {"metadata": {
            "allOf": [{"$ref": "#/components/schemas/ObjectMeta"}], "default": {},
            "description": "what"}}});
        assert_eq!(
            builtin(schema)["properties"]["metadata"],
            json!({"$ref": "#/definitions/ObjectMeta", "description": "what"})
        );
    }

    #[test]
    fn int_or_string_is_published_as_string() {
        let schema =
            json!({"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"});
        assert_eq!(builtin(schema), json!({"type": "string", "format": "int-or-string"}));
    }

    #[test]
    fn any_of_is_omitted() {
        check(
            json!({"type": "object", "properties": {"port": {
                "x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}]}}}),
            &json!({"type": "object", "properties": {"port": {"x-kubernetes-int-or-string": true}}}),
        );
    }

    #[test]
    fn nullable_fields_have_no_type_and_are_not_required() {
        check(
            json!({"type": "object", "required": ["a"], "properties": {
                "a": {"type": "object", "nullable": true, "properties": {"b": {}}}}}),
            &json!({"type": "object", "properties": {"a": {}}}),
        );
    }

    #[test]
    fn schemas_that_preserve_unknown_fields_have_no_properties() {
        check(
            json!({"type": "object", "properties": {"a": {"type": "object",
                "x-kubernetes-preserve-unknown-fields": true, "properties": {"b": {}}}}}),
            &json!({"type": "object", "properties": {
                "a": {"x-kubernetes-preserve-unknown-fields": true}}}),
        );
        check(
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"b": {}}, "x-kubernetes-group-version-kind": []}),
            &json!({"type": "object", "x-kubernetes-group-version-kind": []}),
        );
    }

    #[test]
    fn a_request_body_becomes_a_parameter() {
        let item = path_item(json!({"post": {
            "parameters": [{"name": "dryRun", "in": "query", "schema": {"type": "string"}}],
            "requestBody": {"required": true, "content": {
                "*/*": {"schema": {"$ref": "#/components/schemas/Pod"}}}},
            "responses": {"200": {"description": "OK", "content": {
                "application/json": {"schema": {"$ref": "#/components/schemas/Pod"}}}}}}}));
        assert_eq!(
            item["post"]["parameters"],
            json!([{"name": "body", "in": "body", "required": true,
                    "schema": {"$ref": "#/definitions/Pod"}},
                {"name": "dryRun", "in": "query", "type": "string"}])
        );
        assert_eq!(
            item["post"]["responses"]["200"]["schema"],
            json!({"$ref": "#/definitions/Pod"})
        );
        assert_eq!(item["post"]["consumes"], json!(["*/*"]));
    }
}
