//! [`PartialObjects`]: the conversion of objects that lack required fields.
//!
//! For a server-side apply in another version than the last one of its manager, the server converts
//! what remains of the object without the fields of that manager. Such an object is no valid one, so
//! that its type cannot decode it. Here it is converted twice, with different values for the fields
//! that it lacks. What differs in the results comes from these values, and is removed:
//!
//! ```text
//! v2 {port: 80}  ─┬─▶  {host: "",  port: 80}  ─▶  v1 {endpoint: ":80",  port: 80}  ─┬─▶  v1 {port: 80}
//!                 └─▶  {host: "x", port: 80}  ─▶  v1 {endpoint: "x:80", port: 80}  ─┘
//! ```
//!
//! An object of which only metadata is left is converted in any case. Otherwise, a conversion that
//! refuses these values, and a required field that cannot have them, such as an enum, remain errors.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::{Map, Value, json};

use super::{ConversionError, Versions};

/// The fields of any object, which are no part of a version.
const COMMON: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// See the [module documentation](self).
pub(crate) struct PartialObjects(Vec<CustomResourceDefinition>);

impl PartialObjects {
    /// The schemas of a kind.
    pub(crate) fn of<V: Versions>() -> Self {
        Self(V::version_crds())
    }

    /// Converts an object that lacks required fields; none if it lacks none.
    pub(crate) fn convert<V: Versions>(
        &self,
        object: &Value,
        desired: &str,
    ) -> Option<Result<Value, ConversionError>> {
        let convert = |filler: Filler| {
            let mut completed = object.clone();
            self.complete(&mut completed, filler).then(|| V::convert(completed, desired))
        };
        let (first, second) = (convert(Filler::First)?, convert(Filler::Second)?);
        let has_content = object
            .as_object()
            .is_some_and(|fields| fields.keys().any(|name| !COMMON.contains(&name.as_str())));
        let (mut converted, second) = match (first, second) {
            (Ok(first), Ok(second)) => (first, second),
            (Err(_), _) | (_, Err(_)) if !has_content => {
                let mut unchanged = object.clone();
                unchanged["apiVersion"] = desired.into();
                return Some(Ok(unchanged));
            }
            (Err(error), _) | (_, Err(error)) => return Some(Err(error)),
        };
        if let Some(fields) = converted.as_object_mut() {
            fields.retain(|name, value| {
                COMMON.contains(&name.as_str()) || retain_equal(value, &second[name.as_str()])
            });
            if object.get("metadata").is_none() {
                fields.remove("metadata");
            }
        }
        Some(Ok(converted))
    }

    /// Adds the required fields that are missing. Returns whether there were any.
    fn complete(&self, object: &mut Value, filler: Filler) -> bool {
        let version = object["apiVersion"].as_str().and_then(|it| it.rsplit('/').next());
        let mut versions = self.0.iter().flat_map(|crd| &crd.spec.versions);
        let served = versions.find(|it| Some(it.name.as_str()) == version);
        let schema = served.and_then(|it| it.schema.as_ref()?.open_api_v3_schema.as_ref());
        let Some((schema, fields)) = schema.zip(object.as_object_mut()) else { return false };
        let lacks_metadata = !fields.contains_key("metadata");
        if lacks_metadata {
            fields.insert("metadata".to_owned(), json!({}));
        }
        complete_fields(fields, schema, filler) || lacks_metadata
    }
}

/// The values of the fields that an object lacks.
#[derive(Clone, Copy)]
enum Filler {
    First,
    Second,
}

fn complete_fields(
    fields: &mut Map<String, Value>,
    schema: &JSONSchemaProps,
    filler: Filler,
) -> bool {
    let properties = schema.properties.iter().flatten();
    let mut added = false;
    for (name, property) in properties {
        let is_required = schema.required.iter().flatten().any(|required| required == name);
        if is_required
            && !fields.contains_key(name)
            && let Some(value) = filler.value(property)
        {
            fields.insert(name.clone(), value);
            added = true;
        }
        if let Some(value) = fields.get_mut(name) {
            added |= complete_value(value, property, filler);
        }
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
        for value in fields.values_mut() {
            added |= complete_value(value, values, filler);
        }
    }
    added
}

fn complete_value(value: &mut Value, schema: &JSONSchemaProps, filler: Filler) -> bool {
    match (value, &schema.items) {
        (Value::Object(fields), _) => complete_fields(fields, schema, filler),
        (Value::Array(items), Some(JSONSchemaPropsOrArray::Schema(schema))) => {
            let complete = |added, item| complete_value(item, schema, filler) | added;
            items.iter_mut().fold(false, complete)
        }
        _ => false,
    }
}

impl Filler {
    /// A value for a field; none for a field of several types, or with certain values only.
    fn value(self, schema: &JSONSchemaProps) -> Option<Value> {
        if schema.enum_.is_some() {
            return None;
        }
        let is_second = matches!(self, Self::Second);
        Some(match schema.type_.as_deref()? {
            "object" => json!({}),
            "array" => json!([]),
            "string" => json!(if is_second { "x" } else { "" }),
            "integer" | "number" => json!(i32::from(is_second)),
            "boolean" => json!(is_second),
            _ => return None,
        })
    }
}

/// Removes the fields that differ, and those without content. Returns whether anything is left.
fn retain_equal(value: &mut Value, other: &Value) -> bool {
    match (value, other) {
        (Value::Object(fields), Value::Object(_)) => {
            fields.retain(|name, value| retain_equal(value, &other[name.as_str()]));
            !fields.is_empty()
        }
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            // An element keeps its place.
            for (item, other) in items.iter_mut().zip(others) {
                let _ = retain_equal(item, other);
            }
            !items.is_empty()
        }
        (value, other) => *value == *other,
    }
}
