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

/// Rewrites the text in the form in which Go writes it, without line breaks; the error is Go's
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
    // A quantum is a group of four symbols.
    let mut quantum_start = 0;
    let mut quantum_len = 0;
    while let Some((at, symbol)) = symbols.next() {
        match symbol {
            b'=' if quantum_len == 2 => match symbols.next() {
                Some((_, b'=')) => break,
                Some((other, _)) => return other,
                None => return text.len(),
            },
            b'=' if quantum_len == 3 => break,
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' => {
                quantum_start = if quantum_len == 0 { at } else { quantum_start };
                quantum_len = (quantum_len + 1) % 4;
            }
            _ => return at,
        }
    }
    // Nothing may follow the padding. Without padding, the last quantum is incomplete.
    symbols.next().map_or(quantum_start, |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_and_trailing_bits_are_removed() {
        check("YWJj\nZGVm\r\n", "YWJjZGVm");
        check("YX==", "YQ==");
        check("", "");
    }

    #[test]
    fn an_error_has_the_offset_that_go_reports() {
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
