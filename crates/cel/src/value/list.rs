//! [`List`]: computed values, or a view of a JSON array.

use std::sync::Arc;

use serde_json::Value as Json;

use super::Value;
use super::equality::{equal, equal_within};
use super::fingerprint::Fingerprints;
use super::json::view;
use crate::decl::{DeclType, ListKind};
use crate::error::EvalError;

/// A list.
#[derive(Debug, Clone)]
pub enum List<'a> {
    /// Computed.
    Values(Arc<Vec<Value<'a>>>),
    /// The sum of a list with [`ListKind::Set`] or [`ListKind::Map`] and another list; it has the
    /// same kind.
    Sum {
        /// The elements.
        values: Arc<Vec<Value<'a>>>,
        /// The semantics of `==` and `+`.
        kind: &'a ListKind,
    },
    /// Borrowed from JSON.
    Json {
        /// The elements.
        items: &'a [Json],
        /// Their type.
        element: &'a DeclType,
        /// The semantics of `==` and `+`.
        kind: &'a ListKind,
    },
}

impl<'a> List<'a> {
    /// The number of elements.
    #[allow(clippy::len_without_is_empty, reason = "the language has only size()")]
    pub fn len(&self) -> usize {
        match self {
            Self::Values(values) | Self::Sum { values, .. } => values.len(),
            Self::Json { items, .. } => items.len(),
        }
    }

    /// The element; None beyond the end.
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

    /// All elements; fails if an element does not have the declared type.
    pub(crate) fn values(&self) -> Result<Vec<Value<'a>>, EvalError> {
        self.iter().collect()
    }

    pub(super) fn kind(&self) -> &'a ListKind {
        match self {
            Self::Values(_) => &ListKind::Atomic,
            Self::Sum { kind, .. } | Self::Json { kind, .. } => kind,
        }
    }

    /// `self + other`, by the list type of the left list.
    pub(crate) fn plus(self, other: &List<'a>) -> Result<List<'a>, EvalError> {
        let kind = self.kind();
        if *kind == ListKind::Atomic {
            return self.appended(other);
        }
        let mut values = self.values()?;
        let mut index = Index::new(kind, &values);
        for value in other.iter() {
            let value = value?;
            if let Some(position) = index.find(&values, &value, equal) {
                values[position] = value;
            } else {
                index.add(&value, values.len());
                values.push(value);
            }
        }
        Ok(Self::Sum { values: Arc::new(values), kind })
    }

    /// Appends in place if the list is not shared, so that comprehensions take linear time.
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

    /// Equality, by the list type of the left list.
    pub(super) fn equals(&self, other: &List<'a>, depth: usize) -> bool {
        let equal = |a: &Value<'a>, b: &Value<'a>| equal_within(a, b, depth);
        if self.len() != other.len() {
            return false;
        }
        let both = || self.values().ok().zip(other.values().ok());
        let kind = self.kind();
        let holds = |index: &Index<'_>, values: &[Value<'a>], value: &Value<'a>| {
            let position = index.find(values, value, equal);
            position.is_some_and(|it| equal(&values[it], value))
        };
        match kind {
            ListKind::Set => both().is_some_and(|(own, others)| {
                let (own_index, index) = (Index::new(kind, &own), Index::new(kind, &others));
                own.iter().all(|it| holds(&index, &others, it))
                    && others.iter().all(|it| holds(&own_index, &own, it))
            }),
            ListKind::Map(_) => both().is_some_and(|(own, others)| {
                let index = Index::new(kind, &own);
                others.iter().all(|it| holds(&index, &own, it))
            }),
            ListKind::Atomic => self.iter().zip(other.iter()).all(|pair| match pair {
                (Ok(a), Ok(b)) => equal(&a, &b),
                _ => false,
            }),
        }
    }
}

/// Finds the elements of a set or a list of keyed elements.
struct Index<'k> {
    kind: &'k ListKind,
    fingerprints: Fingerprints,
}

impl<'k> Index<'k> {
    fn new(kind: &'k ListKind, values: &[Value<'_>]) -> Self {
        let mut index = Self { kind, fingerprints: Fingerprints::default() };
        for (position, value) in values.iter().enumerate() {
            index.add(value, position);
        }
        index
    }

    fn add(&mut self, value: &Value<'_>, position: usize) {
        match self.kind {
            ListKind::Map(keys) => {
                if let Some(keys) = keys_of(keys, value) {
                    self.fingerprints.add(&keys, position);
                }
            }
            _ => self.fingerprints.add(value, position),
        }
    }

    /// The position of the first element of `values` with the same keys as `value` or, in a set,
    /// equal to it.
    fn find<'a>(
        &self,
        values: &[Value<'a>],
        value: &Value<'a>,
        equal: impl Fn(&Value<'a>, &Value<'a>) -> bool,
    ) -> Option<usize> {
        let ListKind::Map(keys) = self.kind else {
            let candidates = self.fingerprints.candidates(value).iter();
            return candidates.copied().find(|it| equal(&values[*it], value));
        };
        let wanted = keys_of(keys, value)?;
        let same = |it: &usize| keys_of(keys, &values[*it]).is_some_and(|it| equal(&it, &wanted));
        self.fingerprints.candidates(&wanted).iter().copied().find(same)
    }
}

/// The keys of an element of a list of maps, as one value; None if a key cannot be converted.
fn keys_of<'a>(keys: &[String], element: &Value<'a>) -> Option<Value<'a>> {
    let Value::Map(map) = element else { return None };
    let value = |key: &String| match map.raw(key) {
        Some(value) => value.ok(),
        None => Some(Value::Optional(None)),
    };
    keys.iter().map(value).collect::<Option<Vec<_>>>().map(Value::list)
}
