//! [`EnumValues`]: `enum`, the allowed values.

use std::collections::HashSet;

use crate::json_schema::JsonSchema;
use crate::validate::Data;
use machinery::Value;

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct EnumValues {
    pub(crate) list: Box<[Value]>,
    /// The texts of a long list: each of many items is looked up in it.
    texts: Option<HashSet<Box<str>>>,
}

impl EnumValues {
    /// Shorter lists are searched.
    const INDEXED_FROM: usize = 16;

    pub(crate) fn of(source: JsonSchema<'_>) -> Self {
        let list = source.value("enum").and_then(Value::as_array).cloned().unwrap_or_default();
        let texts = (list.len() >= Self::INDEXED_FROM)
            .then(|| list.iter().filter_map(Value::as_str).map(Box::from).collect());
        Self { list: list.into(), texts }
    }

    /// Whether a value is one of them, and how many were looked at.
    pub(crate) fn contain(&self, data: Data<'_>) -> (bool, usize) {
        match (&self.texts, data) {
            (Some(texts), Data::Text(text)) => (texts.contains(text), 1),
            _ => (self.list.iter().any(|choice| data.is(choice)), self.list.len()),
        }
    }
}
