//! Tests of the cache of one resource: snapshots, log, and their memory.

use std::sync::atomic::Ordering;

use super::*;
use crate::cache::watch_cache::change_log::{EncodingKey, MAX_BYTES, MAX_CHANGES};
use crate::cache::watch_cache::retained_snapshots::MAX_RETAINED_BYTES;

const PREFIX: &str = "/registry/things";

fn record(name: &str, revision: Revision) -> Arc<Record> {
    large_record(name, revision, 0)
}

fn large_record(name: &str, revision: Revision, size: usize) -> Arc<Record> {
    let bulk = "x".repeat(size);
    let value = format!(
        r#"{{"apiVersion":"v1","kind":"T","metadata":{{"name":"{name}"}},"bulk":"{bulk}"}}"#
    );
    Arc::new(Record {
        key: format!("{PREFIX}/{name}").into(),
        value: value.into(),
        created: revision,
        modified: revision,
        expires: None,
    })
}

/// Applies `script` ("+a ~a -a": add, update, delete), one revision a step, from revision 1.
fn cache_after(script: &str) -> ResourceCache {
    let cache = ResourceCache::new(PREFIX, 0, &Arc::default());
    for (revision, step) in (1..).zip(script.split_whitespace()) {
        let (sign, name) = step.split_at(1);
        let new = (sign != "-").then(|| record(name, revision));
        let key: Arc<str> = format!("{PREFIX}/{name}").into();
        let old = cache.get(&key).map(|it| record(name, it.revision));
        cache.apply(&Event { revision, key, new, old }).unwrap();
    }
    cache
}

fn names(snapshot: &Snapshot) -> String {
    let names = snapshot.entries.values().map(|it| format!("{}@{}", it.name(), it.revision));
    names.collect::<Vec<_>>().join(" ")
}

#[test]
fn an_earlier_state_is_found_by_undoing_later_changes() {
    let cache = cache_after("+a +b ~a -b +c");
    assert_eq!(names(&cache.snapshot()), "a@3 c@5");
    assert_eq!(names(&cache.at(3).unwrap()), "a@3 b@2");
    assert_eq!(names(&cache.at(1).unwrap()), "a@1");
    assert_eq!(names(&cache.at(0).unwrap()), "");
}

#[test]
fn a_watcher_gets_later_changes() {
    let cache = cache_after("+a +b ~a -b");
    let seen: Vec<_> = cache.after(2, 10).unwrap().iter().map(|it| it.revision).collect();
    assert_eq!(seen, [3, 4]);
    assert!(cache.after(4, 10).unwrap().is_empty());
}

#[test]
fn a_watcher_that_is_older_than_the_log_fails() {
    let cache = ResourceCache::new(PREFIX, 10, &Arc::default());
    assert_eq!(cache.after(9, 1).unwrap_err(), TooOld { floor: 10 });
    assert_eq!(cache.at(9).unwrap_err(), TooOld { floor: 10 });
    assert!(cache.after(10, 1).is_ok());
}

#[test]
fn a_retained_snapshot_can_be_read_after_its_changes_left_the_log() {
    let cache = cache_after("+a +b");
    cache.retain_snapshot(&cache.snapshot(), 2);
    for revision in 3..(3 + MAX_CHANGES as Revision + 5) {
        let key: Arc<str> = format!("{PREFIX}/z").into();
        let new = Some(record("z", revision));
        cache.apply(&Event { revision, key, new, old: None }).unwrap();
    }
    assert!(cache.at(3).is_err());
    assert_eq!(names(&cache.at(2).unwrap()), "a@1 b@2");
}

const MEGABYTE: usize = 1 << 20;

/// Creates and deletes `count` objects of a megabyte, from `first` on.
fn create_and_delete(cache: &ResourceCache, first: Revision, count: u64) {
    for revision in (first..first + 2 * count).step_by(2) {
        let created_record = large_record("big", revision, MEGABYTE);
        let key = Arc::clone(&created_record.key);
        let created = Event {
            revision,
            key: Arc::clone(&key),
            new: Some(Arc::clone(&created_record)),
            old: None,
        };
        cache.apply(&created).unwrap();
        let deleted = Event { revision: revision + 1, key, new: None, old: Some(created_record) };
        cache.apply(&deleted).unwrap();
    }
}

/// The bytes of the objects that the log has.
fn log_bytes(cache: &ResourceCache) -> usize {
    let state = cache.lock();
    state.log.after(0).filter_map(|change| change.old.as_ref()).map(|old| old.len()).sum()
}

