//! [`DeclType`]: the declared type of a variable whose values are JSON.
//!
//! It says more than a [`Type`]: how JSON is read (a string as a timestamp, a number as an int),
//! how lists compare and add, and how large a value may be, which the cost estimate needs.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::escaping;
use crate::types::Type;

/// How a JSON value appears to an expression.
#[derive(Debug, Clone)]
pub struct DeclType {
    /// What it is.
    pub shape: DeclKind,
    /// The largest size that it may have: characters, elements or entries; zero for what has none.
    pub max_elements: u64,
    /// Whether JSON's `null` is a value of the type.
    pub nullable: bool,
}

/// What a declared type is.
#[derive(Debug, Clone)]
pub enum DeclKind {
    /// Any JSON value.
    Dyn,
    /// A whole number or a string.
    IntOrString,
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Int,
    /// Any number.
    Double,
    /// A string.
    String,
    /// A string that holds bytes in base64.
    Bytes,
    /// A string that holds a time after RFC 3339.
    Timestamp,
    /// A string that holds a day: `2024-06-01`.
    Date,
    /// A string that holds a duration: `1h30m`.
    Duration,
    /// An array.
    List(Arc<DeclType>, ListKind),
    /// An object whose keys are data.
    Map(Arc<DeclType>),
    /// An object with known fields.
    Object(Arc<Object>),
    /// A value that is bound ready-made, not as JSON.
    Value(Type),
}

/// What equality and `+` mean for a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListKind {
    /// Order counts; `+` appends.
    Atomic,
    /// Order is ignored; `+` is the union.
    Set,
    /// Elements are identified by these fields; `+` overwrites elements with equal keys.
    Map(Vec<String>),
}

/// An object type.
#[derive(Debug)]
pub struct Object {
    /// Unique among the types of an environment.
    pub name: String,
    /// By the name that expressions use.
    fields: BTreeMap<String, Field>,
}

/// A field of an object type.
#[derive(Debug, Clone)]
pub struct Field {
    /// The key in JSON.
    pub name: String,
    /// Its type.
    pub decl: DeclType,
}

impl Object {
    /// A type with these fields, named as in JSON; names that cannot be escaped are not visible.
    pub fn new(
        name: impl Into<String>,
        fields: impl IntoIterator<Item = (String, DeclType)>,
    ) -> Self {
        let fields = fields
            .into_iter()
            .filter_map(|(name, decl)| Some((escaping::escape(&name)?, Field { name, decl })))
            .collect();
        Self { name: name.into(), fields }
    }

    /// The field that expressions call `name`: escaped, or a reserved word as it is.
    pub fn field(&self, name: &str) -> Option<&Field> {
        let reserved = || escaping::reserved(name).and_then(|it| self.fields.get(&it));
        self.fields.get(name).or_else(reserved)
    }

    /// The field by its escaped name alone. Estimates use only that name, so that a field named by
    /// a reserved word counts as unbounded.
    pub(crate) fn escaped_field(&self, name: &str) -> Option<&Field> {
        self.fields.get(name)
    }

    /// The fields by the names that expressions use.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &Field)> {
        self.fields.iter().map(|(name, field)| (name.as_str(), field))
    }
}

impl DeclType {
    pub(crate) const DYN: Self = Self { shape: DeclKind::Dyn, max_elements: 0, nullable: true };

    /// A type of this shape and size.
    pub fn new(shape: DeclKind, max_elements: u64) -> Self {
        Self { shape, max_elements, nullable: false }
    }

    /// Anything.
    pub fn any() -> Self {
        Self::DYN
    }

    /// A whole number.
    pub fn int() -> Self {
        Self::new(DeclKind::Int, 0)
    }

    /// A string with this maximum length in characters.
    pub fn string(max_length: u64) -> Self {
        Self::new(DeclKind::String, max_length)
    }

    /// An atomic list with this maximum number of elements.
    pub fn list(element: DeclType, max_items: u64) -> Self {
        Self::new(DeclKind::List(Arc::new(element), ListKind::Atomic), max_items)
    }

    /// A map from strings, with this maximum number of entries.
    pub fn map(value: DeclType, max_properties: u64) -> Self {
        Self::new(DeclKind::Map(Arc::new(value)), max_properties)
    }

    /// An object.
    pub fn object(object: Object) -> Self {
        Self::new(DeclKind::Object(Arc::new(object)), 0)
    }

    /// A value that is bound ready-made.
    pub fn value(ty: Type) -> Self {
        Self::new(DeclKind::Value(ty), 0)
    }

    /// The same type, with `null` as a value.
    #[must_use]
    pub fn or_null(mut self) -> Self {
        self.nullable = true;
        self
    }

    /// The type for the checker.
    pub fn checked(&self) -> Type {
        match &self.shape {
            DeclKind::Dyn | DeclKind::IntOrString => Type::Dyn,
            DeclKind::Bool => Type::Bool,
            DeclKind::Int => Type::Int,
            DeclKind::Double => Type::Double,
            DeclKind::String => Type::String,
            DeclKind::Bytes => Type::Bytes,
            DeclKind::Timestamp | DeclKind::Date => Type::Timestamp,
            DeclKind::Duration => Type::Duration,
            DeclKind::List(element, _) => Type::list(element.checked()),
            DeclKind::Map(value) => Type::map(Type::String, value.checked()),
            DeclKind::Object(object) => Type::Object(Arc::clone(object)),
            DeclKind::Value(ty) => ty.clone(),
        }
    }
}
