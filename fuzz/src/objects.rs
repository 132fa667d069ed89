//! Objects of built-in kinds with the fields of their types.

use libfuzzer_sys::arbitrary::{Result, Unstructured};

use crate::amplify::{amplify, amplify_two};
use machinery::{Map, Value, json};
use types::resource::Shape;
use types::{Container, Resource, Type};

/// The maximum depth of messages.
const DEPTH_MAX: usize = 6;

/// Texts that are valid in many fields.
const WORDS: [&str; 16] = [
    "a",
    "b",
    "",
    "default",
    "TCP",
    "Exists",
    "In",
    "Always",
    "1",
    "100m",
    "1Gi",
    "10.0.0.1",
    "a.b/c",
    "/a",
    "ClusterIP",
    "2024-01-01T00:00:00Z",
];

/// An object to be created, and the path of its collection.
pub fn created(bytes: &mut Unstructured<'_>, all: &[Resource]) -> Result<(String, Value)> {
    let resource = bytes.choose(all)?;
    let version = bytes.choose(&resource.versions)?;
    let Shape::Typed(ty) = &version.shape else { return Ok((String::new(), Value::Null)) };
    let mut value = Value::Object(message(bytes, ty, 0)?);
    value["metadata"]["name"] = json!("a");
    amplify(bytes, &mut value)?;
    let api_version = resource.api_version(version);
    let root = if resource.group.is_empty() { "api" } else { "apis" };
    let namespace = if resource.namespaced { "namespaces/default/" } else { "" };
    value["apiVersion"] = api_version.as_str().into();
    value["kind"] = resource.kind.as_str().into();
    Ok((format!("/{root}/{api_version}/{namespace}{}", resource.plural), value))
}

/// A kind, and two objects of it that differ in at least one list or map.
pub fn updated<'a>(
    bytes: &mut Unstructured<'_>,
    all: &'a [Resource],
) -> Result<(&'a Resource, Value, Value)> {
    let resource = bytes.choose(all)?;
    let Shape::Typed(ty) = &resource.storage_version().shape else {
        return Ok((resource, Value::Null, Value::Null));
    };
    let mut value = Value::Object(message(bytes, ty, 0)?);
    value["metadata"]["name"] = json!("a");
    let (old, new) = amplify_two(bytes, value)?;
    Ok((resource, old, new))
}

fn message(
    bytes: &mut Unstructured<'_>,
    ty: &'static Type,
    depth: usize,
) -> Result<Map<String, Value>> {
    let mut fields = Map::new();
    for field in ty.fields() {
        if !bytes.ratio(1, if depth == 0 { 1 } else { 3 })? {
            continue;
        }
        let one = match field.message() {
            Some(_) if depth >= DEPTH_MAX => continue,
            Some(below) => Value::Object(message(bytes, below, depth + 1)?),
            None => scalar(bytes)?,
        };
        let value = match field.container {
            Container::One => one,
            Container::List => json!([one]),
            Container::Map => json!({*bytes.choose(&WORDS)?: one}),
        };
        fields.insert(field.json().to_owned(), value);
    }
    Ok(fields)
}

fn scalar(bytes: &mut Unstructured<'_>) -> Result<Value> {
    Ok(match bytes.int_in_range(0..=5)? {
        0 => Value::Bool(bytes.arbitrary()?),
        1 => Value::from(bytes.int_in_range(0..=100_000)?),
        _ => Value::from(*bytes.choose(&WORDS)?),
    })
}
