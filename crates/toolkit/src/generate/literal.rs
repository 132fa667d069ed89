//! [`text_literal`] and [`json_tokens`]: values as Rust source.

use machinery::Value;

/// A string literal; a raw one if that is easier to read, as for a pattern.
pub(crate) fn text_literal(text: &str) -> String {
    let is_quoted = text.contains(['"', '\\']);
    if !is_quoted || text.chars().any(needs_escape) {
        return escaped_literal(text);
    }
    let mut hashes = String::new();
    while text.contains(&format!("\"{hashes}")) {
        hashes.push('#');
    }
    format!("r{hashes}\"{text}\"{hashes}")
}

fn escaped_literal(text: &str) -> String {
    let mut literal = "\"".to_owned();
    for letter in text.chars() {
        match letter {
            '"' | '\\' => literal.extend(['\\', letter]),
            '\n' => literal.push_str("\\n"),
            '\t' => literal.push_str("\\t"),
            '\r' => literal.push_str("\\r"),
            _ if needs_escape(letter) => literal.extend(letter.escape_unicode()),
            _ => literal.push(letter),
        }
    }
    literal + "\""
}

/// Whether a letter cannot stand in a source file, or would change how the file looks.
pub(crate) fn needs_escape(letter: char) -> bool {
    letter.is_control() || is_direction_mark(letter) || letter == '\u{feff}'
}

/// The marks that reorder text, which the compiler refuses.
fn is_direction_mark(letter: char) -> bool {
    matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The tokens of a JSON value in `patch(…)`.
pub(crate) fn json_tokens(value: &Value) -> String {
    match value {
        Value::String(text) => text_literal(text),
        Value::Array(values) => {
            format!("[{}]", values.iter().map(json_tokens).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(name, value)| format!("{}: {}", text_literal(name), json_tokens(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use machinery::json;

    use super::*;

    #[test]
    fn literals_are_raw_where_that_is_easier_to_read() {
        for (text, literal) in [
            ("a", "\"a\""),
            (r"^\d+$", r#"r"^\d+$""#),
            ("a\"b", r##"r#"a"b"#"##),
            ("a\"#b", "r##\"a\"#b\"##"),
            ("a\n\"\\", r#""a\n\"\\""#),
            ("\u{202e}\u{7}", r#""\u{202e}\u{7}""#),
        ] {
            assert_eq!(text_literal(text), literal);
        }
    }

    #[test]
    fn json_is_written_with_the_tokens_of_rust() {
        let value = json!({"a": [1, -1.5, true, null], "b": r"c\d"});
        assert_eq!(json_tokens(&value), r#"{"a": [1, -1.5, true, null], "b": r"c\d"}"#);
    }
}
