//! [`EnumValues`]: the keyword `enum`, the allowed values.

use std::collections::HashSet;

use crate::json_schema::JsonSchema;
use crate::validate::Data;
use machinery::Value;

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct EnumValues {
    pub(crate) list: Box<[Value]>,
    /// The strings of a long list, for fast lookup.
    texts: Option<HashSet<Box<str>>>,
}

impl EnumValues {
    /// Lists with fewer values are searched linearly.
    const INDEXED_FROM: usize = 16;

    pub(crate) fn of(source: JsonSchema<'_>) -> Self {
        let list = source.value("enum").and_then(Value::as_array).cloned().unwrap_or_default();
        let texts = (list.len() >= Self::INDEXED_FROM)
            .then(|| list.iter().filter_map(Value::as_str).map(Box::from).collect());
        Self { list: list.into(), texts }
    }

    /// Returns whether a value is one of them, and the number of comparisons.
    pub(crate) fn contain(&self, data: Data<'_>) -> (bool, usize) {
        match (&self.texts, data) {
            (Some(texts), Data::Text(text)) => (texts.contains(text), 1),
            _ => (self.list.iter().any(|choice| data.equals_enum_value(choice)), self.list.len()),
        }
    }
}
