//! [`JsonDictionary`]: compresses the JSON of objects of one resource, which resemble each other. A
//! span of JSON that several objects have is stored once, and each object has its number of two
//! bytes instead.
//!
//! ```text
//! {"metadata":{"name":"a-1","labels":{"app":"a"}},"spec":{"image":"x"}}
//! {"metadata":{"name":"a-2","labels":{"app":"a"}},"spec":{"image":"x"}}
//! {"metadata":{"name":"a-3",①},②                        the third one, packed
//! ```
//!
//! A span is a string (with the colon after it, if it is a key), or a whole object or list. It gets
//! a number when enough different objects have it, the more the longer it is.
//!
//! It reduces the memory of a cache to less than half, see docs/performance.md.
//!
//! Invariants:
//! - packing and unpacking returns the same bytes, but for white space between tokens;
//! - a number always means the same span, since packed objects refer to it;
//! - the dictionary is bounded in numbers and in bytes; when it is full, no span is added.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::mem;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::json_spans::{JsonSpans, string_end};

/// The largest number of spans. A number has 15 bits, since its first byte has the high bit: outside of
/// strings JSON is ASCII, so such a byte can only begin a number.
const MAX_NUMBERS: usize = 1 << 15;
/// The largest size of all spans.
const MAX_BYTES: usize = 2 << 20;
/// A shorter span is not much longer than a number.
const MIN_SPAN: usize = 4;
const MAX_SPAN: usize = 2048;
/// The number of spans without a number that are counted (by a hash) before all counts are dropped.
/// They fill a table of 16,384 entries, which fits the cache of a processor.
const MAX_CANDIDATES: usize = 14_336;
/// The buffers of an object that is larger than this are not reused.
const MAX_BUFFER: usize = 64 << 10;

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct JsonDictionary {
    /// Locked before `spans`.
    encoder: Mutex<Encoder>,
    /// The spans by their numbers.
    spans: RwLock<Vec<Arc<[u8]>>>,
}

#[derive(Default)]
struct Encoder {
    /// By the hash of a span: of two spans with the same hash, the first has a number and the other
    /// never gets one.
    numbers: HashMap<u64, (u16, Arc<[u8]>), SeededHasher>,
    /// The size of all spans with a number.
    bytes: usize,
    /// By the hash of a span without a number: the last object that had it, and the number of
    /// different objects in a row that had it.
    candidates: HashMap<u32, (u32, u16), SeededHasher>,
    buffers: Buffers,
}

/// Buffers that are reused for the next object.
#[derive(Default)]
struct Buffers {
    spans: JsonSpans,
    /// Empty between two objects, as is `packed`.
    text: Vec<u8>,
    packed: Vec<u8>,
}

/// Distributes keys that are hashes already over a table, with a random seed, so that an author of
/// objects cannot choose spans that collide.
#[derive(Clone)]
struct SeededHasher {
    mask: u64,
    factor: u64,
    hash: u64,
}

impl Default for SeededHasher {
    fn default() -> Self {
        let random = RandomState::new();
        Self { mask: random.hash_one(0), factor: random.hash_one(1) | 1, hash: 0 }
    }
}

impl BuildHasher for SeededHasher {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        self.clone()
    }
}

impl Hasher for SeededHasher {
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

impl JsonDictionary {
    /// Packs the JSON of an object without the range `cut`. The JSON must be well formed with and
    /// without it. `object` identifies the object, whose states count as one object.
    pub(crate) fn pack(&self, json: &[u8], cut: Range<usize>, object: u32) -> Box<[u8]> {
        let mut encoder = self.encoder.lock().unwrap_or_else(PoisonError::into_inner);
        let Buffers { mut spans, mut text, mut packed } = mem::take(&mut encoder.buffers);
        text.extend_from_slice(&json[..cut.start]);
        text.extend_from_slice(&json[cut.end..]);
        if !spans.find(&text) {
            text = without_blanks(&text);
            assert!(spans.find(&text), "there is no white space between tokens");
        }
        let (mut copied, mut next) = (0, 0);
        while let Some(span) = spans.spans.get(next) {
            let content = &text[span.start..span.end];
            if let Some(number) = self.number(&mut encoder, span.hash, content, object) {
                packed.extend_from_slice(&text[copied..span.start]);
                packed.extend((number | 0x8000).to_be_bytes());
                (copied, next) = (span.end, span.following);
            } else {
                next += 1;
            }
        }
        packed.extend_from_slice(&text[copied..]);
        // An exact copy: shrinking `packed` would leave a hole in the heap after each object.
        let exact = packed.as_slice().into();
        if text.len() <= MAX_BUFFER {
            packed.clear();
            text.clear();
            encoder.buffers = Buffers { spans, text, packed };
        }
        exact
    }

