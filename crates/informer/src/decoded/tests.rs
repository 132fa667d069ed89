//! What a lister keeps decoded, for how long, and how much of it.

use std::sync::Weak;

use serde::Deserialize;

use super::*;
use crate::{Indexer, Lister};

#[derive(Debug, Deserialize)]
struct Sized {
    size: u32,
}

const SIZE_OF_ONE: usize = 60 + size_of::<Sized>() + size_of::<Entry<Sized>>();

/// Its JSON is filled up with spaces to 60 bytes, so that all objects count alike.
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

/// So that it is kept.
fn read_twice(lister: &Lister<Sized>, name: &str) -> Arc<Sized> {
    read(lister, name);
    read(lister, name)
}

#[test]
fn from_the_second_on_reads_of_the_same_state_share_one_object() {
    let lister = lister_of(&[("a", "10")]);
    let first = Arc::downgrade(&read(&lister, "a"));
    assert_eq!(first.strong_count(), 0, "perhaps it is never read again");
    let second = read(&lister, "a");
    assert!(Arc::ptr_eq(&second, &read(&lister, "a")));
    assert!(Arc::ptr_eq(&second, &read(&lister.clone(), "a")));
}

#[test]
fn a_new_state_is_decoded_anew_and_the_old_one_let_go() {
    let lister = lister_of(&[("a", "10")]);
    let old = Arc::downgrade(&read_twice(&lister, "a"));
    lister.indexer().insert(item("a", "11"));
    assert_eq!(read(&lister, "a").size, 11);
    assert_eq!(old.strong_count(), 0);
}

#[test]
fn a_deleted_object_is_let_go_when_it_is_asked_for() {
    let lister = lister_of(&[("a", "10")]);
    let object = Arc::downgrade(&read_twice(&lister, "a"));
    lister.indexer().remove(&ObjectKey::new("", "a"));
    assert_eq!(object.strong_count(), 1);
    assert!(lister.shared("", "a").unwrap().is_none());
    assert_eq!(object.strong_count(), 0);
}

#[test]
fn a_deleted_object_that_nobody_asks_for_goes_as_others_are_read() {
    let lister = lister_of(&[("a", "10"), ("b", "11"), ("c", "12"), ("d", "13")]);
    let object = Arc::downgrade(&read_twice(&lister, "a"));
    lister.indexer().remove(&ObjectKey::new("", "a"));
    for name in ["b", "c", "d"] {
        read_twice(&lister, name);
    }
    assert_eq!(object.strong_count(), 0);
}

#[test]
fn what_does_not_fit_the_type_is_not_kept() {
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
fn the_budget_holds_and_what_is_in_use_stays() {
    let decoded = Decoded::new(3 * SIZE_OF_ONE);
    let items: Vec<Item> = (10..30).map(|number| item(&format!("{number}"), "10")).collect();
    let keep = |item: &Item| {
        let object = item.decode().unwrap();
        Arc::downgrade(&decoded.keep(item, item.json().len(), object))
    };
    let kept: Vec<Weak<Sized>> = items
        .iter()
        .map(|item| {
            let object = keep(item);
            assert!(decoded.lock().bytes <= 3 * SIZE_OF_ONE);
            assert!(decoded.get(&items[0]).is_some());
            object
        })
        .collect();
    assert_eq!(kept.iter().filter(|object| object.strong_count() > 0).count(), 3);
    assert_eq!(kept[0].strong_count(), 1);
    assert_eq!(kept[19].strong_count(), 1);
}

#[test]
fn an_object_larger_than_the_budget_is_handed_out_and_not_kept() {
    let decoded = Decoded::new(SIZE_OF_ONE);
    let (small, large) = (item("a", "10"), item("b", "11"));
    decoded.keep(&small, 60, Sized { size: 10 });
    assert_eq!(decoded.keep(&large, 61, Sized { size: 11 }).size, 11);
    assert!(decoded.get(&large).is_none());
    assert!(decoded.get(&small).is_some());
}

#[test]
fn of_two_that_decode_the_same_state_both_get_the_first_object() {
    let decoded = Decoded::new(DEFAULT_BUDGET);
    let item = item("a", "10");
    let first = decoded.keep(&item, 60, Sized { size: 10 });
    let second = decoded.keep(&item, 60, Sized { size: 10 });
    assert!(Arc::ptr_eq(&first, &second));
    assert_eq!(decoded.lock().bytes, SIZE_OF_ONE);
}
