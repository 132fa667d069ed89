//! [`OwnWrites`]: what was written through this cache's owner, and what the watch has not confirmed
//! yet; until it has, older news of these objects is no news.
//!
//! ```text
//! cached a@5     observe a@8 (our write)     watch: a@6, a@7 ignored     watch: a@8 confirms
//! ```
//!
//! A deletion is remembered by the uid, since the answer to a deletion has no resourceVersion: all
//! states of that uid are ignored until the watch shows its end, or an object with another uid.
//!
//! A list that was asked for after the write must show the write or something later, whatever the
//! resourceVersions say: so a server that lost its history is believed in the end.

use std::{cmp::Ordering, collections::HashMap};

use crate::{Item, ObjectKey, item::compare_versions};

/// A point in the order of this cache's writes and lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Epoch(u64);

/// Where news of an object comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// An event.
    Watch,
    /// A list of the most recent state, which was asked for at this time.
    List(Epoch),
}

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct OwnWrites {
    now: Epoch,
    unconfirmed: HashMap<ObjectKey, Write>,
}

struct Write {
    at: Epoch,
    uid: String,
    resource_version: String,
    deleted: bool,
}

impl OwnWrites {
    /// A list that is asked for from now on shows all writes up to now.
    pub(crate) fn now(&self) -> Epoch {
        self.now
    }

    /// Remembers the state that a write has left behind.
    pub(crate) fn wrote(&mut self, item: &Item) {
        self.remember(item, false);
    }

    /// Remembers that this object, last seen like this, was deleted.
    pub(crate) fn deleted(&mut self, last: &Item) {
        self.remember(last, true);
    }

    fn remember(&mut self, item: &Item, deleted: bool) {
        self.now.0 += 1;
        let write = Write {
            at: self.now,
            uid: item.uid().to_owned(),
            resource_version: item.resource_version().to_owned(),
            deleted,
        };
        self.unconfirmed.insert(item.key().clone(), write);
    }

    /// Whether this state of an object is at least as new as what was written.
    pub(crate) fn admits_state(&mut self, item: &Item, origin: Origin) -> bool {
        let Some(write) = self.pending(item.key(), origin) else { return true };
        if write.is_newer_than(item) || write.deleted && write.uid == item.uid() {
            return false;
        }
        self.unconfirmed.remove(item.key());
        true
    }

    /// Whether this end of an object lies behind what was written. `last` is its last state, which
    /// may be an old one if the end was found by listing.
    pub(crate) fn admits_end(&mut self, last: &Item, origin: Origin) -> bool {
        let Some(write) = self.pending(last.key(), origin) else { return true };
        // The list is older than the write: it did not show the object because it could not.
        if matches!(origin, Origin::List(_)) {
            return false;
        }
        let is_confirmed =
            if write.deleted { write.uid == last.uid() } else { !write.is_newer_than(last) };
        if !is_confirmed {
            return false;
        }
        self.unconfirmed.remove(last.key());
        true
    }

    /// Forgets the writes that a list, asked for at `asked`, has judged: all from before, but for
    /// those of which the news is still queued.
    pub(crate) fn settle(&mut self, asked: Epoch, is_queued: impl Fn(&ObjectKey) -> bool) {
        self.unconfirmed.retain(|key, write| write.at > asked || is_queued(key));
    }

    /// The write that news from `origin` has to be measured against.
    fn pending(&mut self, key: &ObjectKey, origin: Origin) -> Option<&Write> {
        if let Origin::List(asked) = origin
            && self.unconfirmed.get(key).is_some_and(|write| write.at <= asked)
        {
            self.unconfirmed.remove(key);
        }
        self.unconfirmed.get(key)
    }
}

impl Write {
    fn is_newer_than(&self, item: &Item) -> bool {
        compare_versions(&self.resource_version, item.resource_version()) == Some(Ordering::Greater)
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
        let mut writes = OwnWrites::default();
        writes.wrote(&item("u", 8));
        assert!(!writes.admits_state(&item("u", 7), Origin::Watch));
        assert!(!writes.admits_end(&item("old", 7), Origin::Watch));
        assert!(writes.admits_state(&item("u", 8), Origin::Watch));
        assert!(writes.admits_state(&item("u", 3), Origin::Watch), "nothing is remembered now");
    }

    #[test]
    fn a_deleted_object_does_not_come_back_but_its_successor_comes() {
        let mut writes = OwnWrites::default();
        writes.deleted(&item("u", 8));
        assert!(!writes.admits_state(&item("u", 9), Origin::Watch));
        assert!(!writes.admits_state(&item("older", 7), Origin::Watch));
        assert!(writes.admits_end(&item("u", 10), Origin::Watch));
        writes.deleted(&item("u", 8));
        assert!(writes.admits_state(&item("successor", 11), Origin::Watch));
        writes.deleted(&item("u", 8));
        assert!(writes.admits_end(&item("u", 3), Origin::Watch), "the server has gone back");
    }

    #[test]
    fn a_list_counts_by_when_it_was_asked_for() {
        let mut writes = OwnWrites::default();
        let before = Origin::List(writes.now());
        writes.wrote(&item("u", 8));
        let after = Origin::List(writes.now());
        assert!(!writes.admits_state(&item("u", 7), before));
        assert!(!writes.admits_end(&item("u", 7), before));
        assert!(writes.admits_state(&item("u", 2), after), "the server has lost its history");
    }
}
