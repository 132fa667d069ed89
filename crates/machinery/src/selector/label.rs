//! [`LabelSelector`]: `app=x,tier in (a,b),!old`, or the same as an object with `matchLabels` and
//! `matchExpressions`.
//!
//! ```
//! use machinery::selector::LabelSelector;
//! let selector = LabelSelector::parse("app in (x, y), !old")?;
//! assert!(selector.matches(|key| (key == "app").then_some("x")));
//! assert_eq!(selector.to_string(), "app in (x,y),!old");
//! # Ok::<(), String>(())
//! ```

mod parser;

use std::collections::BTreeMap;
use std::fmt;

use crate::field_path::quote;
use crate::meta::validate_labels;
use crate::{ErrorList, Path, Value, names};

/// See the [module documentation](self).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelSelector {
    /// All must hold. Sorted by key, which makes the printed form the same for the same meaning.
    requirements: Vec<LabelRequirement>,
    /// The number of different keys that a selected object must have.
    required_keys: usize,
    /// Whether it selects no object, whatever the requirements are.
    nothing: bool,
}

/// One condition on one label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LabelRequirement {
    /// The label's key.
    pub key: String,
    /// How its value is compared.
    pub operator: Operator,
    /// The values; none for the two operators that test existence. Sorted, without repetition.
    pub values: Vec<String>,
}

/// How a label's value is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operator {
    /// `=`
    Equals,
    /// `==`, which means the same but is printed as it was written.
    DoubleEquals,
    /// `!=`, which also matches an object without the label.
    NotEquals,
    /// `in (a,b)`
    In,
    /// `notin (a,b)`, which also matches an object without the label.
    NotIn,
    /// `key`
    Exists,
    /// `!key`
    DoesNotExist,
    /// `>`, of integers
    GreaterThan,
    /// `<`, of integers
    LessThan,
}

impl LabelSelector {
    /// Selects all objects.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Selects no object.
    pub fn nothing() -> Self {
        Self { nothing: true, ..Self::default() }
    }

    /// Parses the form used in queries. An error is the message for the client.
    pub fn parse(text: &str) -> Result<Self, String> {
        Ok(Self::of(parser::parse(text)?))
    }

    /// Parses a `metav1.LabelSelector`. Null selects nothing, an empty selector everything.
    pub fn from_value(value: &Value) -> Result<Self, String> {
        if value.is_null() {
            return Ok(Self::nothing());
        }
        let mut requirements = Vec::new();
        for (key, value) in value["matchLabels"].as_object().into_iter().flatten() {
            let values = vec![value.as_str().unwrap_or_default().to_owned()];
            requirements.push(LabelRequirement::new(key, Operator::Equals, values)?);
        }
        for expression in value["matchExpressions"].as_array().into_iter().flatten() {
            let operator = match expression["operator"].as_str().unwrap_or_default() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    return Err(format!("{} is not a valid label selector operator", quote(other)));
                }
            };
            let key = expression["key"].as_str().unwrap_or_default();
            let values = strings(&expression["values"]).map(str::to_owned).collect();
            requirements.push(LabelRequirement::new(key, operator, values)?);
        }
        Ok(Self::of(requirements))
    }

    fn of(mut requirements: Vec<LabelRequirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        let same_keys = requirements.chunk_by(|a, b| a.key == b.key);
        let required_keys = same_keys.filter(|same_key| requires_key(same_key)).count();
        Self { requirements, required_keys, nothing: false }
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty() && !self.nothing
    }

    /// The conditions, all of which must hold.
    pub fn requirements(&self) -> &[LabelRequirement] {
        &self.requirements
    }

    /// The number of different keys that a selected object must have.
    pub fn required_keys(&self) -> usize {
        self.required_keys
    }

    /// Whether it selects an object with these labels.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.nothing && self.requirements.iter().all(|known| known.matches(label(&known.key)))
    }

    /// Whether it selects an object with exactly these labels. Requirements on other keys are only
    /// counted, so that a selector with many of them takes no longer.
    ///
    /// ```
    /// # use machinery::selector::LabelSelector;
    /// let labels = [("app".to_owned(), "web".to_owned())].into();
    /// assert!(LabelSelector::parse("app=web,!old")?.matches_labels(&labels));
    /// assert!(!LabelSelector::parse("app=web,tier")?.matches_labels(&labels));
    /// # Ok::<(), String>(())
    /// ```
    pub fn matches_labels(&self, labels: &BTreeMap<String, String>) -> bool {
        if self.nothing || labels.len() < self.required_keys {
            return false;
        }
        let mut found = 0;
        for (key, value) in labels {
            let requirements = self.requirements_on(key);
            if !requirements.iter().all(|it| it.matches(Some(value))) {
                return false;
            }
            found += usize::from(requires_key(requirements));
        }
        found == self.required_keys
    }

    /// The value that the first requirement on `key` demands, if it allows only one.
    pub fn requires_exact_match(&self, key: &str) -> Option<&str> {
        self.requirements_on(key).first()?.exact_value()
    }

    fn requirements_on(&self, key: &str) -> &[LabelRequirement] {
        let from = self.requirements.partition_point(|known| known.key.as_str() < key);
        let rest = &self.requirements[from..];
        let count = rest.iter().take_while(|known| known.key == key).count();
        &rest[..count]
    }
}

