//! The declaration of a schema node for rules: its type, and the sizes that bound costs.
//!
//! Sizes follow upstream to the byte, since whether a rule is accepted depends on them: a string
//! without `maxLength` may fill a request, a list without `maxItems` has as many items as fit.

use std::sync::Arc;

use crate::format::Format;
use crate::structural::{Additional, List, Node, SizeChecks, Structural, Type};
use cel::{DeclKind, DeclType, ListKind, Object, escaping};
use machinery::Value;

/// The largest request that upstream's estimates assume, in bytes.
pub(crate) const MAX_REQUEST_SIZE: u64 = 3 * 1024 * 1024;

/// A string in a request has at least its quotes around it.
const MAX_TEXT: u64 = MAX_REQUEST_SIZE - 2;

/// The longest name of an object; a generated one has at least one character more than its prefix.
const MAX_NAME: u64 = 253;
const MAX_GENERATE_NAME: u64 = MAX_NAME - 1;

/// The declared type of a node, or None if rules cannot access its values because they have no
/// type. Object types are named by their path, beginning with `name`.
pub(crate) fn declare(node: &Node, is_resource: bool, name: &str) -> Option<DeclType> {
    Declaration { metadata: None }.of(node, is_resource, name)
}

impl Structural {
    /// The type of whole objects for expressions that see them as they are published: all resources
    /// in them have this metadata. None if the schema says nothing of them.
    pub fn published_type(&self, name: &str, metadata: &DeclType) -> Option<DeclType> {
        Declaration { metadata: Some(metadata) }.of(&self.root, true, name)
    }
}

/// How types are declared.
struct Declaration<'m> {
    /// Of every resource; if none, rules see its names alone.
    metadata: Option<&'m DeclType>,
}

impl Declaration<'_> {
    fn of(&self, node: &Node, is_resource: bool, name: &str) -> Option<DeclType> {
        let (shape, max_elements) = match node.kind {
            Type::IntOrString => (DeclKind::IntOrString, max_text(node, 4)),
            Type::Array => self.list(node, name)?,
            Type::Object => match &node.additional {
                Additional::Schema(values) => self.map(node, values, name)?,
                _ => (self.object(node, is_resource, name), 0),
            },
            Type::String => declare_text(node),
            Type::Boolean => (DeclKind::Bool, 0),
            Type::Number => (DeclKind::Double, 0),
            Type::Integer => (DeclKind::Int, 0),
            Type::Any => return None,
        };
        Some(DeclType { nullable: node.is_nullable(), ..DeclType::new(shape, max_elements) })
    }

    fn list(&self, node: &Node, name: &str) -> Option<(DeclKind, u64)> {
        let items = node.items.as_deref()?;
        let element = self.of(items, items.is_embedded(), &format!("{name}.@idx"))?;
        let kind = match &node.list {
            List::Atomic => ListKind::Atomic,
            List::Set => ListKind::Set,
            List::Map(keys) => ListKind::Map(keys.iter().map(ToString::to_string).collect()),
        };
        // Items are parted by commas.
        let fitting = MAX_TEXT / (min_size(items, items.is_embedded())? + 1);
        let non_empty = size_checks(node, |it| it.max_items);
        Some((DeclKind::List(Arc::new(element), kind), non_empty.unwrap_or(fitting)))
    }

    fn map(&self, node: &Node, values: &Node, name: &str) -> Option<(DeclKind, u64)> {
        let value = self.of(values, values.is_embedded(), &format!("{name}.@elem"))?;
        // A key of two characters in quotes, a colon and a comma.
        let fitting = MAX_TEXT / (min_size(values, values.is_embedded())? + 6);
        let non_empty = size_checks(node, |it| it.max_properties);
        Some((DeclKind::Map(Arc::new(value)), non_empty.unwrap_or(fitting)))
    }

    fn object(&self, node: &Node, is_resource: bool, name: &str) -> DeclKind {
        let supplied = is_resource && (self.metadata.is_some() || !describes_metadata(node));
        let mut fields = Vec::new();
        for (field, property) in node.properties() {
            if supplied && SUPPLIED.contains(&field) {
                continue;
            }
            let name = format!("{name}.{field}");
            let declared = self.of(property, property.is_embedded(), &name);
            fields.extend(declared.map(|it| (field.to_owned(), it)));
        }
        if supplied {
            let metadata = self.metadata.cloned().unwrap_or_else(|| declare_metadata(node, name));
            fields.push(("kind".to_owned(), DeclType::string(MAX_TEXT)));
            fields.push(("apiVersion".to_owned(), DeclType::string(MAX_TEXT)));
            fields.push(("metadata".to_owned(), metadata));
        }
        DeclKind::Object(Arc::new(Object::new(name, fields)))
    }
}

