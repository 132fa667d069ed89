//! Tests of how often objects are parsed and which results are cached.

use std::sync::Barrier;
use std::thread;

use super::*;
use store::{Event, Record};

const PREFIX: &str = "/registry/limitranges";

/// A resource whose objects a test writes, and their parsed forms.
struct Fixture {
    cache: ResourceCache,
    parsed: ParsedObjects<String>,
    revision: Revision,
}

impl Fixture {
    fn new() -> Self {
        let cache = ResourceCache::new(PREFIX, 0, &Arc::default());
        let parsed = ParsedObjects::new("", "limitranges", |object| object.name().to_owned());
        Self { cache, parsed, revision: 0 }
    }

    /// Stores an object with about `size` bytes.
    fn store(&mut self, path: &str, size: usize) {
        let name = path.rsplit('/').next().unwrap();
        let bulk = "x".repeat(size);
        let value = format!(
            r#"{{"kind":"T","apiVersion":"v1","metadata":{{"name":"{name}"}},"bulk":"{bulk}"}}"#
        );
        self.write(path, Some(value));
    }

    fn delete(&mut self, path: &str) {
        self.write(path, None);
    }

    fn write(&mut self, path: &str, value: Option<String>) {
        self.revision += 1;
        let (key, revision): (Arc<str>, _) = (format!("{PREFIX}/{path}").into(), self.revision);
        let new = value.map(|value| {
            Arc::new(Record {
                key: Arc::clone(&key),
                value: value.into(),
                created: revision,
                modified: revision,
                expires: None,
            })
        });
        self.cache.apply(&Event { revision, key, new, old: None }).unwrap();
    }

    /// The parsed form of an object as it is now.
    fn get(&self, path: &str) -> Arc<String> {
        self.get_in(&self.cache.snapshot(), path)
    }

    fn get_in(&self, snapshot: &Snapshot, path: &str) -> Arc<String> {
        let key = format!("{PREFIX}/{path}");
        self.parsed.get(snapshot, snapshot.entries.get(key.as_str()).unwrap())
    }

    /// Whether a second read returns the cached parsed form.
    fn is_cached(&self, path: &str) -> bool {
        Arc::ptr_eq(&self.get(path), &self.get(path))
    }

    fn cached(&self) -> usize {
        self.parsed.lock().by_key.len()
    }

    fn large_bytes(&self) -> usize {
        self.parsed.lock().large_bytes
    }
}

#[test]
fn an_object_is_parsed_once_for_each_revision() {
    let mut fixture = Fixture::new();
    fixture.store("default/a", 0);
    let first = fixture.get("default/a");
    assert!(Arc::ptr_eq(&first, &fixture.get("default/a")));
    fixture.store("default/b", 0);
    assert!(Arc::ptr_eq(&first, &fixture.get("default/a")));
    fixture.store("default/a", 0);
    assert!(!Arc::ptr_eq(&first, &fixture.get("default/a")));
    assert!(fixture.is_cached("default/a"));
}

#[test]
fn concurrent_requests_share_the_parsed_form() {
    let mut fixture = Fixture::new();
    fixture.store("default/a", 0);
    let (fixture, barrier) = (&fixture, &Barrier::new(8));
    let parsed: Vec<Arc<String>> = thread::scope(|scope| {
        let get = || {
            barrier.wait();
            fixture.get("default/a")
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(get)).collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    });
    assert!(parsed.iter().all(|it| Arc::ptr_eq(it, &parsed[0])));
}

#[test]
fn objects_of_other_namespaces_are_not_read() {
    let mut fixture = Fixture::new();
    for path in ["default/a", "default/b", "default2/c", "other/d"] {
        fixture.store(path, 0);
    }
    let prefix = format!("{PREFIX}/default/");
    let parsed = fixture.parsed.under(&fixture.cache.snapshot(), &prefix, |_| true);
    assert_eq!(parsed.iter().map(|it| it.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(fixture.cached(), 2);
}

#[test]
fn an_older_snapshot_does_not_replace_a_newer_parsed_form() {
    let mut fixture = Fixture::new();
    fixture.store("default/a", 0);
    let older = fixture.cache.snapshot();
    fixture.store("default/a", 0);
    fixture.store("default/b", 0);
    let (a, b) = (fixture.get("default/a"), fixture.get("default/b"));
    assert!(!Arc::ptr_eq(&a, &fixture.get_in(&older, "default/a")));
    fixture.parsed.lock().remove_outdated(&older);
    assert!(Arc::ptr_eq(&a, &fixture.get("default/a")));
    assert!(Arc::ptr_eq(&b, &fixture.get("default/b")));
}

#[test]
fn a_parsed_form_that_is_carried_over_is_not_parsed_again() {
    let mut fixture = Fixture::new();
    fixture.store("default/a", 0);
    let (first, older) = (fixture.get("default/a"), fixture.cache.snapshot());
    fixture.store("default/a", 0);
    fixture.parsed.carry_over(&format!("{PREFIX}/default/a"), 1, 2);
    assert!(Arc::ptr_eq(&first, &fixture.get("default/a")));
    assert!(Arc::ptr_eq(&first, &fixture.get_in(&older, "default/a")));
    fixture.store("default/a", 0);
    fixture.parsed.carry_over(&format!("{PREFIX}/default/a"), 1, 3);
    assert!(!Arc::ptr_eq(&first, &fixture.get("default/a")));
}

#[test]
fn the_parsed_forms_of_deleted_objects_are_removed() {
    let mut fixture = Fixture::new();
    for index in 0..10 {
        fixture.store(&format!("default/stays-{index}"), 0);
        fixture.get(&format!("default/stays-{index}"));
    }
    for index in 0..500 {
        let path = format!("default/goes-{index}");
        fixture.store(&path, 0);
        fixture.get(&path);
        fixture.delete(&path);
    }
    assert!(fixture.cached() <= 2 * 11 + 1, "{}", fixture.cached());
}

#[test]
fn large_objects_are_cached_up_to_a_total_size() {
    const SIZE: usize = 1 << 20;
    const FITTING: usize = MAX_LARGE_BYTES / (SIZE + 100);
    let mut fixture = Fixture::new();
    for index in 0..=FITTING {
        fixture.store(&format!("default/{index}"), SIZE);
        let is_cached = fixture.is_cached(&format!("default/{index}"));
        assert_eq!(is_cached, index < FITTING, "{index} of {FITTING}");
    }
    assert!(fixture.large_bytes() <= MAX_LARGE_BYTES);
    // The limit does not apply to small objects.
    fixture.store("default/small", 0);
    assert!(fixture.is_cached("default/small"));
    // Changed and deleted objects make room.
    fixture.delete("default/0");
    fixture.store("default/1", 0);
    assert!(fixture.is_cached(&format!("default/{FITTING}")));
    fixture.store("default/last", SIZE);
    assert!(fixture.is_cached("default/last"));
    assert!(fixture.is_cached("default/1"));
    let cached = fixture.large_bytes();
    assert!(((FITTING - 1) * SIZE..=MAX_LARGE_BYTES).contains(&cached), "{cached}");
}
