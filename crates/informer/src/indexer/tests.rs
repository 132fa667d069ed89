//! The indexer against a naive model, and observed writes.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use super::*;
use crate::seeded::{for_seeds, pick};
use keel::Entropy;

fn item(namespace: &str, name: &str, color: &str, version: u64) -> Item {
    let json = format!(
        r#"{{"metadata":{{"namespace":"{namespace}","name":"{name}","uid":"{namespace}{name}",
        "resourceVersion":"{version}","labels":{{"color":"{color}"}}}}}}"#
    );
    Item::parse(json.into_bytes()).unwrap()
}

fn by_color(item: &Item) -> Vec<String> {
    item.labels().into_values().collect()
}

fn shown(items: impl IntoIterator<Item = Item>) -> Vec<String> {
    items.into_iter().map(|item| format!("{item:?}")).collect()
}

/// Keeps items in a list.
#[derive(Default)]
struct Model(Vec<Item>);

impl Model {
    fn find(&self, wanted: impl Fn(&Item) -> bool) -> Vec<String> {
        let mut found: Vec<Item> = self.0.iter().filter(|item| wanted(item)).cloned().collect();
        found.sort_by(|one, other| one.key().cmp(other.key()));
        shown(found)
    }

    fn take(&mut self, key: &ObjectKey) -> Option<Item> {
        let at = self.0.iter().position(|item| item.key() == key)?;
        Some(self.0.remove(at))
    }

    fn check(&self, indexer: &Indexer, entropy: &Entropy) {
        let color = pick(entropy, &COLORS);
        assert_eq!(shown(indexer.list()), self.find(|_| true));
        assert_eq!(indexer.len(), self.0.len());
        for namespace in NAMESPACES {
            let here = self.find(|item| item.namespace() == namespace);
            assert_eq!(shown(indexer.list_namespace(namespace)), here);
        }
        if let Ok(found) = indexer.by_index("color", color) {
            assert_eq!(shown(found), self.find(|item| by_color(item) == [color]));
            let mut colors: Vec<String> = self.0.iter().flat_map(by_color).collect();
            colors.sort();
            colors.dedup();
            assert_eq!(indexer.index_values("color").unwrap(), colors);
        }
    }
}

const NAMESPACES: [&str; 3] = ["", "m", "n"];
const COLORS: [&str; 3] = ["red", "green", "blue"];

#[test]
fn the_indexer_agrees_with_a_naive_model() {
    for_seeds(100, |entropy| {
        let (indexer, mut model) = (Indexer::new(), Model::default());
        let index_from = entropy.below(100);
        for version in 0..100 {
            if version == index_from {
                indexer.add_index("color", by_color);
            }
            let (namespace, name) = (pick(&entropy, &NAMESPACES), pick(&entropy, &["a", "b", "c"]));
            let state = item(namespace, name, pick(&entropy, &COLORS), version);
            let expected = model.take(state.key());
            let replaced = if entropy.below(3) == 0 {
                indexer.remove(state.key())
            } else {
                model.0.push(state.clone());
                indexer.insert(state)
            };
            assert_eq!(shown(replaced), shown(expected));
            model.check(&indexer, &entropy);
        }
    });
}

#[test]
fn an_unknown_index_is_an_error() {
    assert_eq!(Indexer::new().by_index("x", "y").unwrap_err(), NoSuchIndex("x".to_owned()));
}

#[test]
fn a_read_after_a_write_shows_it_despite_late_events() {
    let indexer = Indexer::new();
    indexer.apply_state(item("n", "a", "red", 5), Origin::Watch);
    indexer.apply_write(item("n", "a", "blue", 8));
    let late = indexer.apply_state(item("n", "a", "green", 7), Origin::Watch);
    assert!(matches!(late, Applied::Nothing));
    assert_eq!(shown(indexer.list()), ["n/a@8"]);
    let own = indexer.apply_state(item("n", "a", "blue", 8), Origin::Watch);
    assert!(matches!(own, Applied::Nothing), "the write is applied only once");
    indexer.apply_state(item("n", "a", "green", 9), Origin::Watch);
    assert_eq!(shown(indexer.list()), ["n/a@9"]);
}

#[test]
fn the_response_to_an_older_write_is_ignored() {
    let indexer = Indexer::new();
    indexer.apply_state(item("n", "a", "red", 9), Origin::Watch);
    indexer.apply_write(item("n", "a", "blue", 8));
    assert_eq!(shown(indexer.list()), ["n/a@9"]);
}

#[test]
fn late_events_and_lists_do_not_restore_a_deleted_object() {
    let indexer = Indexer::new();
    indexer.apply_state(item("n", "a", "red", 5), Origin::Watch);
    indexer.begin_list();
    indexer.apply_deletion(&ObjectKey::new("n", "a"), "na");
    indexer.apply_state(item("n", "a", "red", 6), Origin::Watch);
    indexer.end_list(Some(6), |_| true);
    indexer.apply_state(item("n", "a", "red", 6), Origin::List);
    assert!(indexer.is_empty());
    indexer.apply_removal(item("n", "a", "red", 7), Origin::Watch);
    indexer.apply_state(item("n", "a", "red", 8), Origin::Watch);
    assert_eq!(shown(indexer.list()), ["n/a@8"]);
}

#[test]
fn an_object_that_was_deleted_before_it_was_cached_is_not_cached() {
    let indexer = Indexer::new();
    indexer.apply_deletion(&ObjectKey::new("n", "a"), "na");
    indexer.apply_state(item("n", "a", "red", 5), Origin::Watch);
    assert!(indexer.is_empty());
}

