//! [`Dictionary`]: objects of one resource resemble each other, so a piece of JSON that several of
//! them have is kept once, and each of them holds a number of two bytes instead.
//!
//! ```text
//! {"metadata":{"name":"a-1","labels":{"app":"a"}},"spec":{"image":"x"}}
//! {"metadata":{"name":"a-2","labels":{"app":"a"}},"spec":{"image":"x"}}
//! {"metadata":{"name":"a-3",①},②                        the third one, packed
//! ```
//!
//! A piece is a string (with the colon behind it, where it is a key), or a whole object or list.
//! It gets a number when enough different objects had it, the more the longer it is.
//!
//! Invariants:
//! - packing and unpacking gives the JSON back, byte for byte, but for blanks between its tokens;
//! - a number, once given, means the same piece for ever: packed objects refer to it;
//! - the dictionary is bounded in numbers and in bytes; when it is full, it learns nothing more.

use std::{
    borrow::Cow,
    collections::HashMap,
    hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState},
    mem,
    ops::Range,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use crate::{
    ObjectKey,
    outline::{Outline, Piece, string_end},
};

/// Outside of strings JSON is ASCII: a byte with the high bit begins a number of 15 bits.
const MOST_PIECES: usize = 1 << 15;
const MOST_BYTES: usize = 2 << 20;
/// What fits the number itself is not worth one.
const SHORTEST_PIECE: usize = 4;
const LONGEST_PIECE: usize = 2048;
/// So many pieces that may recur are remembered (by a hash) before all are forgotten; fills a
/// table of 16,384 places, which a processor's own cache holds.
const MOST_SIGHTINGS: usize = 14_336;
/// What an object that is larger than this needed is given back.
const LARGEST_BENCH: usize = 64 << 10;

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct Dictionary {
    /// Locked before `pieces`.
    learned: Mutex<Learned>,
    /// The pieces by their numbers.
    pieces: RwLock<Vec<Arc<[u8]>>>,
}

#[derive(Default)]
struct Learned {
    /// By the hash of a piece: of two with the same hash, the first has a number and the other
    /// never gets one.
    numbers: HashMap<u64, (u16, Arc<[u8]>), Spread>,
    bytes: usize,
    /// By the hash of a piece: the object that had it last, and how many objects had it in a row.
    sightings: HashMap<u32, (u32, u16), Spread>,
    bench: Bench,
}

/// Memory that each packing needs for a moment, left for the next one.
#[derive(Default)]
struct Bench {
    outline: Outline,
    /// Empty in between, as is the next one.
    text: Vec<u8>,
    packed: Vec<u8>,
}

/// What is hashed already is only spread over a table, in a way that those who write objects do not
/// know: they could else choose pieces that all fall into one place.
#[derive(Clone)]
struct Spread {
    mask: u64,
    factor: u64,
    hash: u64,
}

impl Default for Spread {
    fn default() -> Self {
        let random = RandomState::new();
        Self { mask: random.hash_one(0), factor: random.hash_one(1) | 1, hash: 0 }
    }
}

impl BuildHasher for Spread {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        self.clone()
    }
}

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64((*byte).into());
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        // Both halves of the product, since tables use the lowest and the highest bits.
        let (low, high) = (self.hash ^ number ^ self.mask).carrying_mul(self.factor, 0);
        self.hash = low ^ high;
    }

    fn finish(&self) -> u64 {
        self.hash
    }
}

impl Dictionary {
    /// Packs the JSON of the object `owner`, but for what lies in `cut`; the JSON must be well
    /// formed, with and without it.
    pub(crate) fn pack(&self, json: &[u8], cut: Range<usize>, owner: &ObjectKey) -> Box<[u8]> {
        let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        let Bench { mut outline, mut text, mut packed } = mem::take(&mut learned.bench);
        let mut json = json;
        if !cut.is_empty() {
            text.extend_from_slice(&json[..cut.start]);
            text.extend_from_slice(&json[cut.end..]);
            json = &text;
        }
        let compact;
        if !outline.draw(json) {
            compact = without_blanks(json);
            assert!(outline.draw(&compact), "the blanks are gone");
            json = &compact;
        }
        let owner = hash(owner);
        let (mut copied, mut next) = (0, 0);
        while let Some(piece) = outline.pieces.get(next) {
            if let Some(number) = self.number(&mut learned, piece, json, owner) {
                packed.extend_from_slice(&json[copied..piece.start]);
                packed.extend((number | 0x8000).to_be_bytes());
                (copied, next) = (piece.end, piece.following);
            } else {
                next += 1;
            }
        }
        packed.extend_from_slice(&json[copied..]);
        // An exact copy: cutting off the rest of `packed` would leave a hole behind each object.
        let exact = packed.as_slice().into();
        let is_usual = json.len() <= LARGEST_BENCH;
        if is_usual {
            packed.clear();
            text.clear();
            learned.bench = Bench { outline, text, packed };
        }
        exact
    }

    /// Appends the JSON that was packed to `json`.
    pub(crate) fn unpack(&self, packed: &[u8], json: &mut Vec<u8>) {
        let pieces = self.pieces.read().unwrap_or_else(PoisonError::into_inner);
        json.reserve(packed.len() * 4);
        let (mut copied, mut at) = (0, 0);
        while at < packed.len() {
            match packed[at] {
                b'"' => at = string_end(packed, at),
                high if high >= 0x80 => {
                    let number = u16::from_be_bytes([high & 0x7f, packed[at + 1]]);
                    json.extend_from_slice(&packed[copied..at]);
                    json.extend_from_slice(&pieces[usize::from(number)]);
                    at += 2;
                    copied = at;
                }
                _ => at += 1,
            }
        }
        json.extend_from_slice(&packed[copied..]);
    }

