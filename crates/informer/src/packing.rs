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
//! It gets a number when enough different objects had it, the more the longer it is; an object's own
//! name does not make it different ([`OwnWords`]). A string that no number stands for and that ends in
//! many hexadecimal digits, as digests and the names of containers do, is kept with two of them in a
//! byte ([`hex_tail`]).
//!
//! Invariants:
//! - packing and unpacking gives the JSON back, byte for byte, but for blanks between its tokens;
//! - a number, once given, means the same piece for ever: packed objects refer to it;
//! - the dictionary is bounded in numbers and in bytes; when it is full, it learns nothing more.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hasher, RandomState},
    mem,
    ops::Range,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use crate::{
    hex_tail,
    outline::{Outline, string_end},
    own_words::OwnWords,
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
    /// Packs the JSON of an object, but for what lies in `cut`; the JSON must be well formed, with and
    /// without it.
    pub(crate) fn pack(&self, json: &[u8], cut: Range<usize>, own: OwnWords<'_>) -> Box<[u8]> {
        let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        let Bench { mut outline, mut text, mut packed } = mem::take(&mut learned.bench);
        own.mark(&json[..cut.start], &mut text);
        own.mark(&json[cut.end..], &mut text);
        if !outline.draw(&text) {
            text = without_blanks(&text);
            assert!(outline.draw(&text), "the blanks are gone");
        }
        let owner = high_half(own.hash());
        let (mut copied, mut next) = (0, 0);
        while let Some(piece) = outline.pieces.get(next) {
            let content = &text[piece.start..piece.end];
            if let Some(number) = self.number(&mut learned, piece.hash, content, owner) {
                packed.extend_from_slice(&text[copied..piece.start]);
                packed.extend((number | 0x8000).to_be_bytes());
                (copied, next) = (piece.end, piece.following);
                continue;
            }
            if let Some(tail) = hex_tail::find(content) {
                packed.extend_from_slice(&text[copied..piece.start]);
                hex_tail::pack(content, tail, &mut packed);
                copied = piece.end;
            }
            next += 1;
        }
        packed.extend_from_slice(&text[copied..]);
        // An exact copy: cutting off the rest of `packed` would leave a hole behind each object.
        let exact = packed.as_slice().into();
        let is_usual = text.len() <= LARGEST_BENCH;
        if is_usual {
            packed.clear();
            text.clear();
            learned.bench = Bench { outline, text, packed };
        }
        exact
    }

    /// Appends the JSON that was packed to `json`; `own` are the words with which it was, and `text`
    /// is memory to work in.
    pub(crate) fn unpack(
        &self,
        packed: &[u8],
        own: OwnWords<'_>,
        text: &mut Vec<u8>,
        json: &mut Vec<u8>,
    ) {
        text.clear();
        let pieces = self.pieces.read().unwrap_or_else(PoisonError::into_inner);
        text.reserve(packed.len() * 4);
        let (mut copied, mut at) = (0, 0);
        while at < packed.len() {
            match packed[at] {
                b'"' => at = string_end(packed, at),
                high if high >= 0x80 => {
                    let number = u16::from_be_bytes([high & 0x7f, packed[at + 1]]);
                    text.extend_from_slice(&packed[copied..at]);
                    text.extend_from_slice(&pieces[usize::from(number)]);
                    at += 2;
                    copied = at;
                }
                hex_tail::MARK => {
                    text.extend_from_slice(&packed[copied..at]);
                    at += hex_tail::unpack(&packed[at..], text);
                    copied = at;
                }
                _ => at += 1,
            }
        }
        text.extend_from_slice(&packed[copied..]);
        drop(pieces);
        json.reserve(text.len() + 128);
        own.unmark(text, json);
    }

    /// The number of a piece, if it has one or has just earned one.
    fn number(&self, learned: &mut Learned, hash: u64, text: &[u8], owner: u32) -> Option<u16> {
        if !(SHORTEST_PIECE..=LONGEST_PIECE).contains(&text.len()) {
            return None;
        }
        if let Some((number, known)) = learned.numbers.get(&hash) {
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
        let sighting = high_half(hash);
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
        learned.numbers.insert(hash, (number, Arc::clone(&text)));
        self.pieces.write().unwrap_or_else(PoisonError::into_inner).push(text);
        Some(number)
    }
}

fn high_half(hash: u64) -> u32 {
    u32::try_from(hash >> 32).expect("the high half fits 32 bits")
}

fn without_blanks(json: &[u8]) -> Vec<u8> {
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
    compact.extend_from_slice(&json[copied..]);
    compact
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeded::{for_seeds, pick};
    use keel::Entropy;
    use machinery::{Value, json};

    fn pack(dictionary: &Dictionary, owner: u64, json: &str) -> usize {
        let owner = format!("owner-{owner}");
        let own = OwnWords { name: &owner, uid: "" };
        let packed = dictionary.pack(json.as_bytes(), 0..0, own);
        let (mut text, mut unpacked) = (b"of another".to_vec(), Vec::new());
        dictionary.unpack(&packed, own, &mut text, &mut unpacked);
        let unpacked = String::from_utf8(unpacked).unwrap();
        assert_eq!(unpacked, String::from_utf8(without_blanks(json.as_bytes())).unwrap());
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
    fn what_differs_only_in_the_name_is_kept_once() {
        let dictionary = Dictionary::default();
        let json =
            |n| format!(r#"{{"n":"owner-{n}","h":"owner-{n}.example.com","x":"{}"}}"#, n * n);
        let sizes: Vec<usize> = (2..5).map(|n| pack(&dictionary, n, &json(n))).collect();
        assert_eq!(sizes[0], json(2).len() - 2 * "owner-2".len() + 2);
        // Two braces, two commas, three keys; the name, the host, the rest.
        assert_eq!(sizes[2], 2 + 2 + 6 + "\"n\"".len() + 2 + "\"16\"".len());
    }

    #[test]
    fn digests_take_half_the_room() {
        let digest = "0123456789abcdef".repeat(4);
        let json = format!(r#"{{"digest":"sha256:{digest}","{digest}":1}}"#);
        assert_eq!(pack(&Dictionary::default(), 1, &json), json.len() - 32 + 1);
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
            1 => json!(pick(
                entropy,
                &[
                    "a\"quote",
                    "back\\",
                    "naïve",
                    "plain",
                    "",
                    "owner-1",
                    "17",
                    "x-0123456789abcdef0"
                ]
            )),
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
