//! The CEL types of kinds, as in their published schemas. A field without a type in the schema,
//! such as a quantity, which may be a string or a number, is not declared.

use crate::storage::catalog::ServedResource;
use ::types::resource;
use ::types::{Container, Field, Item, Type};
use cel::{DeclKind, DeclType, Object};

/// The maximum size of values whose schema declares none.
const UNLIMITED: u64 = u64::MAX;

/// The type of a kind's objects in a version. Nested types are named by their path, which begins
/// with `name`.
pub(super) fn declare(served: &ServedResource, version: usize, name: &str) -> Option<DeclType> {
    match &served.version(version).shape {
        resource::Shape::Typed(ty) => Some(message(ty, name, &mut Vec::new())),
        resource::Shape::Structural(schema) => {
            let metadata = types::find("meta/v1.ObjectMeta")?;
            let metadata = message(metadata, &format!("{name}.metadata"), &mut Vec::new());
            schema.published_type(name, &metadata)
        }
    }
}

/// The CEL type of a built-in type that is nested in the types `within`. A recursive type is empty
/// at the second level.
fn message(ty: &'static Type, name: &str, within: &mut Vec<&'static str>) -> DeclType {
    if within.contains(&ty.name()) {
        return empty(name);
    }
    within.push(ty.name());
    let fields = ty.fields().filter_map(|it| {
        let name = format!("{name}.{}", it.json());
        Some((it.json().to_owned(), field(it, &name, within)?))
    });
    let fields: Vec<_> = fields.collect();
    within.pop();
    DeclType::object(Object::new(name, fields))
}

fn field(field: &Field, name: &str, within: &mut Vec<&'static str>) -> Option<DeclType> {
    Some(match field.container {
        Container::One => item(field.item, name, within)?,
        Container::List => {
            DeclType::list(item(field.item, &format!("{name}.@idx"), within)?, UNLIMITED)
        }
        Container::Map => {
            DeclType::map(item(field.item, &format!("{name}.@elem"), within)?, UNLIMITED)
        }
    })
}

fn item(item: Item, name: &str, within: &mut Vec<&'static str>) -> Option<DeclType> {
    let text = || DeclType::string(UNLIMITED);
    Some(match item {
        Item::Message(id) => message(id.get(), name, within),
        Item::String => text(),
        Item::Strings => DeclType::list(text(), UNLIMITED),
        Item::Int32 | Item::Int64 => DeclType::int(),
        Item::Bool => DeclType::new(DeclKind::Bool, 0),
        Item::Double => DeclType::new(DeclKind::Double, 0),
        Item::Bytes => DeclType::new(DeclKind::Bytes, UNLIMITED),
        Item::Time | Item::MicroTime => DeclType::new(DeclKind::Timestamp, 0),
        Item::IntOrString => DeclType::new(DeclKind::IntOrString, UNLIMITED),
        Item::FieldsV1 | Item::RawExtension => empty(name),
        Item::Quantity
        | Item::Json
        | Item::SchemaOrBool
        | Item::SchemaOrArray
        | Item::SchemaOrStrings => return None,
    })
}

fn empty(name: &str) -> DeclType {
    DeclType::object(Object::new(name, []))
}
