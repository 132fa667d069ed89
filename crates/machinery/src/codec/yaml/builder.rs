//! [`Builder`]: builds a value from the parser's events.
//!
//! It has its own stack, as the JSON decoder does. A complete node with an anchor is stored, and
//! copied in place of each alias; the total size of all copies is limited by [`COPIED_MAX`].

use std::borrow::Cow;
use std::collections::HashMap;

use serde_saphyr::granit_parser::{Event, ScalarStyle, Tag};

use super::super::json::DEPTH_MAX;
use super::super::{DecodeError, Decoded, Format};
use super::{in_line, scalar};
use crate::field_path::quote;
use crate::{Map, Value};

/// The maximum total [weight](Node::weight) of the nodes that anchors store and aliases copy.
const COPIED_MAX: usize = 8 << 20;
/// More repeated keys than this are not reported.
const DUPLICATES_MAX: usize = 100;

#[derive(Default)]
pub(super) struct Builder {
    open: Vec<Open>,
    root: Option<Value>,
    anchors: HashMap<usize, Node>,
    copied: usize,
    duplicates: Vec<String>,
}

/// A complete value.
#[derive(Clone)]
struct Node {
    value: Value,
    /// An estimate of its memory in bytes.
    weight: usize,
    /// The levels of nesting; 0 for a scalar.
    depth: usize,
}

/// A collection that is still being read.
struct Open {
    collection: Collection,
    anchor: usize,
    weight: usize,
    depth: usize,
}

enum Collection {
    Sequence(Vec<Value>),
    Mapping {
        map: Map<String, Value>,
        /// The key whose value comes next.
        key: Option<Key>,
        /// The values of `<<`, whose entries are added for keys that the mapping lacks.
        merged: Vec<Value>,
    },
}

enum Key {
    Merge,
    Text { text: String, shown: String },
}

