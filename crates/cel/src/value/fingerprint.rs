//! [`Fingerprints`]: a hash index that finds equal values.
//!
//! Equal values have equal fingerprints (hashes), even if they contain different types of numbers.
//! Unequal values may have the same fingerprint, so values with the same fingerprint are compared.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use super::{List, Map, Value};
use crate::decl::ListKind;

/// Values that are nested deeper have the fingerprint of their type.
const MAX_DEPTH: usize = 8;

/// Positions of values by their fingerprints. The hashes have a random key, so that a client cannot
/// choose values that collide.
#[derive(Default)]
pub(super) struct Fingerprints {
    state: RandomState,
    positions: HashMap<u64, Vec<usize>>,
}

impl Fingerprints {
    /// Adds the position of a value.
    pub(super) fn add(&mut self, value: &Value<'_>, position: usize) {
        let fingerprint = self.fingerprint(value, MAX_DEPTH);
        self.positions.entry(fingerprint).or_default().push(position);
    }

    /// The positions of all values that may be equal to this one.
    pub(super) fn candidates(&self, value: &Value<'_>) -> &[usize] {
        self.positions.get(&self.fingerprint(value, MAX_DEPTH)).map_or(&[], Vec::as_slice)
    }

    fn fingerprint(&self, value: &Value<'_>, depth: usize) -> u64 {
        match value {
            Value::Null | Value::Optional(None) => self.hash(0, ()),
            Value::Bool(value) => self.hash(1, value),
            Value::Int(_) | Value::Uint(_) | Value::Double(_) => self.hash(2, number(value)),
            Value::String(text) => self.hash(3, &**text),
            Value::Bytes(bytes) => self.hash(4, bytes),
            Value::Timestamp(_) | Value::Duration(_) | Value::Opaque(_) | Value::Fields(_) => {
                self.hash(5, ())
            }
            Value::Type(name) => self.hash(6, name),
            Value::Optional(Some(value)) => {
                self.hash(7, depth.checked_sub(1).map(|it| self.fingerprint(value, it)))
            }
            Value::Struct(value) => self.hash(8, (&value.name, value.fields.len())),
            Value::List(list) => self.hash(9, self.of_list(list, depth)),
            Value::Map(map) => self.hash(10, self.of_map(map, depth)),
        }
    }

    /// The elements of a set or a list of keyed elements may be in any order and, in a set,
    /// repeated. For these, only the number of elements is hashed.
    fn of_list(&self, list: &List<'_>, depth: usize) -> (usize, u64) {
        let mut sum = 0_u64;
        if let Some(depth) = depth.checked_sub(1)
            && *list.kind() == ListKind::Atomic
        {
            for value in list.iter().flatten() {
                sum = sum.rotate_left(1).wrapping_add(self.fingerprint(&value, depth));
            }
        }
        (list.len(), sum)
    }

    fn of_map(&self, map: &Map<'_>, depth: usize) -> (usize, u64) {
        let mut sum = 0_u64;
        if let Some(depth) = depth.checked_sub(1) {
            for key in map.keys() {
                if let Some(Ok(value)) = map.get(&key) {
                    sum = sum.wrapping_add(
                        self.hash(self.fingerprint(&key, 0), self.fingerprint(&value, depth)),
                    );
                }
            }
        }
        (map.len(), sum)
    }

    fn hash(&self, kind: u64, content: impl Hash) -> u64 {
        let mut hasher = self.state.build_hasher();
        kind.hash(&mut hasher);
        content.hash(&mut hasher);
        hasher.finish()
    }
}

/// A hash that is equal for equal numbers of different types. Different large integers may have the
/// same hash.
#[allow(clippy::cast_precision_loss, reason = "it need not be exact, only the same for the same")]
fn number(value: &Value<'_>) -> u64 {
    let double = match value {
        Value::Int(value) => *value as f64,
        Value::Uint(value) => *value as f64,
        Value::Double(value) => *value,
        _ => return 0,
    };
    // The two zeros are equal.
    (double + 0.0).to_bits()
}
