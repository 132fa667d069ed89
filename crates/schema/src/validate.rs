//! Validates an object by its schema, with upstream's messages.
//!
//! The walk reports every error in the form of kube-apiserver (`spec.a in body should be …`). It
//! also counts the validators that run for each alternative of `anyOf` or `oneOf` (`match_count`,
//! as upstream's `Result.MatchCount`), because upstream reports the errors of the alternative with
//! the highest count.
//!
//! If there is an old state, errors of unchanged values are dropped, so that existing objects can
//! still be updated after the schema of a CRD became stricter (see [`ratchet`]).

mod combine;
mod data;
mod walk_errors;
mod number;
mod text;

use std::cell::Cell;
use std::collections::HashSet;

use crate::structural::{Additional, Checks, Node, NodeFlags, SizeChecks, Structural, Type};
use crate::{embedded, lists, ratchet};
use machinery::field_path::{ErrorType, quote};
use machinery::{ErrorList, FieldError, Map, Path, Value};
use walk_errors::WalkErrors;

pub(crate) use data::Data;

impl Structural {
    /// Validates `new`; errors of values that are unchanged since `old` are dropped.
    pub fn validate(
        &self,
        new: &Map<String, Value>,
        old: Option<&Map<String, Value>>,
        errors: &mut ErrorList,
    ) {
        validate_data(&self.root, Data::Object(new), old.map(Data::Object), &Path::EMPTY, errors);
        if self.root.flags.has(NodeFlags::EMBEDDED_BELOW) {
            embedded::validate_below(&self.root, new, errors);
        }
        self.validate_lists(new, old, errors);
    }

    /// Validates an update of `/status`: only the status, and the lists of the whole object.
    pub fn validate_status(
        &self,
        new: &Map<String, Value>,
        old: &Map<String, Value>,
        errors: &mut ErrorList,
    ) {
        if let (Some(node), Some(status)) = (self.root.property("status"), new.get("status")) {
            let old = old.get("status").map(Data::from);
            validate_data(node, status.into(), old, &Path::root("status"), errors);
        }
        self.validate_lists(new, Some(old), errors);
    }

    fn validate_lists(
        &self,
        new: &Map<String, Value>,
        old: Option<&Map<String, Value>>,
        errors: &mut ErrorList,
    ) {
        if !self.root.flags.has(NodeFlags::KEYED_LISTS_BELOW) {
            return;
        }
        let old_has_duplicates = old.is_some_and(|old| {
            let mut errors = ErrorList::new();
            lists::validate(&self.root, old, &mut errors);
            !errors.is_empty()
        });
        if !old_has_duplicates {
            lists::validate(&self.root, new, errors);
        }
    }
}

/// Validates a value at the path `at`. As upstream's, the paths in the messages are relative to it.
pub(crate) fn validate_data(
    node: &Node,
    new: Data<'_>,
    old: Option<Data<'_>>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let mut found = WalkErrors::default();
    let steps = Cell::new(0);
    let walk = Walk { at, steps: &steps };
    walk.check(node, new, old, &Path::EMPTY, &mut found);
    if walk.is_exhausted() {
        found.add(|| {
            walk.error_without_field(format!("validation needs more than {STEPS_MAX} steps"))
        });
    }
    for error in found.into_list() {
        errors.push(error);
    }
}

/// The maximum number of steps of a walk. With alternatives, enums and required fields, the number
/// of steps can be the product of the sizes of schema and object. The largest object with a schema
/// of ordinary size needs some hundred thousand.
const STEPS_MAX: usize = 30_000_000;

/// One walk through an object.
#[derive(Debug, Clone, Copy)]
struct Walk<'a> {
    at: &'a Path<'a>,
    /// The steps made so far.
    steps: &'a Cell<usize>,
}

