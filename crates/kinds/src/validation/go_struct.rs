//! Prints structs of the API as Go does in some errors: every field, set or not, in the order and
//! under the name that it has in Go.
//!
//! `go_types.txt` has a line for each struct: its name, then `Field:kind` for each field, or
//! `Field=json:kind` where the JSON name is not the field's with a lower-case first letter, or
//! `field?:kind` where an unset field is omitted. The kinds: `s`tring, `i`nteger (or a string in
//! its place), `b`oolean, `q`uantity, `t`ime, `m`ap, `l`ist, `p`ointer, or the name of another
//! struct; a list's or pointer's kind is followed by that of its struct, if it has one.

use std::collections::HashMap;
use std::sync::OnceLock;

use machinery::field_path::{ErrorType, quote};
use machinery::{ErrorList, Path, Value};

static TABLE: &str = include_str!("go_types.txt");

/// One field of a struct.
struct Field {
    name: &'static str,
    json: String,
    kind: &'static str,
    omitted_if_unset: bool,
}

impl Field {
    fn parse(text: &'static str) -> Self {
        let (name, kind) = text.split_once(':').expect("every field in the table has a kind");
        let (name, json) =
            name.split_once('=').map_or((name, None), |(name, json)| (name, Some(json)));
        let (name, omitted_if_unset) =
            name.strip_suffix('?').map_or((name, false), |name| (name, true));
        let json = json.map_or_else(|| uncapitalized(name), str::to_owned);
        Self { name, json, kind, omitted_if_unset }
    }
}

fn uncapitalized(name: &str) -> String {
    let mut chars = name.chars();
    chars.next().map(|first| first.to_ascii_lowercase()).into_iter().chain(chars).collect()
}

fn fields_of(name: &str) -> &'static [Field] {
    static STRUCTS: OnceLock<HashMap<&'static str, Vec<Field>>> = OnceLock::new();
    let structs = STRUCTS.get_or_init(|| {
        TABLE
            .lines()
            .filter_map(|line| {
                let mut words = line.split(' ');
                Some((words.next()?, words.map(Field::parse).collect()))
            })
            .collect()
    });
    structs.get(name).map_or(&[], Vec::as_slice)
}

/// The JSON that Go writes for `value` as a struct of the type `name`, on one line.
pub(crate) fn line(name: &str, value: &Value) -> String {
    let mut printer = Printer { out: String::new(), indent: None };
    printer.structure(name, value, 0);
    printer.out
}

/// The same, one field per line, indented by one space for each level.
pub(crate) fn lines(name: &str, value: &Value) -> String {
    let mut printer = Printer { out: String::new(), indent: Some(" ") };
    printer.structure(name, value, 0);
    printer.out
}

/// The JSON that Go writes for a list of structs.
pub(crate) fn line_of_list(name: &str, values: &[Value]) -> String {
    let items: Vec<String> = values.iter().map(|value| line(name, value)).collect();
    if items.is_empty() { "null".to_owned() } else { format!("[{}]", items.join(",")) }
}

/// The value with the fields of its metadata among its own: Go embeds `ObjectMeta`.
pub(crate) fn with_inline_metadata(value: &Value) -> Value {
    let mut map = value.as_object().cloned().unwrap_or_default();
    if let Some(Value::Object(metadata)) = map.remove("metadata") {
        map.extend(metadata);
    }
    Value::Object(map)
}

/// Adds the error about an invalid struct of the type `name`, which the message shows.
pub(crate) fn invalid(
    errors: &mut ErrorList,
    path: &Path<'_>,
    name: &str,
    value: &Value,
    message: &str,
) {
    add(errors, ErrorType::Invalid, path, &shown(name, value), message);
}

/// Adds the error about a struct with an unsupported value, which the message shows.
pub(crate) fn not_supported(
    errors: &mut ErrorList,
    path: &Path<'_>,
    name: &str,
    value: &Value,
    supported: &[&str],
) {
    let listed: Vec<String> = supported.iter().map(|it| quote(it)).collect();
    let message = format!("supported values: {}", listed.join(", "));
    add(errors, ErrorType::NotSupported, path, &shown(name, value), &message);
}

fn shown(name: &str, value: &Value) -> String {
    if value.is_null() { "null".to_owned() } else { line(name, value) }
}

fn add(errors: &mut ErrorList, kind: ErrorType, path: &Path<'_>, shown: &str, message: &str) {
    let separator = if message.is_empty() { "" } else { ": " };
    errors.add(kind, path, None, &format!("{shown}{separator}{message}"));
}

struct Printer {
    out: String,
    indent: Option<&'static str>,
}

