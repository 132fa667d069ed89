//! Parses literals: numbers, strings with escapes, raw strings, bytes.

/// Resolves the quotes, prefixes and escapes of a string token.
pub(crate) fn string(token: &str) -> Result<String, String> {
    let (body, raw) = strip(token);
    if raw {
        return Ok(newlines(body));
    }
    let mut out = String::with_capacity(body.len());
    let body = newlines(body);
    let mut rest = body.chars();
    while let Some(character) = rest.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        match escape(&mut rest)? {
            Escaped::Char(character) => out.push(character),
            Escaped::Byte(byte) => out.push(char::from(byte)),
        }
    }
    Ok(out)
}

/// Resolves a bytes token. `\x` and octal escapes are single bytes; `\u` is not allowed.
pub(crate) fn bytes(token: &str) -> Result<Vec<u8>, String> {
    let (body, raw) = strip(token);
    if raw {
        return Ok(newlines(body).into_bytes());
    }
    let mut out = Vec::with_capacity(body.len());
    let body = newlines(body);
    let mut rest = body.chars();
    let mut utf8 = [0; 4];
    while let Some(character) = rest.next() {
        if character != '\\' {
            out.extend_from_slice(character.encode_utf8(&mut utf8).as_bytes());
            continue;
        }
        if matches!(rest.clone().next(), Some('u' | 'U')) {
            return Err("unable to unescape string".to_owned());
        }
        match escape(&mut rest)? {
            Escaped::Char(character) => {
                out.extend_from_slice(character.encode_utf8(&mut utf8).as_bytes());
            }
            Escaped::Byte(byte) => out.push(byte),
        }
    }
    Ok(out)
}

fn newlines(body: &str) -> String {
    body.replace("\r\n", "\n").replace('\r', "\n")
}

/// The part between the quotes, and whether the literal is raw.
fn strip(token: &str) -> (&str, bool) {
    let quoted = token.trim_start_matches(['b', 'B', 'r', 'R']);
    let raw = token[..token.len() - quoted.len()].contains(['r', 'R']);
    let quote = if quoted.len() >= 6 && (quoted.starts_with("'''") || quoted.starts_with("\"\"\""))
    {
        3
    } else {
        1
    };
    (quoted.get(quote..quoted.len().saturating_sub(quote)).unwrap_or(""), raw)
}

enum Escaped {
    Char(char),
    Byte(u8),
}

fn escape(rest: &mut std::str::Chars<'_>) -> Result<Escaped, String> {
    let error = || "unable to unescape string".to_owned();
    let simple = match rest.next().ok_or_else(error)? {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        same @ ('\\' | '\'' | '"' | '`' | '?') => same,
        'x' | 'X' => return Ok(Escaped::Byte(low_byte(digits(rest, 2, 16)?))),
        'u' => return char::from_u32(digits(rest, 4, 16)?).map(Escaped::Char).ok_or_else(error),
        'U' => return char::from_u32(digits(rest, 8, 16)?).map(Escaped::Char).ok_or_else(error),
        first @ '0'..='3' => {
            let first = u32::from(first) - u32::from('0');
            return Ok(Escaped::Byte(low_byte(first * 64 + digits(rest, 2, 8)?)));
        }
        _ => return Err(error()),
    };
    Ok(Escaped::Char(simple))
}

fn digits(rest: &mut std::str::Chars<'_>, count: usize, radix: u32) -> Result<u32, String> {
    let mut value: u32 = 0;
    for _ in 0..count {
        let digit = rest.next().and_then(|character| character.to_digit(radix));
        let digit = digit.ok_or_else(|| "unable to unescape string".to_owned())?;
        value = value.wrapping_mul(radix).wrapping_add(digit);
    }
    Ok(value)
}

/// Two hexadecimal or three octal digits up to `\377` never exceed a byte.
fn low_byte(value: u32) -> u8 {
    u8::try_from(value & 0xff).unwrap_or(u8::MAX)
}

/// An int literal, decimal or with `0x`.
pub(crate) fn integer(sign: &str, text: &str) -> Result<i64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(&format!("{sign}{hex}"), 16),
        None => format!("{sign}{text}").parse(),
    };
    parsed.map_err(|_| "invalid int literal".to_owned())
}

/// A uint literal, which ends in `u`.
pub(crate) fn unsigned(text: &str) -> Result<u64, String> {
    let text = &text[..text.len() - 1];
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "invalid uint literal".to_owned())
}

/// A double literal, which must be finite.
pub(crate) fn double(sign: &str, text: &str) -> Result<f64, String> {
    match format!("{sign}{text}").parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err("invalid double literal".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_in_strings_are_resolved() {
        assert_eq!(string(r#""a\tb\u00e9\x41\101""#).as_deref(), Ok("a\tbéAA"));
        assert_eq!(string(r"r'\d'").as_deref(), Ok(r"\d"));
        assert_eq!(string("'''it's'''").as_deref(), Ok("it's"));
        assert!(string(r"'\q'").is_err());
        assert!(string(r"'\ud800'").is_err());
    }

    #[test]
    fn escapes_in_bytes_are_single_bytes_and_text_is_utf8() {
        assert_eq!(bytes(r"b'\xffé'").as_deref(), Ok([0xff, 0xc3, 0xa9].as_slice()));
        assert!(bytes(r"b'\u0041'").is_err());
    }
}
