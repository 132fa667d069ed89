//! [`UnconfirmedWrites`]: the observed writes that the watch has not shown yet; until then, older
//! events of these objects are ignored.
//!
//! ```text
//! cached a@5     observe a@8 (own write)     watch: a@6, a@7 ignored     watch: a@8 confirms
//! ```
//!
//! A deletion is remembered by the uid, since the response to a deletion has no resourceVersion:
//! all states of that uid are ignored until the watch shows its deletion, or an object with another
//! uid.
//!
//! A list that was requested after the write shows the write or a later state, whatever the
//! resourceVersions are, so that the list of a server that lost its history is accepted. So does a
//! list whose resourceVersion is not older than the write, even if its response arrived first.
//!
//! The number of writes is bounded: a write is forgotten once the watch has passed its version,
//! whether or not it has shown the object, which may be out of scope. The deletion of a cached object
//! is always shown; of other deletions, which may have been shown already, the last
//! [`MAX_UNSEEN_DELETIONS`] are remembered.

use std::collections::HashMap;

use crate::item::version_number;
use crate::{Item, ObjectKey};

/// The number of remembered deletions of objects that were not cached.
const MAX_UNSEEN_DELETIONS: usize = 512;
/// A cleanup is tried when at least this many writes are remembered.
const MIN_CLEANUP: usize = 1024;

/// A logical time, which increases with each write to this cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Epoch(u64);

/// The source of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// An event.
    Watch,
    /// The last list, which is of the most recent state.
    List,
}

/// A list of the most recent state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Listing {
    /// The time of the request.
    requested: Epoch,
    /// The resourceVersion of the list, if it is a number.
    version: Option<u64>,
}

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct UnconfirmedWrites {
    now: Epoch,
    /// The time of the request for the list that is under way.
    requested: Epoch,
    /// The last list. All queued states with the origin [`Origin::List`] are from it.
    listing: Listing,
    unconfirmed: HashMap<ObjectKey, Write>,
    /// The number of writes after the last cleanup.
    count_after_cleanup: usize,
}

struct Write {
    at: Epoch,
    uid: String,
    /// The resourceVersion of the object, if it is known and a number.
    version: Option<u64>,
    kind: WriteKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteKind {
    Written,
    Deleted,
    /// The object was not cached: the watch may have shown the deletion before.
    DeletedUnseen,
}

impl UnconfirmedWrites {
    /// A list is about to be requested: it will show all writes up to now.
    pub(crate) fn begin_list(&mut self) {
        self.requested = self.now;
    }

    /// Remembers the state after a write.
    pub(crate) fn record_write(&mut self, item: &Item) {
        self.remember(
            item.key(),
            item.uid(),
            version_number(item.resource_version()),
            WriteKind::Written,
        );
    }

    /// Remembers the deletion of an object; `last` is its last state, if it was cached.
    pub(crate) fn record_deletion(&mut self, key: &ObjectKey, uid: &str, last: Option<&Item>) {
        let seen = last.and_then(|last| version_number(last.resource_version()));
        let written = self.unconfirmed.get(key).and_then(|write| write.version);
        let kind = if last.is_some() { WriteKind::Deleted } else { WriteKind::DeletedUnseen };
        self.remember(key, uid, seen.max(written), kind);
    }

    fn remember(&mut self, key: &ObjectKey, uid: &str, version: Option<u64>, kind: WriteKind) {
        self.now.0 += 1;
        let write = Write { at: self.now, uid: uid.to_owned(), version, kind };
        self.unconfirmed.insert(key.clone(), write);
    }

