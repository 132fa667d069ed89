//! `x-kubernetes-validations`: rules in CEL that objects must obey.
//!
//! A node of the schema keeps its rules as they were written ([`Rule`]). What they may speak of is
//! read off the node ([`declare`]), and they become programs when the first object arrives
//! ([`Validator`]); from then on each object is only evaluated ([`evaluate`]).
//!
//! ```
//! use machinery::{ErrorList, json};
//! use schema::Structural;
//! let schema = Structural::compile(&json!({"type": "object", "properties": {"spec": {
//!     "type": "object",
//!     "properties": {"min": {"type": "integer"}, "max": {"type": "integer"}},
//!     "x-kubernetes-validations": [{"rule": "self.min <= self.max"}],
//! }}}));
//! let object = json!({"spec": {"min": 2, "max": 1}}).as_object().unwrap().clone();
//! let mut errors = ErrorList::new();
//! schema.validate_rules(&object, None, &mut errors);
//! assert_eq!(errors[0].to_string(), "spec: Invalid value: failed rule: self.min <= self.max");
//! ```

mod compile;
mod declare;
mod evaluate;
mod instance;
mod validator;

pub(crate) use compile::{Compiled, compile};
pub(crate) use declare::{MAX_REQUEST_SIZE, declare, min_size, of_property, of_values};
pub(crate) use evaluate::{check_default, full_budget};
pub(crate) use validator::Validator;

use crate::field;
use crate::source::Source;
use crate::structural::{Marks, Structural};
use machinery::field_path::FaultKind;
use machinery::{ErrorList, FieldError, Map, Value};

/// The keyword.
pub(crate) const KEYWORD: &str = "x-kubernetes-validations";

/// A rule as its author wrote it.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) expression: Box<str>,
    /// "" if there is none.
    pub(crate) message: Box<str>,
    /// "" if there is none.
    pub(crate) message_expression: Box<str>,
    /// How a failure is classified.
    pub(crate) reason: FaultKind,
    /// The field that a failure is about, below the node: `a.b`; "" for the node itself.
    pub(crate) field_path: Box<str>,
    pub(crate) optional_old_self: bool,
}

impl Rule {
    /// The rules of a schema.
    pub(crate) fn all(source: Source<'_>) -> Box<[Self]> {
        source.schemas(KEYWORD).map(|rule| Self::of(rule, source)).collect()
    }

    fn of(rule: Source<'_>, schema: Source<'_>) -> Self {
        let field_path = match rule.text("fieldPath") {
            "" => String::new(),
            path => field::follow(schema, path).map(|(path, _)| path).unwrap_or_default(),
        };
        Self {
            expression: rule.text("rule").into(),
            message: rule.text("message").into(),
            message_expression: rule.text("messageExpression").into(),
            reason: match rule.text("reason") {
                "FieldValueRequired" => FaultKind::Required,
                "FieldValueForbidden" => FaultKind::Forbidden,
                "FieldValueDuplicate" => FaultKind::Duplicate,
                _ => FaultKind::Invalid,
            },
            field_path: field_path.into(),
            optional_old_self: rule.flag("optionalOldSelf"),
        }
    }

    /// What stands for the rule in complaints.
    fn shown(&self) -> &str {
        if self.message.is_empty() { self.expression.trim() } else { self.message.trim() }
    }
}

impl Structural {
    /// Finds the rules that `new` breaks, and returns as warnings the complaints about what is as it
    /// was in `old`. Rules are not tried on an object that is not even of the declared types, so
    /// `errors` has to hold what else is wrong with it.
    pub fn validate_rules(
        &self,
        new: &Map<String, Value>,
        old: Option<&Map<String, Value>>,
        errors: &mut ErrorList,
    ) -> Vec<String> {
        if !self.root.marks.has(Marks::RULES_BELOW) {
            return Vec::new();
        }
        if errors.iter().any(|fault| keeps_rules_from_running(fault.kind)) {
            let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            errors.push(FieldError {
                kind: FaultKind::Invalid,
                field: "<nil>".to_owned(),
                value: Some(Value::Null),
                detail: detail.to_owned(),
            });
            return Vec::new();
        }
        let build = || Validator::of(&self.root, true);
        match self.validator.get_or_init(build) {
            Some(validator) => evaluate::check_object(validator, &self.root, new, old, errors),
            None => Vec::new(),
        }
    }
}

/// Whether a fault says that values are not what rules were compiled for.
fn keeps_rules_from_running(kind: FaultKind) -> bool {
    matches!(
        kind,
        FaultKind::NotSupported
            | FaultKind::Required
            | FaultKind::TooLong
            | FaultKind::TooMany
            | FaultKind::TypeInvalid
    )
}

#[cfg(test)]
mod tests;
