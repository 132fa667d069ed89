//! [`Schema`]: the type of an object for a strategic merge patch, as the Go value that upstream
//! has.

use super::Error;
use crate::{Container, Emit, Field, Item, Type};

/// The one field with the patch strategy `replace`, for which the table of types has no marker.
const REPLACED: (&str, &str) = ("policy/v1.PodDisruptionBudgetSpec", "selector");

/// What an object is in Go.
#[derive(Debug, Clone, Copy)]
pub(super) enum Schema {
    /// A struct, or a pointer to one.
    Struct { ty: &'static Type, pointer: bool },
    /// A struct of that name with a special JSON form. Its fields are unknown here, so that
    /// primitive values merge but objects below them do not.
    Opaque(&'static str),
    /// Anything else, by its kind. The types of the values of a map are unknown as well.
    Other(&'static str),
}

/// How the objects of a field merge.
#[derive(Debug, Clone, Copy)]
pub(super) struct ObjectField {
    pub(super) schema: Schema,
    /// Whether the patch's object replaces the old one.
    pub(super) replaced: bool,
}

/// How the lists of a field merge.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListField {
    pub(super) element: Schema,
    /// Whether they merge, or the patch's list replaces the old one.
    pub(super) merge: bool,
    /// Identifies an element; without it the whole element does.
    pub(super) key: Option<&'static str>,
}

impl Schema {
    pub(super) fn of(ty: &'static Type) -> Self {
        Self::Struct { ty, pointer: false }
    }

    /// The field of that name, for an object.
    pub(super) fn object(self, key: &str) -> Result<ObjectField, Error> {
        let (ty, field) = self.field(key)?;
        let schema = match field.container {
            Container::One => Self::of_item(field.item, field.emit == Emit::Pointer),
            Container::List => Self::Other("slice"),
            Container::Map => Self::Other("map"),
        };
        Ok(ObjectField { schema, replaced: (ty.name(), field.json()) == REPLACED })
    }

    /// The field of that name, for a list.
    pub(super) fn list(self, key: &str) -> Result<ListField, Error> {
        let (_, field) = self.field(key)?;
        let element = match (field.container, field.item) {
            (Container::List, Item::Strings | Item::Bytes) => return Err(Error::SliceOfSlices),
            (Container::List, item) => Self::of_item(item, false),
            (Container::One, Item::Strings) => Self::Other("string"),
            (Container::One, Item::Bytes) => Self::Other("uint8"),
            (Container::One, item) if field.emit == Emit::Pointer => Self::of_item(item, false),
            _ => return Err(Error::NotAList { owner: self.kind() }),
        };
        Ok(ListField { element, merge: field.merge, key: field.merge_key() })
    }

    /// Go's `reflect.Kind`.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Struct { pointer: true, .. } => "ptr",
            Self::Struct { pointer: false, .. } | Self::Opaque(_) => "struct",
            Self::Other(kind) => kind,
        }
    }

    fn of_item(item: Item, pointer: bool) -> Self {
        match item {
            Item::Message(id) => Self::Struct { ty: id.get(), pointer },
            Item::RawExtension => Self::Opaque("RawExtension"),
            Item::Json => Self::Opaque("JSON"),
            Item::FieldsV1 => Self::Opaque("FieldsV1"),
            Item::Quantity => Self::Opaque("Quantity"),
            Item::IntOrString => Self::Opaque("IntOrString"),
            Item::Time => Self::Opaque("Time"),
            Item::MicroTime => Self::Opaque("MicroTime"),
            Item::SchemaOrBool => Self::Opaque("JSONSchemaPropsOrBool"),
            Item::SchemaOrArray => Self::Opaque("JSONSchemaPropsOrArray"),
            Item::SchemaOrStrings => Self::Opaque("JSONSchemaPropsOrStringArray"),
            Item::String => Self::Other("string"),
            Item::Int32 => Self::Other("int32"),
            Item::Int64 => Self::Other("int64"),
            Item::Bool => Self::Other("bool"),
            Item::Double => Self::Other("float64"),
            Item::Bytes | Item::Strings => Self::Other("slice"),
        }
    }

    /// As in Go, a name that does not match exactly is matched without regard to case.
    fn field(self, key: &str) -> Result<(&'static Type, &'static Field), Error> {
        let unknown = |type_name| Error::UnknownField { type_name, key: key.to_owned() };
        match self {
            Self::Struct { ty, .. } => {
                let folded = || ty.fields().find(|field| field.json().eq_ignore_ascii_case(key));
                let field = ty.field(key).or_else(folded);
                field.map(|field| (ty, field)).ok_or_else(|| unknown(ty.short_name()))
            }
            Self::Opaque(name) => Err(unknown(name)),
            Self::Other(kind) => Err(Error::NotAStruct { kind }),
        }
    }
}
