//! The place of an error in an object ([`Path`]), the error ([`FieldError`]), and the list that
//! validation fills ([`ErrorList`]).
//!
//! A [`Path`] is on the stack and is only formatted when there is an error to report:
//!
//! ```
//! use machinery::{ErrorList, Path, json};
//! let mut errors = ErrorList::new();
//! let spec = Path::root("spec");
//! errors.invalid(&spec.child("ports").index(0), json!(99999), "must be between 1 and 65535");
//! assert_eq!(
//!     errors[0].to_string(),
//!     "spec.ports[0]: Invalid value: 99999: must be between 1 and 65535"
//! );
//! ```

use std::collections::HashSet;
use std::fmt;
use std::ops::Index;

use crate::{Value, codec, go_value};
pub use strconv::quote;

/// A path to a field: a chain of references to parent paths on the stack, so that a path costs
/// nothing until it is printed.
#[derive(Debug, Clone, Copy)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    /// The object itself; prints as nothing.
    Root,
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    /// The whole object.
    pub const EMPTY: Path<'static> = Path { parent: None, step: Step::Root };

    /// The path of errors to which upstream assigns a field without a name: it prints as `[]`.
    pub const UNNAMED: Path<'static> = Path { parent: None, step: Step::Key("") };

    /// A path that begins with the field `name`.
    pub const fn root(name: &'a str) -> Self {
        Path { parent: None, step: Step::Field(name) }
    }

    /// `.name`
    #[must_use]
    pub fn child(&'a self, name: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Field(name) }
    }

    /// `[3]`
    #[must_use]
    pub fn index(&'a self, index: usize) -> Path<'a> {
        Path { parent: Some(self), step: Step::Index(index) }
    }

    /// `[key]`, an entry of a map.
    #[must_use]
    pub fn key(&'a self, key: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Key(key) }
    }

    fn is_empty(&self) -> bool {
        matches!(self.step, Step::Root) && self.parent.is_none_or(Path::is_empty)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        if let Some(parent) = self.parent.filter(|it| !it.is_empty()) {
            parent.fmt(f)?;
            first = false;
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Field(name) if first => f.write_str(name),
            Step::Field(name) => write!(f, ".{name}"),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) => write!(f, "[{key}]"),
        }
    }
}

/// The kind of an error; the names are those of `details.causes[].reason` on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorType {
    /// Refers to something that does not exist.
    NotFound,
    /// A required value is missing.
    Required,
    /// Occurs twice where it may occur once.
    Duplicate,
    /// Malformed.
    Invalid,
    /// The value is not one of the supported ones.
    NotSupported,
    /// Well formed, but not allowed here.
    Forbidden,
    /// Too many bytes or characters.
    TooLong,
    /// Too few characters.
    TooShort,
    /// Too many items.
    TooMany,
    /// Too few items.
    TooFew,
    /// The value does not have the JSON type of the schema.
    TypeInvalid,
    /// An error of the server.
    Internal,
}

impl ErrorType {
    /// The wire's name, `FieldValueInvalid`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooShort => "FieldValueTooShort",
            Self::TooMany => "FieldValueTooMany",
            Self::TooFew => "FieldValueTooFew",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Internal => "InternalError",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooShort => "Too short",
            Self::TooMany => "Too many",
            Self::TooFew => "Too few",
            Self::Internal => "Internal error",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(
            self,
            Self::Required | Self::Forbidden | Self::TooLong | Self::TooShort | Self::Internal
        )
    }
}

/// One error at one place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FieldError {
    /// The type of the error.
    pub kind: ErrorType,
    /// The printed path.
    pub field: String,
    /// The invalid value, if the message shows one.
    pub value: Option<Value>,
    /// Says what a valid value would be; may be empty.
    pub detail: String,
}

impl FieldError {
    /// A value whose text is longer than this is cut off. Upstream shows it in full.
    pub const VALUE_TEXT_MAX: usize = 64 << 10;
    /// The length in bytes of what remains of a value that is cut off.
    const VALUE_TEXT_CUT: usize = 4 << 10;

