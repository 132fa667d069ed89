//! What a node of a schema looks like to rules: its declared type, and the sizes that bound costs.
//!
//! Sizes follow upstream to the byte, since whether a rule is accepted depends on them: a string
//! without `maxLength` may fill a request, a list without `maxItems` has as many items as fit.

use crate::format::Format;
use crate::structural::{Additional, List, Node, Type};
use cel::{DeclType, ListKind, Object, Shape};
use machinery::Value;
use std::sync::Arc;

/// The largest request that upstream's estimates assume, in bytes.
pub(crate) const MAX_REQUEST_SIZE: u64 = 3 * 1024 * 1024;

/// A string in a request has at least its quotes around it.
const MAX_TEXT: u64 = MAX_REQUEST_SIZE - 2;

/// The longest name of an object; a generated one has at least one character more than its prefix.
const MAX_NAME: u64 = 253;
const MAX_GENERATE_NAME: u64 = MAX_NAME - 1;

/// The type of all values at a node.
#[derive(Debug, Clone)]
pub(crate) struct Declared {
    pub(crate) decl: DeclType,
    /// The least number of bytes that a value takes in JSON.
    pub(crate) min_size: u64,
}

impl Declared {
    fn new(shape: Shape, max_elements: u64, min_size: u64) -> Self {
        Self { decl: DeclType::new(shape, max_elements), min_size }
    }
}

/// The declared type of a node, or none if rules cannot see its values: nothing is known of them.
/// Types of objects are named after where they are, beginning with `name`.
pub(crate) fn declare(node: &Node, is_resource: bool, name: &str) -> Option<Declared> {
    let mut declared = match node.kind {
        Type::IntOrString => Declared::new(Shape::IntOrString, max_text(node, 4), 1),
        Type::Array => declare_list(node, name)?,
        Type::Object => match &node.additional {
            Additional::Schema(values) => declare_map(node, values, name)?,
            _ => declare_object(node, is_resource, name),
        },
        Type::String => declare_text(node),
        Type::Boolean => Declared::new(Shape::Bool, 0, 4),
        Type::Number => Declared::new(Shape::Double, 0, 1),
        Type::Integer => Declared::new(Shape::Int, 0, 1),
        Type::Any => return None,
    };
    declared.decl.nullable = node.is_nullable();
    Some(declared)
}

fn declare_list(node: &Node, name: &str) -> Option<Declared> {
    let items = node.items.as_deref()?;
    let element = declare(items, items.is_embedded(), &format!("{name}.@idx"))?;
    let kind = match &node.list {
        List::Atomic => ListKind::Atomic,
        List::Set => ListKind::Set,
        List::Map(keys) => ListKind::Map(keys.iter().map(ToString::to_string).collect()),
    };
    // Items are parted by commas.
    let fitting = MAX_TEXT / (element.min_size + 1);
    let stated = size_checks(node, |it| it.max_items);
    let shape = Shape::List(Arc::new(element.decl), kind);
    Some(Declared::new(shape, stated.unwrap_or(fitting), 2))
}

fn declare_map(node: &Node, values: &Node, name: &str) -> Option<Declared> {
    let value = declare(values, values.is_embedded(), &format!("{name}.@elem"))?;
    // A key of two characters in quotes, a colon and a comma.
    let fitting = MAX_TEXT / (value.min_size + 6);
    let stated = size_checks(node, |it| it.max_properties);
    Some(Declared::new(Shape::Map(Arc::new(value.decl)), stated.unwrap_or(fitting), 2))
}

fn size_checks(
    node: &Node,
    read: impl Fn(&crate::structural::SizeChecks) -> Option<u64>,
) -> Option<u64> {
    node.checks.as_deref()?.size.as_deref().and_then(read)
}

fn declare_object(node: &Node, is_resource: bool, name: &str) -> Declared {
    let supplied = is_resource && !describes_metadata(node);
    let required = node.checks.as_deref().map_or(&[][..], |it| &it.required);
    let mut min_size = 2;
    let mut fields = Vec::new();
    let mut add = |field: &str, declared: Declared, has_default: bool| {
        if !has_default && required.iter().any(|it| **it == *field) {
            // Quotes, a colon and a comma.
            min_size += field.len() as u64 + declared.min_size + 4;
        }
        fields.push((field.to_owned(), declared.decl));
    };
    for (field, property) in node.properties() {
        if supplied && matches!(field, "kind" | "apiVersion" | "metadata") {
            continue;
        }
        let name = format!("{name}.{field}");
        if let Some(declared) = declare(property, property.is_embedded(), &name) {
            add(field, declared, property.default.is_some());
        }
    }
    if supplied {
        add("kind", Declared::new(Shape::String, MAX_TEXT, 2), false);
        add("apiVersion", Declared::new(Shape::String, MAX_TEXT, 2), false);
        add("metadata", declare_metadata(node, name), false);
    }
    let shape = Shape::Object(Arc::new(Object::new(name, fields)));
    Declared::new(shape, 0, min_size)
}

/// Whether the schema of a resource itself says all that rules always see of it.
fn describes_metadata(node: &Node) -> bool {
    let is = |node: Option<&Node>, kind| node.is_some_and(|it| it.kind == kind);
    let metadata = node.property("metadata");
    let name = |name| metadata.and_then(|it| it.property(name));
    is(node.property("kind"), Type::String)
        && is(node.property("apiVersion"), Type::String)
        && is(metadata, Type::Object)
        && is(name("name"), Type::String)
        && is(name("generateName"), Type::String)
}

/// Of the metadata of a resource rules see the names.
fn declare_metadata(node: &Node, name: &str) -> Declared {
    let metadata = node.property("metadata");
    let text = |field: &str, longest: u64| {
        let own = metadata.and_then(|it| it.property(field)).and_then(max_length);
        let longest = own.map_or(longest, |own| own.min(longest));
        (field.to_owned(), DeclType::string(longest * 4))
    };
    let fields = [text("name", MAX_NAME), text("generateName", MAX_GENERATE_NAME)];
    let object = Object::new(format!("{name}.metadata"), fields);
    Declared::new(Shape::Object(Arc::new(object)), 0, 2)
}

fn declare_text(node: &Node) -> Declared {
    match node.checks.as_deref().and_then(|it| it.format) {
        Some(Format::Byte) => Declared::new(Shape::Bytes, max_text(node, 1), 2),
        Some(Format::Duration) => Declared::new(Shape::Duration, 32, 3),
        Some(Format::Date) => Declared::new(Shape::Date, 12, 12),
        Some(Format::DateTime) => Declared::new(Shape::Timestamp, 32, 21),
        _ => {
            let choices = node.checks.as_deref().map_or(&[][..], |it| &it.choices);
            let longest = match (max_length(node), choices) {
                (None, [_, ..]) => {
                    choices.iter().filter_map(Value::as_str).map(str::len).max().unwrap_or(0) as u64
                }
                _ => max_text(node, 4),
            };
            Declared::new(Shape::String, longest, 2)
        }
    }
}

fn max_length(node: &Node) -> Option<u64> {
    node.checks.as_deref()?.text.as_deref()?.max_length
}

/// The most that a text can be long; a character may have `width` bytes.
fn max_text(node: &Node, width: u64) -> u64 {
    max_length(node).map_or(MAX_TEXT, |it| it.saturating_mul(width))
}