#[test]
fn a_deletion_has_the_state_of_the_watch_event_or_else_the_cached_one() {
    let indexer = Indexer::new();
    let last_version = |indexer: &Indexer, origin| {
        indexer.apply_state(item("n", "a", "red", 8), Origin::Watch);
        match indexer.apply_removal(item("n", "a", "red", 5), origin) {
            Applied::Deleted(last) => last.resource_version().to_owned(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(last_version(&indexer, Origin::List), "8");
    assert_eq!(last_version(&indexer, Origin::Watch), "5");
}

#[test]
fn a_deletion_of_an_earlier_object_with_that_name_changes_nothing() {
    let indexer = Indexer::new();
    indexer.apply_state(item("n", "a", "red", 5), Origin::Watch);
    indexer.apply_deletion(&ObjectKey::new("n", "a"), "another uid");
    assert_eq!(indexer.len(), 1);
}

#[test]
fn a_list_that_is_older_than_a_creation_does_not_delete_the_object() {
    let indexer = Indexer::new();
    indexer.begin_list();
    indexer.apply_write(item("n", "a", "red", 5));
    indexer.end_list(Some(4), |_| false);
    let created = item("n", "a", "red", 5);
    assert!(matches!(indexer.apply_removal(created.clone(), Origin::List), Applied::Nothing));
    indexer.begin_list();
    indexer.end_list(Some(5), |_| false);
    assert!(matches!(indexer.apply_removal(created, Origin::List), Applied::Deleted(_)));
}

#[test]
fn an_object_for_which_an_index_function_panics_is_cached() {
    let indexer = Indexer::new();
    indexer.add_index("color", |item| {
        assert_ne!(item.name(), "a", "expected in this test");
        by_color(item)
    });
    indexer.insert(item("n", "a", "red", 1));
    indexer.insert(item("n", "b", "red", 2));
    assert_eq!(shown(indexer.list()), ["n/a@1", "n/b@2"]);
    assert_eq!(shown(indexer.by_index("color", "red").unwrap()), ["n/b@2"]);
    assert!(indexer.remove(&ObjectKey::new("n", "a")).is_some());
}

#[test]
fn no_index_function_runs_under_the_lock() {
    let indexer = Arc::new(Indexer::new());
    let weak = Arc::downgrade(&indexer);
    indexer.add_index("color", move |item| {
        let indexer = weak.upgrade().unwrap();
        assert!(indexer.0.try_write().is_ok(), "a reader would wait for this function");
        by_color(item)
    });
    let colors = |expected: &[&str]| assert_eq!(indexer.index_values("color").unwrap(), expected);
    indexer.insert(item("n", "a", "red", 1));
    indexer.insert(item("n", "a", "blue", 2));
    colors(&["blue"]);
    indexer.apply_state(item("n", "a", "green", 3), Origin::Watch);
    indexer.apply_state(item("n", "b", "red", 4), Origin::List);
    indexer.apply_write(item("n", "c", "blue", 5));
    colors(&["blue", "green", "red"]);
    indexer.remove(&ObjectKey::new("n", "a"));
    indexer.apply_deletion(&ObjectKey::new("n", "b"), "nb");
    colors(&["blue"]);
    indexer.apply_removal(item("n", "c", "blue", 6), Origin::Watch);
    colors(&[]);
}

#[test]
fn an_index_function_is_called_once_for_each_state_of_a_change() {
    let indexer = Indexer::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    indexer.add_index("color", move |item| {
        counted.fetch_add(1, Relaxed);
        by_color(item)
    });
    let check = |expected| assert_eq!(calls.swap(0, Relaxed), expected);
    indexer.apply_write(item("n", "a", "red", 1));
    check(1);
    indexer.apply_state(item("n", "a", "red", 1), Origin::Watch);
    indexer.apply_state(item("n", "a", "red", 1), Origin::List);
    check(0);
    indexer.apply_state(item("n", "a", "blue", 2), Origin::Watch);
    check(2);
    indexer.remove(&ObjectKey::new("n", "a"));
    check(1);
    indexer.remove(&ObjectKey::new("n", "a"));
    check(0);
}

#[test]
fn a_change_that_another_writer_has_overtaken_is_computed_again() {
    let indexer = Arc::new(Indexer::new());
    let weak = Arc::downgrade(&indexer);
    indexer.add_index("color", move |state| {
        // The first state is computed while another one is inserted.
        if state.resource_version() == "2" {
            let indexer = weak.upgrade().unwrap();
            if indexer.list().iter().all(|known| known.resource_version() != "3") {
                indexer.insert(item("n", "a", "blue", 3));
            }
        }
        by_color(state)
    });
    indexer.insert(item("n", "a", "red", 1));
    indexer.insert(item("n", "a", "green", 2));
    assert_eq!(indexer.index_values("color").unwrap(), ["green"]);
    assert_eq!(shown(indexer.by_index("color", "green").unwrap()), ["n/a@2"]);
}

#[test]
fn the_same_state_with_other_bytes_replaces_the_item_in_the_indices() {
    let indexer = Indexer::new();
    indexer.add_index("color", by_color);
    indexer.insert(item("n", "a", "red", 1));
    let again = item("n", "a", "red", 1);
    indexer.insert(again.clone());
    let found = indexer.by_index("color", "red").unwrap();
    assert!(std::ptr::eq(found[0].key(), again.key()));
}
