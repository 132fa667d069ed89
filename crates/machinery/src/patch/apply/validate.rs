//! [`validate`]: whether an applied configuration matches the schema. A value that does not match
//! cannot be owned.

use std::collections::BTreeSet;
use std::fmt;

use super::element::PathElement;
use super::item;
use super::schema::{Form, ListRule, Scalar, Schema};
use crate::{Map, Value, go_value};

/// The paths of all values that do not match the schema, and the reasons.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ValidationErrors(Vec<(String, String)>);

impl fmt::Display for ValidationErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [(path, why)] = self.0.as_slice() else {
            f.write_str("errors:")?;
            return self.0.iter().try_for_each(|(path, why)| write!(f, "\n  {path}: {why}"));
        };
        write!(f, "{path}: {why}")
    }
}

impl std::error::Error for ValidationErrors {}

/// Fails with all values that do not match the schema.
pub(super) fn validate<S: Schema>(
    schema: S,
    object: &Map<String, Value>,
) -> Result<(), ValidationErrors> {
    let mut walk = Walk { path: Vec::new(), errors: ValidationErrors::default() };
    walk.fields(schema, object);
    if walk.errors.0.is_empty() { Ok(()) } else { Err(walk.errors) }
}

struct Walk<'a> {
    path: Vec<Step<'a>>,
    errors: ValidationErrors,
}

enum Step<'a> {
    Field(&'a str),
    Item(PathElement),
}

impl<'a> Walk<'a> {
    fn add_error(&mut self, why: impl Into<String>) {
        let steps = self.path.iter().map(|step| match step {
            Step::Field(name) => format!(".{name}"),
            Step::Item(element) => element.to_string(),
        });
        self.errors.0.push((steps.collect(), why.into()));
    }

    fn value<S: Schema>(&mut self, schema: S, value: &'a Value) {
        match (schema.forms().of(Some(value)), value) {
            (None, _) => self.add_error("schema error: invalid atom: inlined"),
            (_, Value::Null) => {}
            (Some(Form::Map(_)), Value::Object(fields)) => self.fields(schema, fields),
            (Some(Form::List(rule)), Value::Array(items)) => self.items(schema, rule, items),
            (Some(Form::Map(_)), other) => {
                self.add_error(format!("expected map, got &{{{}}}", go_value::format_v(other)));
            }
            (Some(Form::List(_)), other) => {
                self.add_error(format!("expected list, got &{{{}}}", go_value::format_v(other)));
            }
            (Some(Form::Scalar(scalar)), value) => {
                if let Some(why) = scalar_error(scalar, value) {
                    self.add_error(why);
                }
            }
        }
    }

    fn fields<S: Schema>(&mut self, schema: S, fields: &'a Map<String, Value>) {
        for (name, value) in fields {
            self.path.push(Step::Field(name));
            let node = schema.field(name).or_else(|| schema.undeclared());
            match node {
                Some(node) => self.value(node, value),
                None => self.add_error("field not declared in schema"),
            }
            self.path.pop();
            // Upstream does not check the object's other fields either.
            if node.is_none() {
                return;
            }
        }
    }

    fn items<S: Schema>(&mut self, schema: S, rule: ListRule, items: &'a [Value]) {
        let mut seen = BTreeSet::new();
        for (index, value) in items.iter().enumerate() {
            let element = if rule == ListRule::Atomic {
                PathElement::Index(index.try_into().unwrap_or(i64::MAX))
            } else {
                match item::path_element(schema, rule, value) {
                    Ok(element) => element,
                    Err(error) => {
                        return self.add_error(format!("element {index}: {error}"));
                    }
                }
            };
            if !seen.insert(element.clone()) {
                self.add_error(format!("duplicate entries for key {element}"));
            }
            self.path.push(Step::Item(element));
            self.value(schema.items(), value);
            self.path.pop();
        }
    }
}

fn scalar_error(scalar: Scalar, value: &Value) -> Option<String> {
    match scalar {
        Scalar::Numeric if !value.is_number() => {
            Some(format!("expected numeric (int or float), got {}", go_value::type_name(value)))
        }
        Scalar::String if !value.is_string() => Some(format!(
            "expected string, got &value.valueUnstructured{{Value:{}}}",
            go_value::format_sharp_v(value)
        )),
        Scalar::Boolean if !value.is_boolean() => {
            Some(format!("expected boolean, got &{{{}}}", go_value::format_v(value)))
        }
        Scalar::Untyped if value.is_object() || value.is_array() => {
            Some(format!("expected any scalar, got &{{{}}}", go_value::format_v(value)))
        }
        _ => None,
    }
}
