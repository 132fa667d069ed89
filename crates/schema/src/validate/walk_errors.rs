//! [`WalkErrors`]: the errors of one walk, up to a limit.
//!
//! An error contains its path and often the allowed values, so a long key or a long `enum` may be
//! repeated in each of a hundred thousand errors. Beyond
//! [`ErrorList::TEXT_MAX`](machinery::ErrorList::TEXT_MAX), errors are counted but not stored.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use machinery::{ErrorList, FieldError};

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(super) struct WalkErrors {
    list: Vec<FieldError>,
    /// The hash of each error in the list.
    hashes: Vec<u64>,
    /// The number of occurrences of a hash.
    seen: HashMap<u64, usize>,
    /// The sum of [`FieldError::size`] over the list.
    weight: usize,
    /// The number of errors that were counted but not stored.
    omitted: usize,
}

/// A state for [`WalkErrors::roll_back`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Checkpoint {
    length: usize,
    weight: usize,
    omitted: usize,
}

impl WalkErrors {
    /// Adds an error. `error` is only called if the limit is not reached.
    pub(super) fn add(&mut self, error: impl FnOnce() -> FieldError) {
        if self.weight >= ErrorList::TEXT_MAX {
            self.omitted += 1;
            return;
        }
        let error = error();
        let hash = hash(&error);
        self.push(error, hash);
    }

    /// Adds the errors of another walk that are not in the list yet.
    pub(super) fn add_new(&mut self, other: Self) {
        self.omitted += other.omitted;
        for (error, hash) in other.list.into_iter().zip(other.hashes) {
            if self.weight >= ErrorList::TEXT_MAX {
                self.omitted += 1;
            } else if !self.seen.contains_key(&hash) {
                self.push(error, hash);
            }
        }
    }

    fn push(&mut self, error: FieldError, hash: u64) {
        self.weight += error.size();
        *self.seen.entry(hash).or_default() += 1;
        self.hashes.push(hash);
        self.list.push(error);
    }

    /// Whether there are no errors, stored or counted.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty() && self.omitted == 0
    }

    /// The current state, for [`roll_back`](Self::roll_back).
    pub(super) fn checkpoint(&self) -> Checkpoint {
        Checkpoint { length: self.list.len(), weight: self.weight, omitted: self.omitted }
    }

    /// Removes the errors that were added after the checkpoint.
    pub(super) fn roll_back(&mut self, checkpoint: Checkpoint) {
        self.list.truncate(checkpoint.length);
        for hash in self.hashes.drain(checkpoint.length..) {
            if let Some(times) = self.seen.get_mut(&hash) {
                *times -= 1;
                if *times == 0 {
                    self.seen.remove(&hash);
                }
            }
        }
        (self.weight, self.omitted) = (checkpoint.weight, checkpoint.omitted);
    }

    /// The stored errors.
    pub(super) fn into_list(self) -> Vec<FieldError> {
        self.list
    }
}

fn hash(error: &FieldError) -> u64 {
    let mut hasher = DefaultHasher::new();
    error.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::field_path::ErrorType;

    fn error(field: &str) -> FieldError {
        let kind = ErrorType::Required;
        FieldError { kind, field: field.to_owned(), value: None, detail: String::new() }
    }

    #[test]
    fn an_error_that_was_rolled_back_can_be_added_again() {
        let mut found = WalkErrors::default();
        found.add(|| error("a"));
        let checkpoint = found.checkpoint();
        found.add(|| error("b"));
        found.roll_back(checkpoint);
        let mut other = WalkErrors::default();
        other.add(|| error("a"));
        other.add(|| error("b"));
        found.add_new(other);
        let fields: Vec<String> = found.into_list().into_iter().map(|it| it.field).collect();
        assert_eq!(fields, ["a", "b"]);
    }

    #[test]
    fn errors_beyond_the_limit_are_counted_but_not_stored() {
        let mut found = WalkErrors::default();
        found.add(|| error(&"x".repeat(ErrorList::TEXT_MAX)));
        let checkpoint = found.checkpoint();
        found.add(|| unreachable!("the limit is reached"));
        assert_ne!(found.checkpoint(), checkpoint);
        assert_eq!(found.into_list().len(), 1);
    }
}