impl Walk<'_> {
    fn spend(self, steps: usize) {
        self.steps.set(self.steps.get().saturating_add(steps));
    }

    fn is_exhausted(self) -> bool {
        self.steps.get() > STEPS_MAX
    }

    /// Checks a value; returns its `match_count`.
    fn check(
        self,
        node: &Node,
        data: Data<'_>,
        old: Option<Data<'_>>,
        path: &Path<'_>,
        found: &mut WalkErrors,
    ) -> usize {
        self.spend(1);
        if self.is_exhausted() {
            return 0;
        }
        let before = found.checkpoint();
        let match_count = self.apply(node, data, old, path, found);
        if found.checkpoint() != before
            && old.is_some_and(|old| ratchet::is_unchanged(node, data, old))
        {
            found.roll_back(before);
        }
        match_count
    }

    /// [`check`](Self::check) without ratcheting of the value itself.
    fn apply(
        self,
        node: &Node,
        data: Data<'_>,
        old: Option<Data<'_>>,
        path: &Path<'_>,
        found: &mut WalkErrors,
    ) -> usize {
        let checks = node.checks.as_deref();
        if matches!(data, Data::Null) {
            let fits = node.kind == Type::Any || node.is_nullable();
            if !fits {
                found.add(|| self.wrong_type(path, node.kind.name(), "null"));
            }
            self.check_enum_values(checks, data, path, found);
            return usize::from(fits);
        }
        // The numbers are those by which upstream's validators increment `MatchCount`.
        let mut match_count = 4;
        if node.kind != Type::Any || checks.is_some_and(|it| it.format.is_some()) {
            match_count += 1 + usize::from(self.check_type(node, data, path, found));
        }
        if let Some(combined) = checks.and_then(|it| it.combined.as_deref()) {
            match_count += self.check_combined(combined, data, old, path, found);
        }
        match_count += match data {
            Data::Text(text) => self.check_text(checks, text, path, found),
            Data::Number(number) => self.check_number(node, number, path, found),
            Data::List(items) => self.check_items(node, items, old, path, found),
            Data::Object(map) => self.check_fields(node, map, old, path, found),
            Data::Null | Data::Bool(_) => 0,
        };
        self.check_enum_values(checks, data, path, found);
        match_count
    }

    fn check_type(
        self,
        node: &Node,
        data: Data<'_>,
        path: &Path<'_>,
        found: &mut WalkErrors,
    ) -> bool {
        let format = node.checks.as_deref().and_then(|it| it.format);
        let accepted = data.is_of(node.kind);
        let is_string_or_list = matches!(data, Data::Text(_) | Data::List(_));
        match format {
            Some(format) if !is_string_or_list && !accepted && data.format() != format.name() => {
                found.add(|| self.wrong_type(path, format.name(), data.format()));
                return false;
            }
            Some(_)
                if is_string_or_list
                    && !matches!(node.kind, Type::Integer | Type::Number | Type::IntOrString) =>
            {
                return true;
            }
            _ if accepted => return true,
            _ => {}
        }
        found.add(|| self.wrong_type(path, node.kind.name(), data.type_name()));
        false
    }

    fn check_items(
        self,
        node: &Node,
        items: &[Value],
        old: Option<Data<'_>>,
        path: &Path<'_>,
        found: &mut WalkErrors,
    ) -> usize {
        let mut match_count = 2;
        if let Some(item_node) = &node.items {
            let old_items = old.and_then(|old| ratchet::OldItems::of(node, old));
            for (index, item) in items.iter().enumerate() {
                let old = old_items.as_ref().and_then(|it| it.get(item)).map(Data::from);
                match_count += self.check(item_node, item.into(), old, &path.index(index), found);
            }
        }
        let size = node.checks.as_deref().and_then(|it| it.size.as_deref());
        let Some(SizeChecks { min_items, max_items, unique_items, .. }) = size else {
            return match_count;
        };
        let count = items.len() as u64;
        if let Some(min) = min_items.filter(|min| count < *min) {
            found.add(|| {
                self.invalid(path, count, format_args!("should have at least {min} items"))
            });
        }
        if let Some(max) = max_items.filter(|max| count > *max) {
            found.add(|| self.too_many(path, count, max));
        }
        let mut seen = HashSet::new();
        if *unique_items && !items.iter().all(|item| seen.insert(item)) {
            found.add(|| self.invalid(path, "", format_args!("shouldn't contain duplicates")));
        }
        match_count
    }

    fn check_fields(
        self,
        node: &Node,
        map: &Map<String, Value>,
        old: Option<Data<'_>>,
        path: &Path<'_>,
        found: &mut WalkErrors,
    ) -> usize {
        let mut match_count = 1;
        let checks = node.checks.as_deref();
        if let Some(size) = checks.and_then(|it| it.size.as_deref()) {
            let count = map.len() as u64;
            if let Some(min) = size.min_properties.filter(|min| count < *min) {
                let text = format_args!("should have at least {min} properties");
                found.add(|| self.invalid(path, count, text));
            }
            if let Some(max) = size.max_properties.filter(|max| count > *max) {
                found.add(|| self.too_many(path, count, max));
            }
        }
        for (key, value) in map {
            let here = path.child(key);
            match (node.field(key), &node.additional) {
                (Some(field), _) => {
                    let old = old.and_then(|old| old.field(key));
                    match_count += self.check(field, value.into(), old, &here, found);
                }
                (None, Additional::Forbidden) => {
                    found.add(|| {
                        let detail = format!("{here} in body is a forbidden property");
                        let value = Some(key.as_str().into());
                        self.error(ErrorType::Invalid, path, value, detail)
                    });
                }
                (None, _) => {}
            }
        }
        let required = checks.map_or(&[][..], |it| &it.required);
        self.spend(required.len());
        for name in required.iter().take_while(|_| !self.is_exhausted()) {
            if !map.contains_key(&**name) {
                let here = path.child(name);
                found.add(|| self.error(ErrorType::Required, &here, None, String::new()));
            }
        }
        match_count
    }

    fn check_enum_values(
        self,
        checks: Option<&Checks>,
        data: Data<'_>,
        path: &Path<'_>,
        found: &mut WalkErrors,
    ) {
        let Some(enum_values) = checks.map(|it| &it.enum_values).filter(|it| !it.list.is_empty())
        else {
            return;
        };
        let (is_listed, compared) = enum_values.contain(data);
        self.spend(compared);
        if is_listed {
            return;
        }
        found.add(|| {
            let listed: Vec<String> = enum_values
                .list
                .iter()
                .map(|choice| choice.as_str().map_or_else(|| quote(&choice.to_string()), quote))
                .collect();
            let detail = format!("supported values: {}", listed.join(", "));
            self.error(ErrorType::NotSupported, path, Some(data.to_value()), detail)
        });
    }
}