#[test]
fn deleted_objects_count_until_they_are_compacted() {
    let total = Arc::default();
    let cache = ResourceCache::new(PREFIX, 0, &total);
    create_and_delete(&cache, 1, 200);
    assert!(
        log_bytes(&cache) <= MAX_BYTES && log_bytes(&cache) > MAX_BYTES / 2,
        "{}",
        log_bytes(&cache)
    );
    assert!((log_bytes(&cache)..=MAX_BYTES).contains(&cache.history_bytes()));
    assert_eq!(total.load(Ordering::Relaxed), cache.history_bytes());
    cache.compact(Revision::MAX);
    assert_eq!((log_bytes(&cache), cache.history_bytes()), (0, 0));
    drop(cache);
    assert_eq!(total.load(Ordering::Relaxed), 0);
}

fn encoding(form: u8, second: i64) -> EncodingKey {
    EncodingKey { event: "MODIFIED", crd_revision: 1, version: 0, form, second }
}

#[test]
fn encodings_of_the_last_four_seconds_are_kept() {
    let cache = cache_after("+a ~a");
    let before = cache.history_bytes();
    let change = Arc::clone(&cache.after(1, 1).unwrap()[0]);
    change.encoded(encoding(0, 0), || vec![0; MEGABYTE]);
    for second in 1..100 {
        change.encoded(encoding(1, second), || vec![0; MEGABYTE]);
    }
    assert_eq!(cache.history_bytes(), before + 5 * MEGABYTE);
    change.encoded(encoding(0, 0), || unreachable!("the encoding of another form is kept"));
    change.encoded(encoding(1, 99), || unreachable!("the newest encoding is kept"));
    assert!(change.encoding(encoding(1, 1)).is_none());
    cache.compact(Revision::MAX);
    assert_eq!(cache.history_bytes(), 0);
}

#[test]
fn encoded_events_count_as_long_as_their_change_is_in_the_log() {
    let cache = cache_after("+a ~a");
    let before = cache.history_bytes();
    let change = Arc::clone(&cache.after(1, 1).unwrap()[0]);
    for form in 0..2 {
        change.encoded(encoding(form, 0), || vec![0; MEGABYTE]);
        change.encoded(encoding(form, 0), || unreachable!("the encoding is kept"));
    }
    assert_eq!(cache.history_bytes(), before + 2 * MEGABYTE);
    cache.compact(Revision::MAX);
    assert_eq!(cache.history_bytes(), 0);
    change.encoded(encoding(2, 0), || vec![0; MEGABYTE]);
    assert_eq!(cache.history_bytes(), 0, "the change has left the log");
}

#[test]
fn a_watcher_that_has_all_changes_survives_compaction() {
    let cache = cache_after("+a ~a -a");
    cache.compact(100);
    assert_eq!(cache.after(2, 1).unwrap_err(), TooOld { floor: 3 });
    assert!(cache.after(3, 1).unwrap().is_empty());
}

#[test]
fn compaction_drops_older_retained_snapshots() {
    let cache = cache_after("+a ~a ~a");
    cache.retain_snapshot(&cache.at(1).unwrap(), 1);
    cache.retain_snapshot(&cache.at(2).unwrap(), 2);
    cache.compact(2);
    assert_eq!(cache.at(1).unwrap_err(), TooOld { floor: 2 });
    assert_eq!(names(&cache.at(2).unwrap()), "a@2");
}

#[test]
fn a_retained_snapshot_with_too_much_memory_is_dropped() {
    let cache = ResourceCache::new(PREFIX, 0, &Arc::default());
    let count = (MAX_RETAINED_BYTES + MAX_BYTES) as u64 / MEGABYTE as u64 + 2;
    for revision in 1..=count {
        let new = Some(large_record(&format!("n{revision}"), revision, MEGABYTE));
        let key = Arc::clone(&new.as_ref().unwrap().key);
        cache.apply(&Event { revision, key, new, old: None }).unwrap();
    }
    cache.retain_snapshot(&cache.snapshot(), count);
    let delete = |index: u64| {
        let name = format!("n{index}");
        let key: Arc<str> = format!("{PREFIX}/{name}").into();
        let old = Some(large_record(&name, index, MEGABYTE));
        cache.apply(&Event { revision: count + index, key, new: None, old }).unwrap();
    };
    (1..=count / 2).for_each(delete);
    assert!(cache.at(count).is_ok(), "the log counts the objects that were deleted last");
    (count / 2 + 1..=count).for_each(delete);
    assert!(cache.at(count).is_err());
    assert!(cache.history_bytes() <= MAX_BYTES);
}

#[test]
fn a_retired_cache_refuses_events() {
    let cache = cache_after("+a");
    assert!(!cache.retire_if_empty());
    let cache = cache_after("+a -a");
    assert!(cache.retire_if_empty());
    let new = Some(record("a", 3));
    let event = Event { revision: 3, key: format!("{PREFIX}/a").into(), new, old: None };
    assert_eq!(cache.apply(&event), Err(Retired));
}

