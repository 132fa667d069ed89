//! [`Entropy`]: randomness for uids, suffixes and jitter, from the operating system or from a seed.
//!
//! Keys and other secrets are generated with `ring` directly.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use ring::rand::{SecureRandom, SystemRandom};

/// The size of the buffer of system randomness: one system call serves 32 uids.
const BUFFER_SIZE: usize = 512;

/// The characters of generated suffixes: neither vowels nor digits that look like vowels, so that no suffix spells a word.
const SUFFIX_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A handle on a source of randomness; clones draw from the same sequence.
#[derive(Clone)]
pub struct Entropy(Arc<Mutex<Source>>);

enum Source {
    System {
        random: SystemRandom,
        buffer: Box<[u8; BUFFER_SIZE]>,
        /// The index of the first byte of `buffer` that was not handed out.
        next: usize,
    },
    Seeded(Xoshiro),
}

impl Entropy {
    /// Unpredictable bytes from the operating system.
    pub fn system() -> Self {
        let random = SystemRandom::new();
        let buffer = Box::new([0; BUFFER_SIZE]);
        Self(Arc::new(Mutex::new(Source::System { random, buffer, next: BUFFER_SIZE })))
    }

    /// The same, predictable bytes in each run with the same seed.
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Source::Seeded(Xoshiro::new(seed)))))
    }

    /// Fills `bytes`.
    ///
    /// # Panics
    /// If the operating system provides no random bytes: no uid is safe without them.
    pub fn fill(&self, bytes: &mut [u8]) {
        let mut source = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *source {
            Source::Seeded(generator) => {
                for chunk in bytes.chunks_mut(8) {
                    chunk.copy_from_slice(&generator.next().to_le_bytes()[..chunk.len()]);
                }
            }
            Source::System { random, buffer, next } => {
                for byte in bytes {
                    if *next == BUFFER_SIZE {
                        random
                            .fill(&mut buffer[..])
                            .expect("the operating system gives random bytes");
                        *next = 0;
                    }
                    // Bytes that were handed out do not stay in memory.
                    *byte = std::mem::take(&mut buffer[*next]);
                    *next += 1;
                }
            }
        }
    }

    /// A random 64-bit number.
    pub fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// A random number from 0 to `bound`, excluding `bound`; 0 if `bound` is 0.
    pub fn below(&self, bound: u64) -> u64 {
        // The high half of a 128-bit product maps 64 bits onto the range; its bias is at most
        // bound / 2^64, which is negligible for the small ranges drawn here.
        let product = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(product >> 64).expect("the high half of 128 bits fits 64")
    }

    /// A version 4 UUID in lower case, such as `936da01f-9abd-4d9d-80c7-02af85c822a8`.
    pub fn uuid(&self) -> String {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex = format!("{:032x}", u128::from_be_bytes(bytes));
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
    }

    /// `length` letters and digits that are safe in a DNS name, as `generateName` appends them.
    pub fn suffix(&self, length: usize) -> String {
        let letter = |_| {
            let index = usize::try_from(self.below(27)).expect("an index below 27");
            char::from(SUFFIX_ALPHABET[index])
        };
        (0..length).map(letter).collect()
    }
}

impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The state would reveal future uids.
        f.write_str("Entropy")
    }
}

/// xoshiro256++ by Blackman and Vigna, seeded through splitmix64.
struct Xoshiro([u64; 4]);

impl Xoshiro {
    fn new(seed: u64) -> Self {
        let mut counter = seed;
        Self(std::array::from_fn(|_| {
            counter = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = counter;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }))
    }

    fn next(&mut self) -> u64 {
        let [s0, s1, s2, s3] = &mut self.0;
        let result = s0.wrapping_add(*s3).rotate_left(23).wrapping_add(*s0);
        let shifted = *s1 << 17;
        *s2 ^= *s0;
        *s3 ^= *s1;
        *s1 ^= *s2;
        *s0 ^= *s3;
        *s2 ^= shifted;
        *s3 = s3.rotate_left(45);
        result
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn equal_seeds_give_equal_sequences() {
        let (one, two) = (Entropy::seeded(7), Entropy::seeded(7));
        assert_eq!(one.uuid(), two.uuid());
        assert_eq!(one.suffix(5), two.suffix(5));
        assert_ne!(Entropy::seeded(8).next_u64(), Entropy::seeded(7).next_u64());
    }

    #[test]
    fn clones_share_one_sequence() {
        let one = Entropy::seeded(7);
        assert_ne!(one.clone().uuid(), one.uuid());
    }

    #[test]
    fn the_generator_matches_the_reference_implementation() {
        // The first output for the state 1, 2, 3, 4 in the authors' reference code.
        assert_eq!(Xoshiro([1, 2, 3, 4]).next(), 41_943_041);
    }

    #[test]
    fn system_bytes_do_not_repeat_across_refills() {
        let entropy = Entropy::system();
        let uids: HashSet<String> = (0..1000).map(|_| entropy.uuid()).collect();
        assert_eq!(uids.len(), 1000);
    }

    #[test]
    fn a_uuid_has_version_4_and_the_variant_of_rfc_4122() {
        let uuid = Entropy::seeded(1).uuid();
        let bytes = uuid.as_bytes();
        assert_eq!((uuid.len(), bytes[14]), (36, b'4'));
        assert!(b"89ab".contains(&bytes[19]));
        assert_eq!(uuid.matches('-').count(), 4);
    }

    #[test]
    fn a_suffix_uses_the_whole_alphabet_and_nothing_else() {
        let seen: HashSet<u8> = Entropy::seeded(1).suffix(2000).into_bytes().into_iter().collect();
        assert_eq!(seen, SUFFIX_ALPHABET.iter().copied().collect());
    }

    #[test]
    fn a_bound_is_never_reached() {
        let entropy = Entropy::seeded(3);
        assert!((0..1000).all(|_| entropy.below(3) < 3));
        assert_eq!(entropy.below(0), 0);
    }
}
