//! [`Fields`]: an object of the file. Errors name fields and types, and never show values.

use machinery::field_path::quote;
use machinery::{Map, Value};

/// An object of the file, with its path.
pub(super) struct Fields<'a> {
    map: Option<&'a Map<String, Value>>,
    path: String,
}

impl<'a> Fields<'a> {
    /// The fields of `value`; none if it is not an object.
    pub(super) fn new(value: &'a Value, path: String) -> Self {
        Self { map: value.as_object(), path }
    }

    /// A field that is present and not null.
    fn get(&self, name: &str) -> Option<&'a Value> {
        self.map?.get(name).filter(|it| !it.is_null())
    }

    /// Whether a field is present.
    pub(super) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Reports fields that are not `known`, and an object that is none.
    pub(super) fn allow(&self, known: &[&str], errors: &mut Vec<String>) {
        let Some(map) = self.map else {
            errors.push(format!("{} is not an object", quote(&self.path)));
            return;
        };
        for name in map.keys().filter(|it| !known.contains(&it.as_str())) {
            errors.push(format!("unknown field {}", quote(&self.path_of(name))));
        }
    }

    /// A text; empty if it is missing or of another type.
    pub(super) fn text(&self, name: &str) -> &'a str {
        self.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// An object. An empty one may be written as `{}` only, since null is no provider.
    pub(super) fn object(&self, name: &str, errors: &mut Vec<String>) -> Option<Fields<'a>> {
        let value = self.get(name)?;
        let path = self.path_of(name);
        if !value.is_object() {
            errors.push(format!("{} is not an object", quote(&path)));
        }
        Some(Fields::new(value, path))
    }

    /// The elements of a list of objects.
    pub(super) fn list(&self, name: &str, errors: &mut Vec<String>) -> Vec<Fields<'a>> {
        let path = self.path_of(name);
        let elements = self.elements(name, errors).iter().enumerate();
        elements.map(|(index, it)| Fields::new(it, format!("{path}[{index}]"))).collect()
    }

    /// The elements of a list of texts.
    pub(super) fn texts(&self, name: &str, errors: &mut Vec<String>) -> Vec<String> {
        let elements = self.elements(name, errors);
        if elements.iter().any(|it| !it.is_string()) {
            errors.push(format!("{} is not a list of strings", quote(&self.path_of(name))));
        }
        elements.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    fn elements(&self, name: &str, errors: &mut Vec<String>) -> &'a [Value] {
        match self.get(name) {
            None => &[],
            Some(Value::Array(elements)) => elements,
            Some(_) => {
                errors.push(format!("{} is not a list", quote(&self.path_of(name))));
                &[]
            }
        }
    }
}
