//! [`Snapshot`]: all objects of a resource at one revision.

use super::entry::Entry;
use super::label_mask::LabelMask;
use imbl::OrdMap;
use std::ops::{Bound, Deref};
use std::sync::Arc;
use store::Revision;

/// All objects of a resource at one revision.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot {
    /// By key.
    pub entries: OrdMap<Arc<str>, Held>,
    /// Of the last change to this resource, or of the load.
    pub revision: Revision,
    /// How many of the objects somebody still has to work on before others may see them: mostly
    /// none, and then nobody has to look.
    pub uninitialized: usize,
    /// The number of times that the objects were rewritten because of a changed schema.
    pub(super) rewrites: u64,
}

/// An object, and beside it what spares a look at it.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(super) entry: Arc<Entry>,
    labels: LabelMask,
}

impl From<Arc<Entry>> for Held {
    fn from(entry: Arc<Entry>) -> Self {
        Self { labels: entry.label_mask(), entry }
    }
}

/// Whether they are the same entry, not only one with the same content.
impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.entry, &other.entry)
    }
}

impl Deref for Held {
    type Target = Arc<Entry>;

    fn deref(&self) -> &Arc<Entry> {
        &self.entry
    }
}

impl Snapshot {
    pub(super) fn of(entries: OrdMap<Arc<str>, Held>, revision: Revision) -> Self {
        let uninitialized = entries.values().filter(|it| it.uninitialized).count();
        Self { entries, revision, uninitialized, rewrites: 0 }
    }

    /// Without the objects that not everybody may see yet.
    pub(crate) fn initialized(self: &Arc<Self>) -> Arc<Self> {
        if self.uninitialized == 0 {
            return Arc::clone(self);
        }
        let entries = self.entries.iter().filter(|(_, held)| !held.uninitialized);
        let entries = entries.map(|(key, held)| (Arc::clone(key), held.clone())).collect();
        let Self { revision, rewrites, .. } = **self;
        Arc::new(Self { entries, revision, uninitialized: 0, rewrites })
    }

    /// Puts one state of an object in the place of another.
    pub(super) fn exchange(&mut self, key: &Arc<str>, entry: Option<&Arc<Entry>>) {
        let before = match entry {
            Some(entry) => self.entries.insert(Arc::clone(key), Arc::clone(entry).into()),
            None => self.entries.remove(key),
        };
        self.uninitialized += usize::from(entry.is_some_and(|it| it.uninitialized));
        self.uninitialized -= usize::from(before.is_some_and(|it| it.uninitialized));
    }

    /// The objects whose keys begin with `prefix`, which ends with a slash, from `start` on, in the
    /// order of their keys.
    pub(crate) fn under(
        &self,
        prefix: &str,
        start: Option<&str>,
    ) -> impl Iterator<Item = &Arc<Entry>> {
        self.labeled(prefix, start, LabelMask::default())
    }

    /// The same without those that surely lack the `wanted` labels.
    pub(crate) fn labeled(
        &self,
        prefix: &str,
        start: Option<&str>,
        wanted: LabelMask,
    ) -> impl Iterator<Item = &Arc<Entry>> {
        // The end is found once, since to look at each key costs as much as all the rest.
        let end = prefix.strip_suffix('/').map(|it| format!("{it}0")).unwrap_or_default();
        let start = start.unwrap_or(prefix).min(&end);
        let range = (Bound::Included(start), Bound::Excluded(end.as_str()));
        self.entries
            .range::<(Bound<&str>, Bound<&str>), str>(range)
            .filter(move |(_, held)| held.labels.may_have(wanted))
            .map(|(_, held)| &held.entry)
    }
}
