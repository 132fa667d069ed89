//! Policies that validate objects: evaluates their expressions, and builds the messages for the
//! client and the audit log.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::compiler::{Declarations, Expression};
use super::evaluation::{BUDGET, BudgetExhausted, Evaluation, EvaluationResult};
use super::policy_spec::{
    self, Binding, FailurePolicy, PolicyInvocation, PolicySpec, VersionedAttributes, text,
};
use super::{Denial, denied_name};
use crate::admission::Attributes;
use crate::cache::watch_cache::Snapshot;
use crate::registry::scope::RequestScope;
use cel::Type;
use machinery::status::Cause;
use machinery::{Object, Reason, Status, Value, codec};

/// A compiled policy.
pub(super) struct ValidatingPolicy {
    spec: PolicySpec,
    validations: Vec<Validation>,
    annotations: Vec<AuditAnnotation>,
}

struct Validation {
    expression: Expression,
    message: String,
    message_expression: Option<Expression>,
    reason: Reason,
}

/// An audit annotation of a policy.
struct AuditAnnotation {
    key: String,
    expression: Expression,
}

/// A failure in the audit log, with its fields in the order of upstream.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ValidationFailure {
    message: String,
    policy: String,
    binding: String,
    expression_index: usize,
    validation_actions: Vec<String>,
}

/// The maximum length of a message expression's result, in bytes.
const MAX_MESSAGE: usize = 5 << 10;

/// The maximum length of an audit annotation's value, in bytes.
const MAX_ANNOTATION_VALUE: usize = 10 << 10;

/// The maximum number of failures in the audit log.
const MAX_FAILURES: usize = 50;

/// The key of the audit annotation with the failures of policies that have the action `Audit`.
const VALIDATION_FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";

/// The policies by their names.
pub(super) type ValidatingPolicies = BTreeMap<String, Arc<ValidatingPolicy>>;

/// Compiles all policies.
pub(super) fn compile(snapshot: &Snapshot) -> ValidatingPolicies {
    policy_spec::by_name(snapshot, ValidatingPolicy::of)
}

impl ValidatingPolicy {
    fn of(object: &Object) -> Self {
        let (spec, compiler) = PolicySpec::of(object);
        let list = |key| object.get(&["spec", key]).and_then(Value::as_array);
        let validations = list("validations").into_iter().flatten().map(|it| {
            let message = it["messageExpression"].as_str().filter(|it| !it.is_empty());
            Validation {
                expression: compiler.expression(
                    text(it, "expression"),
                    Declarations::Authorizer,
                    &[Type::Bool],
                ),
                message: text(it, "message").to_owned(),
                message_expression: message
                    .map(|it| compiler.expression(it, Declarations::Objects, &[Type::String])),
                reason: match text(it, "reason") {
                    "Forbidden" => Reason::Forbidden,
                    "RequestEntityTooLarge" => Reason::RequestEntityTooLarge,
                    _ => Reason::Invalid,
                },
            }
        });
        let annotations =
            list("auditAnnotations").into_iter().flatten().map(|it| AuditAnnotation {
                key: text(it, "key").to_owned(),
                expression: compiler.expression(
                    text(it, "valueExpression"),
                    Declarations::Authorizer,
                    &[Type::String, Type::Null],
                ),
            });
        Self { validations: validations.collect(), annotations: annotations.collect(), spec }
    }
}

/// The decisions of the policies that are evaluated so far.
pub(super) struct PolicyDecisions<'a> {
    attributes: &'a Attributes<'a>,
    object: Option<&'a Object>,
    /// The first denial, which is the answer to the client.
    denial: Option<Denial>,
    failures: Vec<ValidationFailure>,
}

impl<'a> PolicyDecisions<'a> {
    /// No decisions.
    pub(super) fn new(attributes: &'a Attributes<'a>, object: Option<&'a Object>) -> Self {
        Self { attributes, object, denial: None, failures: Vec::new() }
    }