/// The errors, with upstream's messages.
impl Walk<'_> {
    fn error(
        self,
        kind: ErrorType,
        path: &Path<'_>,
        value: Option<Value>,
        detail: String,
    ) -> FieldError {
        let (at, below) = (self.at.to_string(), path.to_string());
        let field = match (at.is_empty(), below.is_empty()) {
            // Go prints a nil path as `<nil>`.
            (true, true) => "<nil>".to_owned(),
            (true, false) => below,
            (false, true) => at,
            (false, false) => format!("{at}.{below}"),
        };
        FieldError { kind, field, value, detail }
    }

    fn invalid(
        self,
        path: &Path<'_>,
        value: impl Into<Value>,
        message: std::fmt::Arguments<'_>,
    ) -> FieldError {
        let detail = format!("{path} in body {message}");
        self.error(ErrorType::Invalid, path, Some(value.into()), detail)
    }

    /// An error to which upstream assigns no field.
    fn error_without_field(self, detail: String) -> FieldError {
        self.error(ErrorType::Invalid, &Path::EMPTY, Some("".into()), detail)
    }

    fn wrong_type(self, path: &Path<'_>, expected: &str, found: &str) -> FieldError {
        let detail = format!("{path} in body must be of type {expected}: {}", quote(found));
        self.error(ErrorType::TypeInvalid, path, Some(found.into()), detail)
    }

    fn too_many(self, path: &Path<'_>, count: u64, max: u64) -> FieldError {
        let unit = if max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {max} {unit}");
        self.error(ErrorType::TooMany, path, Some(count.into()), detail)
    }
}

#[cfg(test)]
mod tests;
