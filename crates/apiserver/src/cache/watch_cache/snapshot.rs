//! [`Snapshot`]: all objects of a resource at one revision.

use std::ops::{Bound, Deref};
use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;

use super::entry::Entry;
use super::label_mask::LabelMask;
use super::unreadable_objects::UnreadableObjects;
use store::Revision;

/// All objects of a resource at one revision.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot {
    /// By key.
    pub entries: OrdMap<Arc<str>, SnapshotEntry>,
    /// The revision of the last change of the resource, or of the load.
    pub revision: Revision,
    /// The number of objects with pending initializers. With none, lists need no filter.
    pub uninitialized: usize,
    /// The objects that cannot be decrypted, which are not in `entries`.
    pub unreadable: UnreadableObjects,
    /// The size of all objects.
    pub bytes: usize,
    /// The number of times that the objects were rewritten because of a changed schema.
    pub(super) rewrites: u64,
    /// The number of times that objects were added which could not be decrypted before. Their revisions
    /// are older than that of the snapshot.
    pub(super) repairs: u64,
}

/// An object, and a mask of its labels, which is checked without reading the object.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotEntry {
    pub(super) entry: Arc<Entry>,
    labels: LabelMask,
}

impl From<Arc<Entry>> for SnapshotEntry {
    fn from(entry: Arc<Entry>) -> Self {
        Self { labels: entry.label_mask(), entry }
    }
}

/// Compares identity, not content.
impl PartialEq for SnapshotEntry {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.entry, &other.entry)
    }
}

impl Deref for SnapshotEntry {
    type Target = Arc<Entry>;

    fn deref(&self) -> &Arc<Entry> {
        &self.entry
    }
}

impl Snapshot {
    pub(super) fn of(entries: OrdMap<Arc<str>, SnapshotEntry>, revision: Revision) -> Self {
        let uninitialized = entries.values().filter(|it| it.uninitialized).count();
        let bytes = entries.values().map(|it| it.len()).sum();
        Self { entries, revision, uninitialized, bytes, ..Self::default() }
    }

    /// Whether no objects are stored, also no unreadable ones.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.unreadable.is_empty()
    }

    /// The snapshot without objects with pending initializers.
    pub(crate) fn initialized(self: &Arc<Self>) -> Arc<Self> {
        if self.uninitialized == 0 {
            return Arc::clone(self);
        }
        let entries =
            self.entries.iter().filter(|(_, snapshot_entry)| !snapshot_entry.uninitialized);
        let entries = entries
            .map(|(key, snapshot_entry)| (Arc::clone(key), snapshot_entry.clone()))
            .collect();
        let unreadable = self.unreadable.clone();
        let Self { revision, rewrites, repairs, .. } = **self;
        Arc::new(Self { unreadable, rewrites, repairs, ..Self::of(entries, revision) })
    }

    /// Replaces or adds an object; removes it if `entry` is None.
    pub(super) fn exchange(&mut self, key: &Arc<str>, entry: Option<&Arc<Entry>>) {
        let before = match entry {
            Some(entry) => self.entries.insert(Arc::clone(key), Arc::clone(entry).into()),
            None => self.entries.remove(key),
        };
        self.uninitialized += usize::from(entry.is_some_and(|it| it.uninitialized));
        self.uninitialized -= usize::from(before.as_ref().is_some_and(|it| it.uninitialized));
        self.bytes += entry.map_or(0, |it| it.len());
        self.bytes -= before.map_or(0, |it| it.len());
    }

    /// The changes from this snapshot to a newer one: the old and the new state of each object that
    /// differs. Parts that both share are not read. An object with pending initializers, which is not
    /// in effect yet, counts as absent.
    pub(crate) fn changes_to<'a>(
        &'a self,
        newer: &'a Self,
    ) -> impl Iterator<Item = (Option<&'a Entry>, Option<&'a Entry>)> {
        let in_effect = |it: &'a SnapshotEntry| Some(&*it.entry).filter(|it| !it.uninitialized);
        self.entries.diff(&newer.entries).map(move |difference| match difference {
            DiffItem::Add(_, new) => (None, in_effect(new)),
            DiffItem::Update { old: (_, old), new: (_, new) } => (in_effect(old), in_effect(new)),
            DiffItem::Remove(_, old) => (in_effect(old), None),
        })
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

    /// Like [`Snapshot::under`], without the objects whose mask shows that they do not have all
    /// `required_labels`.
    pub(crate) fn labeled(
        &self,
        prefix: &str,
        start: Option<&str>,
        required_labels: LabelMask,
    ) -> impl Iterator<Item = &Arc<Entry>> {
        // The end of the range is found once: comparing each key with the prefix would double the
        // cost. `0` is the character after `/` in ASCII.
        let end = prefix.strip_suffix('/').map(|it| format!("{it}0")).unwrap_or_default();
        let start = start.unwrap_or(prefix).min(&end);
        let range = (Bound::Included(start), Bound::Excluded(end.as_str()));
        self.entries
            .range::<(Bound<&str>, Bound<&str>), str>(range)
            .filter(move |(_, snapshot_entry)| snapshot_entry.labels.may_have(required_labels))
            .map(|(_, snapshot_entry)| &snapshot_entry.entry)
    }
}