    /// An estimate of its memory in bytes.
    pub fn size(&self) -> usize {
        fn value_size(value: &Value) -> usize {
            32 + match value {
                Value::String(text) => text.len(),
                Value::Array(list) => list.iter().map(value_size).sum(),
                Value::Object(map) => {
                    map.iter().map(|(key, value)| key.len() + value_size(value)).sum()
                }
                Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            }
        }
        64 + self.field.len() + self.detail.len() + self.value.as_ref().map_or(0, value_size)
    }

    /// The message without the field, as `details.causes[].message` has it.
    pub fn body(&self) -> String {
        let mut text = self.kind.description().to_owned();
        if let Some(value) = self.value.as_ref().filter(|_| self.kind.shows_value()) {
            text += ": ";
            text += &shown_value(value);
        }
        if !self.detail.is_empty() {
            text += ": ";
            text += &self.detail;
        }
        text
    }
}

/// The text of a value in a message. A long text is truncated.
fn shown_value(value: &Value) -> String {
    let mut text = match value {
        Value::String(text) => quote(text),
        Value::Number(number) if number.is_f64() => go_value::format_v(value),
        other => codec::json::to_text(other),
    };
    if text.len() > FieldError::VALUE_TEXT_MAX {
        let more = text.len() - FieldError::VALUE_TEXT_CUT;
        text.truncate(text.floor_char_boundary(FieldError::VALUE_TEXT_CUT));
        text += &format!("... ({more} more bytes)");
    }
    text
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

impl std::error::Error for FieldError {}

/// The texts in quotes, as Go prints a list of strings with `%q`: `["a" "b"]`.
pub fn quote_list(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|it| quote(it)).collect();
    format!("[{}]", quoted.join(" "))
}

/// The errors found so far. Validation adds to it and goes on; it does not stop at the first.
/// Errors beyond [`ErrorList::TEXT_MAX`] are not reported: each error quotes its field and its
/// value, and a long one might be quoted a hundred thousand times.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ErrorList {
    list: Vec<FieldError>,
    /// Reported after the list, see [`declarative`](Self::declarative).
    declarative: Vec<FieldError>,
    /// Whether an error that occurs twice is reported twice.
    duplicates_allowed: bool,
    /// The sum of [`FieldError::size`] over both lists.
    size: usize,
}

impl ErrorList {
    /// The list is full once its [`FieldError::size`]s exceed this. Upstream has no limit. Several
    /// thousand errors fit, and the response, which contains each error twice, stays below a few
    /// mebibytes.
    pub const TEXT_MAX: usize = 1 << 20;

    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on, an error that occurs twice is reported twice.
    pub fn allow_duplicates(&mut self) {
        self.duplicates_allowed = true;
    }

    /// The reported errors: each once, unless duplicates are allowed.
    pub fn reported(&self) -> impl Iterator<Item = &FieldError> {
        let mut seen = HashSet::with_capacity(self.len());
        self.iter().filter(move |it| self.duplicates_allowed || seen.insert(it.to_string()))
    }

    /// All errors, in the order in which they are reported.
    pub fn iter(&self) -> impl Iterator<Item = &FieldError> {
        self.list.iter().chain(&self.declarative)
    }