    /// Forgets the writes that the watch has passed, and the oldest unseen deletions, if there are
    /// many. The watch is at `reached`; older states may follow only for objects that are queued.
    pub(crate) fn forget_passed(
        &mut self,
        reached: Option<u64>,
        is_queued: impl Fn(&ObjectKey) -> bool,
    ) {
        if self.unconfirmed.len() < MIN_CLEANUP.max(2 * self.count_after_cleanup) {
            return;
        }
        let unseen =
            self.unconfirmed.values().filter(|write| write.kind == WriteKind::DeletedUnseen);
        let mut unseen: Vec<Epoch> = unseen.map(|write| write.at).collect();
        unseen.sort_unstable();
        let oldest = unseen.get(unseen.len().saturating_sub(MAX_UNSEEN_DELETIONS)).copied();
        self.unconfirmed.retain(|key, write| match write.kind {
            WriteKind::Written => write.is_after(reached) || is_queued(key),
            WriteKind::Deleted => true,
            WriteKind::DeletedUnseen => Some(write.at) >= oldest,
        });
        self.count_after_cleanup = self.unconfirmed.len();
    }

    /// Whether this state of an object is at least as new as the last write.
    pub(crate) fn accepts_state(&mut self, item: &Item, origin: Origin) -> bool {
        let Some(write) = self.pending(item.key(), origin) else { return true };
        if write.is_newer_than(item) || write.is_deletion() && write.uid == item.uid() {
            return false;
        }
        self.unconfirmed.remove(item.key());
        true
    }

    /// Whether this deletion of an object is newer than the last write. `last` is its last state,
    /// which may be an old one if the deletion was found by a list.
    pub(crate) fn accepts_removal(&mut self, last: &Item, origin: Origin) -> bool {
        let Some(write) = self.pending(last.key(), origin) else { return true };
        // The list is older than the write, which may have created the object.
        if origin == Origin::List {
            return false;
        }
        let is_confirmed =
            if write.is_deletion() { write.uid == last.uid() } else { !write.is_newer_than(last) };
        if !is_confirmed {
            return false;
        }
        self.unconfirmed.remove(last.key());
        true
    }

    /// The list under way has arrived, with the resourceVersion `version` if that is a number.
    /// Forgets the writes that the list shows, but for those whose events are queued.
    pub(crate) fn end_list(
        &mut self,
        version: Option<u64>,
        is_queued: impl Fn(&ObjectKey) -> bool,
    ) {
        let listing = Listing { requested: self.requested, version };
        self.listing = listing;
        self.unconfirmed.retain(|key, write| !write.is_shown_by(listing) || is_queued(key));
    }

    /// The write with which a state from `origin` has to be compared.
    fn pending(&mut self, key: &ObjectKey, origin: Origin) -> Option<&Write> {
        let listing = self.listing;
        if origin == Origin::List
            && self.unconfirmed.get(key).is_some_and(|write| write.is_shown_by(listing))
        {
            self.unconfirmed.remove(key);
        }
        self.unconfirmed.get(key)
    }
}

impl Write {
    fn is_newer_than(&self, item: &Item) -> bool {
        self.is_after_known(version_number(item.resource_version()))
    }

    /// Whether a list shows this write or a later state.
    fn is_shown_by(&self, listing: Listing) -> bool {
        self.at <= listing.requested || !self.is_deletion() && !self.is_after(listing.version)
    }

    fn is_deletion(&self) -> bool {
        self.kind != WriteKind::Written
    }

    /// True if one of the versions is not known.
    fn is_after(&self, version: Option<u64>) -> bool {
        self.version.zip(version).is_none_or(|(own, other)| own > other)
    }

