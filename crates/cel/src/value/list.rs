//! [`List`]: computed values, or a view of a JSON array.

use std::sync::Arc;

use serde_json::Value as Json;

use super::{
    Value,
    equality::{equal, equal_within},
    json::view,
};
use crate::{
    decl::{DeclType, ListKind},
    error::EvalError,
};

/// A list.
#[derive(Debug, Clone)]
pub enum List<'a> {
    /// Computed.
    Values(Arc<Vec<Value<'a>>>),
    /// Computed by adding to a set or to a list of keyed elements: the sum is such a list, too.
    Sum {
        /// The elements.
        values: Arc<Vec<Value<'a>>>,
        /// What equality and `+` mean.
        kind: &'a ListKind,
    },
    /// Part of the JSON that is looked at.
    Json {
        /// The elements.
        items: &'a [Json],
        /// Their type.
        element: &'a DeclType,
        /// What equality and `+` mean.
        kind: &'a ListKind,
    },
}

impl<'a> List<'a> {
    /// How many elements it has.
    #[allow(clippy::len_without_is_empty, reason = "the language has only size()")]
    pub fn len(&self) -> usize {
        match self {
            Self::Values(values) | Self::Sum { values, .. } => values.len(),
            Self::Json { items, .. } => items.len(),
        }
    }

    /// The element, or none behind the end.
    pub fn get(&self, index: usize) -> Option<Result<Value<'a>, EvalError>> {
        match self {
            Self::Values(values) | Self::Sum { values, .. } => values.get(index).cloned().map(Ok),
            Self::Json { items, element, .. } => items.get(index).map(|item| view(item, element)),
        }
    }

    /// The elements in order.
    pub fn iter(&self) -> impl Iterator<Item = Result<Value<'a>, EvalError>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// All elements, or the first that the type does not fit.
    pub(crate) fn values(&self) -> Result<Vec<Value<'a>>, EvalError> {
        self.iter().collect()
    }

    fn kind(&self) -> &'a ListKind {
        match self {
            Self::Values(_) => &ListKind::Atomic,
            Self::Sum { kind, .. } | Self::Json { kind, .. } => kind,
        }
    }

    /// `self + other`, as the kind of the left list wants it.
    pub(crate) fn plus(self, other: &List<'a>) -> Result<List<'a>, EvalError> {
        let kind = self.kind();
        if *kind == ListKind::Atomic {
            return self.appended(other);
        }
        let mut values = self.values()?;
        for value in other.iter() {
            let value = value?;
            let same = |own: &Value<'a>| match kind {
                ListKind::Map(keys) => same_keys(keys, own, &value),
                _ => equal(own, &value),
            };
            match values.iter_mut().find(|own| same(own)) {
                Some(own) => *own = value,
                None => values.push(value),
            }
        }
        Ok(Self::Sum { values: Arc::new(values), kind })
    }

    /// A list that nobody else holds grows in place: comprehensions stay linear.
    fn appended(self, other: &List<'a>) -> Result<List<'a>, EvalError> {
        let mut own = match self {
            Self::Values(values) => values,
            other => Arc::new(other.values()?),
        };
        let values = Arc::make_mut(&mut own);
        for value in other.iter() {
            values.push(value?);
        }
        Ok(Self::Values(own))
    }

    /// Equality, as the kind of the left list wants it.
    pub(super) fn equals(&self, other: &List<'a>, depth: usize) -> bool {
        let equal = |a: &Value<'a>, b: &Value<'a>| equal_within(a, b, depth);
        if self.len() != other.len() {
            return false;
        }
        let both = || self.values().ok().zip(other.values().ok());
        match self.kind() {
            ListKind::Set => both().is_some_and(|(own, others)| {
                own.iter().all(|a| others.iter().any(|b| equal(a, b)))
                    && others.iter().all(|b| own.iter().any(|a| equal(a, b)))
            }),
            ListKind::Map(keys) => both().is_some_and(|(own, others)| {
                others.iter().all(|b| own.iter().any(|a| same_keys(keys, a, b) && equal(a, b)))
            }),
            ListKind::Atomic => self.iter().zip(other.iter()).all(|pair| match pair {
                (Ok(a), Ok(b)) => equal(&a, &b),
                _ => false,
            }),
        }
    }
}

/// Whether two elements of a list of maps are the same element.
fn same_keys(keys: &[String], a: &Value<'_>, b: &Value<'_>) -> bool {
    let (Value::Map(a), Value::Map(b)) = (a, b) else {
        return false;
    };
    keys.iter().all(|key| match (a.raw(key), b.raw(key)) {
        (Some(Ok(a)), Some(Ok(b))) => equal(&a, &b),
        (None, None) => true,
        _ => false,
    })
}