    /// Evaluates one policy.
    pub(super) async fn evaluate(
        &mut self,
        policy: &ValidatingPolicy,
        bindings: &[Binding],
    ) -> Result<(), Status> {
        let policy_spec = &policy.spec;
        let (attributes, object) = (self.attributes, self.object);
        let mut versioned: Option<VersionedAttributes<'_>> = None;
        let mut annotations: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for invocation in policy_spec.invocations(bindings, attributes, object).await {
            match invocation {
                PolicyInvocation::Misconfigured { binding, why } => {
                    if policy_spec.failure_policy == FailurePolicy::Fail {
                        self.deny(policy_spec, binding, &Denial::invalid(why));
                    }
                }
                PolicyInvocation::Ready { binding, matched, params } => {
                    // All invocations of a policy match the request in the same version.
                    let versioned = match &mut versioned {
                        Some(versioned) => versioned,
                        none => none.insert(VersionedAttributes::new(attributes, &matched).await?),
                    };
                    let versioned_object = match object {
                        Some(object) => Some(versioned.object(attributes, object).await?),
                        None => None,
                    };
                    let versioned_object = versioned_object.as_deref();
                    let evaluation = versioned.evaluation(
                        attributes,
                        policy_spec,
                        versioned_object,
                        params.as_ref(),
                    );
                    let result = policy.validate(&evaluation);
                    for (index, decision) in result.decisions.into_iter().enumerate() {
                        if let Some(denial) = decision {
                            self.enforce(policy_spec, binding, index, &denial);
                        }
                    }
                    for (key, value) in result.annotations {
                        match value {
                            Ok(value) => {
                                let values = annotations.entry(key).or_default();
                                if !values.contains(&value) {
                                    values.push(value);
                                }
                            }
                            Err(why) => {
                                self.deny(policy_spec, Some(binding), &Denial::invalid(why));
                            }
                        }
                    }
                }
            }
        }
        for (key, values) in annotations {
            let key = format!("{}/{key}", policy_spec.name);
            annotate(attributes.scope, &key, &values.join(", "));
        }
        Ok(())
    }

    /// Performs the binding's actions for a denial.
    fn enforce(
        &mut self,
        policy_spec: &PolicySpec,
        binding: &Binding,
        index: usize,
        denial: &Denial,
    ) {
        let (policy, message) = (&policy_spec.name, &denial.message);
        for action in &binding.actions {
            match action.as_str() {
                "Deny" => self.deny(policy_spec, Some(binding), denial),
                "Warn" => self.attributes.scope.warn(format!(
                    "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{}': {message}",
                    binding.name
                )),
                _ => self.failures.push(ValidationFailure {
                    message: message.clone(),
                    policy: policy.clone(),
                    binding: binding.name.clone(),
                    expression_index: index,
                    validation_actions: binding.actions.clone(),
                }),
            }
        }
    }

    fn deny(&mut self, policy_spec: &PolicySpec, binding: Option<&Binding>, denial: &Denial) {
        let with_binding =
            binding.map(|it| format!(" with binding '{}'", it.name)).unwrap_or_default();
        self.denial.get_or_insert_with(|| Denial {
            message: format!(
                "ValidatingAdmissionPolicy '{}'{with_binding} denied request: {}",
                policy_spec.name, denial.message
            ),
            reason: denial.reason,
        });
    }

    /// The result for the request.
    pub(super) fn into_result(mut self) -> Result<(), Status> {
        if !self.failures.is_empty() {
            self.failures.truncate(MAX_FAILURES);
            let mut failures = Vec::new();
            codec::json::write(&mut failures, &self.failures);
            let failures = String::from_utf8_lossy(&failures);
            annotate(self.attributes.scope, VALIDATION_FAILURE, &failures);
        }
        let Some(denial) = self.denial else { return Ok(()) };
        let name = denied_name(self.attributes, self.object);
        let mut status =
            Status::forbidden(&self.attributes.scope.group_resource(), name, &denial.message);
        status.reason = denial.reason;
        status.code = match denial.reason {
            Reason::Forbidden => 403,
            Reason::RequestEntityTooLarge => 413,
            _ => 422,
        };
        let cause = Cause { message: denial.message, ..Cause::default() };
        status.details.get_or_insert_default().causes.push(cause);
        Err(status)
    }
}

/// The decisions of one policy for one binding and parameter.
struct ValidationResult<'p> {
    /// One decision for each validation, or one for the whole policy if it fails.
    decisions: Vec<Option<Denial>>,
    /// The audit annotations, or the errors of their expressions.
    annotations: Vec<(&'p str, Result<String, String>)>,
}