    /// False if one of the versions is not known.
    fn is_after_known(&self, version: Option<u64>) -> bool {
        self.version.zip(version).is_some_and(|(own, other)| own > other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(uid: &str, version: u64) -> Item {
        let json =
            format!(r#"{{"metadata":{{"name":"a","uid":"{uid}","resourceVersion":"{version}"}}}}"#);
        Item::parse(json.into_bytes()).unwrap()
    }

    #[test]
    fn older_events_are_ignored_until_the_write_is_confirmed() {
        let mut writes = UnconfirmedWrites::default();
        writes.record_write(&item("u", 8));
        assert!(!writes.accepts_state(&item("u", 7), Origin::Watch));
        assert!(!writes.accepts_removal(&item("old", 7), Origin::Watch));
        assert!(writes.accepts_state(&item("u", 8), Origin::Watch));
        assert!(writes.accepts_state(&item("u", 3), Origin::Watch), "the write was confirmed");
    }

    #[test]
    fn events_of_a_deleted_object_are_ignored_but_not_those_of_its_successor() {
        let mut writes = UnconfirmedWrites::default();
        let delete = |writes: &mut UnconfirmedWrites| {
            let last = item("u", 8);
            writes.record_deletion(last.key(), last.uid(), Some(&last));
        };
        delete(&mut writes);
        assert!(!writes.accepts_state(&item("u", 9), Origin::Watch));
        assert!(!writes.accepts_state(&item("older", 7), Origin::Watch));
        assert!(writes.accepts_removal(&item("u", 10), Origin::Watch));
        delete(&mut writes);
        assert!(writes.accepts_state(&item("successor", 11), Origin::Watch));
        delete(&mut writes);
        assert!(
            writes.accepts_removal(&item("u", 3), Origin::Watch),
            "a deletion of the same uid is accepted with any version"
        );
    }

    #[test]
    fn a_list_that_was_requested_after_a_write_is_accepted() {
        let mut writes = UnconfirmedWrites::default();
        writes.begin_list();
        writes.record_write(&item("u", 8));
        writes.end_list(Some(7), |_| true);
        assert!(!writes.accepts_state(&item("u", 7), Origin::List));
        assert!(!writes.accepts_removal(&item("u", 7), Origin::List));
        writes.begin_list();
        writes.end_list(Some(2), |_| true);
        assert!(writes.accepts_state(&item("u", 2), Origin::List), "the server lost its history");
    }

    #[test]
    fn a_list_that_is_not_older_than_a_write_is_accepted_even_if_it_was_requested_before() {
        let mut writes = UnconfirmedWrites::default();
        writes.begin_list();
        writes.record_write(&item("u", 8));
        writes.end_list(Some(9), |_| true);
        assert!(writes.accepts_removal(&item("u", 8), Origin::List));
    }

    fn named(name: usize, version: usize) -> Item {
        let json = format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}"#);
        Item::parse(json.into_bytes()).unwrap()
    }

    #[test]
    fn writes_that_the_watch_has_passed_are_forgotten_unless_their_events_are_queued() {
        let mut writes = UnconfirmedWrites::default();
        for number in 0..10 * MIN_CLEANUP {
            writes.record_write(&named(number, number));
            let reached = number.saturating_sub(5).try_into().ok();
            writes.forget_passed(reached, |key| key.name() == "0");
        }
        assert!(writes.unconfirmed.len() <= MIN_CLEANUP);
        assert!(writes.unconfirmed.contains_key(named(0, 0).key()));
        let last = 10 * MIN_CLEANUP - 1;
        assert!(
            !writes.accepts_state(&named(last, last - 1), Origin::Watch),
            "it is not confirmed"
        );
    }

    #[test]
    fn the_last_deletions_of_objects_that_were_not_cached_are_remembered() {
        let mut writes = UnconfirmedWrites::default();
        let seen = item("u", 1);
        writes.record_deletion(seen.key(), seen.uid(), Some(&seen));
        for number in 0..10 * MIN_CLEANUP {
            writes.record_deletion(named(number, 1).key(), "u", None);
            writes.forget_passed(Some(9), |_| false);
        }
        assert!(writes.unconfirmed.len() <= MIN_CLEANUP);
        assert!(!writes.accepts_state(&seen, Origin::Watch), "the watch will show its deletion");
        let accepts = |writes: &mut UnconfirmedWrites, number: usize| {
            let json = format!(r#"{{"metadata":{{"name":"{number}","uid":"u"}}}}"#);
            writes.accepts_state(&Item::parse(json.into_bytes()).unwrap(), Origin::Watch)
        };
        assert!(accepts(&mut writes, 0));
        assert!(
            (1..=MAX_UNSEEN_DELETIONS).all(|back| !accepts(&mut writes, 10 * MIN_CLEANUP - back))
        );
    }
}