impl Printer {
    fn structure(&mut self, name: &str, value: &Value, depth: usize) {
        let mut first = true;
        self.out.push('{');
        for field in fields_of(name) {
            // Go embeds `ObjectMeta`, so its fields are printed among those of the struct.
            let found = value
                .get(&field.json)
                .or_else(|| value.get("metadata")?.get(&field.json))
                .filter(|found| !found.is_null());
            if found.is_none() && field.omitted_if_unset {
                continue;
            }
            self.separate(&mut first, depth + 1);
            self.key(field.name);
            self.field(field.kind, found, depth + 1);
        }
        self.close('}', first, depth);
    }

    fn field(&mut self, kind: &str, value: Option<&Value>, depth: usize) {
        match (kind, value) {
            ("s", None) => self.out += "\"\"",
            ("i", None) => self.out.push('0'),
            ("b", None) => self.out += "false",
            ("q", None) => self.out += "\"0\"",
            ("t" | "m", None) => self.out += "null",
            ("m", Some(value)) if value.as_object().is_none_or(machinery::Map::is_empty) => {
                self.out += "null";
            }
            ("s" | "i" | "b" | "q" | "t" | "l" | "p" | "m", Some(value)) => {
                self.plain(value, depth);
            }
            (kind, value) => match (kind.strip_prefix('l'), kind.strip_prefix('p'), value) {
                (Some(_), _, None) | (_, Some(_), None) => self.out += "null",
                (Some(item), _, Some(value)) => self.list(item, value, depth),
                (_, Some(target), Some(value)) => self.structure(target, value, depth),
                (None, None, value) => self.structure(kind, value.unwrap_or(&Value::Null), depth),
            },
        }
    }

    fn list(&mut self, item: &str, value: &Value, depth: usize) {
        let items = value.as_array().map_or(&[][..], Vec::as_slice);
        if items.is_empty() {
            self.out += "null";
            return;
        }
        let mut first = true;
        self.out.push('[');
        for value in items {
            self.separate(&mut first, depth + 1);
            self.structure(item, value, depth + 1);
        }
        self.close(']', first, depth);
    }

    /// Prints a value that is not a struct.
    fn plain(&mut self, value: &Value, depth: usize) {
        let mut first = true;
        match value {
            Value::Object(map) if !map.is_empty() => {
                self.out.push('{');
                for (key, value) in map {
                    self.separate(&mut first, depth + 1);
                    self.key(key);
                    self.plain(value, depth + 1);
                }
                self.close('}', first, depth);
            }
            Value::Array(items) if items.is_empty() => self.out += "null",
            Value::Array(items) => {
                self.out.push('[');
                for value in items {
                    self.separate(&mut first, depth + 1);
                    self.plain(value, depth + 1);
                }
                self.close(']', first, depth);
            }
            other => self.out += &other.to_string(),
        }
    }

    fn key(&mut self, name: &str) {
        self.out += &Value::from(name).to_string();
        self.out += if self.indent.is_some() { ": " } else { ":" };
    }

    fn separate(&mut self, first: &mut bool, depth: usize) {
        if !std::mem::take(first) {
            self.out.push(',');
        }
        self.break_line(depth);
    }

    fn close(&mut self, bracket: char, empty: bool, depth: usize) {
        if !empty {
            self.break_line(depth);
        }
        self.out.push(bracket);
    }

    fn break_line(&mut self, depth: usize) {
        if let Some(indent) = self.indent {
            self.out.push('\n');
            self.out += &indent.repeat(depth);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    #[test]
    fn unset_fields_are_printed_with_their_zero_value() {
        assert_eq!(
            line("ServicePort", &json!({"port": 80, "protocol": "TCP"})),
            r#"{"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}"#
        );
    }

    #[test]
    fn every_referenced_struct_exists() {
        let mut missing: Vec<&str> = Vec::new();
        for name in TABLE.lines().filter_map(|line| line.split(' ').next()) {
            for field in fields_of(name) {
                let target = field.kind.trim_start_matches(['l', 'p']);
                if target.len() > 1 && fields_of(target).is_empty() {
                    missing.push(target);
                }
            }
        }
        assert_eq!(missing, Vec::<&str>::new());
    }

    #[test]
    fn lines_are_indented_by_one_space() {
        let text = lines("PodSpec", &json!({"containers": [{"name": "c"}]}));
        let found: Vec<&str> = text.lines().take(6).collect();
        let expected = [
            "{",
            " \"Volumes\": null,",
            " \"InitContainers\": null,",
            " \"Containers\": [",
            "  {",
            "   \"Name\": \"c\",",
        ];
        assert_eq!(found, expected);
    }
}
