//! [`IndexChange`]: the change of all indices by a change of one object, computed without the lock of
//! the indexer.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::{ByKey, IndexFunction};
use crate::{Item, ObjectKey};

/// Index functions read larger objects after the runtime has handed the other tasks of the thread to
/// another one. Packed JSON is several times as long.
const LARGE: usize = 16 << 10;

/// The functions of indices by the names of these.
pub(super) type IndexFunctions = BTreeMap<String, Arc<IndexFunction>>;

/// The objects by one of their values.
#[derive(Default)]
pub(super) struct Index(HashMap<Box<str>, BTreeSet<ByKey>>);

/// See the [module documentation](self). The default is that of an indexer without indices.
#[derive(Default)]
pub(super) struct IndexChange {
    functions: Option<Arc<IndexFunctions>>,
    old: Option<Item>,
    /// For each index, in the order of their names.
    values: Vec<ValueChange>,
}

/// The values of an object in one index.
struct ValueChange {
    old: Vec<String>,
    new: Vec<String>,
}

impl IndexChange {
    /// The change from `old` to `new`, or by the removal of `old`.
    pub(super) fn compute(
        functions: Arc<IndexFunctions>,
        old: Option<Item>,
        new: Option<&Item>,
    ) -> Self {
        let compute = || {
            let values_of = |function: &IndexFunction, item: Option<&Item>| {
                item.map(|item| values(function, item)).unwrap_or_default()
            };
            let changes = functions.values().map(|function| ValueChange {
                old: values_of(function, old.as_ref()),
                new: values_of(function, new),
            });
            changes.collect()
        };
        let is_large = old.iter().chain(new).any(|item| item.size() > LARGE);
        let values = if is_large { keel::blocking(compute) } else { compute() };
        Self { functions: Some(functions), old, values }
    }

    /// Whether it was computed by these functions from this state.
    pub(super) fn is_from(&self, functions: &Arc<IndexFunctions>, old: Option<&Item>) -> bool {
        self.functions.as_ref().is_some_and(|known| Arc::ptr_eq(known, functions))
            && match (&self.old, old) {
                (Some(known), Some(old)) => known.is_same_state(old),
                (None, None) => true,
                _ => false,
            }
    }

    /// Applies the change to the indices of its functions.
    pub(super) fn apply(
        self,
        indices: &mut BTreeMap<String, Index>,
        key: &ObjectKey,
        new: Option<&Item>,
    ) {
        for (index, change) in indices.values_mut().zip(self.values) {
            if change.old != change.new {
                index.remove(key, &change.old);
            }
            if let Some(item) = new {
                index.insert(item, change.new);
            }
        }
    }
}

impl Index {
    /// The objects that have this value.
    pub(super) fn items(&self, value: &str) -> impl Iterator<Item = &ByKey> {
        self.0.get(value).into_iter().flatten()
    }

    /// The values of all objects.
    pub(super) fn values(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|value| &**value)
    }

    /// Inserts an object, or replaces its former state.
    pub(super) fn insert(&mut self, item: &Item, values: Vec<String>) {
        for value in values {
            self.0.entry(value.into()).or_default().replace(ByKey(item.clone()));
        }
    }

    fn remove(&mut self, key: &ObjectKey, values: &[String]) {
        for value in values {
            let Some(objects) = self.0.get_mut(value.as_str()) else { continue };
            objects.remove(key);
            if objects.is_empty() {
                self.0.remove(value.as_str());
            }
        }
    }
}

/// The values of an item; none if the function panics.
pub(super) fn values(function: &IndexFunction, item: &Item) -> Vec<String> {
    catch_unwind(AssertUnwindSafe(|| function(item))).unwrap_or_else(|_| {
        tracing::error!(object = ?item, "an index function panicked");
        Vec::new()
    })
}
