//! `x-kubernetes-validations`: validation rules in CEL.
//!
//! A node of the schema contains the source of its rules ([`Rule`]). The types of their variables
//! follow from the node ([`declare`]). The rules are compiled when the first object is validated
//! ([`Validator`]), and evaluated on each object ([`evaluate`]).
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
pub(crate) use declare::{MAX_REQUEST_SIZE, declare, element_decl, min_size, property_decl};
pub(crate) use evaluate::{check_default, full_budget};
pub(crate) use validator::Validator;

use crate::field;
use crate::json_schema::JsonSchema;
use crate::structural::{NodeFlags, Structural};
use machinery::field_path::ErrorType;
use machinery::{ErrorList, FieldError, Map, Value};

/// The keyword.
pub(crate) const KEYWORD: &str = "x-kubernetes-validations";

/// An uncompiled rule.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) expression: Box<str>,
    /// "" if there is none.
    pub(crate) message: Box<str>,
    /// "" if there is none.
    pub(crate) message_expression: Box<str>,
    /// The type of the error if the rule fails.
    pub(crate) reason: ErrorType,
    /// The field of the error, relative to the node: `a.b`; "" for the node itself.
    pub(crate) field_path: Box<str>,
    pub(crate) optional_old_self: bool,
}

impl Rule {
    /// The rules of a schema.
    pub(crate) fn all(source: JsonSchema<'_>) -> Box<[Self]> {
        source.schemas(KEYWORD).map(|rule| Self::of(rule, source)).collect()
    }

    fn of(rule: JsonSchema<'_>, schema: JsonSchema<'_>) -> Self {
        let field_path = match rule.text("fieldPath") {
            "" => String::new(),
            path => {
                field::resolve_field_path(schema, path).map(|(path, _)| path).unwrap_or_default()
            }
        };
        Self {
            expression: rule.text("rule").into(),
            message: rule.text("message").into(),
            message_expression: rule.text("messageExpression").into(),
            reason: match rule.text("reason") {
                "FieldValueRequired" => ErrorType::Required,
                "FieldValueForbidden" => ErrorType::Forbidden,
                "FieldValueDuplicate" => ErrorType::Duplicate,
                _ => ErrorType::Invalid,
            },
            field_path: field_path.into(),
            optional_old_self: rule.flag("optionalOldSelf"),
        }
    }

    /// The text that represents the rule in errors.
    fn display_text(&self) -> &str {
        if self.message.is_empty() { self.expression.trim() } else { self.message.trim() }
    }
}

impl Structural {
    /// Evaluates the rules on `new`, and returns the errors of values that are unchanged since
    /// `old` as warnings. `errors` must already contain all other errors: rules are not evaluated
    /// on an object whose values do not have the declared types.
    pub fn validate_rules(
        &self,
        new: &Map<String, Value>,
        old: Option<&Map<String, Value>>,
        errors: &mut ErrorList,
    ) -> Vec<String> {
        if !self.root.flags.has(NodeFlags::RULES_BELOW) {
            return Vec::new();
        }
        if errors.iter().any(|error| prevents_rules(error.kind)) {
            let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            errors.push(FieldError {
                kind: ErrorType::Invalid,
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

/// Whether an error means that a value may not have the type for which the rules were compiled.
fn prevents_rules(kind: ErrorType) -> bool {
    matches!(
        kind,
        ErrorType::NotSupported
            | ErrorType::Required
            | ErrorType::TooLong
            | ErrorType::TooMany
            | ErrorType::TypeInvalid
    )
}

#[cfg(test)]
mod tests;
