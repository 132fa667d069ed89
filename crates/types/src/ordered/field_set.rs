//! [`FieldSet`]: a set of field paths in JSON, as structured-merge-diff sorts it.
//!
//! Names come first, then the elements of lists by their keys, values and indices: these are
//! compared as values, so that port 80 comes before port 443.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

use machinery::patch::apply::PathElement;

/// See the [module documentation](self).
pub(super) struct FieldSet<'a>(pub(super) &'a Map<String, Value>);

impl Serialize for FieldSet<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_map(Some(self.0.len()))?;
        let mut write = |name: &String, value: &Value| match value {
            Value::Object(set) => out.serialize_entry(name, &FieldSet(set)),
            other => out.serialize_entry(name, other),
        };
        // The map is sorted by text, which is right unless it has two elements of a list.
        if self.0.keys().filter(|name| is_element(name)).count() < 2 {
            self.0.iter().try_for_each(|(name, value)| write(name, value))?;
        } else {
            // Keys that are no path elements, such as `.`, come first, sorted as text.
            let parsed = |name: &String| PathElement::parse(name).ok().flatten();
            let mut members: Vec<_> =
                self.0.iter().map(|(name, value)| (parsed(name), name, value)).collect();
            members.sort_by(|(one, ..), (other, ..)| one.cmp(other));
            members.iter().try_for_each(|(_, name, value)| write(name, value))?;
        }
        out.end()
    }
}

/// Whether a member is an element of a list, identified by its key, value or index.
fn is_element(name: &str) -> bool {
    matches!(name.split_once(':'), Some(("k" | "v" | "i", _)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn many_elements_are_sorted_by_value_and_names_come_first() {
        let mut names = vec![".".to_owned()];
        names.extend((0..30).map(|it| format!("f:name{it:02}")));
        names.extend((0..200).map(|it| format!(r#"k:{{"port":{it}}}"#)));
        names.extend((0..50).map(|it| format!("v:{it}")));
        let set: Map<String, Value> = names.iter().map(|it| (it.clone(), json!({}))).collect();
        let text = serde_json::to_string(&FieldSet(&set)).unwrap();
        let expected: Vec<String> = names.iter().map(|it| format!("{}:{{}}", json!(it))).collect();
        assert_eq!(text, format!("{{{}}}", expected.join(",")));
    }

    #[test]
    fn elements_are_sorted_by_value_and_names_come_first() {
        let set = json!({".": {}, "f:b": {}, "f:a": {"v:10": {}, "v:9": {}},
            r#"k:{"containerPort":443,"protocol":"TCP"}"#: {},
            r#"k:{"containerPort":80,"protocol":"UDP"}"#: {},
            r#"k:{"containerPort":80,"protocol":"TCP"}"#: {}});
        assert_eq!(
            serde_json::to_string(&FieldSet(set.as_object().unwrap())).unwrap(),
            r#"{".":{},"f:a":{"v:9":{},"v:10":{}},"f:b":{},"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{},"k:{\"containerPort\":80,\"protocol\":\"UDP\"}":{},"k:{\"containerPort\":443,\"protocol\":\"TCP\"}":{}}"#
        );
    }
}
