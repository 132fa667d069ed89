//! Translates character classes: `[a-z\d]`.

use super::{Error, escaped_char, syntax_error, unicode_class};

const RANGE: &str = "invalid character class range";

/// The names between `[:` and `:]`.
const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

/// Appends the class at the beginning of `text` to `out`, rewritten, and returns its length.
pub(super) fn translate(text: &str, out: &mut String) -> Result<usize, Error> {
    let unclosed = || syntax_error("missing closing ]", text);
    let mut rest = &text[1..];
    out.push('[');
    if let Some(after) = rest.strip_prefix('^') {
        rest = after;
        out.push('^');
    }
    let mut first = true;
    loop {
        if rest.is_empty() {
            return Err(unclosed());
        }
        if rest.starts_with(']') && !first {
            out.push(']');
            return Ok(text.len() - rest.len() + 1);
        }
        first = false;
        let length = match group(rest, out)? {
            Some(length) => length,
            None => range(rest, out)?.ok_or_else(unclosed)?,
        };
        rest = &rest[length..];
    }
}

/// Translates a named or escaped set of characters at the start of `text`, if there is one.
fn group(text: &str, out: &mut String) -> Result<Option<usize>, Error> {
    if let Some(end) = text.strip_prefix("[:").and_then(|it| it.find(":]")) {
        let name = &text[2..2 + end];
        let length = end + 4;
        if !POSIX.contains(&name.strip_prefix('^').unwrap_or(name)) {
            return Err(syntax_error(RANGE, &text[..length]));
        }
        *out += &text[..length];
        return Ok(Some(length));
    }
    let Some(character) = text.strip_prefix('\\').and_then(|it| it.chars().next()) else {
        return Ok(None);
    };
    *out += match character {
        'd' => "0-9",
        'D' => "[^0-9]",
        's' => r"\t\n\f\r ",
        'S' => r"[^\t\n\f\r ]",
        'w' => "0-9A-Za-z_",
        'W' => "[^0-9A-Za-z_]",
        'p' | 'P' => {
            let length = unicode_class(text)?;
            *out += &text[..length];
            return Ok(Some(length));
        }
        _ => return Ok(None),
    };
    Ok(Some(2))
}

/// Translates a character or a range at the start of `text`; None if the text ends within.
fn range(text: &str, out: &mut String) -> Result<Option<usize>, Error> {
    let (low, mut length) = character(text)?;
    let mut high = low;
    if let Some(after) = text[length..].strip_prefix('-') {
        if after.is_empty() {
            return Ok(None);
        }
        if !after.starts_with(']') {
            let (end, high_length) = character(after)?;
            high = end;
            length += 1 + high_length;
            if high < low {
                return Err(syntax_error(RANGE, &text[..length]));
            }
        }
    }
    push(out, low);
    if high != low {
        out.push('-');
        push(out, high);
    }
    Ok(Some(length))
}

fn character(text: &str) -> Result<(char, usize), Error> {
    match text.chars().next() {
        Some('\\') => escaped_char(text),
        Some(character) => Ok((character, character.len_utf8())),
        None => Ok(('\0', 0)),
    }
}

fn push(out: &mut String, character: char) {
    if matches!(character, '\\' | '[' | ']' | '^' | '-' | '&' | '~') {
        out.push('\\');
    }
    out.push(character);
}
