//! Bytes in JSON: base64 as Go reads and writes it.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// As lenient as Go's decoder, which ignores the bits after the last byte.
const ENGINE: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// Brings the text into the form in which Go writes it, without line breaks; the error is Go's
/// message.
pub(super) fn rewrite(text: &mut String) -> Result<(), String> {
    let decoded = if text.contains(['\r', '\n']) {
        ENGINE.decode(text.replace(['\r', '\n'], ""))
    } else {
        ENGINE.decode(text.as_bytes())
    };
    match decoded {
        Ok(bytes) => {
            *text = ENGINE.encode(bytes);
            Ok(())
        }
        Err(_) => {
            Err(format!("illegal base64 data at input byte {}", invalid_offset(text.as_bytes())))
        }
    }
}

/// The text for `bytes`.
pub(super) fn encode(bytes: &[u8]) -> String {
    ENGINE.encode(bytes)
}

/// The offset of the first byte that Go's decoder refuses.
fn invalid_offset(text: &[u8]) -> usize {
    let mut symbols = text.iter().copied().enumerate().filter(|(_, c)| !matches!(c, b'\r' | b'\n'));
    let mut start = 0;
    let mut seen = 0;
    while let Some((at, symbol)) = symbols.next() {
        match symbol {
            b'=' if seen == 2 => match symbols.next() {
                Some((_, b'=')) => break,
                Some((other, _)) => return other,
                None => return text.len(),
            },
            b'=' if seen == 3 => break,
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' => {
                start = if seen == 0 { at } else { start };
                seen = (seen + 1) % 4;
            }
            _ => return at,
        }
    }
    // After padding nothing may follow; without it the last four symbols are incomplete.
    symbols.next().map_or(start, |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_and_stray_bits_are_taken_out() {
        check("YWJj\nZGVm\r\n", "YWJjZGVm");
        check("YX==", "YQ==");
        check("", "");
    }

    #[test]
    fn a_error_is_where_go_finds_it() {
        for (text, at) in [
            ("abc", 0),
            ("YWJjab", 4),
            ("ab=c", 3),
            ("a===", 1),
            ("YWJj ZGVm", 4),
            ("YW==YW==", 4),
            ("YWI=x", 4),
            ("YWJjZA=", 7),
            ("YW-_", 2),
        ] {
            check(text, &format!("illegal base64 data at input byte {at}"));
        }
    }

    fn check(text: &str, expected: &str) {
        let mut rewritten = text.to_owned();
        let result = rewrite(&mut rewritten);
        assert_eq!(result.map_or_else(|message| message, |()| rewritten), expected);
    }
}
