//! The value of a scalar: determined by its tag or, if it is plain, by its text.

use base64::prelude::{BASE64_STANDARD, Engine};

use super::super::json::whole_or_float;
use crate::Value;

const CORE_TAG: &str = "tag:yaml.org,2002:";

/// The value of a scalar, or an error.
pub(super) fn resolve(text: &str, is_plain: bool, tag: Option<&str>) -> Result<Value, String> {
    let Some(tag) = tag else {
        return if is_plain { resolve_plain(text) } else { Ok(text.into()) };
    };
    let Some(core) = tag.strip_prefix(CORE_TAG) else {
        return Ok(text.into());
    };
    if core == "binary" {
        return binary(text);
    }
    let value = resolve_plain(text)?;
    let fits = match core {
        "int" => value.is_i64() || value.is_u64(),
        "float" => value.is_number(),
        "bool" => value.is_boolean(),
        "null" => value.is_null(),
        _ => return Ok(text.into()),
    };
    if !fits {
        return Err(format!("cannot decode !!{} `{text}` as a !!{core}", tag_of(&value)));
    }
    Ok(value)
}

/// Decodes Base64 with any white space. Bytes that are not UTF-8 are replaced, as JSON has no
/// bytes.
fn binary(text: &str) -> Result<Value, String> {
    let packed: String = text.split_whitespace().collect();
    let bytes = BASE64_STANDARD
        .decode(packed)
        .map_err(|_| "!!binary value contains invalid base64 data".to_owned())?;
    Ok(String::from_utf8_lossy(&bytes).into())
}

fn tag_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        _ => "str",
    }
}

/// Whether a plain scalar with this text would be read as this very text.
pub(super) fn reads_as_string(text: &str) -> bool {
    let is_string = matches!(resolve_plain(text), Ok(Value::String(_)));
    is_string && !is_timestamp(text) && !is_base60(text) && text != "<<"
}

/// The value of a plain scalar.
fn resolve_plain(text: &str) -> Result<Value, String> {
    Ok(match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Value::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Value::Bool(false)
        }
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        ".nan" | ".NaN" | ".NAN" => return Err("json: unsupported value: NaN".to_owned()),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return Err("json: unsupported value: +Inf".to_owned());
        }
        "-.inf" | "-.Inf" | "-.INF" => return Err("json: unsupported value: -Inf".to_owned()),
        text => number(text).unwrap_or_else(|| text.into()),
    })
}

fn number(text: &str) -> Option<Value> {
    if !text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) {
        return None;
    }
    let plain = if text.starts_with('.') { text.to_owned() } else { text.replace('_', "") };
    if let Some(integer) = integer(&plain) {
        return i64::try_from(integer)
            .map(Value::from)
            .ok()
            .or_else(|| float(&integer.to_string()));
    }
    float(&plain)
}

/// Decimal, `0x`, `0o`, `0b`, or octal with only a leading zero.
fn integer(text: &str) -> Option<i128> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (radix, digits) = match digits.get(..2).map(str::to_ascii_lowercase).as_deref() {
        Some("0x") => (16, &digits[2..]),
        Some("0o") => (8, &digits[2..]),
        Some("0b") => (2, &digits[2..]),
        Some(_) if digits.starts_with('0') => (8, &digits[1..]),
        _ => (10, digits),
    };
    if !digits.starts_with(|c: char| c.is_digit(radix)) {
        return None;
    }
    let value = i128::from(u64::from_str_radix(digits, radix).ok()?);
    let value = if text.starts_with('-') { -value } else { value };
    (value >= i128::from(i64::MIN)).then_some(value)
}

/// `[-+]? (.digits | digits [. digits]) [e exponent]`
fn float(text: &str) -> Option<Value> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_float = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && unsigned.bytes().all(|b| b.is_ascii_digit() || b".eE+-".contains(&b));
    let number: f64 = text.parse().ok().filter(|_| is_float)?;
    whole_or_float(number)
}

/// `2024-05-06`, with or without a time.
fn is_timestamp(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let is_number = |part: &str, lengths: std::ops::RangeInclusive<usize>| {
        lengths.contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit())
    };
    let (Some(year), Some(month), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let day_length = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (day, time) = rest.split_at(day_length);
    is_number(year, 4..=4)
        && is_number(month, 1..=2)
        && is_number(day, 1..=2)
        && (time.is_empty() || (time.starts_with(['T', 't', ' ']) && time.contains(':')))
}

/// `190:20:30`, which is a number in YAML 1.1.
fn is_base60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let whole = unsigned.split_once('.').map_or(unsigned, |(whole, _)| whole);
    let mut parts = whole.split(':');
    let first = parts.next().unwrap_or_default();
    let is_first = first.starts_with(|c: char| c.is_ascii_digit())
        && first.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    let is_next =
        |part: &str| matches!(part.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9']);
    is_first && whole.contains(':') && parts.all(is_next)
}
