//! [`JsonPath`]: the paths of printer columns, selectable fields and `kubectl -o jsonpath`.
//!
//! ```
//! use machinery::{json, json_path::JsonPath};
//! let object = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
//! let path = JsonPath::parse(r#".status.conditions[?(@.type=="Ready")].status"#)?;
//! assert_eq!(path.find(&object), [&json!("True")]);
//! # Ok::<(), String>(())
//! ```
//!
//! A missing field is not an error; it yields nothing.

mod parser;

use std::cmp::Ordering;

use crate::Value;

/// See the [module documentation](self).
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    /// `.name`, `['name']`
    Field(String),
    /// `.*`, `[*]`
    Wildcard,
    /// `..`: the value itself and all below it.
    Descend,
    /// `[1]`, `[-1]`
    Index(i64),
    /// `[start:end:step]`
    Slice { start: Option<i64>, end: Option<i64>, step: usize },
    /// `[0,2]`, `['a','b']`
    Union(Vec<Step>),
    /// `[?(@.a=="b")]`
    Filter(Box<Filter>),
}

/// A condition on the elements of a list.
#[derive(Debug, Clone, PartialEq)]
struct Filter {
    left: Operand,
    /// None tests whether `left` exists.
    comparison: Option<(Comparison, Operand)>,
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    /// `@.a.b`, from the element.
    Path(JsonPath),
    Literal(Value),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The maximum number of results: a path with several `..` finds the same value repeatedly.
const FOUND_MAX: usize = 100_000;

impl JsonPath {
    /// Parses a path, with or without the braces and the `$`. The error is a message.
    pub fn parse(text: &str) -> Result<Self, String> {
        parser::parse(text)
    }

    /// All values at the path, in the order of the document.
    pub fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![value];
        for step in &self.steps {
            let mut next = Vec::new();
            for value in found {
                if next.len() >= FOUND_MAX {
                    break;
                }
                step.apply(value, &mut next);
            }
            found = next;
        }
        found
    }

    /// The field names of the path (`spec`, `replicas`); None if it has a step of another type.
    pub fn fields(&self) -> Option<Vec<&str>> {
        self.steps
            .iter()
            .map(|step| match step {
                Step::Field(name) => Some(name.as_str()),
                _ => None,
            })
            .collect()
    }
}

impl Step {
    fn apply<'a>(&self, value: &'a Value, found: &mut Vec<&'a Value>) {
        match self {
            Self::Field(name) => found.extend(value.as_object().and_then(|map| map.get(name))),
            Self::Wildcard => found.extend(children(value)),
            Self::Descend => descend(value, found),
            Self::Index(index) => {
                let list = list(value);
                found.extend(absolute(*index, list.len()).and_then(|index| list.get(index)));
            }
            Self::Slice { start, end, step } => {
                let list = list(value);
                let bound = |bound: Option<i64>, default| match bound {
                    None => default,
                    Some(bound) => absolute(bound, list.len()).unwrap_or(0).min(list.len()),
                };
                let (start, end) = (bound(*start, 0), bound(*end, list.len()));
                found.extend(list.get(start..end).unwrap_or_default().iter().step_by(*step));
            }
            Self::Union(steps) => steps.iter().for_each(|step| step.apply(value, found)),
            Self::Filter(filter) => {
                found.extend(list(value).iter().filter(|element| filter.holds(element)));
            }
        }
    }
}

impl Filter {
    fn holds(&self, element: &Value) -> bool {
        let Some((comparison, right)) = &self.comparison else {
            return self.left.value(element).is_some();
        };
        match (self.left.value(element), right.value(element)) {
            (Some(left), Some(right)) => comparison.holds(left, right),
            _ => false,
        }
    }
}

impl Operand {
    fn value<'a>(&'a self, element: &'a Value) -> Option<&'a Value> {
        match self {
            Self::Path(path) => path.find(element).into_iter().next(),
            Self::Literal(value) => Some(value),
        }
    }
}

impl Comparison {
    fn holds(self, left: &Value, right: &Value) -> bool {
        let order = match (left, right) {
            (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
                (Some(a), Some(b)) => Some(a.cmp(&b)),
                _ => a.as_f64().partial_cmp(&b.as_f64()),
            },
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (a, b) if a == b => Some(Ordering::Equal),
            _ => None,
        };
        match self {
            Self::Equal => order == Some(Ordering::Equal),
            Self::NotEqual => order != Some(Ordering::Equal),
            Self::Less => order.is_some_and(Ordering::is_lt),
            Self::LessOrEqual => order.is_some_and(Ordering::is_le),
            Self::Greater => order.is_some_and(Ordering::is_gt),
            Self::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
        }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The position of `index`, which counts from the end if it is negative.
fn absolute(index: i64, length: usize) -> Option<usize> {
    match usize::try_from(index) {
        Ok(index) => Some(index),
        Err(_) => length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?),
    }
}

fn children(value: &Value) -> Box<dyn DoubleEndedIterator<Item = &Value> + '_> {
    match value {
        Value::Array(list) => Box::new(list.iter()),
        Value::Object(map) => Box::new(map.values()),
        _ => Box::new(std::iter::empty()),
    }
}

/// Adds the value and all values below it. Not recursive, because documents may be deep.
fn descend<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    let mut stack = vec![value];
    while let Some(value) = stack.pop() {
        if found.len() >= FOUND_MAX {
            return;
        }
        found.push(value);
        stack.extend(children(value).rev());
    }
}

#[cfg(test)]
mod tests;
