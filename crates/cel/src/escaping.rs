//! Escapes field names that are not identifiers or are reserved words: `namespace` is
//! `__namespace__` in expressions, `a-b` is `a__dash__b`.

/// The words that Kubernetes escapes.
const RESERVED: &[&str] = &[
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

const SYMBOLS: &[(&str, &str)] =
    &[("__underscores__", "__"), ("__dot__", "."), ("__dash__", "-"), ("__slash__", "/")];

/// Whether the name is valid for a variable.
pub fn is_identifier(name: &str) -> bool {
    let is_word = |c: char| c == '_' || c.is_ascii_alphanumeric();
    name.chars().all(is_word)
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && !RESERVED.contains(&name)
}

/// The escaped form of a reserved word; None for other names.
pub(crate) fn reserved(name: &str) -> Option<String> {
    RESERVED.contains(&name).then(|| format!("__{name}__"))
}

/// The name for the JSON key `name` in expressions; None if it cannot be escaped.
pub fn escape(name: &str) -> Option<String> {
    if let Some(word) = reserved(name) {
        return Some(word);
    }
    let first = name.chars().next()?;
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/');
    if !(first == '_' || first.is_ascii_alphabetic()) || !name.chars().all(is_allowed) {
        return None;
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(character) = rest.chars().next() {
        let found = SYMBOLS.iter().find(|(_, symbol)| rest.starts_with(symbol));
        if let Some((word, symbol)) = found {
            escaped.push_str(word);
            rest = &rest[symbol.len()..];
        } else {
            escaped.push(character);
            rest = &rest[character.len_utf8()..];
        }
    }
    Some(escaped)
}

/// The JSON key for the name `escaped` in an expression; None if it is not a valid escape.
pub fn unescape(escaped: &str) -> Option<String> {
    if let Some(word) = escaped.strip_prefix("__").and_then(|rest| rest.strip_suffix("__"))
        && RESERVED.contains(&word)
    {
        return Some(word.to_owned());
    }
    let mut name = String::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(start) = rest.find("__") {
        name.push_str(&rest[..start]);
        rest = &rest[start..];
        let (word, symbol) = SYMBOLS.iter().find(|(word, _)| rest.starts_with(word))?;
        name.push_str(symbol);
        rest = &rest[word.len()..];
    }
    name.push_str(rest);
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expected: Option<&str>) {
        let escaped = escape(name);
        assert_eq!(escaped.as_deref(), expected, "{name}");
        if let Some(escaped) = escaped {
            assert_eq!(unescape(&escaped).as_deref(), Some(name), "{name}");
        }
    }

    #[test]
    fn names_are_escaped_and_unescaped() {
        check("namespace", Some("__namespace__"));
        check("if", Some("__if__"));
        check("a-b", Some("a__dash__b"));
        check("x.y/z", Some("x__dot__y__slash__z"));
        check("my__field", Some("my__underscores__field"));
        check("_x_", Some("_x_"));
        check("int", Some("int"));
    }

    #[test]
    fn names_that_cannot_be_identifiers_have_no_escape() {
        check("1a", None);
        check("a b", None);
        check("é", None);
        check("", None);
        assert_eq!(unescape("a__b"), None);
    }
}
