//! Evaluates rules on an object, with upstream's messages and cost budgets.

use super::instance::{Compared, Correlation, Instance, Pair, Subject};
use super::{Compiled, Rule, Validator};
use crate::ratchet::OldItems;
use crate::structural::{Node, Type};
use cel::{Bindings, Budget, EvalError};
use machinery::field_path::{ErrorType, quote};
use machinery::{ErrorList, FieldError, Map, Path, Value};

/// The cost limits of all rules for one object, and of one rule for one value.
const OBJECT_BUDGET: u64 = 10_000_000;
const CALL_BUDGET: u64 = 1_000_000;

/// The maximum length in bytes of the result of a `messageExpression`.
const MAX_MESSAGE: usize = 5 * 1024;

/// The maximum number of ratcheted errors: a response has warnings of a few kilobytes at most.
const RATCHETED_MAX: usize = 100;

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The cost budget of the rules of one object.
pub(crate) fn full_budget() -> Budget {
    Budget { remaining: OBJECT_BUDGET, per_call: CALL_BUDGET }
}

/// Evaluates all rules; returns the errors that are ratcheted.
pub(super) fn check_object(
    validator: &Validator,
    node: &Node,
    new: &Map<String, Value>,
    old: Option<&Map<String, Value>>,
    errors: &mut ErrorList,
) -> Vec<String> {
    let subject = Subject::Root(new);
    let old = old.map(Subject::Root);
    let correlation =
        Correlation { own: old.map(|old| Pair { node, new: subject, old }), nearest: None };
    let mut run = Evaluation::new(full_budget(), errors);
    run.check(validator, node, Instance { subject, old, correlation }, &Path::EMPTY);
    run.ratcheted
}

/// Evaluates the rules on a default: as an unchanged value, then as a new one.
pub(crate) fn check_default(
    validator: &Validator,
    node: &Node,
    default: &Value,
    path: &Path<'_>,
    budget: &mut Budget,
    errors: &mut ErrorList,
) {
    let subject = Subject::Value(default);
    let before = (*budget, errors.len());
    for old in [Some(subject), None] {
        let mut run = Evaluation::new(before.0, errors);
        let instance = Instance { subject, old, correlation: Correlation::default() };
        run.check(validator, node, instance, path);
        let left = if run.is_over { 0 } else { run.budget.remaining };
        budget.remaining = budget.remaining.min(left);
        if errors.len() > before.1 {
            return;
        }
    }
}

/// Why a `messageExpression` has no result.
enum NoMessage {
    /// The rule's `message` is used instead.
    Failed,
    /// No further rules are evaluated.
    OverBudget(String),
}

/// One evaluation of all rules on an object.
struct Evaluation<'f> {
    budget: Budget,
    /// Whether the budget or the error list is exhausted: no further rules are evaluated.
    is_over: bool,
    errors: &'f mut ErrorList,
    ratcheted: Vec<String>,
    compared: Compared,
}

impl<'f> Evaluation<'f> {
    fn new(budget: Budget, errors: &'f mut ErrorList) -> Self {
        Self {
            budget,
            is_over: false,
            errors,
            ratcheted: Vec::new(),
            compared: Compared::default(),
        }
    }

