//! [`GoValue`]: a JSON value as Go's `%v` writes it, which is how upstream quotes parts of a patch.

use std::fmt;

use serde_json::{Map, Number, Value};

/// A value as Go's `%v` writes it: `map[image:j ports:[80 <nil>]]`.
#[derive(Debug, Clone, Copy)]
pub struct GoValue<'a>(pub &'a Value);

impl fmt::Display for GoValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&render(self.0, Verb::V))
    }
}

/// The verb of Go's `fmt` that formats the value.
#[derive(Clone, Copy)]
enum Verb {
    V,
    /// `%s`. Go marks values of another type.
    S,
}

/// A value as `%s` writes it: `twist`, but `%!s(int64=1)`.
pub(super) fn as_text(value: &Value) -> String {
    match value {
        // `%s` writes a nil value as it writes a nil type.
        Value::Null => type_of(value).to_owned(),
        value => render(value, Verb::S),
    }
}

/// A list as `%v` writes it: `[a b]`.
pub(super) fn list(values: &[Value]) -> String {
    render_list(values, Verb::V)
}

/// An object as `%v` writes it: `map[a:1 b:2]`.
pub(super) fn object(fields: &Map<String, Value>) -> String {
    render_object(fields, Verb::V)
}

fn render(value: &Value, verb: Verb) -> String {
    let plain = match value {
        Value::Null => return "<nil>".to_owned(),
        Value::String(text) => return text.clone(),
        Value::Array(values) => return render_list(values, verb),
        Value::Object(fields) => return render_object(fields, verb),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number_text(number),
    };
    match verb {
        Verb::V => plain,
        Verb::S => format!("%!s({}={plain})", type_of(value)),
    }
}

fn render_list(values: &[Value], verb: Verb) -> String {
    let values: Vec<String> = values.iter().map(|value| render(value, verb)).collect();
    format!("[{}]", values.join(" "))
}

fn render_object(fields: &Map<String, Value>, verb: Verb) -> String {
    let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
    fields.sort_unstable_by_key(|(key, _)| *key);
    let fields: Vec<String> =
        fields.into_iter().map(|(key, value)| format!("{key}:{}", render(value, verb))).collect();
    format!("map[{}]", fields.join(" "))
}

/// The Go type of a decoded value, as `%s` writes it. Null has no type in Go: its `reflect.TypeOf`
/// is nil, which `%s` writes as `%!s(<nil>)`.
pub(super) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// `%v` writes a float in the shortest way, with an exponent if that is below -4 or above 5.
fn number_text(number: &Number) -> String {
    let Some(float) = number.as_f64().filter(|_| !number.is_i64()) else {
        return number.to_string();
    };
    let scientific = format!("{float:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    match exponent.parse::<i32>() {
        Ok(-4..=5) | Err(_) => float.to_string(),
        Ok(power) => {
            let sign = if power < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", power.abs())
        }
    }
}
