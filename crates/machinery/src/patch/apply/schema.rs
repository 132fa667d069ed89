//! [`Schema`]: what server-side apply needs to know about a value: whether it is owned as a whole
//! or by parts, and the keys of the elements of a list.

use std::borrow::Cow;

use crate::Value;

/// One node of a schema; a cheap handle, since every step of every walk makes one.
pub trait Schema: Copy {
    /// What a value may be here.
    fn forms(self) -> Forms;

    /// The node of a field that an object declares.
    fn field(self, name: &str) -> Option<Self>;

    /// The node of the fields that an object does not declare; None if there must be none.
    fn others(self) -> Option<Self>;

    /// The node of a list's elements.
    #[must_use]
    fn items(self) -> Self;

    /// One of the fields that identify the elements of a list, for [`ListRule::Map`].
    fn key(&self, index: usize) -> Option<&str>;

    /// The value of such a field in an element that does not have it.
    fn key_default(&self, key: &str) -> Option<Cow<'_, Value>>;

    /// The value of a field that an existing object has though JSON omits it: the zero values of
    /// Go's structs, which are never absent. They matter because absent fields can be added.
    fn absent(self, name: &str) -> Option<&'static Value>;

    /// The schema of values that no schema describes: owned as a whole.
    fn untyped() -> Self;

    /// The node of a field, declared or not.
    #[must_use]
    fn child(self, name: &str) -> Self {
        self.field(name).or_else(|| self.others()).unwrap_or_else(Self::untyped)
    }
}

/// What a value may be; most nodes allow one form.
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
    /// Element by element, which are their own names.
    Set,
    /// Element by element, identified by [`Schema::key`].
    Map,
}

/// What a scalar may be.
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

/// The form in which a value is looked at.
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

    /// The form that fits a value; for null and for what fits none, the first that there is.
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

/// The schema of objects that have none: everything is deduced from the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deduced {
    /// Objects field by field, lists as a whole.
    Granular,
    /// Everything as a whole, which is how the elements of such lists are.
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

    fn others(self) -> Option<Self> {
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

    fn absent(self, _name: &str) -> Option<&'static Value> {
        None
    }

    fn untyped() -> Self {
        Self::Atomic
    }
}
