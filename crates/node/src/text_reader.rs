//! Reads the parts that the languages of templates and queries have in common from the start of a
//! text. What was read is removed from it.

/// A string in double quotes, with the escapes of JSON. The text begins with a quote.
pub(crate) fn quoted(text: &mut &str) -> Result<String, String> {
    let mut is_escaped = false;
    for (i, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => {
                let (string, rest) = text.split_at(i + 1);
                *text = rest;
                return serde_json::from_str(string).map_err(|error| format!("{string}: {error}"));
            }
            _ => {}
        }
    }
    Err("unclosed string".to_owned())
}

/// The letters, digits and underscores.
pub(crate) fn word<'a>(text: &mut &'a str) -> &'a str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    let (word, rest) = text.split_at(end.unwrap_or(text.len()));
    *text = rest;
    word
}

/// Whether the token is next, after spaces. The spaces are removed in both cases.
pub(crate) fn take(text: &mut &str, token: &str) -> bool {
    *text = text.trim_start();
    let rest = text.strip_prefix(token);
    *text = rest.unwrap_or(text);
    rest.is_some()
}
