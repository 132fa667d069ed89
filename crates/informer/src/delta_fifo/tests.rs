//! Scripts with one line for each popped entry, and random changes against a naive model.

use std::collections::BTreeMap;

use super::*;
use crate::seeded::{for_seeds, pick};
use crate::unconfirmed_writes::Origin;
use keel::Entropy;

fn item(name: &str, version: u64) -> Item {
    let json = format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}"#);
    Item::parse(json.into_bytes()).unwrap()
}

fn new_fifo() -> (DeltaFifo, Arc<Indexer>) {
    let indexer = Arc::default();
    (DeltaFifo::new(&indexer), indexer)
}

/// Runs `script` and compares the popped entries. `+a` is added, `~a` updated, `-a` deleted, `=ab` a list
/// of a and b, `!a` a resync for handler 1, `?a` one for handler 2; `.` pops and applies.
fn check(script: &str, expected: &str) {
    let (fifo, indexer) = new_fifo();
    let mut output = String::new();
    for (version, word) in (1..).zip(script.split(' ')) {
        let (op, name) = word.split_at(1);
        match op {
            "+" => fifo.apply([Transaction::Add(item(name, version))]),
            "~" => fifo.apply([Transaction::Update(item(name, version))]),
            "-" => fifo.apply([Transaction::Delete(item(name, version))]),
            "=" => {
                let items = name.chars().map(|name| item(&name.to_string(), version)).collect();
                fifo.replace(items, "");
            }
            "!" => fifo.sync(item(name, version), HandlerId(1)),
            "?" => fifo.sync(item(name, version), HandlerId(2)),
            _ => assert!(pop(&fifo, &indexer, &mut String::new())),
        }
    }
    while pop(&fifo, &indexer, &mut output) {}
    assert_eq!(output.trim_end(), expected);
}

fn pop(fifo: &DeltaFifo, indexer: &Indexer, output: &mut String) -> bool {
    fifo.pop(|deltas| {
        output.push_str(deltas[0].item().name());
        output.push(' ');
        for delta in deltas {
            output.push(apply(indexer, delta));
        }
        output.push('\n');
    })
}

fn apply(indexer: &Indexer, delta: Delta) -> char {
    let (mark, applied) = match delta {
        Delta::Added(item) => ('+', indexer.apply_state(item, Origin::Watch)),
        Delta::Updated(item) => ('~', indexer.apply_state(item, Origin::Watch)),
        Delta::Replaced(item) => ('=', indexer.apply_state(item, Origin::List)),
        Delta::Deleted(item) => ('-', indexer.apply_removal(item, Origin::Watch)),
        Delta::DeletedFinalStateUnknown(item) => ('x', indexer.apply_removal(item, Origin::List)),
        Delta::Sync(..) => return '!',
    };
    drop(applied);
    mark
}

#[test]
fn entries_are_popped_whole_in_the_order_of_their_first_changes() {
    check("+a +b ~a", "a +~\nb +");
}

#[test]
fn a_key_that_was_popped_is_queued_again() {
    check("+a +b . ~a", "b +\na ~");
}

#[test]
fn two_deletions_in_a_row_become_one() {
    check("+a -a -a", "a +-");
}

#[test]
fn a_known_object_that_is_not_in_a_list_is_deleted() {
    check("=ab . . =b", "b =\na x");
}

#[test]
fn a_deletion_found_by_a_list_does_not_replace_a_watched_deletion() {
    check("+a . -a =b", "a -\nb =");
}

#[test]
fn a_queued_object_that_is_not_in_a_list_is_deleted() {
    check("+a =b", "a +x\nb =");
}

#[test]
fn an_object_that_is_created_again_has_both_changes() {
    check("+a -a +a", "a +-+");
}

#[test]
fn a_resync_is_skipped_if_a_waiting_delta_notifies_the_handler() {
    check("+a . !a !a ?a", "a !!");
    check("+a . ~a !a", "a ~");
}

#[test]
fn the_updates_of_a_long_entry_are_merged_into_the_last() {
    let (fifo, _) = new_fifo();
    fifo.apply([Transaction::Add(item("a", 0))]);
    fifo.apply((1..=100).map(|version| Transaction::Update(item("a", version))));
    assert!(fifo.pop(|deltas| {
        assert_eq!(deltas.len(), MAX_DELTAS);
        assert_eq!(deltas.last().unwrap().item().resource_version(), "100");
    }));
}