    /// The number of errors.
    pub fn len(&self) -> usize {
        self.list.len() + self.declarative.len()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the list contains the error.
    pub fn contains(&self, error: &FieldError) -> bool {
        self.iter().any(|it| it == error)
    }

    /// Whether the limit is reached; further errors are then ignored.
    pub fn is_full(&self) -> bool {
        self.size >= Self::TEXT_MAX
    }

    /// Adds an error.
    pub fn push(&mut self, error: FieldError) {
        if !self.is_full() {
            self.size += error.size();
            self.list.push(error);
        }
    }

    /// Adds the errors of `rules` after all others, including those found later. Kubernetes reports
    /// the rules of its declarative validation last.
    pub fn declarative(&mut self, rules: impl FnOnce(&mut ErrorList)) {
        if self.is_full() {
            return;
        }
        let mut found = ErrorList::new();
        rules(&mut found);
        self.size += found.size;
        self.declarative.append(&mut found.list);
        self.declarative.append(&mut found.declarative);
    }

    /// Adds all of another list.
    pub fn extend(&mut self, mut other: ErrorList) {
        if !self.is_full() {
            self.size += other.size;
            self.list.append(&mut other.list);
            self.declarative.append(&mut other.declarative);
        }
    }

    /// Replaces null by `value` in the errors of `field`.
    pub fn replace_null_value(&mut self, field: &str, value: &Value) {
        for error in self.list.iter_mut().chain(&mut self.declarative) {
            if error.field == field && error.value == Some(Value::Null) {
                error.value = Some(value.clone());
            }
        }
    }

    /// All errors, in the order in which they are reported, as a vector.
    pub fn into_inner(mut self) -> Vec<FieldError> {
        self.list.append(&mut self.declarative);
        self.list
    }

    /// Adds an error of any kind.
    pub fn add(&mut self, kind: ErrorType, path: &Path<'_>, value: Option<Value>, detail: &str) {
        if !self.is_full() {
            let (field, detail) = (path.to_string(), detail.to_owned());
            self.push(FieldError { kind, field, value, detail });
        }
    }

    /// The value is malformed.
    pub fn invalid(&mut self, path: &Path<'_>, value: impl Into<Value>, detail: &str) {
        self.add(ErrorType::Invalid, path, Some(value.into()), detail);
    }

    /// A required value is missing; `detail` may be empty.
    pub fn required(&mut self, path: &Path<'_>, detail: &str) {
        self.add(ErrorType::Required, path, None, detail);
    }

    /// The value is not allowed here.
    pub fn forbidden(&mut self, path: &Path<'_>, detail: &str) {
        self.add(ErrorType::Forbidden, path, None, detail);
    }

    /// The value occurs twice where it may occur once.
    pub fn duplicate(&mut self, path: &Path<'_>, value: impl Into<Value>) {
        self.add(ErrorType::Duplicate, path, Some(value.into()), "");
    }

    /// The value refers to something that does not exist.
    pub fn not_found(&mut self, path: &Path<'_>, value: impl Into<Value>) {
        self.add(ErrorType::NotFound, path, Some(value.into()), "");
    }

    /// The value is not one of `supported`, which are printed in this order.
    pub fn not_supported(&mut self, path: &Path<'_>, value: impl Into<Value>, supported: &[&str]) {
        let listed: Vec<String> = supported.iter().map(|it| quote(it)).collect();
        let detail = match listed.as_slice() {
            [] => String::new(),
            listed => format!("supported values: {}", listed.join(", ")),
        };
        self.add(ErrorType::NotSupported, path, Some(value.into()), &detail);
    }

    /// The value has more than `max` bytes.
    pub fn too_long(&mut self, path: &Path<'_>, max: usize) {
        let unit = if max == 1 { "byte" } else { "bytes" };
        self.add(ErrorType::TooLong, path, None, &format!("may not be more than {max} {unit}"));
    }

    /// `actual` items where `max` are allowed.
    pub fn too_many(&mut self, path: &Path<'_>, actual: usize, max: usize) {
        let unit = if max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {max} {unit}");
        self.add(ErrorType::TooMany, path, Some(actual.into()), &detail);
    }

    /// All errors in one line, without repetitions; several errors are in brackets. The text of a
    /// full list says that errors are missing.
    pub fn summary(&self) -> String {
        let mut seen = HashSet::with_capacity(self.len());
        let mut text = String::from("[");
        for error in self.iter() {
            let shown = error.to_string();
            if seen.contains(&shown) {
                continue;
            }
            if !seen.is_empty() {
                text += ", ";
            }
            text += &shown;
            seen.insert(shown);
        }
        let mut text = if seen.len() == 1 { text.split_off(1) } else { text + "]" };
        if self.is_full() {
            text += " (there are too many errors to show all of them)";
        }
        text
    }
}

impl Index<usize> for ErrorList {
    type Output = FieldError;

