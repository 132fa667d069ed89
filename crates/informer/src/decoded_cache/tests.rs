//! The decoded objects of a lister: their sharing, their removal, and the budget.

use std::sync::Weak;

use serde::Deserialize;

use super::*;
use crate::{Indexer, Lister};

#[derive(Debug, Deserialize)]
struct Sized {
    size: u32,
}

const SIZE_OF_ONE: usize = 60 + size_of::<Sized>() + size_of::<Entry<Sized>>();

/// An item with 60 bytes of JSON, so that all objects have the same size.
fn item(name: &str, size: &str) -> Item {
    let json = format!(r#"{{"metadata":{{"name":"{name}"}},"size":{size}}}"#);
    Item::parse(format!("{json:<60}").into_bytes()).unwrap()
}

fn lister_of(items: &[(&str, &str)]) -> Lister<Sized> {
    let indexer = Arc::new(Indexer::new());
    for (name, size) in items {
        indexer.insert(item(name, size));
    }
    Lister::new(indexer)
}

fn read(lister: &Lister<Sized>, name: &str) -> Arc<Sized> {
    lister.shared("", name).unwrap().unwrap()
}

/// The second read inserts the object into the cache.
fn read_twice(lister: &Lister<Sized>, name: &str) -> Arc<Sized> {
    read(lister, name);
    read(lister, name)
}

#[test]
fn the_second_and_later_reads_of_a_state_share_one_object() {
    let lister = lister_of(&[("a", "10")]);
    let first = Arc::downgrade(&read(&lister, "a"));
    assert_eq!(first.strong_count(), 0, "the first read is not cached");
    let second = read(&lister, "a");
    assert!(Arc::ptr_eq(&second, &read(&lister, "a")));
    assert!(Arc::ptr_eq(&second, &read(&lister.clone(), "a")));
}

#[test]
fn the_decoded_old_state_is_removed_when_a_new_state_is_read() {
    let lister = lister_of(&[("a", "10")]);
    let old = Arc::downgrade(&read_twice(&lister, "a"));
    lister.indexer().insert(item("a", "11"));
    assert_eq!(read(&lister, "a").size, 11);
    assert_eq!(old.strong_count(), 0);
}

#[test]
fn a_deleted_object_is_removed_when_it_is_read() {
    let lister = lister_of(&[("a", "10")]);
    let object = Arc::downgrade(&read_twice(&lister, "a"));
    lister.indexer().remove(&ObjectKey::new("", "a"));
    assert_eq!(object.strong_count(), 1);
    assert!(lister.shared("", "a").unwrap().is_none());
    assert_eq!(object.strong_count(), 0);
}

#[test]
fn a_deleted_object_is_removed_while_others_are_read() {
    let lister = lister_of(&[("a", "10"), ("b", "11"), ("c", "12"), ("d", "13")]);
    let object = Arc::downgrade(&read_twice(&lister, "a"));
    lister.indexer().remove(&ObjectKey::new("", "a"));
    for name in ["b", "c", "d"] {
        read_twice(&lister, name);
    }
    assert_eq!(object.strong_count(), 0);
}

#[test]
fn an_object_that_cannot_be_decoded_is_not_cached() {
    let lister = lister_of(&[("a", "\"\"")]);
    assert_eq!(lister.shared("", "a").unwrap_err().item.name(), "a");
    assert!(lister.shared("", "a").is_err());

    lister.indexer().insert(item("a", "10"));
    let last_good = Arc::downgrade(&read_twice(&lister, "a"));
    lister.indexer().insert(item("a", "\"\""));
    assert!(lister.shared("", "a").is_err());
    assert_eq!(last_good.strong_count(), 0);
}

#[test]
fn objects_in_use_stay_within_the_budget() {
    let decoded = DecodedCache::new(3 * SIZE_OF_ONE);
    let items: Vec<Item> = (10..30).map(|number| item(&format!("{number}"), "10")).collect();
    let insert = |item: &Item| {
        let object = item.decode().unwrap();
        Arc::downgrade(&decoded.insert(item, item.json().len(), object))
    };
    let objects: Vec<Weak<Sized>> = items
        .iter()
        .map(|item| {
            let object = insert(item);
            assert!(decoded.lock().bytes <= 3 * SIZE_OF_ONE);
            assert!(decoded.get(&items[0]).is_some());
            object
        })
        .collect();
    assert_eq!(objects.iter().filter(|object| object.strong_count() > 0).count(), 3);
    assert_eq!(objects[0].strong_count(), 1);
    assert_eq!(objects[19].strong_count(), 1);
}

#[test]
fn an_object_larger_than_the_budget_is_returned_and_not_cached() {
    let decoded = DecodedCache::new(SIZE_OF_ONE);
    let (small, large) = (item("a", "10"), item("b", "11"));
    decoded.insert(&small, 60, Sized { size: 10 });
    assert_eq!(decoded.insert(&large, 61, Sized { size: 11 }).size, 11);
    assert!(decoded.get(&large).is_none());
    assert!(decoded.get(&small).is_some());
}

#[test]
fn two_readers_that_decode_the_same_state_get_one_object() {
    let decoded = DecodedCache::new(DEFAULT_BUDGET);
    let item = item("a", "10");
    let first = decoded.insert(&item, 60, Sized { size: 10 });
    let second = decoded.insert(&item, 60, Sized { size: 10 });
    assert!(Arc::ptr_eq(&first, &second));
    assert_eq!(decoded.lock().bytes, SIZE_OF_ONE);
}