#[test]
fn an_encoder_that_panics_does_not_affect_others() {
    let cache = cache_after("+a ~a");
    let change = Arc::clone(&cache.after(1, 1).unwrap()[0]);
    let key = encoding(0, 0);
    let encode = || change.encoded(key, || panic!("it cannot be encoded"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(encode)).is_err());
    assert_eq!(*change.encoded(key, || vec![7]), [7]);
    cache.compact(Revision::MAX);
    assert_eq!(cache.history_bytes(), 0);
}

/// The same object with another field.
fn widened(entry: &Entry) -> Entry {
    let mut object = entry.object_as_stored();
    object.map_mut().insert("wide".to_owned(), true.into());
    entry.with_object(&object)
}

fn is_wide(entry: &Entry) -> bool {
    entry.object_as_stored().get(&["wide"]).is_some()
}

#[test]
fn objects_may_change_while_they_are_rewritten() {
    let cache = cache_after("+a +b +c");
    let change = |name: &str, is_deleted: bool| {
        let key: Arc<str> = format!("{PREFIX}/{name}").into();
        let revision = cache.snapshot().revision + 1;
        let old = cache.get(&key).map(|it| record(name, it.revision));
        let new = (!is_deleted).then(|| record(name, revision));
        cache.apply(&Event { revision, key, new, old }).unwrap();
    };
    let unlocked = std::cell::Cell::new(0);
    cache.rewrite(|entry| {
        // Under constant writes, the last objects are rewritten with the lock.
        if cache.state.try_lock().is_ok() {
            unlocked.set(unlocked.get() + 1);
            change("a", false);
            change("d", false);
            if cache.snapshot().entries.len() == 4 {
                change("b", true);
            }
        }
        Some(widened(entry))
    });
    assert!(unlocked.get() > MAX_UNLOCKED_REWRITES);
    let snapshot = cache.snapshot();
    let found: Vec<_> = snapshot.entries.values().map(|it| it.name()).collect();
    assert_eq!(found, ["a", "c", "d"]);
    assert!(snapshot.entries.values().all(|it| is_wide(it)));
    let last = cache.after(snapshot.revision - 1, 9).unwrap();
    assert_eq!(last.iter().map(|it| it.revision).collect::<Vec<_>>(), [snapshot.revision]);
}

#[test]
fn rewritten_objects_count_while_the_log_has_them() {
    let cache = ResourceCache::new(PREFIX, 0, &Arc::default());
    for (revision, name) in [(1, "a"), (2, "b")] {
        let new = large_record(name, revision, MEGABYTE);
        let key = Arc::clone(&new.key);
        cache.apply(&Event { revision, key, new: Some(new), old: None }).unwrap();
    }
    // The log has the second object, the retained snapshot has both.
    cache.compact(1);
    cache.retain_snapshot(&cache.snapshot(), 2);
    let before = cache.history_bytes();
    let old = ["a", "b"].map(|it| Arc::downgrade(&cache.get(&format!("{PREFIX}/{it}")).unwrap()));
    cache.rewrite(|entry| Some(widened(entry)));
    assert_eq!(old.each_ref().map(|it| it.upgrade().is_some()), [false, true]);
    assert!(cache.history_bytes() > before + MEGABYTE);
    assert!(cache.at(2).unwrap().entries.values().all(|it| is_wide(it)));
    cache.compact(2);
    assert!(old[1].upgrade().is_none());
    assert_eq!(cache.history_bytes(), 0);
}

#[test]
fn a_rewrite_keeps_the_entries_that_it_does_not_change() {
    let cache = cache_after("+a +b");
    cache.retain_snapshot(&cache.snapshot(), 1);
    let before = cache.snapshot();
    cache.rewrite(|_| None);
    assert!(cache.is_current(&before));
    assert!(cache.lock().retained.get(1).is_some());
    cache.rewrite(|entry| (entry.name() == "a").then(|| entry.without_fields()));
    let after = cache.snapshot();
    let stays = before
        .entries
        .iter()
        .map(|(key, snapshot_entry)| after.entries.get(key) == Some(snapshot_entry));
    assert_eq!(stays.collect::<Vec<_>>(), [false, true]);
}

/// Updates "a" and removes the change from the log, so that only a retained snapshot has the old
/// object.
fn update_and_compact(cache: &ResourceCache) {
    let revision = cache.snapshot().revision + 1;
    let key: Arc<str> = format!("{PREFIX}/a").into();
    let old = Some(record("a", cache.get(&key).unwrap().revision));
    let new = Some(record("a", revision));
    cache.apply(&Event { revision, key, new, old }).unwrap();
    let mut state = cache.lock();
    state.compact_log(revision);
}

