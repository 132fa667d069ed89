//! `format` of cel-go's strings extension: `'%s of %d'.format([a, b])`.

use std::iter::Peekable;

use crate::error::EvalError;
use crate::value::{List, Value, numbers};

/// Replaces the clauses of the format by the formatted arguments.
pub(super) fn format(format: &str, args: &List<'_>) -> Result<String, EvalError> {
    let mut out = String::with_capacity(format.len());
    let mut characters = format.chars().peekable();
    let mut next = 0;
    while let Some(character) = characters.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        if characters.peek() == Some(&'%') {
            characters.next();
            out.push('%');
            continue;
        }
        let precision = precision(&mut characters)?;
        let Some(verb) = characters.next() else {
            return Err("could not parse formatting clause: unexpected end of string".into());
        };
        let Some(arg) = args.get(next) else {
            return Err(format!("index {next} out of range").into());
        };
        next += 1;
        out.push_str(&clause(verb, precision, &arg?)?);
    }
    Ok(out)
}

fn precision(characters: &mut Peekable<std::str::Chars<'_>>) -> Result<Option<usize>, EvalError> {
    if characters.peek() != Some(&'.') {
        return Ok(None);
    }
    characters.next();
    let mut digits = String::new();
    while let Some(digit) = characters.peek().filter(|it| it.is_ascii_digit()) {
        digits.push(*digit);
        characters.next();
    }
    match digits.parse() {
        // The limit keeps a large precision from exhausting memory.
        Ok(precision) if precision <= 1_000 => Ok(Some(precision)),
        _ => Err(format!("could not parse formatting clause: invalid precision {digits:?}").into()),
    }
}

fn clause(verb: char, precision: Option<usize>, arg: &Value<'_>) -> Result<String, EvalError> {
    let wrong = |expected: &str| -> EvalError {
        format!(
            "error during formatting: {expected} clause can only be used on {}, was given {}",
            accepted(verb),
            arg.type_name()
        )
        .into()
    };
    match (verb, arg) {
        ('s', _) => string(arg),
        ('d', Value::Int(value)) => Ok(value.to_string()),
        ('d', Value::Uint(value)) => Ok(value.to_string()),
        ('d', _) => Err(wrong("decimal")),
        ('f', _) => {
            let value = double(arg).ok_or_else(|| wrong("fixed-point"))?;
            Ok(special(value).unwrap_or_else(|| fixed(value, precision.unwrap_or(6))))
        }
        ('e', _) => {
            let value = double(arg).ok_or_else(|| wrong("scientific"))?;
            Ok(special(value).unwrap_or_else(|| scientific(value, precision.unwrap_or(6))))
        }
        ('b', Value::Int(value)) => Ok(signed(*value, |magnitude| format!("{magnitude:b}"))),
        ('b', Value::Uint(value)) => Ok(format!("{value:b}")),
        ('b', Value::Bool(value)) => Ok(if *value { "1" } else { "0" }.to_owned()),
        ('b', _) => Err(wrong("binary")),
        ('o', Value::Int(value)) => Ok(signed(*value, |magnitude| format!("{magnitude:o}"))),
        ('o', Value::Uint(value)) => Ok(format!("{value:o}")),
        ('o', _) => Err(wrong("octal")),
        ('x' | 'X', _) => {
            let hex = hex(arg).ok_or_else(|| wrong("hex"))?;
            Ok(if verb == 'X' { hex.to_uppercase() } else { hex })
        }
        _ => Err(format!(
            "could not parse formatting clause: unrecognized formatting clause \"{verb}\""
        )
        .into()),
    }
}

fn accepted(verb: char) -> &'static str {
    match verb {
        'd' | 'o' => "integers",
        'b' => "integers and bools",
        'x' | 'X' => "integers, byte buffers, and strings",
        _ => "doubles",
    }
}

fn double(arg: &Value<'_>) -> Option<f64> {
    match arg {
        Value::Double(value) => Some(*value),
        Value::Int(value) => Some(numbers::int_to_double(*value)),
        Value::Uint(value) => Some(numbers::uint_to_double(*value)),
        _ => None,
    }
}

fn special(value: f64) -> Option<String> {
    if value.is_nan() {
        return Some("NaN".to_owned());
    }
    value.is_infinite().then(|| if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned())
}

/// As upstream formats it for English: `3.140000×10⁰⁰`.
fn scientific(value: f64, precision: usize) -> String {
    let shown = format!("{value:.precision$e}");
    let (mantissa, exponent) = shown.split_once('e').unwrap_or((&shown, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ("⁻", digits),
        None => ("", exponent),
    };
    let raised: String = format!("{digits:0>2}").chars().map(superscript).collect();
    format!("{mantissa}×10{sign}{raised}")
}

fn superscript(digit: char) -> char {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    digit.to_digit(10).and_then(|digit| DIGITS.get(digit as usize)).copied().unwrap_or(digit)
}

/// As upstream formats it for English: with commas between groups of three digits.
fn fixed(value: f64, precision: usize) -> String {
    let shown = format!("{value:.precision$}");
    let (whole, fraction) =
        shown.split_once('.').map_or((shown.as_str(), None), |(a, b)| (a, Some(b)));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let fraction = fraction.map(|digits| format!(".{digits}")).unwrap_or_default();
    format!("{sign}{grouped}{fraction}")
}

fn signed(value: i64, show: impl Fn(u64) -> String) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", show(value.unsigned_abs()))
}

fn hex(arg: &Value<'_>) -> Option<String> {
    let bytes = |bytes: &[u8]| {
        let mut shown = String::with_capacity(bytes.len() * 2);
        for byte in bytes {
            shown.push_str(&format!("{byte:02x}"));
        }
        shown
    };
    Some(match arg {
        Value::Int(value) => signed(*value, |magnitude| format!("{magnitude:x}")),
        Value::Uint(value) => format!("{value:x}"),
        Value::String(text) => bytes(text.as_bytes()),
        Value::Bytes(value) => bytes(value),
        _ => return None,
    })
}

/// `%s`: lists and maps include their contents, in which strings are quoted.
fn string(arg: &Value<'_>) -> Result<String, EvalError> {
    Ok(match arg {
        Value::List(list) => {
            let parts: Result<Vec<_>, _> = list.iter().map(|value| nested(&value?)).collect();
            format!("[{}]", parts?.join(", "))
        }
        Value::Map(map) => {
            let mut parts = Vec::new();
            for key in map.keys() {
                if let Some(value) = map.get(&key) {
                    parts.push(format!("{}: {}", nested(&key)?, nested(&value?)?));
                }
            }
            parts.sort();
            format!("{{{}}}", parts.join(", "))
        }
        Value::Opaque(_) | Value::Optional(_) | Value::Struct(_) | Value::Fields(_) => {
            return Err(format!(
                "error during formatting: string clause can only be used on strings, bools, bytes, \
                 ints, doubles, maps, lists, types, durations, and timestamps, was given {}",
                arg.type_name()
            )
            .into());
        }
        other => other.to_string(),
    })
}

fn nested(value: &Value<'_>) -> Result<String, EvalError> {
    match value {
        Value::String(text) => Ok(format!("\"{}\"", &**text)),
        Value::Bytes(bytes) => Ok(format!("b\"{}\"", String::from_utf8_lossy(bytes))),
        Value::Timestamp(at) => Ok(format!("timestamp(\"{at}\")")),
        Value::Duration(span) => Ok(format!("duration(\"{span}\")")),
        other => string(other),
    }
}
