//! [`compare`]: the differences between two objects, as sets of fields.

use std::collections::BTreeMap;

use super::element::PathElement;
use super::item::{self, KeyError};
use super::schema::{Form, ListRule, MapRule, Schema};
use super::set::Set;
use crate::{Map, Value};

/// The differences of two objects. A field is in at most one of the sets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Fields that only the first object has.
    pub removed: Set,
    /// Fields that both have, with different values.
    pub modified: Set,
    /// Fields that only the second object has.
    pub added: Set,
}

/// How one field changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Removed,
    Modified,
    Added,
}

/// The changes from `old` to `new`.
pub fn compare<S: Schema>(
    schema: S,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
) -> Result<Comparison, KeyError> {
    let mut changes = Comparison::default();
    changes.fields(schema, Some(old), Some(new))?;
    Ok(changes)
}

impl Comparison {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    fn fields<S: Schema>(
        &mut self,
        schema: S,
        old: Option<&Map<String, Value>>,
        new: Option<&Map<String, Value>>,
    ) -> Result<(), KeyError> {
        let mut olds = old.into_iter().flatten().peekable();
        let mut news = new.into_iter().flatten().peekable();
        loop {
            let name = match (olds.peek(), news.peek()) {
                (None, None) => return Ok(()),
                (Some((name, _)), None) | (None, Some((name, _))) => *name,
                (Some((a, _)), Some((b, _))) => (*a).min(*b),
            };
            let zero_value = |of: Option<_>| of.and_then(|_| schema.zero_value(name));
            let left = olds.next_if(|(it, _)| *it == name).map(|(_, value)| value);
            let right = news.next_if(|(it, _)| *it == name).map(|(_, value)| value);
            let left = left.or_else(|| zero_value(old));
            let right = right.or_else(|| zero_value(new));
            self.child(schema.child(name), left, right, || PathElement::field(name))?;
        }
    }

    /// Compares the values of one path element, and adds the changes under it.
    fn child<S: Schema>(
        &mut self,
        schema: S,
        old: Option<&Value>,
        new: Option<&Value>,
        element: impl FnOnce() -> PathElement,
    ) -> Result<(), KeyError> {
        let mut below = Self::default();
        let change = below.value(schema, old, new)?;
        if change.is_some() || !below.is_empty() {
            self.add(&element(), change, below);
        }
        Ok(())
    }

    fn add(&mut self, element: &PathElement, change: Option<Change>, below: Self) {
        for (set, below, kind) in [
            (&mut self.removed, below.removed, Change::Removed),
            (&mut self.modified, below.modified, Change::Modified),
            (&mut self.added, below.added, Change::Added),
        ] {
            let owned = change == Some(kind);
            if owned || !below.is_empty() {
                set.attach(element.clone(), owned, below);
            }
        }
    }

    /// Adds the changes below a value, and returns how the value itself changed.
    fn value<S: Schema>(
        &mut self,
        schema: S,
        old: Option<&Value>,
        new: Option<&Value>,
    ) -> Result<Option<Change>, KeyError> {
        let forms = schema.forms();
        let (as_old, as_new) = (forms.of(old), forms.of(new));
        let same_form = match (as_old, as_new) {
            (Some(a), Some(b)) => std::mem::discriminant(&a) == std::mem::discriminant(&b),
            _ => true,
        };
        let mut before = None;
        // If a value changed its type, for example from an object to a string, its former fields
        // are removed.
        if old.is_some() && new.is_some() && !same_form {
            before = self.in_form(schema, as_old, old, new)?;
        }
        let form = if new.is_some() { as_new } else { as_old };
        Ok(self.in_form(schema, form, old, new)?.or(before))
    }

    fn in_form<S: Schema>(
        &mut self,
        schema: S,
        form: Option<Form>,
        old: Option<&Value>,
        new: Option<&Value>,
    ) -> Result<Option<Change>, KeyError> {
        match form {
            Some(Form::Map(rule)) if rule != MapRule::Atomic => {
                let (left, right) =
                    (old.and_then(Value::as_object), new.and_then(Value::as_object));
                if left.is_some_and(|it| !it.is_empty()) || right.is_some_and(|it| !it.is_empty()) {
                    self.fields(schema, left, right)?;
                    return Ok(added_or_removed(old, new));
                }
            }
            Some(Form::List(rule)) if rule != ListRule::Atomic => {
                let (left, right) = (elements(old), elements(new));
                if !left.is_empty() || !right.is_empty() {
                    if left != right {
                        self.items(schema, rule, left, right)?;
                    }
                    return Ok(added_or_removed(old, new));
                }
            }
            _ => {}
        }
        // A leaf. Empty objects and lists are leaves too, so that null and empty differ.
        let differ = added_or_removed(old, new).is_none() && old != new;
        Ok(if differ { Some(Change::Modified) } else { added_or_removed(old, new) })
    }

    fn items<S: Schema>(
        &mut self,
        schema: S,
        rule: ListRule,
        old: &[Value],
        new: &[Value],
    ) -> Result<(), KeyError> {
        let mut pairs: BTreeMap<PathElement, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for value in old {
            pairs.entry(item::path_element(schema, rule, value)?).or_default().0.push(value);
        }
        for value in new {
            pairs.entry(item::path_element(schema, rule, value)?).or_default().1.push(value);
        }
        for (element, (left, right)) in pairs {
            let mut below = Self::default();
            let change = match (left.as_slice(), right.as_slice()) {
                ([] | [_], [] | [_]) => {
                    let (left, right) = (left.first().copied(), right.first().copied());
                    below.value(schema.items(), left, right)?
                }
                // Duplicates (elements with the same path element) are owned together, like an
                // atomic.
                ([_, _, ..], [_, _, ..]) => (left != right).then_some(Change::Modified),
                // If only one side has duplicates, the single element of the other side is compared
                // with nothing in addition.
                ([_, _, ..], single) => {
                    if let Some(only) = single.first() {
                        below.value(schema.items(), None, Some(only))?;
                        self.added.insert(std::slice::from_ref(&element));
                    }
                    Some(Change::Removed)
                }
                (single, _) => {
                    if let Some(only) = single.first() {
                        below.value(schema.items(), Some(only), None)?;
                        self.removed.insert(std::slice::from_ref(&element));
                    }
                    Some(Change::Added)
                }
            };
            self.add(&element, change, below);
        }
        Ok(())
    }
}

fn elements(list: Option<&Value>) -> &[Value] {
    list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Whether a value was added or removed.
fn added_or_removed(old: Option<&Value>, new: Option<&Value>) -> Option<Change> {
    match (old, new) {
        (None, Some(_)) => Some(Change::Added),
        (Some(_), None) => Some(Change::Removed),
        _ => None,
    }
}
