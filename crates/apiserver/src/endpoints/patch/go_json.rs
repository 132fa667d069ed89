//! The JSON of a patched object of a built-in kind, as upstream's error messages contain it.
//!
//! Upstream patches text: objects that the patch changes are encoded again with sorted keys, and
//! all others keep the field order of their Go types.

use std::collections::BTreeMap;

use machinery::{Map, Value};
use types::{Container, Field, Type};

/// The objects of a document that a patch changes, as a tree from the root.
#[derive(Debug, Default)]
pub(super) struct PatchedObjects {
    children: BTreeMap<String, PatchedObjects>,
}

impl PatchedObjects {
    /// Adds the objects that a merge patch changes.
    pub(super) fn add_merge_patch(&mut self, patch: &Value) {
        for (name, value) in patch.as_object().into_iter().flatten() {
            if value.is_object() {
                self.children.entry(name.clone()).or_default().add_merge_patch(value);
            }
        }
    }

    /// Adds the objects on the path of a JSON pointer.
    pub(super) fn add_pointer(&mut self, path: &str) {
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        let mut here = self;
        for segment in segments.iter().take(segments.len().saturating_sub(1)) {
            let segment = segment.replace("~1", "/").replace("~0", "~");
            here = here.children.entry(segment).or_default();
        }
    }
}

/// The JSON of `document`, whose expected type is `ty`; it may have any other shape.
pub(super) fn write(ty: &'static Type, document: &Value, patched: &PatchedObjects) -> String {
    let mut text = String::new();
    write_value(document, GoType::Message(ty), Some(patched), &mut text);
    text
}

/// The Go type of a value, which determines the field order.
#[derive(Clone, Copy)]
enum GoType {
    Message(&'static Type),
    /// A list or a map of messages.
    Repeated(&'static Field),
    Unknown,
}

impl GoType {
    fn of(field: &'static Field) -> Self {
        match (field.container, field.message()) {
            (_, None) => Self::Unknown,
            (Container::One, Some(message)) => Self::Message(message),
            (Container::List | Container::Map, Some(_)) => Self::Repeated(field),
        }
    }

    /// The type of a member.
    fn member(self, name: &str) -> Self {
        match self {
            Self::Message(ty) => ty.field(name).map_or(Self::Unknown, Self::of),
            Self::Repeated(field) => field.message().map_or(Self::Unknown, Self::Message),
            Self::Unknown => Self::Unknown,
        }
    }
}

fn write_value(
    value: &Value,
    go_type: GoType,
    patched: Option<&PatchedObjects>,
    text: &mut String,
) {
    match value {
        Value::Array(elements) => {
            text.push('[');
            for (index, element) in elements.iter().enumerate() {
                separate(index, text);
                let name = index.to_string();
                let patched = patched.and_then(|it| it.children.get(&name));
                write_value(element, go_type.member(&name), patched, text);
            }
            text.push(']');
        }
        Value::Object(members) => {
            text.push('{');
            for (index, name) in order(members, go_type, patched).into_iter().enumerate() {
                separate(index, text);
                text.push_str(&Value::from(name).to_string());
                text.push(':');
                let patched = patched.and_then(|it| it.children.get(name));
                write_value(&members[name], go_type.member(name), patched, text);
            }
            text.push('}');
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}

fn separate(index: usize, text: &mut String) {
    if index > 0 {
        text.push(',');
    }
}

/// The names of the members in output order.
fn order<'a>(
    members: &'a Map<String, Value>,
    go_type: GoType,
    patched: Option<&PatchedObjects>,
) -> Vec<&'a str> {
    let mut names: Vec<&str> = members.keys().map(String::as_str).collect();
    names.sort_unstable();
    if let (GoType::Message(ty), None) = (go_type, patched) {
        names.sort_by_key(|name| ty.declared(name).map_or(u8::MAX, |(place, _)| place));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    fn check(patched: &PatchedObjects, expect: &str) {
        let service = json!({"kind": "Service", "apiVersion": "v1",
            "metadata": {"creationTimestamp": null, "name": "a",
                "managedFields": [{"fieldsType": "FieldsV1", "manager": "m"}]},
            "spec": {"clusterIP": "x", "ports": [{"port": 1, "name": "p"}]}});
        let ty = types::find("core/v1.Service").unwrap();
        assert_eq!(write(ty, &service, patched), expect);
    }

    #[test]
    fn an_unpatched_object_keeps_the_field_order_of_its_type() {
        check(
            &PatchedObjects::default(),
            r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"a","creationTimestamp":null,"managedFields":[{"manager":"m","fieldsType":"FieldsV1"}]},"spec":{"ports":[{"name":"p","port":1}],"clusterIP":"x"}}"#,
        );
    }

    #[test]
    fn the_keys_of_a_patched_object_are_sorted() {
        let mut patched = PatchedObjects::default();
        patched.add_merge_patch(&json!({"spec": {"clusterIP": 1}}));
        patched.add_pointer("/metadata/managedFields/0");
        check(
            &patched,
            r#"{"apiVersion":"v1","kind":"Service","metadata":{"creationTimestamp":null,"managedFields":[{"manager":"m","fieldsType":"FieldsV1"}],"name":"a"},"spec":{"clusterIP":"x","ports":[{"name":"p","port":1}]}}"#,
        );
    }
}