fn size_checks(node: &Node, read: impl Fn(&SizeChecks) -> Option<u64>) -> Option<u64> {
    node.checks.as_deref()?.size.as_deref().and_then(read)
}

/// The fields of a resource that rules can always access, independent of its schema.
const SUPPLIED: [&str; 3] = ["apiVersion", "kind", "metadata"];

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
fn declare_metadata(node: &Node, name: &str) -> DeclType {
    let metadata = node.property("metadata");
    let text = |field: &str, longest: u64| {
        let own = metadata.and_then(|it| it.property(field)).and_then(max_length);
        let longest = own.map_or(longest, |own| own.min(longest));
        (field.to_owned(), DeclType::string(longest * 4))
    };
    let fields = [text("name", MAX_NAME), text("generateName", MAX_GENERATE_NAME)];
    DeclType::object(Object::new(format!("{name}.metadata"), fields))
}

fn format_of(node: &Node) -> Option<Format> {
    node.checks.as_deref().and_then(|it| it.format)
}

fn declare_text(node: &Node) -> (DeclKind, u64) {
    match format_of(node) {
        Some(Format::Byte) => (DeclKind::Bytes, max_text(node, 1)),
        Some(Format::Duration) => (DeclKind::Duration, 32),
        Some(Format::Date) => (DeclKind::Date, 12),
        Some(Format::DateTime) => (DeclKind::Timestamp, 32),
        _ => {
            let enum_values = node.checks.as_deref().map_or(&[][..], |it| &it.enum_values.list);
            let longest = match (max_length(node), enum_values) {
                (None, [_, ..]) => {
                    enum_values.iter().filter_map(Value::as_str).map(str::len).max().unwrap_or(0)
                        as u64
                }
                _ => max_text(node, 4),
            };
            (DeclKind::String, longest)
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

/// The least number of bytes that a value takes in JSON; none if rules cannot see it.
pub(crate) fn min_size(node: &Node, is_resource: bool) -> Option<u64> {
    let of = |node: &Node| min_size(node, node.is_embedded());
    Some(match node.kind {
        Type::IntOrString | Type::Number | Type::Integer => 1,
        Type::Boolean => 4,
        Type::Array => of(node.items.as_deref()?).map(|_| 2)?,
        Type::Object => match &node.additional {
            Additional::Schema(values) => of(values).map(|_| 2)?,
            _ => min_object_size(node, is_resource),
        },
        Type::String => match format_of(node) {
            Some(Format::Duration) => 3,
            Some(Format::Date) => 12,
            Some(Format::DateTime) => 21,
            _ => 2,
        },
        Type::Any => return None,
    })
}

/// Two braces, and all fields that are required and have no default.
fn min_object_size(node: &Node, is_resource: bool) -> u64 {
    let supplied = is_resource && !describes_metadata(node);
    let required = node.checks.as_deref().map_or(&[][..], |it| &it.required);
    let sizes = required.iter().filter_map(|name| {
        let field = node.property(name);
        let size = match field {
            _ if supplied && SUPPLIED.contains(&&**name) => 2,
            Some(it) if it.default.is_none() => min_size(it, it.is_embedded())?,
            _ => return None,
        };
        // Quotes, a colon and a comma.
        Some(name.len() as u64 + size + 4)
    });
    2 + sizes.sum::<u64>()
}

/// What the type of an object says of a field, if rules can name that.
pub(crate) fn of_property<'d>(decl: &'d DeclType, name: &str) -> Option<&'d DeclType> {
    match &decl.shape {
        DeclKind::Object(object) => object.field(&escaping::escape(name)?).map(|it| &it.decl),
        _ => None,
    }
}

/// What the type of a list or of a map says of each value in it.
pub(crate) fn of_values(decl: &DeclType) -> Option<&DeclType> {
    match &decl.shape {
        DeclKind::List(value, _) | DeclKind::Map(value) => Some(value),
        _ => None,
    }
}