    fn index(&self, index: usize) -> &FieldError {
        match index.checked_sub(self.list.len()) {
            None => &self.list[index],
            Some(index) => &self.declarative[index],
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_prints_as_kubernetes_prints_it() {
        let spec = Path::root("spec");
        let containers = spec.child("containers");
        let first = containers.index(0);
        let limits = first.child("limits");
        assert_eq!(limits.key("cpu").to_string(), "spec.containers[0].limits[cpu]");
        assert_eq!(Path::EMPTY.child("spec").to_string(), "spec");
        assert_eq!(Path::EMPTY.index(2).to_string(), "[2]");
    }

    #[test]
    fn the_summary_of_many_errors_contains_each_once() {
        let mut errors = ErrorList::new();
        for index in 0..10_000 {
            errors.required(&Path::root("a").index(index / 2), "");
        }
        let summary = errors.summary();
        assert!(summary.starts_with("[a[0]: Required value, a[1]: Required value, "), "{summary}");
        assert_eq!(summary.matches("Required").count(), 5_000);
        assert!(summary.ends_with("a[4999]: Required value]"), "{summary}");
    }

    #[test]
    fn errors_beyond_the_limit_are_not_reported() {
        let mut errors = ErrorList::new();
        for index in 0..100_000 {
            errors.required(&Path::root("a").index(index), "");
        }
        let summary = errors.summary();
        assert!(summary.len() < ErrorList::TEXT_MAX, "{}", summary.len());
        assert!(
            summary.ends_with("] (there are too many errors to show all of them)"),
            "{summary}"
        );
    }

    #[test]
    fn a_long_field_path_counts_towards_the_limit() {
        let mut errors = ErrorList::new();
        let long = "x".repeat(1 << 16);
        for _ in 0..100_000 {
            errors.invalid(&Path::root(&long), 1, "");
        }
        assert!(errors.is_full());
        assert_eq!(errors.len(), ErrorList::TEXT_MAX >> 16);
    }

    #[test]
    fn the_text_of_a_long_value_is_truncated() {
        let shown = |length: usize| {
            let mut errors = ErrorList::new();
            errors.invalid(&Path::root("a"), "x".repeat(length), "must be short");
            errors[0].body()
        };
        let whole = shown(FieldError::VALUE_TEXT_MAX - 2);
        assert!(whole.ends_with("xxx\": must be short"), "{}", whole.len());
        let cut = shown(1 << 20);
        assert!(cut.ends_with("xxx... (1044482 more bytes): must be short"), "{cut}");
        assert!(cut.len() < 5000);
    }

    #[test]
    fn declarative_errors_are_reported_last() {
        let mut errors = ErrorList::new();
        errors.declarative(|errors| errors.required(&Path::root("a"), ""));
        errors.required(&Path::root("b"), "");
        let mut others = ErrorList::new();
        others.declarative(|errors| errors.required(&Path::root("c"), ""));
        others.required(&Path::root("d"), "");
        errors.extend(others);
        let fields: Vec<&str> = errors.iter().map(|it| it.field.as_str()).collect();
        assert_eq!(fields, ["b", "d", "a", "c"]);
    }

    #[test]
    fn invisible_characters_are_escaped() {
        assert_eq!(quote("ä\u{301} \u{fffd}😀"), "\"ä\u{301} \u{fffd}😀\"");
        let invisible = "\u{1}\n\u{7f}\u{a0}\u{202e}\u{feff}\u{e0001}";
        assert_eq!(quote(invisible), r#""\x01\n\x7f\u00a0\u202e\ufeff\U000e0001""#);
    }

    #[test]
    fn values_are_shown_as_json_and_strings_as_go_quotes_them() {
        let mut errors = ErrorList::new();
        errors.invalid(&Path::root("a"), "x\"y", "no");
        errors.invalid(&Path::root("b"), json!({"x": 1}), "no");
        errors.required(&Path::root("c"), "");
        errors.not_supported(&Path::root("d"), "Galaxy", &["Cluster", "Namespaced"]);
        assert_eq!(
            errors.summary(),
            r#"[a: Invalid value: "x\"y": no, b: Invalid value: {"x":1}: no, c: Required value, d: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"]"#
        );
    }
}
