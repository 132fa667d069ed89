//! [`fields`]: the fields of an object as a set; and the adaptation of sets to schemas.

use std::collections::BTreeMap;

use super::element::PathElement;
use super::item;
use super::schema::{Form, ListRule, MapRule, Schema};
use super::set::{Node, Set};
use crate::{Map, Value};

/// The fields that an applier of this object owns: every leaf, list element and map key.
pub fn fields<S: Schema>(schema: S, object: &Map<String, Value>) -> Set {
    let mut set = Set::new();
    for (name, value) in object {
        let declared = schema.field(name);
        let (leaf, below) = below(declared.unwrap_or_else(|| schema.child(name)), value);
        let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        let owned = leaf || empty || declared.is_none();
        if owned || !below.is_empty() {
            set.attach(PathElement::field(name), owned, below);
        }
    }
    set
}

/// Whether a value is owned as a whole, and the fields owned below it.
fn below<S: Schema>(schema: S, value: &Value) -> (bool, Set) {
    match (schema.forms().of(Some(value)), value) {
        (Some(Form::Scalar(_) | Form::Map(MapRule::Atomic) | Form::List(ListRule::Atomic)), _) => {
            (true, Set::new())
        }
        (Some(Form::Map(_)), Value::Object(object)) => (false, fields(schema, object)),
        (Some(Form::List(rule)), Value::Array(values)) => (false, items(schema, rule, values)),
        _ => (false, Set::new()),
    }
}

fn items<S: Schema>(schema: S, rule: ListRule, values: &[Value]) -> Set {
    let mut by_element: BTreeMap<PathElement, Option<&Value>> = BTreeMap::new();
    for value in values {
        let Ok(element) = item::path_element(schema, rule, value) else { continue };
        // Duplicates are owned as a whole: the fields below them would be ambiguous.
        by_element.entry(element).and_modify(|duplicate| *duplicate = None).or_insert(Some(value));
    }
    let mut set = Set::new();
    for (element, value) in by_element {
        let below = value.map(|value| below(schema.items(), value).1);
        set.attach(element, true, below.unwrap_or_default());
    }
    set
}

/// The set, plus every declared field that has descendants in the set. Upstream:
/// `EnsureNamedFieldsAreMembers`.
pub(super) fn with_declared_fields<S: Schema>(schema: S, set: &Set) -> Set {
    let forms = schema.forms();
    let nodes = set.nodes.iter().map(|node| {
        let (declared, child) = match &node.element {
            PathElement::Field(name) if forms.map.is_some() => {
                (schema.field(name).is_some(), schema.child(name))
            }
            PathElement::Key(_) if forms.list.is_some() => (false, schema.items()),
            _ => (false, S::untyped()),
        };
        Node {
            element: node.element.clone(),
            owned: node.owned || declared,
            below: with_declared_fields(child, &node.below),
        }
    });
    Set { nodes: nodes.collect() }
}

/// Adapts a set to a schema that has changed since it was written: owners of parts of a value that
/// is atomic now own the whole value. Returns whether the set changed.
pub(super) fn reconcile<S: Schema>(schema: S, set: &mut Set) -> bool {
    let mut changed = false;
    let form = schema.forms().of(None);
    for node in &mut set.nodes {
        let child = match (form, &node.element) {
            (Some(Form::Map(MapRule::Granular)), PathElement::Field(name)) => {
                schema.field(name).or_else(|| schema.undeclared())
            }
            (Some(Form::List(_)), _) => Some(schema.items()),
            _ => None,
        };
        let Some(child) = child else { continue };
        let atomic = matches!(
            child.forms().of(None),
            Some(Form::Map(MapRule::Atomic) | Form::List(ListRule::Atomic))
        );
        if !atomic {
            changed |= reconcile(child, &mut node.below);
        } else if !node.below.is_empty() {
            (node.owned, node.below) = (true, Set::new());
            changed = true;
        }
    }
    changed
}
