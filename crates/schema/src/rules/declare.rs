//! The CEL type of a schema node, with the maximum sizes from which costs are estimated.
//!
//! The sizes are exactly upstream's, because they decide whether a rule is accepted: a string
//! without `maxLength` may fill a request, a list without `maxItems` has as many items as fit into
//! a request.

use std::sync::Arc;

use crate::format::Format;
use crate::structural::{Additional, List, Node, SizeChecks, Structural, Type};
use cel::{DeclKind, DeclType, ListKind, Object, escaping};
use machinery::Value;

/// The largest request that upstream's estimates assume, in bytes.
pub(crate) const MAX_REQUEST_SIZE: u64 = 3 * 1024 * 1024;

/// The longest string in a request, which also contains two quotes.
const MAX_TEXT: u64 = MAX_REQUEST_SIZE - 2;

/// The longest name of an object. A generated name is longer than its `generateName`.
const MAX_NAME: u64 = 253;
const MAX_GENERATE_NAME: u64 = MAX_NAME - 1;

/// The declared type of a node; None if its values have no type, so that rules cannot access them.
/// The names of object types are their paths, beginning with `name`.
pub(crate) fn declare(node: &Node, is_resource: bool, name: &str) -> Option<DeclType> {
    Declaration { metadata: None }.of(node, is_resource, name)
}

impl Structural {
    /// The type of whole objects for expressions of admission policies, in which all resources have
    /// the full metadata `metadata`. None if the schema has no type.
    pub fn published_type(&self, name: &str, metadata: &DeclType) -> Option<DeclType> {
        Declaration { metadata: Some(metadata) }.of(&self.root, true, name)
    }
}

/// Options of the declaration.
struct Declaration<'m> {
    /// The type of the metadata of all resources; if None, only the names are declared.
    metadata: Option<&'m DeclType>,
}

impl Declaration<'_> {
    fn of(&self, node: &Node, is_resource: bool, name: &str) -> Option<DeclType> {
        let (kind, max_elements) = match node.kind {
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
        Some(DeclType { nullable: node.is_nullable(), ..DeclType::new(kind, max_elements) })
    }

    fn list(&self, node: &Node, name: &str) -> Option<(DeclKind, u64)> {
        let items = node.items.as_deref()?;
        let element = self.of(items, items.is_embedded(), &format!("{name}.@idx"))?;
        let kind = match &node.list {
            List::Atomic => ListKind::Atomic,
            List::Set => ListKind::Set,
            List::Map(keys) => ListKind::Map(keys.iter().map(ToString::to_string).collect()),
        };
        // A comma follows each item.
        let fitting = MAX_TEXT / (min_size(items, items.is_embedded())? + 1);
        let max_items = size_checks(node, |it| it.max_items);
        Some((DeclKind::List(Arc::new(element), kind), max_items.unwrap_or(fitting)))
    }

    fn map(&self, node: &Node, values: &Node, name: &str) -> Option<(DeclKind, u64)> {
        let value = self.of(values, values.is_embedded(), &format!("{name}.@elem"))?;
        // As upstream: two quotes, a key of two characters, a colon and a comma.
        let fitting = MAX_TEXT / (min_size(values, values.is_embedded())? + 6);
        let max_properties = size_checks(node, |it| it.max_properties);
        Some((DeclKind::Map(Arc::new(value)), max_properties.unwrap_or(fitting)))
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

/// The fields of a resource that rules can access even if the schema does not specify them.
const SUPPLIED: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Whether the schema of a resource itself specifies all fields that rules can always access.
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

/// The type of a resource's metadata for rules: only the names.
fn declare_metadata(node: &Node, name: &str) -> DeclType {
    let metadata = node.property("metadata");
    let text = |field: &str, longest: u64| {
        let max_length = metadata.and_then(|it| it.property(field)).and_then(max_length);
        let longest = max_length.map_or(longest, |it| it.min(longest));
        // A character has up to four bytes in UTF-8.
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

/// The maximum length of a string in bytes, if a character has up to `width` bytes.
fn max_text(node: &Node, width: u64) -> u64 {
    max_length(node).map_or(MAX_TEXT, |it| it.saturating_mul(width))
}

/// The minimum size of a value in JSON, in bytes; None if rules cannot access it.
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

/// Two braces, and all required fields without a default.
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

/// The type of a property of an object; None if rules cannot access it.
pub(crate) fn property_decl<'d>(decl: &'d DeclType, name: &str) -> Option<&'d DeclType> {
    match &decl.kind {
        DeclKind::Object(object) => object.field(&escaping::escape(name)?).map(|it| &it.decl),
        _ => None,
    }
}

/// The type of the elements of a list or a map.
pub(crate) fn element_decl(decl: &DeclType) -> Option<&DeclType> {
    match &decl.kind {
        DeclKind::List(value, _) | DeclKind::Map(value) => Some(value),
        _ => None,
    }
}
