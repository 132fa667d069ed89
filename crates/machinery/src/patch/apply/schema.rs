//! [`Schema`]: the properties of a type that server-side apply uses: whether a value is owned as a
//! whole or by parts, and the keys of the elements of a list.

use std::borrow::Cow;

use crate::Value;

/// One node of a schema. It is a cheap handle, because every visited value creates one.
pub trait Schema: Copy {
    /// The types that a value may have here.
    fn forms(self) -> Forms;

    /// The node of a declared field.
    fn field(self, name: &str) -> Option<Self>;

    /// The node of fields that are not declared; None if such fields are not allowed.
    fn undeclared(self) -> Option<Self>;

    /// The node of a list's elements.
    #[must_use]
    fn items(self) -> Self;

    /// The `index`-th field that identifies the elements of a list, for [`ListRule::Map`].
    fn key(&self, index: usize) -> Option<&str>;

    /// The default of the identifying field `key`.
    fn key_default(&self, key: &str) -> Option<Cow<'_, Value>>;

    /// The value of a field that is missing in the JSON of an existing object, if the field of Go's
    /// struct has a zero value there. Such a field counts as present, so a request that sets it
    /// modifies it and does not add it.
    fn zero_value(self, name: &str) -> Option<&'static Value>;

    /// The schema of values without a schema: each is owned as a whole.
    fn untyped() -> Self;

    /// The node of a field, declared or not.
    #[must_use]
    fn child(self, name: &str) -> Self {
        self.field(name).or_else(|| self.undeclared()).unwrap_or_else(Self::untyped)
    }
}

/// The types that a value may have; most nodes allow one. Upstream: `schema.Atom`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Forms {
    /// An object.
    pub map: Option<MapRule>,
    /// A scalar.
    pub scalar: Option<Scalar>,
    /// A list.
    pub list: Option<ListRule>,
}

/// How an object is owned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapRule {
    /// Field by field.
    Granular,
    /// Field by field, and none of them is declared.
    FreeForm,
    /// As a whole.
    Atomic,
}

/// How a list is owned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListRule {
    /// As a whole.
    Atomic,
    /// Element by element, identified by their values.
    Set,
    /// Element by element, identified by [`Schema::key`].
    Map,
}

/// The type of a scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    /// A number.
    Numeric,
    /// Text.
    String,
    /// True or false.
    Boolean,
    /// Any of these.
    Untyped,
}

/// The type as which a value is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Map(MapRule),
    Scalar(Scalar),
    List(ListRule),
}

impl Forms {
    /// Only objects.
    pub const fn map(rule: MapRule) -> Self {
        Self { map: Some(rule), scalar: None, list: None }
    }

    /// Only scalars.
    pub const fn scalar(scalar: Scalar) -> Self {
        Self { map: None, scalar: Some(scalar), list: None }
    }

    /// Only lists.
    pub const fn list(rule: ListRule) -> Self {
        Self { map: None, scalar: None, list: Some(rule) }
    }

    /// Anything: objects field by field, lists as a whole.
    pub const DEDUCED: Self = Self {
        map: Some(MapRule::FreeForm),
        scalar: Some(Scalar::Untyped),
        list: Some(ListRule::Atomic),
    };

    /// Anything, as a whole.
    pub const UNTYPED: Self = Self { map: Some(MapRule::Atomic), ..Self::DEDUCED };

    /// The form of a value. For null and for a value of another type, the first form that is
    /// allowed.
    pub(super) fn of(self, value: Option<&Value>) -> Option<Form> {
        let (map, scalar, list) =
            (self.map.map(Form::Map), self.scalar.map(Form::Scalar), self.list.map(Form::List));
        let fitting = match value {
            None | Some(Value::Null) => None,
            Some(Value::Object(_)) => map,
            Some(Value::Array(_)) => list,
            Some(_) => scalar,
        };
        fitting.or(map).or(scalar).or(list)
    }
}

/// The schema of objects without a schema. Upstream: `typed.DeducedParseableType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deduced {
    /// Objects field by field, lists as a whole.
    Granular,
    /// Everything as a whole. This is the schema of the elements of lists.
    Atomic,
}

impl Schema for Deduced {
    fn forms(self) -> Forms {
        match self {
            Self::Granular => Forms::DEDUCED,
            Self::Atomic => Forms::UNTYPED,
        }
    }

    fn field(self, _name: &str) -> Option<Self> {
        None
    }

    fn undeclared(self) -> Option<Self> {
        Some(self)
    }

    fn items(self) -> Self {
        Self::Atomic
    }

    fn key(&self, _index: usize) -> Option<&str> {
        None
    }

    fn key_default(&self, _key: &str) -> Option<Cow<'_, Value>> {
        None
    }

    fn zero_value(self, _name: &str) -> Option<&'static Value> {
        None
    }

    fn untyped() -> Self {
        Self::Atomic
    }
}
