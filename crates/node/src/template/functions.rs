//! The functions of templates: those of Go, those of KWOK that need no node, and some of sprig.
//!
//! - Go: `and or not eq ne lt le gt ge index len print println printf`
//! - KWOK: `Quote YAML NodeConditions Version`
//! - sprig: `dict list default empty coalesce ternary quote squote upper lower trim trimPrefix
//!   trimSuffix replace contains hasPrefix hasSuffix hasKey get join toString toJson int int64 add sub
//!   mul div mod max min`

use std::cmp::Ordering;

use serde_json::{Map, Value, json};

use super::budget::Size;
use super::write_go;
use crate::node_object::HEALTHY;
use machinery::codec::yaml;

/// Calls a function; `None` if there is no such function.
pub(super) fn call(name: &str, arguments: &[Value]) -> Option<Result<Value, String>> {
    let result = go(name, arguments).or_else(|| kwok(name, arguments));
    result.or_else(|| sprig(name, arguments)).or_else(|| sprig_text(name, arguments))
}

/// The bytes that a function adds to those of its arguments, if they can be many times more.
pub(super) fn growth(name: &str, arguments: &[Value]) -> Result<usize, String> {
    Ok(match (name, arguments) {
        ("replace", [from, to, text, ..]) => {
            let (from, text) = (print(from), print(text));
            text.matches(&*from).count().saturating_mul(print(to).len())
        }
        ("join", [separator, Value::Array(list), ..]) => {
            list.len().saturating_mul(print(separator).len())
        }
        ("YAML", [value, ..]) => {
            let Size { lines, depth, .. } = Size::of(value)?;
            lines.saturating_mul(2 * (depth + indent(arguments)))
        }
        _ => 0,
    })
}

/// The elements of elements with these keys.
pub(super) fn element<'a>(value: &'a Value, keys: &[Value]) -> Option<&'a Value> {
    keys.iter().try_fold(value, |value, key| match key {
        Value::Number(index) => value.get(usize::try_from(index.as_u64()?).ok()?),
        key => value.get(print(key)),
    })
}

/// The levels by which the function `YAML` indents.
fn indent(arguments: &[Value]) -> usize {
    let indent = arguments.get(1).and_then(Value::as_u64).unwrap_or_default();
    usize::try_from(indent.min(32)).unwrap_or_default()
}

/// Whether there is a function with this name.
pub(super) fn is_known(name: &str) -> bool {
    // Without arguments a function that needs some returns an error.
    call(name, &[]).is_some()
}

/// The error for a function that does not exist.
pub(super) fn not_supported(name: &str) -> String {
    format!("the function {name:?} is not supported")
}

/// The text of a value in a template.
pub(super) fn print(value: &Value) -> String {
    let mut out = String::new();
    write_go(&mut out, value);
    out
}

/// Whether a value is neither zero nor empty.
pub(super) fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

/// The argument at `index`.
fn argument<'a>(name: &str, arguments: &'a [Value], index: usize) -> Result<&'a Value, String> {
    arguments.get(index).ok_or_else(|| format!("{name} has too few arguments"))
}

fn go(name: &str, arguments: &[Value]) -> Option<Result<Value, String>> {
    let first = || argument(name, arguments, 0);
    let order = || {
        let (left, right) = (first()?, argument(name, arguments, 1)?);
        compare(left, right).ok_or_else(|| format!("incompatible types for comparison in {name}"))
    };
    let result = match name {
        "and" => first().map(|_| {
            let found = arguments.iter().find(|value| !is_true(value));
            found.or(arguments.last()).cloned().unwrap_or_default()
        }),
        "or" => first().map(|_| {
            let found = arguments.iter().find(|value| is_true(value));
            found.or(arguments.last()).cloned().unwrap_or_default()
        }),
        "not" => first().map(|value| json!(!is_true(value))),
        "eq" => {
            first().map(|value| json!(arguments[1..].iter().any(|other| is_equal(value, other))))
        }
        "ne" => argument(name, arguments, 1).map(|other| json!(!is_equal(&arguments[0], other))),
        "lt" => order().map(|order| json!(order.is_lt())),
        "le" => order().map(|order| json!(order.is_le())),
        "gt" => order().map(|order| json!(order.is_gt())),
        "ge" => order().map(|order| json!(order.is_ge())),
        "index" => {
            first().map(|value| element(value, &arguments[1..]).cloned().unwrap_or_default())
        }
        "len" => first().map(|value| json!(length(value))),
        "print" => Ok(json!(arguments.iter().map(print).collect::<String>())),
        "println" => Ok(json!(arguments.iter().map(print).collect::<Vec<_>>().join(" ") + "\n")),
        "printf" => first().and_then(|format| printf(&print(format), &arguments[1..])),
        _ => return None,
    };
    Some(result)
}

fn kwok(name: &str, arguments: &[Value]) -> Option<Result<Value, String>> {
    let result = match name {
        "Quote" => argument(name, arguments, 0).map(|value| match value {
            Value::String(_) => json!(value.to_string()),
            other => json!(Value::String(other.to_string()).to_string()),
        }),
        "YAML" => argument(name, arguments, 0).map(|value| {
            let text = yaml::encode(value);
            let indent = indent(arguments);
            if indent == 0 {
                return json!(text);
            }
            json!(format!("\n{text}").replace('\n', &format!("\n{}", " ".repeat(indent * 2))))
        }),
        "Version" => Ok(json!(env!("CARGO_PKG_VERSION"))),
        "NodeConditions" => {
            let conditions = HEALTHY.iter().map(|[type_, status, reason, message]| {
                json!({"type": type_, "status": status, "reason": reason, "message": message})
            });
            Ok(conditions.collect())
        }
        _ => return None,
    };
    Some(result)
}

