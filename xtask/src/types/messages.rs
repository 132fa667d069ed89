//! Reads k8s-pb: the messages of the API, with their tags and the markers in their comments.
//!
//! ```text
//! /// +listType=map                         marker
//! #[prost(message, repeated, tag = "2")]    shape, tag
//! pub containers: ::prost::alloc::vec::Vec<Container>,
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;

/// The module of a message: the folders below `src`, joined by `/`.
pub(crate) type Module = String;

/// Module and name, the name as prost spells it (`HttpGetAction`).
pub(crate) type Key = (Module, String);

/// One protobuf message.
#[derive(Clone)]
pub(crate) struct Message {
    /// The markers in its comment without their `+`, e.g. `structType=atomic`.
    pub(crate) markers: Vec<String>,
    pub(crate) fields: Vec<Field>,
}

/// One field of a message.
#[derive(Clone)]
pub(crate) struct Field {
    /// The name in prost's spelling.
    pub(crate) name: String,
    pub(crate) tag: u16,
    pub(crate) container: Container,
    pub(crate) item: Item,
    pub(crate) markers: Vec<String>,
}

/// Whether a field holds one value, a list or a map.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Container {
    One,
    List,
    Map,
}

/// The type of a value of a field.
#[derive(Clone, PartialEq)]
pub(crate) enum Item {
    /// `string`, `int32`, `int64`, `bool`, `double` or `bytes`.
    Scalar(&'static str),
    Message(Key),
}

const SCALARS: [&str; 6] = ["string", "int32", "int64", "bool", "double", "bytes"];

/// Every message below the crate's `src`.
pub(crate) fn read(source: &Path) -> anyhow::Result<BTreeMap<Key, Message>> {
    let mut messages = BTreeMap::new();
    for path in super::rust_files(source)? {
        let text = fs::read_to_string(&path)?;
        let folder = path.parent().and_then(|folder| folder.strip_prefix(source).ok());
        let module = folder.unwrap_or(Path::new("")).to_string_lossy().replace('\\', "/");
        read_module(&module, &text, &mut messages)
            .with_context(|| format!("cannot read {}", path.display()))?;
    }
    Ok(messages)
}

fn read_module(
    module: &str,
    text: &str,
    messages: &mut BTreeMap<Key, Message>,
) -> anyhow::Result<()> {
    let mut markers = Vec::new();
    let mut attribute = None;
    let mut message: Option<(Key, Message)> = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix("///") {
            markers.extend(comment.trim().strip_prefix('+').map(str::to_owned));
        } else if let Some(shape) = line.strip_prefix("#[prost(") {
            attribute = Some(shape.trim_end_matches(")]"));
        } else if let Some(rest) = line.strip_prefix("pub struct ") {
            let name = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            let found = Message { markers: std::mem::take(&mut markers), fields: Vec::new() };
            message = Some(((module.to_owned(), name.to_owned()), found));
            if rest.ends_with("{}") {
                messages.extend(message.take());
            }
        } else if let (Some(shape), Some(rest)) = (attribute.take(), line.strip_prefix("pub ")) {
            let mut declaration = rest.to_owned();
            while !is_whole(&declaration) {
                declaration.push_str(lines.next().context("a field does not end")?.trim());
            }
            let field = field(module, shape, &declaration, std::mem::take(&mut markers))?;
            message.as_mut().context("a field outside of a message")?.1.fields.push(field);
        } else if line == "}" {
            messages.extend(message.take());
        } else if !line.starts_with("#[") {
            markers.clear();
        }
    }
    Ok(())
}

fn field(
    module: &str,
    shape: &str,
    declaration: &str,
    markers: Vec<String>,
) -> anyhow::Result<Field> {
    let (name, rust) = declaration.split_once(':').context("a field without a type")?;
    let tag =
        shape.rsplit("tag = \"").next().and_then(|tag| tag.trim_end_matches('"').parse().ok());
    let (container, kind) = match shape.strip_prefix("btree_map = \"string, ") {
        Some(value) => (Container::Map, value),
        None if shape.contains("repeated") => (Container::List, shape),
        None => (Container::One, shape),
    };
    let kind = kind.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let item = match SCALARS.iter().find(|scalar| **scalar == kind) {
        Some(scalar) => Item::Scalar(scalar),
        None => {
            Item::Message(resolve(module, rust).with_context(|| format!("unknown type {rust}"))?)
        }
    };
    let tag = tag.with_context(|| format!("{name} has no tag"))?;
    Ok(Field { name: name.to_owned(), tag, container, item, markers })
}

/// Returns whether a declaration, which may span lines, is complete.
fn is_whole(declaration: &str) -> bool {
    let open = declaration.matches('<').count() - declaration.matches('>').count();
    open == 0 && declaration.ends_with(',')
}

/// `Option<super::super::core::v1::Pod>`, seen from `api/apps/v1`, is `Pod` of `api/core/v1`.
fn resolve(module: &str, rust: &str) -> Option<Key> {
    let inner = rust.trim_end_matches([',', '>', ' ']).rsplit(['<', ',']).next()?.trim();
    let mut path: Vec<&str> = module.split('/').collect();
    for part in inner.split("::") {
        if part == "super" {
            path.pop()?;
        } else {
            path.push(part);
        }
    }
    let name = path.pop()?.to_owned();
    Some((path.join("/"), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_may_span_lines_and_modules() {
        let text = r#"
            /// +structType=atomic
            #[derive(Clone, PartialEq, ::prost::Message)]
            pub struct Usage {
                /// +listType=map
                /// +listMapKey=name
                #[prost(message, repeated, tag = "2")]
                pub items: ::prost::alloc::vec::Vec<Item>,
                #[prost(btree_map = "string, message", tag = "11")]
                pub requests: ::prost::alloc::collections::BTreeMap<
                    ::prost::alloc::string::String,
                    super::super::core::v1::Amount,
                >,
            }
        "#;
        let mut messages = BTreeMap::new();
        read_module("api/metrics/v1", text, &mut messages).unwrap();
        let usage = &messages[&("api/metrics/v1".to_owned(), "Usage".to_owned())];
        assert_eq!(usage.markers, ["structType=atomic"]);
        let [items, requests] = usage.fields.as_slice() else { panic!("two fields") };
        assert_eq!((items.name.as_str(), items.tag), ("items", 2));
        assert_eq!(items.markers, ["listType=map", "listMapKey=name"]);
        assert!(items.container == Container::List && requests.container == Container::Map);
        assert!(requests.item == Item::Message(("api/core/v1".to_owned(), "Amount".to_owned())));
        assert_eq!(requests.tag, 11);
    }
}
