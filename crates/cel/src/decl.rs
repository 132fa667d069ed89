//! [`DeclType`]: the declared type of a variable whose values are JSON.
//!
//! In addition to a [`Type`], it defines how JSON is converted (a string to a timestamp, a number
//! to an int), the semantics of `==` and `+` for lists, and the maximum size for cost estimates.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::escaping;
use crate::types::Type;

/// See the [module documentation](self).
#[derive(Debug, Clone)]
pub struct DeclType {
    /// The kind of type.
    pub kind: DeclKind,
    /// The maximum number of characters, elements or entries; 0 for types without a size.
    pub max_elements: u64,
    /// Whether JSON's `null` is a value of the type.
    pub nullable: bool,
}

/// The kind of a declared type.
#[derive(Debug, Clone)]
pub enum DeclKind {
    /// Any JSON value.
    Dyn,
    /// An integer or a string.
    IntOrString,
    /// `true` or `false`.
    Bool,
    /// An integer.
    Int,
    /// Any number.
    Double,
    /// A string.
    String,
    /// A string that contains bytes in base64.
    Bytes,
    /// A string that contains a time in the format of RFC 3339.
    Timestamp,
    /// A string that contains a date: `2024-06-01`.
    Date,
    /// A string that contains a duration: `1h30m`.
    Duration,
    /// An array.
    List(Arc<DeclType>, ListKind),
    /// An object with arbitrary keys.
    Map(Arc<DeclType>),
    /// An object with declared fields.
    Object(Arc<Object>),
    /// A CEL value that is bound directly, not as JSON.
    Value(Type),
}

/// The semantics of `==` and `+` for a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListKind {
    /// Order matters; `+` appends.
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
    /// By the escaped name.
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
    /// A type with these fields, named as in JSON. Fields whose names cannot be escaped are
    /// omitted.
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

    /// The field with this name in expressions: escaped, or an unescaped reserved word.
    pub fn field(&self, name: &str) -> Option<&Field> {
        let reserved = || escaping::reserved(name).and_then(|it| self.fields.get(&it));
        self.fields.get(name).or_else(reserved)
    }

    /// The field with this escaped name. As upstream, estimates find only escaped names, so the
    /// size of a field that is accessed by an unescaped reserved word is unknown.
    pub(crate) fn escaped_field(&self, name: &str) -> Option<&Field> {
        self.fields.get(name)
    }

    /// The fields with their escaped names.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &Field)> {
        self.fields.iter().map(|(name, field)| (name.as_str(), field))
    }
}

impl DeclType {
    pub(crate) const DYN: Self = Self { kind: DeclKind::Dyn, max_elements: 0, nullable: true };

    /// A type of this kind and size.
    pub fn new(kind: DeclKind, max_elements: u64) -> Self {
        Self { kind, max_elements, nullable: false }
    }

    /// Any JSON value.
    pub fn any() -> Self {
        Self::DYN
    }

    /// An integer.
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

    /// A CEL value that is bound directly.
    pub fn value(ty: Type) -> Self {
        Self::new(DeclKind::Value(ty), 0)
    }

    /// The same type, but nullable.
    #[must_use]
    pub fn or_null(mut self) -> Self {
        self.nullable = true;
        self
    }

    /// The static type.
    pub fn checked(&self) -> Type {
        match &self.kind {
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
