//! [`MatchConditions`]: the CEL expressions that restrict which requests a webhook gets.

use std::sync::Arc;

use super::invocation::WebhookInvocation;
use crate::admission::policy::{Compiler, Declarations};
use crate::admission::{Attributes, authorizer, error_order};
use cel::library::authorizer::{authorizer as authorizer_value, resource_check};
use cel::{Bindings, Budget, Program, Type};
use machinery::{ErrorList, Object, Path, Value};

/// The cost limit of all conditions of a webhook together. The value is upstream's.
const BUDGET: u64 = 2_500_000;

/// The cost limit of each condition. The value is upstream's.
const PER_CALL: u64 = 1_000_000;

/// See the [module documentation](self).
pub(super) struct MatchConditions {
    compiled: Vec<(String, Result<Program, String>)>,
    /// Whether a webhook is skipped if its conditions fail to evaluate.
    fails_open: bool,
}

impl MatchConditions {
    /// The match conditions of a webhook.
    pub(super) fn of(webhook: &Value, fails_open: bool) -> Self {
        let conditions = webhook["matchConditions"].as_array().into_iter().flatten();
        let expressions = conditions.map(|it| it["expression"].as_str().unwrap_or_default());
        let compiled = expressions.map(|it| (it.to_owned(), compile(it))).collect();
        Self { compiled, fails_open }
    }

    /// Whether all conditions are true. A false condition takes precedence over the errors of
    /// others.
    pub(super) fn matches(
        &self,
        attributes: &Attributes<'_>,
        invocation: &WebhookInvocation,
    ) -> Result<bool, String> {
        if self.compiled.is_empty() {
            return Ok(true);
        }
        let (user_authorizer, default_check) = authorizer::user_authorizer(attributes);
        let bindings = Bindings::new()
            .json("object", &invocation.object)
            .json("oldObject", &invocation.old)
            .json("request", &invocation.request)
            // Upstream: the variable is declared, and always null.
            .json("namespaceObject", &Value::Null)
            .value("authorizer", authorizer_value(Arc::clone(&user_authorizer)))
            .value("authorizer.requestResource", resource_check(user_authorizer, default_check));
        let mut budget = Budget { remaining: BUDGET, per_call: PER_CALL };
        let mut errors = Vec::new();
        for (expression, program) in &self.compiled {
            match program {
                Err(why) => errors.push(format!("compilation error: {why}")),
                Ok(program) => match program.evaluate(&bindings, &mut budget) {
                    Ok(value) if value.as_bool() == Some(false) => return Ok(false),
                    Ok(_) => {}
                    Err(_) if budget.remaining == 0 => {
                        errors = vec![OVER_BUDGET.to_owned()];
                        break;
                    }
                    Err(error) => {
                        errors
                            .push(format!("expression '{expression}' resulted in error: {error}"));
                    }
                },
            }
        }
        match errors.as_slice() {
            [] => Ok(true),
            _ if self.fails_open => Ok(false),
            [one] => Err(one.clone()),
            several => Err(format!("[{}]", several.join(", "))),
        }
    }
}

const OVER_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// Rejects a configuration whose expressions do not compile.
pub(crate) fn validate(configuration: &Object, old: Option<&Object>, errors: &mut ErrorList) {
    if old.is_some_and(|old| old.map().get("webhooks") == configuration.map().get("webhooks")) {
        return;
    }
    let webhooks = configuration.get(&["webhooks"]).and_then(Value::as_array);
    let root = Path::root("webhooks");
    let mut found = ErrorList::new();
    for (index, webhook) in webhooks.into_iter().flatten().enumerate() {
        let webhook_path = root.index(index);
        let path = webhook_path.child("matchConditions");
        let conditions = webhook["matchConditions"].as_array().into_iter().flatten();
        for (index, condition) in conditions.enumerate() {
            let expression = condition["expression"].as_str().unwrap_or_default();
            if expression.trim().is_empty() {
                continue;
            }
            if let Err(why) = compile(expression) {
                found.invalid(&path.index(index).child("expression"), expression, &why);
            }
        }
    }
    error_order::merge(errors, found);
}

/// Compiles a condition with the declarations of policies' conditions.
fn compile(expression: &str) -> Result<Program, String> {
    let compiler = Compiler::new(false);
    let program = compiler.program(expression, Declarations::Authorizer, &[Type::Bool]);
    program.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    fn errors(expression: &str) -> Vec<String> {
        let webhook = json!({"matchConditions": [{"name": "c", "expression": expression}]});
        let configuration = Object::from_value(json!({"webhooks": [webhook]})).unwrap();
        let mut errors = ErrorList::new();
        validate(&configuration, None, &mut errors);
        let status = machinery::Status::invalid(&machinery::GroupKind::default(), "", &errors);
        let causes = status.details.unwrap().causes;
        causes.into_iter().map(|it| format!("{}: {}", it.field, it.message)).collect()
    }

    #[test]
    fn a_condition_compiles_to_a_boolean_expression() {
        assert!(errors("request.operation == 'CREATE' && object.metadata.name != 'x'").is_empty());
        assert!(errors("authorizer.requestResource.check('create').allowed()").is_empty());
        let found = errors("request.operaton == 'CREATE'");
        assert!(
            found[0].starts_with("webhooks[0].matchConditions[0].expression: Invalid value: ")
                && found[0].contains("undefined field 'operaton'"),
            "{found:?}"
        );
        let found = errors("request.name");
        assert!(found[0].ends_with("must evaluate to bool but got string"), "{found:?}");
    }
}