#[test]
fn a_snapshot_from_before_a_rewrite_is_not_retained() {
    let cache = cache_after("+a +b");
    let read = cache.snapshot();
    cache.rewrite(|entry| Some(widened(entry)));
    cache.retain_snapshot(&read, 2);
    update_and_compact(&cache);
    assert!(cache.at(2).is_err());
    cache.retain_snapshot(&cache.snapshot(), 3);
    update_and_compact(&cache);
    assert_eq!(names(&cache.at(3).unwrap()), "a@3 b@2");
}

#[test]
fn a_snapshot_from_before_the_log_is_not_retained() {
    let cache = cache_after("+a +b");
    let read = cache.snapshot();
    update_and_compact(&cache);
    cache.retain_snapshot(&read, 2);
    assert!(cache.at(2).is_err());
    assert_eq!(cache.history_bytes(), 0);
}

fn unreadable_record(name: &str, revision: Revision) -> Arc<Record> {
    let record = Record::clone(&record(name, revision));
    Arc::new(Record { value: "unreadable:no key".into(), ..record })
}

#[test]
fn an_object_that_becomes_unreadable_is_no_deletion_for_watchers() {
    let cache = cache_after("+a +b");
    let key: Arc<str> = format!("{PREFIX}/a").into();
    let (old, new) = (Some(record("a", 1)), Some(unreadable_record("a", 3)));
    cache.apply(&Event { revision: 3, key: Arc::clone(&key), new, old }).unwrap();
    let snapshot = cache.snapshot();
    assert_eq!(names(&snapshot), "b@2");
    assert_eq!(&*snapshot.unreadable.get(&key).unwrap().reason, "no key");
    assert_eq!(snapshot.unreadable.first_under("/registry/things/").unwrap().0, &*key);
    assert!(snapshot.unreadable.first_under("/registry/things/b").is_none());
    assert!(cache.after(2, 10).is_err() && cache.after(3, 10).unwrap().is_empty());
    assert!(cache.contains(&key) && cache.get(&key).is_none());

    // A write that can be read is an addition.
    let (old, new) = (Some(unreadable_record("a", 3)), Some(record("a", 4)));
    cache.apply(&Event { revision: 4, key: Arc::clone(&key), new, old }).unwrap();
    assert_eq!(names(&cache.snapshot()), "a@4 b@2");
    assert!(!cache.has_unreadable());
    let changes = cache.after(3, 10).unwrap();
    assert!(changes.len() == 1 && changes[0].old.is_none());
}

#[test]
fn a_deleted_unreadable_object_has_no_event() {
    let cache = ResourceCache::new(PREFIX, 0, &Arc::default());
    cache.load(&[unreadable_record("a", 1)]);
    assert!(!cache.is_empty() && !cache.retire_if_empty());
    let (key, old) = (format!("{PREFIX}/a").into(), Some(unreadable_record("a", 1)));
    cache.apply(&Event { revision: 2, key, new: None, old }).unwrap();
    assert!(cache.is_empty() && cache.after(0, 10).unwrap().is_empty());
}

#[test]
fn a_repaired_object_is_added_unless_it_has_changed() {
    let cache = ResourceCache::new(PREFIX, 0, &Arc::default());
    cache.load(&[unreadable_record("a", 1), record("b", 2)]);
    cache.finish_load(2, 0);
    cache.repair(&unreadable_record("a", 1));
    cache.repair(&record("a", 3));
    assert!(cache.has_unreadable());
    cache.repair(&record("a", 1));
    assert_eq!(names(&cache.snapshot()), "a@1 b@2");
    assert!(!cache.has_unreadable() && cache.after(1, 10).is_err());
}

#[test]
fn a_follower_does_not_miss_a_repaired_object() {
    let cache = ResourceCache::new(PREFIX, 0, &Arc::default());
    cache.load(&[unreadable_record("a", 1), record("b", 2)]);
    cache.finish_load(2, 0);
    let first = cache.follow(None);
    assert!(first.changes.is_none());
    let second = cache.follow(Some(first.position));
    assert_eq!(second.changes.map(|it| it.len()), Some(0));
    cache.repair(&record("a", 1));
    let repaired = cache.follow(Some(second.position));
    assert!(repaired.changes.is_none());
    assert_eq!(names(&repaired.snapshot), "a@1 b@2");
    let (key, new) = (format!("{PREFIX}/c").into(), Some(record("c", 3)));
    cache.apply(&Event { revision: 3, key, new, old: None }).unwrap();
    let last = cache.follow(Some(repaired.position));
    assert_eq!(last.changes.map(|it| it.len()), Some(1));
}
