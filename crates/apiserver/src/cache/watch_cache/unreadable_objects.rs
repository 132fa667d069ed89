//! [`UnreadableObjects`]: the objects of a resource that are stored, and cannot be decrypted.
//!
//! They are in no list: a request for one of them, or for a list that has it, fails with the reason.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::encryption::unreadable;
use store::{Record, Revision};

/// See the [module documentation](self). Empty ones allocate nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnreadableObjects(Option<Arc<BTreeMap<Arc<str>, UnreadableObject>>>);

/// An object that cannot be decrypted.
#[derive(Debug, Clone)]
pub(crate) struct UnreadableObject {
    /// The revision of its last write.
    pub(super) revision: Revision,
    /// Why it cannot be decrypted.
    pub(crate) reason: Arc<str>,
}

impl UnreadableObject {
    /// The object of a record; None if the record can be read.
    pub(super) fn of(record: &Record) -> Option<Self> {
        let reason = unreadable::reason(&record.value)?;
        Some(Self { revision: record.modified, reason: reason.into() })
    }
}

impl UnreadableObjects {
    /// Those among `records`.
    pub(super) fn among(records: &[Arc<Record>]) -> Self {
        let found = |it: &Arc<Record>| Some((Arc::clone(&it.key), UnreadableObject::of(it)?));
        Self::new(records.iter().filter_map(found).collect())
    }

    fn new(objects: BTreeMap<Arc<str>, UnreadableObject>) -> Self {
        Self((!objects.is_empty()).then(|| Arc::new(objects)))
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The object at `key`.
    pub(crate) fn get(&self, key: &str) -> Option<&UnreadableObject> {
        self.0.as_ref()?.get(key)
    }

    /// The first object whose key begins with `prefix`.
    pub(crate) fn first_under(&self, prefix: &str) -> Option<(&str, &UnreadableObject)> {
        let range = self
            .0
            .as_ref()?
            .range::<str, _>((std::ops::Bound::Included(prefix), std::ops::Bound::Unbounded));
        let (key, object) = range.take(1).find(|(key, _)| key.starts_with(prefix))?;
        Some((key, object))
    }

    /// The keys of all.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter().flat_map(|it| it.keys())
    }

    /// Replaces or adds an object; removes it if `object` is None.
    pub(super) fn exchange(&mut self, key: &Arc<str>, object: Option<UnreadableObject>) {
        if object.is_none() && self.get(key).is_none() {
            return;
        }
        let mut objects = self.0.take().map(Arc::unwrap_or_clone).unwrap_or_default();
        match object {
            Some(object) => objects.insert(Arc::clone(key), object),
            None => objects.remove(key),
        };
        *self = Self::new(objects);
    }
}
