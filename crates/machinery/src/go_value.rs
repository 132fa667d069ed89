//! Values as Go writes them: in `FieldsV1`, in the last-applied annotation and in errors.

use serde_json::Number;

use crate::field_path::quote;
use crate::{Value, codec};

/// JSON with the characters of HTML escaped, as Go's encoder writes it.
pub(crate) fn json(value: &Value) -> String {
    match value {
        Value::Number(number) if number.is_f64() => float(number, 21),
        other => {
            let plain = other.to_string();
            if !plain.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
                return plain;
            }
            let escaped = |c| match c {
                '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => format!("\\u{:04x}", c as u32),
                c => c.to_string(),
            };
            plain.chars().map(escaped).collect()
        }
    }
}

/// `%v`: `map[a:1 b:[x <nil>]]`.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => float(number, 6),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(plain).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(key, value)| format!("{key}:{}", plain(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
    }
}

/// `%#v`: `map[string]interface {}{"a":1, "b":[]interface {}{"x"}}`.
pub(crate) fn syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => quote(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(key, value)| format!("{}:{}", quote(key), syntax(value)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
        scalar => plain(scalar),
    }
}

/// `%T` of a value that was decoded without a type.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Number(_) => "float64",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
        other => codec::json::kind_name(other),
    }
}

/// A number that Go holds as a float, with an exponent where it has `digits` digits or more before
/// the point, or many zeros behind it.
fn float(number: &Number, digits: i32) -> String {
    let Some(float) = number.as_f64() else { return number.to_string() };
    let scientific = format!("{float:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let smallest = if digits == 21 { -6 } else { -4 };
    match exponent.parse::<i32>() {
        Ok(power) if power < smallest || power >= digits => {
            let sign = if power < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", power.abs())
        }
        _ if number.is_f64() => float.to_string(),
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json as value;

    #[test]
    fn values_look_as_go_prints_them() {
        let it = value!({"b": ["x", null, 1_000_000], "a": true});
        assert_eq!(plain(&it), "map[a:true b:[x <nil> 1e+06]]");
        assert_eq!(
            syntax(&it),
            r#"map[string]interface {}{"a":true, "b":[]interface {}{"x", interface {}(nil), 1e+06}}"#
        );
        assert_eq!(json(&value!("<a>")), r#""\u003ca\u003e""#);
        assert_eq!(json(&value!(1_000_000)), "1000000");
    }
}
