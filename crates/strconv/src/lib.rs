//! Text in quotes, as Go's package `strconv` writes it: Kubernetes quotes values in its messages
//! with `%q`, and clients compare these messages.
//!
//! ```
//! assert_eq!(strconv::quote("a \"b\"\n"), r#""a \"b\"\n""#);
//! ```

/// `text` in double quotes; characters that Go does not print are escaped.
///
/// Upstream: `strconv.Quote`, which is also `%q`.
pub fn quote(text: &str) -> String {
    quote_bytes(text.as_bytes())
}

/// As [`quote`], for text that may not be UTF-8; bytes that are not become `\x` escapes.
pub fn quote_bytes(bytes: &[u8]) -> String {
    let mut quoted = String::with_capacity(bytes.len() + 2);
    quoted.push('"');
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|character| push(&mut quoted, character));
        for byte in chunk.invalid() {
            quoted += &format!("\\x{byte:02x}");
        }
    }
    quoted.push('"');
    quoted
}

/// The short escape sequence of a character, such as `\n` or `\"`; None if it has none.
pub fn escape(character: char) -> Option<&'static str> {
    Some(match character {
        '"' => "\\\"",
        '\\' => "\\\\",
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        '\u{7}' => "\\a",
        '\u{8}' => "\\b",
        '\u{b}' => "\\v",
        '\u{c}' => "\\f",
        _ => return None,
    })
}

fn push(quoted: &mut String, character: char) {
    let code = u32::from(character);
    match escape(character) {
        Some(escape) => quoted.push_str(escape),
        None if character.is_ascii_control() => *quoted += &format!("\\x{code:02x}"),
        None if is_printable(character) => quoted.push(character),
        None if code < 0x1_0000 => *quoted += &format!("\\u{code:04x}"),
        None => *quoted += &format!("\\U{code:08x}"),
    }
}

/// Whether Go prints the character as it is. `escape_debug` escapes the same characters, and in
/// addition a combining mark at the start of a string; the leading `x` keeps the mark from being at
/// the start.
fn is_printable(character: char) -> bool {
    character.is_ascii() || format!("x{character}").escape_debug().count() == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printable_text_is_not_escaped() {
        assert_eq!(quote("naïve 三板 e\u{301}"), "\"naïve 三板 e\u{301}\"");
        assert_eq!(quote("\u{301}"), "\"\u{301}\"");
    }

    #[test]
    fn quotes_backslashes_and_unprintable_text_are_escaped() {
        assert_eq!(quote("\"\\\n\r\t\u{7}\u{8}\u{b}\u{c}"), r#""\"\\\n\r\t\a\b\v\f""#);
        assert_eq!(quote("\0\u{1f}\u{7f}"), r#""\x00\x1f\x7f""#);
        assert_eq!(quote("\u{a0}\u{feff}\u{e0001}"), r#""\u00a0\ufeff\U000e0001""#);
        assert_eq!(quote_bytes(b"a\xff\xc3b"), r#""a\xff\xc3b""#);
    }
}