    fn check<'a>(
        &mut self,
        validator: &'a Validator,
        node: &'a Node,
        instance: Instance<'a>,
        path: &Path<'_>,
    ) {
        if !validator.rules.is_empty() {
            self.check_rules(validator, node, instance, path);
        }
        if let Some(items) = instance.subject.list() {
            self.check_items(validator, node, items, instance, path);
        } else if let Some(map) = instance.subject.object() {
            self.check_fields(validator, node, map, instance, path);
        }
    }

    fn check_items<'a>(
        &mut self,
        validator: &'a Validator,
        node: &'a Node,
        items: &'a [Value],
        instance: Instance<'a>,
        path: &Path<'_>,
    ) {
        let (Some(validator), Some(item_node)) = (&validator.items, &node.items) else { return };
        let old_items = instance.old.and_then(|old| OldItems::of(node, old.data()));
        for (index, item) in items.iter().enumerate() {
            let Some(subject) = Subject::of(item) else { continue };
            if self.is_over {
                return;
            }
            let old = old_items.as_ref().and_then(|it| it.get(item)).filter(|it| !it.is_null());
            let correlation = instance.correlation.below(item_node, item, old);
            let instance = Instance { subject, old: old.and_then(Subject::of), correlation };
            self.check(validator, item_node, instance, &path.index(index));
        }
    }

    fn check_fields<'a>(
        &mut self,
        validator: &'a Validator,
        node: &'a Node,
        map: &'a Map<String, Value>,
        instance: Instance<'a>,
        path: &Path<'_>,
    ) {
        if validator.additional.is_none() && !validator.has_properties() {
            return;
        }
        let old_map = instance.old.and_then(Subject::object);
        for (name, value) in map {
            let (named, other) = (validator.property(name), validator.additional.as_deref());
            let (Some(field), Some(subject)) = (node.field(name), Subject::of(value)) else {
                continue;
            };
            let old = old_map.and_then(|it| it.get(name));
            let correlation = instance.correlation.field(name, field, value, old);
            let instance = Instance { subject, old: old.and_then(Subject::of), correlation };
            for (validator, path) in [(other, path.key(name)), (named, path.child(name))] {
                match validator {
                    Some(validator) if !self.is_over => {
                        self.check(validator, field, instance, &path);
                    }
                    _ => {}
                }
            }
        }
    }

    fn check_rules<'a>(
        &mut self,
        validator: &'a Validator,
        node: &'a Node,
        instance: Instance<'a>,
        path: &Path<'_>,
    ) {
        if self.budget.remaining == 0 {
            self.stop(node, path, OUT_OF_BUDGET);
            return;
        }
        for (compiled, rule) in validator.rules.iter().zip(node.rules()) {
            if self.is_over {
                return;
            }
            if self.errors.is_full() {
                self.is_over = true;
                return;
            }
            if let Some(error) = &compiled.error {
                let detail = format!("rule compile error: {error}");
                self.errors.push(type_error(node, path, detail));
            }
            if compiled.program.is_none()
                || (compiled.uses_old_self && instance.old.is_none() && !rule.optional_old_self)
            {
                continue;
            }
            match bindings(validator, rule, instance) {
                Ok(bindings) => {
                    self.check_rule(compiled, rule, &bindings, node, instance, path);
                }
                Err(error) => self.fail(rule, &error, node, path),
            }
        }
    }

    fn check_rule<'a>(
        &mut self,
        compiled: &'a Compiled,
        rule: &Rule,
        bindings: &Bindings<'a>,
        node: &Node,
        instance: Instance<'_>,
        path: &Path<'_>,
    ) {
        let Some(program) = &compiled.program else { return };
        // `Cost` means that either the rule's own limit or the object's budget is exhausted. It is
        // the latter if less than one rule's limit was left.
        let had_full_call_budget = self.budget.remaining >= CALL_BUDGET;
        match program.evaluate(bindings, &mut self.budget) {
            Ok(cel::Value::Bool(true)) => return,
            Ok(_) => {}
            Err(EvalError::Cost) if !had_full_call_budget || self.budget.remaining == 0 => {
                self.stop(node, path, OUT_OF_BUDGET);
                return;
            }
            Err(error) => {
                self.fail(rule, &error, node, path);
                return;
            }
        }
        let is_ratcheted =
            !compiled.uses_old_self && instance.correlation.is_unchanged(&mut self.compared);
        if is_ratcheted && self.ratcheted.len() >= RATCHETED_MAX {
            return;
        }
        let field_path = path.child(&rule.field_path);
        let path = if rule.field_path.is_empty() { path } else { &field_path };
        let error = match self.message(compiled, rule, bindings) {
            Ok(message) => failure(rule, node, instance.subject, path, message),
            Err(NoMessage::Failed) => {
                let message = match &*rule.message {
                    "" => format!("failed rule: {}", rule.display_text()),
                    message => message.trim().to_owned(),
                };
                failure(rule, node, instance.subject, path, message)
            }
            Err(NoMessage::OverBudget(detail)) => {
                self.is_over = true;
                type_error(node, path, detail)
            }
        };
        if is_ratcheted {
            self.ratcheted.push(error.to_string());
        } else {
            self.errors.push(error);
        }
    }

    fn message<'a>(
        &mut self,
        compiled: &'a Compiled,
        rule: &Rule,
        bindings: &Bindings<'a>,
    ) -> Result<String, NoMessage> {
        let program = compiled.message.as_ref().ok_or(NoMessage::Failed)?;
        let had_full_call_budget = self.budget.remaining >= CALL_BUDGET;
        match program.evaluate(bindings, &mut self.budget) {
            Ok(value) => match value.as_str().map(str::trim) {
                Some(text)
                    if !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n') =>
                {
                    Ok(text.to_owned())
                }
                _ => Err(NoMessage::Failed),
            },
            Err(EvalError::Failed(_)) => Err(NoMessage::Failed),
            Err(EvalError::Cost) if had_full_call_budget && self.budget.remaining > 0 => {
                Err(NoMessage::OverBudget(format!(
                    "no further validation rules will be run due to call cost exceeds limit for messageExpression: {}",
                    quote(&rule.message_expression)
                )))
            }
            Err(EvalError::Cost) => Err(NoMessage::OverBudget("messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run".to_owned())),
        }
    }

    /// Reports a rule whose evaluation failed.
    fn fail(&mut self, rule: &Rule, error: &EvalError, node: &Node, path: &Path<'_>) {
        let shown = rule.display_text();
        let detail = match error {
            EvalError::Cost => {
                self.is_over = true;
                format!(
                    "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {shown}"
                )
            }
            EvalError::Failed(text) if text.starts_with("no such overload") => format!(
                "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {shown}"
            ),
            EvalError::Failed(_) => format!("{error} evaluating rule: {shown}"),
        };
        self.errors.push(type_error(node, path, detail));
    }

    fn stop(&mut self, node: &Node, path: &Path<'_>, detail: &str) {
        self.is_over = true;
        self.errors.push(type_error(node, path, detail.to_owned()));
    }
}