/// Whether an object without the label cannot satisfy all of these requirements on it.
fn requires_key(requirements: &[LabelRequirement]) -> bool {
    requirements.iter().any(|requirement| !requirement.matches(None))
}

impl LabelRequirement {
    /// Validates the parts; `values` may come in any order.
    pub fn new(key: &str, operator: Operator, mut values: Vec<String>) -> Result<Self, String> {
        values.sort_unstable();
        values.dedup();
        let mut errors = ErrorList::new();
        let messages = names::qualified_name(key);
        if !messages.is_empty() {
            errors.invalid(&Path::root("key"), key, &messages.join("; "));
        }
        let path = Path::root("values");
        if let Some(message) = operator.wrong_number_of_values(values.len()) {
            errors.invalid(&path, values.clone(), message);
        }
        for (index, value) in values.iter().enumerate() {
            let path = path.index(index);
            if operator.is_numeric() && integer(value).is_none() {
                let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.invalid(&path, value.as_str(), detail);
            }
            let messages = names::label_value(value);
            if !messages.is_empty() {
                errors.invalid(&path.key(key), value.as_str(), &messages.join("; "));
            }
        }
        if !errors.is_empty() {
            return Err(errors.summary());
        }
        Ok(Self { key: key.to_owned(), operator, values })
    }

    /// The only value that the requirement allows.
    pub fn exact_value(&self) -> Option<&str> {
        match (self.operator, self.values.as_slice()) {
            (Operator::Equals | Operator::DoubleEquals | Operator::In, [only]) => Some(only),
            _ => None,
        }
    }

    /// Whether the value of the label satisfies the requirement; None if the object lacks the
    /// label.
    pub fn matches(&self, value: Option<&str>) -> bool {
        let is_listed =
            |value: &str| self.values.binary_search_by(|known| known.as_str().cmp(value)).is_ok();
        self.operator.holds(value, is_listed, self.values.first().map(String::as_str))
    }
}

impl Operator {
    /// Whether a label with this value, or its absence, satisfies a requirement. `is_listed` tests
    /// whether a value is one of those of the requirement, of which `first` is the first.
    pub fn holds(
        self,
        value: Option<&str>,
        is_listed: impl Fn(&str) -> bool,
        first: Option<&str>,
    ) -> bool {
        let compared = |order: std::cmp::Ordering| {
            let numbers = value.and_then(integer).zip(first.and_then(integer));
            numbers.is_some_and(|(found, wanted)| found.cmp(&wanted) == order)
        };
        match self {
            Self::In | Self::Equals | Self::DoubleEquals => value.is_some_and(is_listed),
            Self::NotIn | Self::NotEquals => !value.is_some_and(is_listed),
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
            Self::GreaterThan => compared(std::cmp::Ordering::Greater),
            Self::LessThan => compared(std::cmp::Ordering::Less),
        }
    }

    fn is_numeric(self) -> bool {
        matches!(self, Self::GreaterThan | Self::LessThan)
    }

    fn wrong_number_of_values(self, count: usize) -> Option<&'static str> {
        let (right, message) = match self {
            Self::In | Self::NotIn => {
                (count > 0, "for 'in', 'notin' operators, values set can't be empty")
            }
            Self::Equals | Self::DoubleEquals | Self::NotEquals => {
                (count == 1, "exact-match compatibility requires one single value")
            }
            Self::Exists | Self::DoesNotExist => {
                (count == 0, "values set must be empty for exists and does not exist")
            }
            Self::GreaterThan | Self::LessThan => {
                (count == 1, "for 'Gt', 'Lt' operators, exactly one value is required")
            }
        };
        (!right).then_some(message)
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (&self.key, self.values.join(","));
        match self.operator {
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

/// Validates a `metav1.LabelSelector`.
pub fn validate_label_selector(selector: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(labels) = selector["matchLabels"].as_object() {
        validate_labels(labels, &path.child("matchLabels"), errors);
    }
    let path = path.child("matchExpressions");
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    for (index, expression) in expressions.enumerate() {
        validate_expression(expression, &path.index(index), errors);
    }
}

fn validate_expression(expression: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let values = path.child("values");
    let count = expression["values"].as_array().map_or(0, Vec::len);
    match expression["operator"].as_str().unwrap_or_default() {
        "In" | "NotIn" if count == 0 => {
            errors.required(&values, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if count > 0 => errors.forbidden(
            &values,
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.invalid(&path.child("operator"), other, "not a valid selector operator"),
    }
    let key = expression["key"].as_str().unwrap_or_default();
    for message in names::qualified_name(key) {
        errors.invalid(&path.child("key"), key, &message);
    }
    for (index, value) in strings(&expression["values"]).enumerate() {
        for message in names::label_value(value) {
            errors.invalid(&values.index(index), value, &message);
        }
    }
}

fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn integer(text: &str) -> Option<i64> {
    text.parse().ok()
}

#[cfg(test)]
mod tests;
