//! The order of the elements of a merged list, and `$setElementOrder`, which sets it.
//!
//! The elements that the patch names, in its order, and the others, in their former order, are
//! merged from left to right; an element that the patch does not name goes first only if it was
//! before the other one:
//!
//! ```text
//! old list a b c, patch names b d     named: b d   others: a c     a before b: a b d c
//! old list a b,   patch names c       named: c     others: a b     c is new and goes first: c a b
//! ```

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde_json::{Map, Value};

use super::list::{self, Elements, identity};
use super::schema::{ListField, Schema};
use super::{DIRECTIVE as PATCH_DIRECTIVE, Error, go_value, without_directives};

pub(super) const DIRECTIVE: &str = "$setElementOrder";

/// The first position of each identity.
#[derive(Debug, Default)]
pub(super) struct Positions(HashMap<Value, usize>);

impl Positions {
    pub(super) fn of(elements: &[Value], key: Option<&'static str>) -> Result<Self, Error> {
        let mut positions = Self::default();
        for element in elements {
            positions.add(identity(element, key)?);
        }
        Ok(positions)
    }

    /// Appends the identity; returns whether it is new.
    pub(super) fn add(&mut self, identity: &Value) -> bool {
        let next = self.0.len();
        match self.0.entry(identity.clone()) {
            Entry::Occupied(_) => false,
            Entry::Vacant(vacant) => {
                vacant.insert(next);
                true
            }
        }
    }
}

/// Sorts the elements: those in `patch_order` in that order, and the others as in `server_order`.
pub(super) fn arrange(
    elements: Vec<Value>,
    patch_order: &Positions,
    server_order: &Positions,
    key: Option<&'static str>,
) -> Result<Vec<Value>, Error> {
    let (mut named, mut others, mut in_neither) = (Vec::new(), Vec::new(), Vec::new());
    for element in elements {
        let id = identity(&element, key)?;
        let server_position = server_order.0.get(id).copied();
        match (patch_order.0.get(id), server_position) {
            (Some(place), _) => named.push((*place, server_position, element)),
            (None, Some(_)) => others.push((server_position, element)),
            (None, None) => in_neither.push((server_position, element)),
        }
    }
    named.sort_by_key(|(place, ..)| *place);
    others.sort_by_key(|(server_position, _)| *server_position);
    // Only with an empty `$setElementOrder` are elements in neither order, and upstream's
    // sort reverses them.
    others.extend(in_neither.into_iter().rev());

    let mut arranged = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (_, server_position, element) in named {
        let is_before = |other: &(Option<usize>, Value)| {
            other
                .0
                .zip(server_position)
                .is_some_and(|(other, server_position)| other < server_position)
        };
        while let Some((_, other)) = others.next_if(is_before) {
            arranged.push(other);
        }
        arranged.push(element);
    }
    arranged.extend(others.map(|(_, element)| element));
    Ok(arranged)
}

/// Merges and arranges each list for which the patch has a `$setElementOrder`, and returns their
/// names.
pub(super) fn merge_ordered_lists<'p>(
    schema: Schema,
    original: &mut Map<String, Value>,
    patch: &'p Map<String, Value>,
) -> Result<Vec<&'p str>, Error> {
    let mut done = Vec::new();
    for (directive, order) in patch {
        let Some(rest) = directive.strip_prefix(DIRECTIVE) else {
            continue;
        };
        let order = as_list(order)?;
        let name = rest.strip_prefix('/').ok_or(Error::ElementOrder)?;
        let old = original.get(name).map(as_list).transpose()?;
        let new = patch.get(name).map(as_list).transpose()?;
        let list = schema.list(name)?;
        if let Some(merged) = merge_ordered(list, old, new, order)? {
            original.insert(name.to_owned(), Value::Array(merged));
            done.push(name);
        }
    }
    Ok(done)
}

fn as_list(value: &Value) -> Result<&Vec<Value>, Error> {
    value.as_array().ok_or_else(|| Error::not_a_list(value))
}

/// The merged list in `order`; None if there is neither an old nor a new list.
fn merge_ordered(
    list: ListField,
    old: Option<&Vec<Value>>,
    new: Option<&Vec<Value>>,
    order: &[Value],
) -> Result<Option<Vec<Value>>, Error> {
    let (old_elements, new_elements) =
        (old.map_or(&[][..], Vec::as_slice), new.map_or(&[][..], Vec::as_slice));
    check_order(new_elements, order, list.key)?;
    if old.is_none() && new.is_none() {
        return Ok(None);
    }
    if list.key.is_none() {
        let mut all = order.iter().chain(old_elements).chain(new_elements);
        if let Some(composite) = all.find(|value| value.is_object() || value.is_array()) {
            return Err(Error::unhashable(composite));
        }
    }
    let (merged, server_order) = match (old, new) {
        (Some(old), Some(new)) if list.merge => {
            let merged = list::merge(list, old.clone(), new)?;
            (merged.elements, merged.server_order)
        }
        (Some(_), Some(new)) => (new.clone(), Positions::of(old_elements, list.key)?),
        (Some(old), None) => (old.clone(), Positions::of(old_elements, list.key)?),
        (None, _) => {
            let elements = new_elements.iter().cloned().filter_map(without_directives);
            (elements.collect(), Positions::default())
        }
    };
    Elements::of(old_elements, new_elements)?;
    arrange(merged, &Positions::of(order, list.key)?, &server_order, list.key).map(Some)
}

/// Checks that the elements of the patch's list are in the order of `$setElementOrder`.
fn check_order(patch: &[Value], order: &[Value], key: Option<&'static str>) -> Result<(), Error> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    if key.is_some()
        && let Some(other) = patch.iter().find(|element| !element.is_object())
    {
        return Err(Error::not_a_map(other));
    }
    let kept = |element: &&Value| element.get(PATCH_DIRECTIVE).is_none_or(|it| it != "delete");
    let mut elements = patch.iter().filter(kept).peekable();
    let mut places = order.iter().peekable();
    // An element with a directive needs no position, but upstream does not check that if there are
    // none left.
    while let (Some(element), Some(place)) = (elements.peek(), places.peek()) {
        if element.get(PATCH_DIRECTIVE).is_some() {
            elements.next();
            continue;
        }
        if identity(element, key)? == identity(place, key)? {
            elements.next();
        }
        places.next();
    }
    if elements.peek().is_some() {
        let (patch, order) = (go_value::list(patch), go_value::list(order));
        return Err(Error::OtherOrder { patch, order });
    }
    Ok(())
}