impl Builder {
    /// Takes the next event, which begins in `line`.
    pub(super) fn take(&mut self, event: Event<'_>, line: usize) -> Result<(), DecodeError> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.scalar(&text, style, anchor, tag.as_deref(), line)
            }
            Event::SequenceStart(_, anchor, _) => {
                self.begin(Collection::Sequence(Vec::new()), anchor, line)
            }
            Event::MappingStart(_, anchor, _) => {
                let mapping =
                    Collection::Mapping { map: Map::new(), key: None, merged: Vec::new() };
                self.begin(mapping, anchor, line)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(line),
            Event::Alias(anchor) => {
                let node = self
                    .anchors
                    .get(&anchor)
                    .cloned()
                    .ok_or_else(|| in_line(line, "anchor value contains itself"))?;
                self.charge(node.weight)?;
                self.record_duplicate(line);
                self.place(node, line)
            }
            Event::UnresolvedAlias(name) => {
                Err(DecodeError::new(format!("yaml: unknown anchor '{name}' referenced")))
            }
            _ => Ok(()),
        }
    }

    /// The complete document.
    pub(super) fn finish(self) -> Decoded {
        Decoded {
            value: self.root.unwrap_or_default(),
            duplicates: self.duplicates,
            format: Format::Yaml,
            ..Decoded::default()
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        line: usize,
    ) -> Result<(), DecodeError> {
        let is_plain = style == ScalarStyle::Plain;
        if self.expects_key() && is_plain && tag.is_none() && text == "<<" {
            self.set_key(Key::Merge);
            return Ok(());
        }
        let tag: Option<Cow<'_, str>> = tag.map(|tag| tag.to_string().into());
        let value = scalar::resolve(text, is_plain, tag.as_deref())
            .map_err(|error| DecodeError::new(format!("yaml: {error}")))?;
        let node = Node { value, weight: 16 + text.len(), depth: 0 };
        self.store_anchor(anchor, &node)?;
        if !self.expects_key() {
            self.record_duplicate(line);
        }
        self.place(node, line)
    }

    fn begin(
        &mut self,
        collection: Collection,
        anchor: usize,
        line: usize,
    ) -> Result<(), DecodeError> {
        if self.expects_key() {
            return Err(in_line(line, "invalid map key"));
        }
        if self.open.len() >= DEPTH_MAX {
            return Err(DecodeError::new("yaml: exceeded max depth"));
        }
        self.record_duplicate(line);
        self.open.push(Open { collection, anchor, weight: 16, depth: 1 });
        Ok(())
    }

    fn end(&mut self, line: usize) -> Result<(), DecodeError> {
        let Some(Open { collection, anchor, weight, depth }) = self.open.pop() else {
            return Ok(());
        };
        let value = match collection {
            Collection::Sequence(list) => Value::Array(list),
            Collection::Mapping { mut map, merged, .. } => {
                for source in merged {
                    merge(&mut map, source)?;
                }
                Value::Object(map)
            }
        };
        let node = Node { value, weight, depth };
        self.store_anchor(anchor, &node)?;
        self.place(node, line)
    }

    fn store_anchor(&mut self, anchor: usize, node: &Node) -> Result<(), DecodeError> {
        if anchor > 0 {
            self.charge(node.weight)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(())
    }

    fn charge(&mut self, weight: usize) -> Result<(), DecodeError> {
        self.copied += weight;
        match self.copied {
            ..=COPIED_MAX => Ok(()),
            _ => Err(DecodeError::new("yaml: document contains excessive aliasing")),
        }
    }

    fn expects_key(&self) -> bool {
        matches!(
            self.open.last(),
            Some(Open { collection: Collection::Mapping { key: None, .. }, .. })
        )
    }

    fn set_key(&mut self, next: Key) {
        if let Some(Open { collection: Collection::Mapping { key, .. }, .. }) = self.open.last_mut()
        {
            *key = Some(next);
        }
    }

    /// Upstream reports a repeated key in the line where its value begins.
    fn record_duplicate(&mut self, line: usize) {
        let Some(Open { collection: Collection::Mapping { map, key, .. }, .. }) = self.open.last()
        else {
            return;
        };
        if let Some(Key::Text { text, shown }) = key
            && map.contains_key(text)
            && self.duplicates.len() < DUPLICATES_MAX
        {
            self.duplicates.push(format!("line {line}: key {shown} already set in map"));
        }
    }

    /// Adds a complete node to the innermost collection, as a key or as a value.
    fn place(&mut self, node: Node, line: usize) -> Result<(), DecodeError> {
        if self.expects_key() {
            let key = key_of(&node.value).ok_or_else(|| in_line(line, "invalid map key"))?;
            self.set_key(key);
            return Ok(());
        }
        let open_depth = self.open.len();
        let Some(parent) = self.open.last_mut() else {
            self.root = Some(node.value);
            return Ok(());
        };
        if open_depth + node.depth > DEPTH_MAX {
            return Err(DecodeError::new("yaml: exceeded max depth"));
        }
        parent.weight += node.weight;
        parent.depth = parent.depth.max(node.depth + 1);
        match &mut parent.collection {
            Collection::Sequence(list) => list.push(node.value),
            Collection::Mapping { map, key, merged } => match key.take() {
                Some(Key::Merge) => merged.push(node.value),
                Some(Key::Text { text, .. }) => {
                    map.insert(text, node.value);
                }
                None => {}
            },
        }
        Ok(())
    }
}

/// The key as the string for JSON, and as Go prints it in errors.
fn key_of(value: &Value) -> Option<Key> {
    let (text, shown) = match value {
        Value::String(text) => (text.clone(), quote(text)),
        Value::Bool(_) | Value::Number(_) => (value.to_string(), value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    Some(Key::Text { text, shown })
}

/// Adds the missing entries from a mapping, or from several of which the first takes precedence.
fn merge(map: &mut Map<String, Value>, source: Value) -> Result<(), DecodeError> {
    let sources = match source {
        Value::Array(list) => list,
        other => vec![other],
    };
    for source in sources {
        let Value::Object(source) = source else {
            return Err(DecodeError::new(
                "yaml: map merge requires map or sequence of maps as the value",
            ));
        };
        for (key, value) in source {
            map.entry(key).or_insert(value);
        }
    }
    Ok(())
}