fn sprig(name: &str, arguments: &[Value]) -> Option<Result<Value, String>> {
    let at = |index| argument(name, arguments, index);
    let integers = || arguments.iter().map(to_integer);
    let result = match name {
        "dict" => {
            let pairs = arguments.chunks(2);
            let pair = |pair: &[Value]| (print(&pair[0]), pair.get(1).cloned().unwrap_or_default());
            Ok(Value::Object(pairs.map(pair).collect::<Map<_, _>>()))
        }
        "list" => Ok(Value::Array(arguments.to_vec())),
        "default" => at(1).map(|value| if is_true(value) { value } else { &arguments[0] }.clone()),
        "empty" => at(0).map(|value| json!(!is_true(value))),
        "coalesce" => Ok(arguments.iter().find(|it| is_true(it)).cloned().unwrap_or_default()),
        "ternary" => at(2).map(|condition| arguments[usize::from(!is_true(condition))].clone()),
        "hasKey" => at(1).map(|key| json!(arguments[0].get(print(key)).is_some())),
        "get" => at(1).map(|key| arguments[0].get(print(key)).cloned().unwrap_or(json!(""))),
        "int" | "int64" => at(0).map(|value| json!(to_integer(value))),
        "add" => Ok(json!(integers().fold(0_i64, i64::wrapping_add))),
        "mul" => Ok(json!(integers().fold(1_i64, i64::wrapping_mul))),
        "max" => Ok(json!(integers().max())),
        "min" => Ok(json!(integers().min())),
        "sub" => at(1).map(|it| json!(to_integer(&arguments[0]).wrapping_sub(to_integer(it)))),
        "div" | "mod" => at(1).and_then(|divisor| {
            let (value, divisor) = (to_integer(&arguments[0]), to_integer(divisor));
            let result = match name {
                "div" => value.checked_div(divisor),
                _ => value.checked_rem(divisor),
            };
            result.map(Value::from).ok_or_else(|| format!("{name} by zero"))
        }),
        _ => return None,
    };
    Some(result)
}

fn sprig_text(name: &str, arguments: &[Value]) -> Option<Result<Value, String>> {
    let text = |index| argument(name, arguments, index).map(print);
    let two = || Ok::<_, String>((text(0)?, text(1)?));
    let result = match name {
        "quote" => text(0).map(|it| json!(Value::String(it).to_string())),
        "squote" => text(0).map(|it| json!(format!("'{it}'"))),
        "toString" => text(0).map(Value::from),
        "toJson" => argument(name, arguments, 0).map(|it| json!(it.to_string())),
        "upper" => text(0).map(|it| json!(it.to_uppercase())),
        "lower" => text(0).map(|it| json!(it.to_lowercase())),
        "trim" => text(0).map(|it| json!(it.trim())),
        "trimPrefix" => two().map(|(part, it)| json!(it.strip_prefix(&*part).unwrap_or(&it))),
        "trimSuffix" => two().map(|(part, it)| json!(it.strip_suffix(&*part).unwrap_or(&it))),
        "contains" => two().map(|(part, it)| json!(it.contains(&*part))),
        "hasPrefix" => two().map(|(part, it)| json!(it.starts_with(&*part))),
        "hasSuffix" => two().map(|(part, it)| json!(it.ends_with(&*part))),
        "replace" => two().and_then(|(from, to)| Ok(json!(text(2)?.replace(&*from, &to)))),
        "join" => argument(name, arguments, 1).map(|list| {
            let parts = list.as_array().map_or(&[][..], Vec::as_slice).iter().map(print);
            json!(parts.collect::<Vec<_>>().join(&print(&arguments[0])))
        }),
        _ => return None,
    };
    Some(result)
}

fn is_equal(left: &Value, right: &Value) -> bool {
    left == right || compare(left, right) == Some(Ordering::Equal)
}

fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => left.as_f64()?.partial_cmp(&right.as_f64()?),
        _ => None,
    }
}

fn length(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(list) => list.len(),
        Value::Object(map) => map.len(),
        _ => 0,
    }
}

fn to_integer(value: &Value) -> i64 {
    match value {
        Value::String(text) => text.parse().unwrap_or_default(),
        Value::Bool(value) => i64::from(*value),
        other => other.as_i64().unwrap_or_default(),
    }
}

/// The verbs `%s`, `%v`, `%d`, `%q` and `%%`.
fn printf(format: &str, arguments: &[Value]) -> Result<Value, String> {
    let (mut out, mut arguments) = (String::new(), arguments.iter());
    let mut characters = format.chars();
    while let Some(c) = characters.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match characters.next() {
            Some('%') => out.push('%'),
            Some(verb @ ('s' | 'v' | 'd' | 'q')) => {
                let value = arguments.next().ok_or("printf has too few arguments")?;
                let text = print(value);
                out.push_str(&if verb == 'q' { Value::String(text).to_string() } else { text });
            }
            verb => return Err(format!("the verb {verb:?} of printf is not supported")),
        }
    }
    Ok(Value::String(out))
}
