//! [`Found`]: the errors of one walk, within a bound.
//!
//! A fault names its place and often lists what would be right, so a long key or a long `enum` may
//! be repeated in each of a hundred thousand errors. Once the texts take up
//! [`ErrorList::TEXT_MAX`](machinery::ErrorList::TEXT_MAX), errors are still counted but no longer worded.

use machinery::{ErrorList, FieldError};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(super) struct Found {
    list: Vec<FieldError>,
    /// The hash of each fault in the list.
    hashes: Vec<u64>,
    /// How often a hash is there.
    seen: HashMap<u64, usize>,
    weight: usize,
    unworded: usize,
}

/// A state that [`Found::forget_since`] goes back to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    length: usize,
    weight: usize,
    unworded: usize,
}

impl Found {
    /// Adds a fault, which is worded only if there is room for it.
    pub(super) fn add(&mut self, fault: impl FnOnce() -> FieldError) {
        if self.weight >= ErrorList::TEXT_MAX {
            self.unworded += 1;
            return;
        }
        let fault = fault();
        let hash = hash(&fault);
        self.keep(fault, hash);
    }

    /// Adds the errors of another walk, each once.
    pub(super) fn add_new(&mut self, other: Self) {
        self.unworded += other.unworded;
        for (fault, hash) in other.list.into_iter().zip(other.hashes) {
            if self.weight >= ErrorList::TEXT_MAX {
                self.unworded += 1;
            } else if !self.seen.contains_key(&hash) {
                self.keep(fault, hash);
            }
        }
    }

    fn keep(&mut self, fault: FieldError, hash: u64) {
        self.weight += fault.weight();
        *self.seen.entry(hash).or_default() += 1;
        self.hashes.push(hash);
        self.list.push(fault);
    }

    /// Whether nothing was found, worded or not.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty() && self.unworded == 0
    }

    /// What was found so far.
    pub(super) fn mark(&self) -> Mark {
        Mark { length: self.list.len(), weight: self.weight, unworded: self.unworded }
    }

    /// Forgets what was found after the mark.
    pub(super) fn forget_since(&mut self, mark: Mark) {
        self.list.truncate(mark.length);
        for hash in self.hashes.drain(mark.length..) {
            if let Some(times) = self.seen.get_mut(&hash) {
                *times -= 1;
                if *times == 0 {
                    self.seen.remove(&hash);
                }
            }
        }
        (self.weight, self.unworded) = (mark.weight, mark.unworded);
    }

    /// The errors that are worded.
    pub(super) fn into_list(self) -> Vec<FieldError> {
        self.list
    }
}

fn hash(fault: &FieldError) -> u64 {
    let mut hasher = DefaultHasher::new();
    fault.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::field_path::FaultKind;

    fn fault(field: &str) -> FieldError {
        let kind = FaultKind::Required;
        FieldError { kind, field: field.to_owned(), value: None, detail: String::new() }
    }

    #[test]
    fn a_forgotten_fault_can_be_found_again() {
        let mut found = Found::default();
        found.add(|| fault("a"));
        let mark = found.mark();
        found.add(|| fault("b"));
        found.forget_since(mark);
        let mut other = Found::default();
        other.add(|| fault("a"));
        other.add(|| fault("b"));
        found.add_new(other);
        let fields: Vec<String> = found.into_list().into_iter().map(|it| it.field).collect();
        assert_eq!(fields, ["a", "b"]);
    }

    #[test]
    fn faults_without_room_count_but_are_not_worded() {
        let mut found = Found::default();
        found.add(|| fault(&"x".repeat(ErrorList::TEXT_MAX)));
        let mark = found.mark();
        found.add(|| unreachable!("there is no room"));
        assert_ne!(found.mark(), mark);
        assert_eq!(found.into_list().len(), 1);
    }
}
