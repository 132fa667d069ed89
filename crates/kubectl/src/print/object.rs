//! Objects as JSON and YAML.

use machinery::codec::{json, yaml};
use machinery::{Map, Value};
use types::Ordered;

/// JSON indented by four spaces, with sorted keys and a line end.
pub(crate) fn indented_json(value: &Value) -> String {
    indent(&json_lines(value))
}

/// The same with the fields of a built-in kind in the order of its type.
pub(crate) fn ordered_json(value: &Value) -> String {
    let mut out = Vec::new();
    json::write_pretty(&mut out, &Ordered::document(value));
    indent(&String::from_utf8_lossy(&out))
}

fn json_lines(value: &Value) -> String {
    let mut out = Vec::new();
    json::write_pretty(&mut out, value);
    String::from_utf8_lossy(&out).into_owned()
}

/// Doubles the indentation of two spaces.
fn indent(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 2);
    for line in text.lines() {
        let content = line.trim_start_matches(' ');
        out.extend(std::iter::repeat_n(' ', 2 * (line.len() - content.len())));
        out.push_str(content);
        out.push('\n');
    }
    out
}

/// YAML with sorted keys.
pub(crate) fn to_yaml(value: &Value) -> String {
    yaml::encode(value)
}

/// Removes `metadata.managedFields`, which nobody wants to read, from an object or its items.
pub(crate) fn without_managed_fields(value: &mut Value) {
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    if let Some(items) = value.get_mut("items").and_then(Value::as_array_mut) {
        for item in items {
            let metadata: Option<&mut Map<String, Value>> = item["metadata"].as_object_mut();
            if let Some(metadata) = metadata {
                metadata.remove("managedFields");
            }
        }
    }
}