#[test]
fn the_queue_has_synced_when_the_first_list_was_popped() {
    let (fifo, indexer) = new_fifo();
    fifo.apply([Transaction::Add(item("z", 1))]);
    assert!(!fifo.has_synced());
    fifo.replace(vec![item("a", 2), item("z", 2)], "");
    assert!(pop(&fifo, &indexer, &mut String::new()) && !fifo.has_synced());
    assert!(pop(&fifo, &indexer, &mut String::new()) && fifo.has_synced());
}

#[test]
fn the_queue_has_synced_after_an_empty_first_list() {
    let (fifo, _) = new_fifo();
    fifo.replace(Vec::new(), "");
    assert!(fifo.has_synced());
}

/// The objects on the server, and the keys that the FIFO should contain.
#[derive(Default)]
struct Model {
    server_objects: BTreeMap<&'static str, u64>,
    /// Keys with queued changes, in the order of their first changes.
    order: Vec<&'static str>,
    version: u64,
}

impl Model {
    fn touch(&mut self, name: &'static str) {
        if !self.order.contains(&name) {
            self.order.push(name);
        }
    }

    fn step(&mut self, entropy: &Entropy, fifo: &DeltaFifo, indexer: &Indexer) {
        const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
        let name = pick(entropy, &NAMES);
        self.version += 1;
        let (state, version) = (item(name, self.version), self.version);
        match entropy.below(10) {
            0..4 => {
                let known = self.server_objects.insert(name, version).is_some();
                fifo.apply([if known {
                    Transaction::Update(state)
                } else {
                    Transaction::Add(state)
                }]);
                self.touch(name);
            }
            4..6 if self.server_objects.remove(name).is_some() => {
                fifo.apply([Transaction::Delete(state)]);
                self.touch(name);
            }
            6 => self.relist(entropy, fifo),
            7 => {
                if let Some(known) = indexer.get(state.key()) {
                    fifo.sync(known, HandlerId(1));
                    self.touch(name);
                }
            }
            _ => self.pop(fifo, indexer),
        }
    }

    /// Changes objects at random, and lists them.
    fn relist(&mut self, entropy: &Entropy, fifo: &DeltaFifo) {
        let before: Vec<_> = self.server_objects.keys().copied().collect();
        self.server_objects.retain(|_, _| entropy.below(3) > 0);
        if entropy.below(2) == 0 {
            self.server_objects.insert("e", self.version);
        }
        let items =
            self.server_objects.iter().map(|(name, version)| item(name, *version)).collect();
        fifo.replace(items, "");
        let listed: Vec<_> = self.server_objects.keys().copied().collect();
        let (_, missing): (Vec<_>, Vec<_>) = before.iter().partition(|name| listed.contains(name));
        for name in listed.into_iter().chain(missing) {
            self.touch(name);
        }
    }

    fn pop(&mut self, fifo: &DeltaFifo, indexer: &Indexer) {
        let mut popped = None;
        fifo.pop(|deltas| {
            let name = deltas[0].item().name().to_owned();
            assert!(
                deltas.windows(2).all(|pair| !(pair[0].is_deletion() && pair[1].is_deletion()))
            );
            for delta in deltas {
                apply(indexer, delta);
            }
            popped = Some(name);
        });
        let expected = (!self.order.is_empty()).then(|| self.order.remove(0));
        assert_eq!(popped.as_deref(), expected);
        if let Some(name) = expected {
            let cached = indexer.get(&ObjectKey::new("", name));
            let cached = cached.map(|item| item.resource_version().parse().unwrap());
            assert_eq!(cached, self.server_objects.get(name).copied(), "the state of {name}");
        }
    }
}

#[test]
fn the_queue_agrees_with_a_naive_model() {
    for_seeds(200, |entropy| {
        let (fifo, indexer) = new_fifo();
        let mut model = Model::default();
        for _ in 0..200 {
            model.step(&entropy, &fifo, &indexer);
            let queue = fifo.lock();
            assert_eq!(queue.order.len(), queue.deltas.len());
        }
        while !model.order.is_empty() {
            model.pop(&fifo, &indexer);
        }
        assert!(!fifo.pop(drop));
        let cached: Vec<_> = indexer.list().iter().map(|item| item.name().to_owned()).collect();
        assert_eq!(cached, model.server_objects.keys().copied().collect::<Vec<_>>());
    });
}