    /// The number of a piece, if it has one or has just earned one.
    fn number(&self, learned: &mut Learned, piece: &Piece, json: &[u8], owner: u32) -> Option<u16> {
        let text = &json[piece.start..piece.end];
        if !(SHORTEST_PIECE..=LONGEST_PIECE).contains(&text.len()) {
            return None;
        }
        if let Some((number, known)) = learned.numbers.get(&piece.hash) {
            return (**known == *text).then_some(*number);
        }
        let count = learned.numbers.len();
        if count == MOST_PIECES || learned.bytes + text.len() > MOST_BYTES {
            learned.sightings = HashMap::default();
            return None;
        }
        if learned.sightings.len() == MOST_SIGHTINGS {
            learned.sightings.clear();
        }
        let sighting = high_half(piece.hash);
        let (last_owner, seen) = learned.sightings.entry(sighting).or_default();
        // The second state of one object does not count: its own name would be learned.
        if *last_owner != owner || *seen == 0 {
            (*last_owner, *seen) = (owner, seen.saturating_add(1));
        }
        if usize::from(*seen) < 2 + text.len() / 128 {
            return None;
        }
        learned.sightings.remove(&sighting);
        let number = u16::try_from(count).expect("fewer than 2^15 pieces");
        let text: Arc<[u8]> = text.into();
        learned.bytes += text.len();
        learned.numbers.insert(piece.hash, (number, Arc::clone(&text)));
        self.pieces.write().unwrap_or_else(PoisonError::into_inner).push(text);
        Some(number)
    }
}

fn hash(value: impl Hash) -> u32 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    high_half(hasher.finish())
}

fn high_half(hash: u64) -> u32 {
    u32::try_from(hash >> 32).expect("the high half fits 32 bits")
}

fn without_blanks(json: &[u8]) -> Cow<'_, [u8]> {
    let (mut compact, mut copied, mut at) = (Vec::new(), 0, 0);
    while at < json.len() {
        match json[at] {
            b'"' => at = string_end(json, at),
            b' ' | b'\n' | b'\r' | b'\t' => {
                compact.extend_from_slice(&json[copied..at]);
                at += 1;
                copied = at;
            }
            _ => at += 1,
        }
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    compact.extend_from_slice(&json[copied..]);
    Cow::Owned(compact)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeded::{for_seeds, pick};
    use keel::Entropy;
    use machinery::{Value, json};

    fn pack(dictionary: &Dictionary, owner: u64, json: &str) -> usize {
        let owner = ObjectKey::new("n", &owner.to_string());
        let packed = dictionary.pack(json.as_bytes(), 0..0, &owner);
        let mut unpacked = Vec::new();
        dictionary.unpack(&packed, &mut unpacked);
        let unpacked = String::from_utf8(unpacked).unwrap();
        assert_eq!(unpacked, String::from_utf8(without_blanks(json.as_bytes()).to_vec()).unwrap());
        packed.len()
    }

    #[test]
    fn what_objects_have_in_common_is_kept_once() {
        let dictionary = Dictionary::default();
        let json = |n| format!(r#"{{"metadata":{{"name":"pod-{n}","labels":{{"app":"a"}}}}}}"#);
        let sizes: Vec<usize> = (0..4).map(|n| pack(&dictionary, n, &json(n))).collect();
        assert_eq!(sizes[0], json(0).len());
        // Two braces each, and: `"metadata":`, `"name":`, the name, a comma, the labels.
        assert_eq!(sizes[3], 4 + 2 + 2 + r#""pod-3","#.len() + 4);
    }

    #[test]
    fn the_states_of_one_object_teach_nothing() {
        let dictionary = Dictionary::default();
        let json = r#"{"metadata":{"name":"a","uid":"0123456789"}}"#;
        assert!((0..9).all(|_| pack(&dictionary, 1, json) == json.len()));
    }

    #[test]
    fn blanks_escapes_and_other_alphabets_survive() {
        let dictionary = Dictionary::default();
        let json = "{ \"k\\\"ey:\" : [ \"三板\", \"a b\\\\\" , {\"\": -1.5e+10} ] ,\n\"é\":\"é\" }";
        for owner in 0..5 {
            pack(&dictionary, owner, json);
        }
    }

    #[test]
    fn a_full_dictionary_still_packs() {
        let dictionary = Dictionary::default();
        let rounds = 2 * MOST_PIECES as u64 + 2000;
        for round in 0..rounds {
            let json = format!(r#"["unique-{}"]"#, round / 2);
            pack(&dictionary, round, &json);
        }
        assert_eq!(dictionary.pieces.read().unwrap().len(), MOST_PIECES);
        let (known, new) = (r#"["unique-1"]"#, r#"["unique-x"]"#);
        assert!(pack(&dictionary, rounds, known) < known.len());
        assert!((0..9).all(|owner| pack(&dictionary, owner, new) == new.len()));
    }

    #[test]
    fn random_objects_come_back_as_they_were() {
        for_seeds(5, |entropy| {
            let dictionary = Dictionary::default();
            for owner in 0..400 {
                pack(&dictionary, owner % 50, &random(&entropy, 0).to_string());
            }
        });
    }

    fn random(entropy: &Entropy, depth: u32) -> Value {
        match entropy.below(if depth > 4 { 3 } else { 5 }) {
            0 => json!(entropy.below(1000)),
            1 => json!(pick(entropy, &["a\"quote", "back\\", "naïve", "plain", ""])),
            2 => json!(null),
            3 => (0..entropy.below(4)).map(|_| random(entropy, depth + 1)).collect(),
            _ => Value::Object(
                (0..entropy.below(4))
                    .map(|_| (format!("key{}", entropy.below(6)), random(entropy, depth + 1)))
                    .collect(),
            ),
        }
    }
}
