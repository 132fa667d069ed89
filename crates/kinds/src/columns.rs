//! What the columns of `kubectl get` have in common.

use crate::fields::at;
use crate::resource::{Column, Now};
use machinery::{Object, Value, timestamp};

/// The column that names the object.
pub(crate) const NAME: Column = Column {
    name: "Name",
    kind: "string",
    format: "name",
    description: "The name of the object, which no other object of its kind in its namespace has.",
    priority: 0,
};

/// The column that says how old the object is.
pub(crate) const AGE: Column =
    column("Age", "How long ago the object was created, in the largest units that are not zero.");

/// A column that is always shown.
pub(crate) const fn column(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", format: "", description, priority: 0 }
}

/// A column that is shown by `-o wide`.
pub(crate) const fn wide(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", format: "", description, priority: 1 }
}

/// How long ago the object was created.
pub(crate) fn age(object: &Object, now: &Now) -> Value {
    since(object.meta_text("creationTimestamp"), now).into()
}

/// How long ago `time` was, or `<unknown>` if it does not say.
pub(crate) fn since(time: &str, now: &Now) -> String {
    match timestamp::parse(time) {
        Some((then, _)) => timestamp::human_duration(now.unix_seconds - then),
        None => "<unknown>".to_owned(),
    }
}

/// The text, or `<none>`.
pub(crate) fn or_none(text: &str) -> &str {
    if text.is_empty() { "<none>" } else { text }
}

/// The status of the condition `kind`, or "" if there is no such condition.
pub(crate) fn condition<'a>(status: &'a Value, kind: &str) -> &'a str {
    let conditions = at(status, &["conditions"]).as_array();
    conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == kind)
        .and_then(|condition| condition["status"].as_str())
        .unwrap_or_default()
}
