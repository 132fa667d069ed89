//! [`Instance`]: a value on which rules are evaluated, with its old value.

use std::collections::HashMap;

use super::Validator;
use crate::ratchet;
use crate::structural::Node;
use crate::validate::Data;
use cel::{DeclKind, EvalError};
use machinery::{Map, Value};

/// A value on which rules are evaluated: the whole object, or a value in it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Subject<'a> {
    Root(&'a Map<String, Value>),
    Value(&'a Value),
}

impl<'a> Subject<'a> {
    /// None for null, which counts as absent.
    pub(super) fn of(value: &'a Value) -> Option<Self> {
        (!value.is_null()).then_some(Self::Value(value))
    }

    pub(super) fn object(self) -> Option<&'a Map<String, Value>> {
        match self {
            Self::Root(map) => Some(map),
            Self::Value(value) => value.as_object(),
        }
    }

    pub(super) fn list(self) -> Option<&'a [Value]> {
        match self {
            Self::Root(_) => None,
            Self::Value(value) => value.as_array().map(Vec::as_slice),
        }
    }

    /// The memory address, which identifies a value during one evaluation.
    fn address(self) -> usize {
        match self {
            Self::Root(map) => std::ptr::from_ref(map).addr(),
            Self::Value(value) => std::ptr::from_ref(value).addr(),
        }
    }

    pub(super) fn data(self) -> Data<'a> {
        match self {
            Self::Root(map) => Data::Object(map),
            Self::Value(value) => value.into(),
        }
    }

    pub(super) fn bind(self, validator: &'a Validator) -> Result<cel::Value<'a>, EvalError> {
        match (self, &validator.decl.kind) {
            (Self::Root(entries), DeclKind::Object(object)) => {
                Ok(cel::Value::Map(cel::Map::Object { entries, object }))
            }
            (Self::Root(_), _) => Err(EvalError::Failed("the root is not an object".to_owned())),
            (Self::Value(value), _) => cel::Value::from_json(value, &validator.decl),
        }
    }
}

/// A value and the old value that corresponds to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair<'a> {
    pub(super) node: &'a Node,
    pub(super) new: Subject<'a>,
    pub(super) old: Subject<'a>,
}

impl Pair<'_> {
    pub(super) fn is_unchanged(self) -> bool {
        ratchet::is_unchanged(self.node, self.new.data(), self.old.data())
    }
}

/// Decides whether an error is ratcheted: the value must be unchanged or, if it is not correlated
/// with an old value, the nearest enclosing value that is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Correlation<'a> {
    /// The value itself, if it is correlated with an old value.
    pub(super) own: Option<Pair<'a>>,
    /// The nearest enclosing value that is correlated; None for the root.
    pub(super) nearest: Option<Pair<'a>>,
}

/// The results of comparisons, by the addresses of the new and the old value. All items of a list
/// without keys depend on the comparison of the list, which is then made only once.
#[derive(Debug, Default)]
pub(super) struct Compared(HashMap<(usize, usize), bool>);

impl<'a> Correlation<'a> {
    pub(super) fn is_unchanged(self, compared: &mut Compared) -> bool {
        let Some(pair) = self.own.or(self.nearest) else { return false };
        let addresses = (pair.new.address(), pair.old.address());
        *compared.0.entry(addresses).or_insert_with(|| pair.is_unchanged())
    }

    /// The correlation of a field or an item with this old value.
    pub(super) fn below(self, node: &'a Node, new: &'a Value, old: Option<&'a Value>) -> Self {
        let Some(own) = self.own else { return self };
        let pair = |old| Pair { node, new: Subject::Value(new), old: Subject::Value(old) };
        Self { own: old.map(pair), nearest: Some(own) }
    }

    /// The correlation of a field. `apiVersion` and `kind` of the object itself are not correlated:
    /// the old object was converted to the version of the new one.
    pub(super) fn field(
        self,
        name: &str,
        node: &'a Node,
        new: &'a Value,
        old: Option<&'a Value>,
    ) -> Self {
        let is_root = self.own.is_some() && self.nearest.is_none();
        if is_root && matches!(name, "apiVersion" | "kind") {
            return Self::default();
        }
        self.below(node, new, old)
    }
}

/// A value, its old value, and its correlation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Instance<'a> {
    pub(super) subject: Subject<'a>,
    pub(super) old: Option<Subject<'a>>,
    pub(super) correlation: Correlation<'a>,
}
