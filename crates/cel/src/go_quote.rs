//! Quoting as Go's `strconv.Quote` does it, for texts that may not be UTF-8.

/// `bytes` in double quotes; what Go does not print as it is, is escaped.
pub(crate) fn quote(bytes: &[u8]) -> String {
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

fn push(quoted: &mut String, character: char) {
    let code = u32::from(character);
    match character {
        '"' => quoted.push_str("\\\""),
        '\\' => quoted.push_str("\\\\"),
        '\n' => quoted.push_str("\\n"),
        '\r' => quoted.push_str("\\r"),
        '\t' => quoted.push_str("\\t"),
        '\u{7}' => quoted.push_str("\\a"),
        '\u{8}' => quoted.push_str("\\b"),
        '\u{b}' => quoted.push_str("\\v"),
        '\u{c}' => quoted.push_str("\\f"),
        _ if character.is_ascii_control() => *quoted += &format!("\\x{code:02x}"),
        _ if is_printable(character) => quoted.push(character),
        _ if code < 0x1_0000 => *quoted += &format!("\\u{code:04x}"),
        _ => *quoted += &format!("\\U{code:08x}"),
    }
}

/// Rust escapes the characters that Go escapes, and a combining mark at the beginning of a text; the
/// letter before it prevents the latter.
fn is_printable(character: char) -> bool {
    character.is_ascii() || format!("x{character}").escape_debug().count() == 2
}
