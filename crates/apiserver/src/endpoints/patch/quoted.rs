//! A patched object of a built-in kind, as messages quote it.
//!
//! Upstream patches text: what the patch takes apart is put together again with sorted keys, and
//! all the rest stays as Go has written it, in the order of its types.

use machinery::{Map, Value};
use std::collections::BTreeMap;
use types::{Container, Field, Type};

/// The objects of a document that a patch takes apart, from the outermost on.
#[derive(Debug, Default)]
pub(super) struct Apart {
    below: BTreeMap<String, Apart>,
}

impl Apart {
    /// Notes the objects that have something in common with those of a merge patch.
    pub(super) fn note_members(&mut self, patch: &Value) {
        for (name, value) in patch.as_object().into_iter().flatten() {
            if value.is_object() {
                self.below.entry(name.clone()).or_default().note_members(value);
            }
        }
    }

    /// Notes what is on the way to the place that a path names.
    pub(super) fn note_path(&mut self, path: &str) {
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        let mut here = self;
        for segment in segments.iter().take(segments.len().saturating_sub(1)) {
            let segment = segment.replace("~1", "/").replace("~0", "~");
            here = here.below.entry(segment).or_default();
        }
    }
}

/// The text of `document`, which may be anything, but would be a `ty`.
pub(super) fn as_go_writes(ty: &'static Type, document: &Value, apart: &Apart) -> String {
    let mut text = String::new();
    write(document, Shape::Message(ty), Some(apart), &mut text);
    text
}

/// What Go knows of a value.
#[derive(Clone, Copy)]
enum Shape {
    Message(&'static Type),
    /// A list or a map of values.
    Many(&'static Field),
    Unknown,
}

impl Shape {
    fn of(field: &'static Field) -> Self {
        match (field.container, field.message()) {
            (_, None) => Self::Unknown,
            (Container::One, Some(message)) => Self::Message(message),
            (Container::List | Container::Map, Some(_)) => Self::Many(field),
        }
    }

    /// Of a member.
    fn below(self, name: &str) -> Self {
        match self {
            Self::Message(ty) => ty.field(name).map_or(Self::Unknown, Self::of),
            Self::Many(field) => field.message().map_or(Self::Unknown, Self::Message),
            Self::Unknown => Self::Unknown,
        }
    }
}

fn write(value: &Value, shape: Shape, apart: Option<&Apart>, text: &mut String) {
    match value {
        Value::Array(elements) => {
            text.push('[');
            for (index, element) in elements.iter().enumerate() {
                separate(index, text);
                let name = index.to_string();
                let apart = apart.and_then(|it| it.below.get(&name));
                write(element, shape.below(&name), apart, text);
            }
            text.push(']');
        }
        Value::Object(members) => {
            text.push('{');
            for (index, name) in order(members, shape, apart).into_iter().enumerate() {
                separate(index, text);
                text.push_str(&Value::from(name).to_string());
                text.push(':');
                let apart = apart.and_then(|it| it.below.get(name));
                write(&members[name], shape.below(name), apart, text);
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

/// The names of the members, in the order in which they are written.
fn order<'a>(members: &'a Map<String, Value>, shape: Shape, apart: Option<&Apart>) -> Vec<&'a str> {
    let mut names: Vec<&str> = members.keys().map(String::as_str).collect();
    names.sort_unstable();
    if let (Shape::Message(ty), None) = (shape, apart) {
        names.sort_by_key(|name| ty.declared(name).map_or(u8::MAX, |(place, _)| place));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    fn check(apart: &Apart, expect: &str) {
        let service = json!({"kind": "Service", "apiVersion": "v1",
            "metadata": {"creationTimestamp": null, "name": "a",
                "managedFields": [{"fieldsType": "FieldsV1", "manager": "m"}]},
            "spec": {"clusterIP": "x", "ports": [{"port": 1, "name": "p"}]}});
        let ty = types::find("core/v1.Service").unwrap();
        assert_eq!(as_go_writes(ty, &service, apart), expect);
    }

    #[test]
    fn what_a_patch_leaves_alone_keeps_the_order_of_its_type() {
        check(
            &Apart::default(),
            r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"a","creationTimestamp":null,"managedFields":[{"manager":"m","fieldsType":"FieldsV1"}]},"spec":{"ports":[{"name":"p","port":1}],"clusterIP":"x"}}"#,
        );
    }

    #[test]
    fn what_a_patch_takes_apart_is_sorted() {
        let mut apart = Apart::default();
        apart.note_members(&json!({"spec": {"clusterIP": 1}}));
        apart.note_path("/metadata/managedFields/0");
        check(
            &apart,
            r#"{"apiVersion":"v1","kind":"Service","metadata":{"creationTimestamp":null,"managedFields":[{"manager":"m","fieldsType":"FieldsV1"}],"name":"a"},"spec":{"clusterIP":"x","ports":[{"name":"p","port":1}]}}"#,
        );
    }
}
