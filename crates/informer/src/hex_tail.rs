//! JSON strings that end in many hexadecimal digits, written with two digits in a byte.
//!
//! ```text
//! "sha256:0123…ef"     ▶   MARK, 7, 32, sha256:, 32 bytes
//! ```

/// Begins such a string; JSON has no such byte.
pub(crate) const MARK: u8 = 1;

/// Fewer bytes are not worth the trouble.
const SHORTEST: usize = 8;
const LONGEST: usize = u8::MAX as usize;

/// How many bytes the digits make at the end of this string with its quotes; None if it is another
/// piece of JSON, or not worth it.
pub(crate) fn find(piece: &[u8]) -> Option<usize> {
    let text = text_of(piece)?;
    let digits = text.iter().rev().take(2 * LONGEST).take_while(|byte| is_digit(**byte)).count();
    let bytes = digits / 2;
    let before = text.len() - 2 * bytes;
    (bytes >= SHORTEST && before <= LONGEST).then_some(bytes)
}

/// Appends a string of which the last digits make so many `bytes`.
pub(crate) fn pack(piece: &[u8], bytes: usize, packed: &mut Vec<u8>) {
    let text = text_of(piece).unwrap_or_default();
    let (before, digits) = text.split_at(text.len() - 2 * bytes);
    packed.extend([MARK, length(before.len()), length(bytes)]);
    packed.extend_from_slice(before);
    packed.extend(digits.as_chunks().0.iter().map(|[high, low]| value(*high) << 4 | value(*low)));
}

/// Appends the string that was packed at the beginning of `packed`, and says how long that is.
pub(crate) fn unpack(packed: &[u8], json: &mut Vec<u8>) -> usize {
    let (before, bytes) = (usize::from(packed[1]), usize::from(packed[2]));
    let end = 3 + before + bytes;
    json.push(b'"');
    json.extend_from_slice(&packed[3..3 + before]);
    let digits = packed[3 + before..end].iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    json.extend(digits.map(|value| b"0123456789abcdef"[usize::from(value)]));
    json.push(b'"');
    end
}

fn text_of(piece: &[u8]) -> Option<&[u8]> {
    piece.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

fn is_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

fn value(digit: u8) -> u8 {
    if digit.is_ascii_digit() { digit - b'0' } else { digit - b'a' + 10 }
}

fn length(length: usize) -> u8 {
    u8::try_from(length).expect("find gives no longer ones")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size when packed, if it is worth it.
    fn round_trip(piece: &str) -> Option<usize> {
        let bytes = find(piece.as_bytes())?;
        let (mut packed, mut json) = (Vec::new(), b"before".to_vec());
        pack(piece.as_bytes(), bytes, &mut packed);
        packed.push(b',');
        assert_eq!(unpack(&packed, &mut json), packed.len() - 1);
        assert_eq!(String::from_utf8(json).unwrap(), format!("before{piece}"));
        Some(packed.len() - 1)
    }

    #[test]
    fn two_digits_take_a_byte() {
        let digits = "0123456789abcdef";
        assert_eq!(round_trip(&format!("\"{digits}\"")), Some(3 + 8));
        assert_eq!(round_trip(&format!("\"三板 \\\" {digits}\"")), Some(3 + 10 + 8));
        assert_eq!(round_trip(&format!("\"7{digits}\"")), Some(3 + 1 + 8), "an odd one stays");
        assert_eq!(round_trip(&format!("\"{}\"", digits.repeat(40))), Some(3 + 130 + 255));
    }

    #[test]
    fn other_pieces_are_left_alone() {
        let digits = "0123456789abcdef";
        for piece in [
            format!("\"{digits}\":"),
            format!("[\"{digits}\"]"),
            format!("\"{digits}g\""),
            format!("\"{}\"", digits.to_uppercase()),
            format!("\"{}\"", &digits[1..]),
            format!("\"{}{digits}\"", "x".repeat(256)),
            "\"".to_owned(),
            String::new(),
        ] {
            assert_eq!(round_trip(&piece), None, "{piece}");
        }
    }
}