/// `oldSelf` is only bound if a rule of the node uses it; a use in a `messageExpression` does not
/// suffice.
fn bindings<'a>(
    validator: &'a Validator,
    rule: &Rule,
    instance: Instance<'a>,
) -> Result<Bindings<'a>, EvalError> {
    let bindings = Bindings::new().value("self", instance.subject.bind(validator)?);
    if !validator.rules.iter().any(|it| it.uses_old_self) {
        return Ok(bindings);
    }
    let old = instance.old.map(|old| old.bind(validator)).transpose()?;
    Ok(match (old, rule.optional_old_self) {
        (Some(old), true) => bindings.value("oldSelf", cel::Value::some(old)),
        (None, true) => bindings.value("oldSelf", cel::Value::Optional(None)),
        (Some(old), false) => bindings.value("oldSelf", old),
        (None, false) => bindings,
    })
}

/// The error of a rule that evaluated to false.
fn failure(
    rule: &Rule,
    node: &Node,
    subject: Subject<'_>,
    path: &Path<'_>,
    message: String,
) -> FieldError {
    let (value, detail) = match rule.reason {
        ErrorType::Required | ErrorType::Forbidden => (None, message),
        kind => {
            let shows_value = !matches!(node.kind, Type::Object | Type::Array);
            let value = shows_value.then(|| subject.data().to_value());
            (value, if kind == ErrorType::Duplicate { String::new() } else { message })
        }
    };
    FieldError { kind: rule.reason, field: field_text(path), value, detail }
}

/// An error that shows the type instead of the value.
fn type_error(node: &Node, path: &Path<'_>, detail: String) -> FieldError {
    let kind = if node.kind == Type::IntOrString { "" } else { node.kind.name() };
    FieldError {
        kind: ErrorType::Invalid,
        field: field_text(path),
        value: Some(kind.into()),
        detail,
    }
}

/// The path in an error; as Go, `<nil>` for the root.
fn field_text(path: &Path<'_>) -> String {
    match path.to_string() {
        path if path.is_empty() => "<nil>".to_owned(),
        path => path,
    }
}
