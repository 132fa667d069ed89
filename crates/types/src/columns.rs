//! Columns and cells that the tables of several kinds have in common.

use crate::resource::{Column, Now};
use machinery::fields::{at, entries, list, text, texts};
use machinery::{Object, Value, timestamp};

/// The column with the name of the object.
pub const NAME: Column = Column {
    name: "Name",
    kind: "string",
    format: "name",
    description: "The name of the object, which is unique for its kind in its namespace.",
    priority: 0,
};

/// The column with the age of the object.
pub const AGE: Column =
    column("Age", "The time since the object was created, in the largest units that are not zero.");

/// A column that is always shown.
pub const fn column(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", format: "", description, priority: 0 }
}

/// A column that is shown by `-o wide`.
pub const fn wide(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", format: "", description, priority: 1 }
}

/// A column of numbers that is always shown.
pub const fn integer(name: &'static str, description: &'static str) -> Column {
    Column { kind: "integer", ..column(name, description) }
}

/// A column of `true` and `false` that is always shown.
pub const fn boolean(name: &'static str, description: &'static str) -> Column {
    Column { kind: "boolean", ..column(name, description) }
}

/// The columns of a kind that shows only its name and its creation time.
pub const PLAIN: &[Column] = &[
    NAME,
    Column {
        kind: "date",
        ..column(
            "Created At",
            "The time at which the server created the object, which never changes.",
        )
    },
];

/// The cells of [`PLAIN`].
pub fn plain_cells(object: &Object, _: &Now) -> Vec<Value> {
    vec![object.name().into(), object.meta_text("creationTimestamp").into()]
}

/// The time since the object was created.
pub fn age(object: &Object, now: &Now) -> Value {
    since(object.meta_text("creationTimestamp"), now).into()
}

/// The time since `time`, or `<unknown>` if it cannot be parsed.
pub fn since(time: &str, now: &Now) -> String {
    match timestamp::parse(time) {
        Some((then, _)) => timestamp::human_duration(now.unix_seconds - then),
        None => "<unknown>".to_owned(),
    }
}

/// The text, or `<none>`.
pub fn or_none(text: &str) -> &str {
    if text.is_empty() { "<none>" } else { text }
}

/// A label selector as it is written on the command line, or `<none>`.
pub fn selector(selector: &Value) -> String {
    let mut terms: Vec<(&str, String)> = entries(selector, "matchLabels")
        .map(|(key, value)| (key, format!("{key}={}", value.as_str().unwrap_or_default())))
        .collect();
    for requirement in list(selector, "matchExpressions") {
        let key = text(requirement, "key");
        let mut values: Vec<&str> = texts(requirement, "values").collect();
        values.sort_unstable();
        let values = values.join(",");
        let term = match text(requirement, "operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return "<error>".to_owned(),
        };
        terms.push((key, term));
    }
    terms.sort_by_key(|(key, _)| *key);
    let terms: Vec<String> = terms.into_iter().map(|(_, term)| term).collect();
    or_none(&terms.join(",")).to_owned()
}

/// The first `max` of `items`, and the number of the others.
pub fn first_of(items: &[String], max: usize, separator: &str) -> String {
    let shown = items[..items.len().min(max)].join(separator);
    match items.len().saturating_sub(max) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

/// The status of the condition `kind`, or "" if there is no such condition.
pub fn condition<'a>(status: &'a Value, kind: &str) -> &'a str {
    let conditions = at(status, &["conditions"]).as_array();
    conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == kind)
        .and_then(|condition| condition["status"].as_str())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    #[test]
    fn a_selector_reads_as_on_the_command_line() {
        let value = json!({"matchLabels": {"b": "1"}, "matchExpressions": [
            {"key": "a", "operator": "In", "values": ["y", "x"]}, {"key": "c", "operator": "DoesNotExist"}]});
        assert_eq!(selector(&value), "a in (x,y),b=1,!c");
        assert_eq!(selector(&json!({})), "<none>");
    }

    #[test]
    fn omitted_items_are_counted() {
        let items: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
        assert_eq!(first_of(&items, 2, ","), "a,b + 1 more...");
        assert_eq!(first_of(&items, 3, ", "), "a, b, c");
    }
}
