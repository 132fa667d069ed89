//! [`comparable`] and [`normal_example`]: CRDs and objects without what has no effect, so that they can be
//! compared. It is written apart from the generator, which has its own idea of what is the same.

use machinery::{Map, Value, json};

/// A CRD with one version, without what may differ.
pub(crate) fn comparable(crd: &Value) -> Value {
    let (spec, version) = (&crd["spec"], &crd["spec"]["versions"][0]);
    let approval = &crd["metadata"]["annotations"]["api-approved.kubernetes.io"];
    let names = &spec["names"];
    let singular = names["kind"].as_str().unwrap_or_default().to_lowercase();
    let mut root = schema(&version["schema"]["openAPIV3Schema"]);
    for (field, kind) in [("apiVersion", "string"), ("kind", "string"), ("metadata", "object")] {
        remove_from(&mut root, "properties", field, &json!({"type": kind}));
    }
    if let Some(Value::Array(required)) = root.get_mut("required") {
        required.retain(|it| it != "apiVersion" && it != "kind" && it != "metadata");
    }
    let scale = &version["subresources"]["scale"];
    json!({
        "approval": approval, "group": spec["group"], "scope": spec["scope"],
        "kind": names["kind"], "plural": names["plural"],
        "singular": names["singular"].as_str().filter(|it| !it.is_empty()).unwrap_or(&singular),
        "shortNames": or_empty(&names["shortNames"]), "categories": or_empty(&names["categories"]),
        "version": version["name"], "served": version["served"], "storage": version["storage"],
        "deprecated": version["deprecated"] == true, "warning": version["deprecationWarning"],
        "columns": or_empty(&version["additionalPrinterColumns"]),
        "selectable": or_empty(&version["selectableFields"]),
        "status": version["subresources"]["status"].is_object(), "scale": scale,
        "schema": without_empty(root),
    })
}

fn or_empty(value: &Value) -> Value {
    if value.is_null() { json!([]) } else { value.clone() }
}

fn remove_from(schema: &mut Value, keyword: &str, name: &str, value: &Value) {
    if let Some(Value::Object(fields)) = schema.get_mut(keyword)
        && fields.get(name) == Some(value)
    {
        fields.remove(name);
    }
}

fn without_empty(mut schema: Value) -> Value {
    if let Value::Object(keywords) = &mut schema {
        let is_empty = |it: &Value| *it == json!({}) || *it == json!([]);
        keywords.retain(|name, it| {
            !(["properties", "required"].contains(&name.as_str()) && is_empty(it))
        });
    }
    schema
}

/// A schema without descriptions, titles and keywords that are false or empty.
fn schema(value: &Value) -> Value {
    let Value::Object(keywords) = value else { return value.clone() };
    let mut kept = Map::new();
    for (keyword, value) in keywords {
        let nested = match keyword.as_str() {
            "description" | "title" => continue,
            "properties" => match value {
                Value::Object(schemas) => {
                    schemas.iter().map(|(name, it)| (name.clone(), schema(it))).collect()
                }
                other => other.clone(),
            },
            "items" | "additionalProperties" | "not" => schema(value),
            "allOf" | "anyOf" | "oneOf" => value.as_array().unwrap().iter().map(schema).collect(),
            "required" => sorted(value),
            "minimum" | "maximum" | "multipleOf" => json!(value.as_f64()),
            _ => value.clone(),
        };
        let has_no_effect = keyword != "default"
            && keyword != "additionalProperties"
            && (nested == false || nested.is_null() || nested == json!([]));
        if !has_no_effect {
            kept.insert(keyword.clone(), nested);
        }
    }
    without_empty(Value::Object(kept))
}

fn sorted(names: &Value) -> Value {
    let mut names: Vec<&str> = names.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    names.sort_unstable();
    names.into()
}

/// An object without nulls, which optional fields do not tell from absent ones, and with the numbers of JSON.
pub(crate) fn normal_example(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let present = fields.iter().filter(|(_, it)| !it.is_null());
            present.map(|(name, it)| (name.clone(), normal_example(it))).collect()
        }
        Value::Array(values) => values.iter().map(normal_example).collect(),
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap();
            #[allow(
                clippy::cast_possible_truncation,
                reason = "whole numbers of examples are small"
            )]
            if float.fract() == 0.0 { json!(float as i64) } else { value.clone() }
        }
        other => other.clone(),
    }
}