impl ValidatingPolicy {
    fn validate(&self, evaluation: &Evaluation<'_>) -> ValidationResult<'_> {
        match self.spec.matches_conditions(evaluation) {
            Ok(true) => {}
            Ok(false) => {
                return ValidationResult { decisions: Vec::new(), annotations: Vec::new() };
            }
            Err(why) => return self.failed(why),
        }
        let mut budget = BUDGET;
        let expressions = self.validations.iter().map(|it| Some(&it.expression));
        let holds = |value: &cel::Value<'_>| value.as_bool() == Some(true);
        let outcomes = match evaluation.run(expressions, &mut budget, holds) {
            Ok(outcomes) => outcomes,
            Err(exhausted) => return self.failed(exhausted.to_string()),
        };
        let without_authorizer = Evaluation { authorizer: None, ..*evaluation };
        let expressions = self.validations.iter().map(|it| it.message_expression.as_ref());
        let messages = without_authorizer
            .run(expressions, &mut budget, |value| value.as_str().unwrap_or_default().to_owned());
        let decisions = self.validations.iter().zip(outcomes).enumerate();
        let decisions = decisions.map(|(index, (validation, outcome))| {
            let message = messages.as_ref().map(|it| it[index].as_ref());
            self.decide(validation, outcome?, message)
        });
        let decisions = decisions.collect();
        // Upstream: audit annotations have a budget of their own. They are evaluated without the
        // authorizer, although they are compiled with it.
        let mut budget = BUDGET;
        let expressions = self.annotations.iter().map(|it| Some(&it.expression));
        let values = match without_authorizer.run(expressions, &mut budget, annotation) {
            Ok(values) => values,
            Err(exhausted) => return self.failed(exhausted.to_string()),
        };
        let annotations = self.annotations.iter().zip(values);
        let annotations = annotations.filter_map(|(it, value)| {
            let value = match value? {
                Ok(Ok(value)) => Ok(value?),
                Ok(Err(type_name)) => Err(format!(
                    "valueExpression '{}' resulted in unsupported return type: {type_name}. Return type must be either string or null.",
                    it.expression.source
                )),
                Err(_) if self.spec.failure_policy == FailurePolicy::Ignore => return None,
                Err(why) => Err(why),
            };
            Some((it.key.as_str(), value))
        });
        ValidationResult { decisions, annotations: annotations.collect() }
    }

    /// The result of a policy that fails as a whole.
    fn failed(&self, why: String) -> ValidationResult<'_> {
        ValidationResult { decisions: vec![self.failure(why)], annotations: Vec::new() }
    }

    fn failure(&self, why: String) -> Option<Denial> {
        (self.spec.failure_policy == FailurePolicy::Fail).then(|| Denial::invalid(why))
    }

    fn decide(
        &self,
        validation: &Validation,
        outcome: EvaluationResult<bool>,
        message: Result<Option<&EvaluationResult<String>>, &BudgetExhausted>,
    ) -> Option<Denial> {
        let holds = match outcome {
            Ok(holds) => holds,
            Err(why) => return self.failure(why),
        };
        let message = match message {
            Ok(message) => message,
            Err(exhausted) => {
                return self.failure(format!("failed messageExpression: {exhausted}"));
            }
        };
        (!holds).then(|| Denial { message: validation.message(message), reason: validation.reason })
    }
}

impl Validation {
    /// The result of the message expression if it is usable, otherwise the message in the policy.
    fn message(&self, evaluated: Option<&EvaluationResult<String>>) -> String {
        let evaluated = evaluated.and_then(|it| it.as_ref().ok()).map(|it| it.trim());
        let is_usable = |it: &&str| !it.is_empty() && it.len() <= MAX_MESSAGE && !it.contains('\n');
        match (evaluated.filter(is_usable), self.message.trim()) {
            (Some(evaluated), _) => evaluated.to_owned(),
            (None, "") => format!("failed expression: {}", self.expression.source.trim()),
            (None, message) => message.to_owned(),
        }
    }
}

/// The value of an audit annotation, if any. An error has the name of an unsupported type.
fn annotation(value: &cel::Value<'_>) -> Result<Option<String>, String> {
    match value {
        cel::Value::Null => Ok(None),
        cel::Value::String(text) => {
            let text = text.trim();
            let mut end = text.len().min(MAX_ANNOTATION_VALUE);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            Ok(Some(text[..end].to_owned()).filter(|it| !it.is_empty()))
        }
        other => Err(other.type_name().to_owned()),
    }
}

fn annotate(scope: &RequestScope, key: &str, value: &str) {
    if let Some(audit) = &scope.audit {
        audit.annotate(key, value);
    }
}
