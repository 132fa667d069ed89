//! [`Uid`]: a uid in 16 bytes.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};

/// See the [module documentation](self). A text that is not a UUID in lower case is hashed, with a bit
/// pattern that no UUID of Kubernetes has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Uid([u32; 4]);

/// The positions of the hyphens in a UUID.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

impl Uid {
    /// The uid of this text.
    pub(super) fn of(text: &str) -> Self {
        parse(text).unwrap_or_else(|| hashed(text))
    }

    /// Whether the text was hashed, so that it cannot be restored.
    pub(super) fn is_hash(self) -> bool {
        is_hash(self.0)
    }

    /// The text, if it is a UUID.
    pub(super) fn text(self) -> Option<String> {
        if self.is_hash() {
            return None;
        }
        let [a, b, c, d] = self.0;
        let mut text = String::with_capacity(36);
        // Writing to a string cannot fail.
        let _ = write!(text, "{a:08x}-{:04x}-{:04x}-{:04x}-", b >> 16, b & 0xffff, c >> 16);
        let _ = write!(text, "{:04x}{d:08x}", c & 0xffff);
        Some(text)
    }
}

fn parse(text: &str) -> Option<Uid> {
    let text: &[u8; 36] = text.as_bytes().try_into().ok()?;
    if HYPHENS.iter().any(|at| text[*at] != b'-') {
        return None;
    }
    let uid = [
        digits(&text[..8])?,
        digits(&text[9..13])? << 16 | digits(&text[14..18])?,
        digits(&text[19..23])? << 16 | digits(&text[24..28])?,
        digits(&text[28..])?,
    ];
    (!is_hash(uid)).then_some(Uid(uid))
}

/// The number that these hexadecimal digits in lower case stand for.
fn digits(text: &[u8]) -> Option<u32> {
    text.iter().try_fold(0, |number, byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u32::from(digit))
    })
}

/// Whether the variant of the UUID is the reserved one, which marks a hash.
fn is_hash(words: [u32; 4]) -> bool {
    words[2] >> 29 == 0b111
}

fn hashed(text: &str) -> Uid {
    let hash = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, text).hash(&mut hasher);
        u32::try_from(hasher.finish() >> 32).expect("the high half fits 32 bits")
    };
    Uid([hash(0), hash(1), hash(2) | 0b111 << 29, hash(3)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_printed_as_it_was_read_and_other_texts_are_hashed() {
        let uuid = "0123abcd-4567-4fed-9abc-00112233ff44";
        assert_eq!(Uid::of(uuid).text().as_deref(), Some(uuid));
        for other in ["", "owner", "0123ABCD-4567-4fed-9abc-00112233ff44"] {
            assert_eq!(Uid::of(other).text(), None, "{other}");
            assert_eq!(Uid::of(other), Uid::of(other));
        }
        assert_ne!(Uid::of("a"), Uid::of("b"));
    }

    #[test]
    fn a_uuid_of_the_reserved_variant_is_not_confused_with_a_hash() {
        let reserved = "0123abcd-4567-4fed-ffff-00112233ff44";
        assert_eq!(Uid::of(reserved).text(), None);
    }
}