    /// Appends the JSON that was packed to `json`.
    pub(crate) fn unpack(&self, packed: &[u8], json: &mut Vec<u8>) {
        let spans = self.spans.read().unwrap_or_else(PoisonError::into_inner);
        // An estimate, which avoids most reallocations.
        json.reserve(packed.len() * 4);
        let (mut copied, mut at) = (0, 0);
        while at < packed.len() {
            match packed[at] {
                b'"' => at = string_end(packed, at),
                high if high >= 0x80 => {
                    let number = u16::from_be_bytes([high & 0x7f, packed[at + 1]]);
                    json.extend_from_slice(&packed[copied..at]);
                    json.extend_from_slice(&spans[usize::from(number)]);
                    at += 2;
                    copied = at;
                }
                _ => at += 1,
            }
        }
        json.extend_from_slice(&packed[copied..]);
    }

    /// The number of a span, if it has one or gets one now.
    fn number(&self, encoder: &mut Encoder, hash: u64, text: &[u8], object: u32) -> Option<u16> {
        if !(MIN_SPAN..=MAX_SPAN).contains(&text.len()) {
            return None;
        }
        if let Some((number, known)) = encoder.numbers.get(&hash) {
            return (**known == *text).then_some(*number);
        }
        let count = encoder.numbers.len();
        if count == MAX_NUMBERS || encoder.bytes + text.len() > MAX_BYTES {
            encoder.candidates = HashMap::default();
            return None;
        }
        if encoder.candidates.len() == MAX_CANDIDATES {
            encoder.candidates.clear();
        }
        let candidate = high_half(hash);
        let (last_object, seen) = encoder.candidates.entry(candidate).or_default();
        // The second state of one object does not count: its own name would get a number.
        if *last_object != object || *seen == 0 {
            (*last_object, *seen) = (object, seen.saturating_add(1));
        }
        // A long span must be seen more often, since it takes more of the bounded dictionary.
        if usize::from(*seen) < 2 + text.len() / 128 {
            return None;
        }
        encoder.candidates.remove(&candidate);
        let number = u16::try_from(count).expect("fewer than 2^15 numbers");
        let text: Arc<[u8]> = text.into();
        encoder.bytes += text.len();
        encoder.numbers.insert(hash, (number, Arc::clone(&text)));
        self.spans.write().unwrap_or_else(PoisonError::into_inner).push(text);
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

    /// Packs and unpacks the JSON of an object, and returns the packed size.
    fn pack(dictionary: &JsonDictionary, object: u32, json: &str) -> usize {
        let packed = dictionary.pack(json.as_bytes(), 0..0, object);
        let mut unpacked = Vec::new();
        dictionary.unpack(&packed, &mut unpacked);
        let unpacked = String::from_utf8(unpacked).unwrap();
        assert_eq!(unpacked, String::from_utf8(without_blanks(json.as_bytes())).unwrap());
        packed.len()
    }

    #[test]
    fn a_span_that_several_objects_have_is_stored_once() {
        let dictionary = JsonDictionary::default();
        let json = |n| format!(r#"{{"metadata":{{"name":"pod-{n}","labels":{{"app":"a"}}}}}}"#);
        let sizes: Vec<usize> = (0..4).map(|n| pack(&dictionary, n, &json(n))).collect();
        assert_eq!(sizes[0], json(0).len());
        // Two braces each, and: `"metadata":`, `"name":`, the name, a comma, the labels.
        assert_eq!(sizes[3], 4 + 2 + 2 + r#""pod-3","#.len() + 4);
    }

    #[test]
    fn the_states_of_one_object_add_no_span() {
        let dictionary = JsonDictionary::default();
        let json = r#"{"metadata":{"name":"a","uid":"0123456789"}}"#;
        assert!((0..9).all(|_| pack(&dictionary, 1, json) == json.len()));
    }

    #[test]
    fn white_space_in_strings_escapes_and_unicode_are_preserved() {
        let dictionary = JsonDictionary::default();
        let json = "{ \"k\\\"ey:\" : [ \"三板\", \"a b\\\\\" , {\"\": -1.5e+10} ] ,\n\"é\":\"é\" }";
        for object in 0..5 {
            pack(&dictionary, object, json);
        }
    }

    #[test]
    fn a_full_dictionary_packs_with_its_numbers() {
        let dictionary = JsonDictionary::default();
        let rounds = 2 * u32::try_from(MAX_NUMBERS).unwrap() + 2000;
        for round in 0..rounds {
            let json = format!(r#"["unique-{}"]"#, round / 2);
            pack(&dictionary, round, &json);
        }
        assert_eq!(dictionary.spans.read().unwrap().len(), MAX_NUMBERS);
        let (known, new) = (r#"["unique-1"]"#, r#"["unique-x"]"#);
        assert!(pack(&dictionary, rounds, known) < known.len());
        assert!((0..9).all(|object| pack(&dictionary, object, new) == new.len()));
    }

    #[test]
    fn random_objects_are_unpacked_to_the_same_bytes() {
        for_seeds(5, |entropy| {
            let dictionary = JsonDictionary::default();
            for object in 0..400 {
                pack(&dictionary, object % 50, &random(&entropy, 0).to_string());
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
