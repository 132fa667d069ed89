//! [`Evaluation`]: evaluates the expressions of a policy for one request, within a cost budget.
//!
//! Expressions that are evaluated together share their variables and a budget. A variable is
//! evaluated at its first use, and its cost counts towards the budget.
//!
//! A variable is evaluated recursively, within the expression that uses it, up to a maximum depth
//! that bounds the use of the stack. Beyond that depth, the evaluation of all outer expressions is
//! discarded, the deferred variable is evaluated first, and the outer expression starts again.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

use super::compiler::{Expression, Variable};
use cel::library::authorizer::{self, Authorizer, Check};
use cel::{Bindings, Budget, DeclType, EvalError, Fields, Map, Program, Value as CelValue};
use machinery::field_path::quote;
use machinery::{Object, Value};

/// The cost limit of one expression or variable, upstream's `PerCallLimit`: about a tenth of a
/// second.
const PER_CALL: u64 = 1_000_000;

/// The cost limit of all expressions of a policy, for one binding and parameter: upstream's
/// `RuntimeCELCostBudget`.
pub(super) const BUDGET: u64 = 10_000_000;

/// The cost limit of all match conditions: upstream's `RuntimeCELCostBudgetMatchConditions`.
pub(super) const CONDITIONS_BUDGET: u64 = 2_500_000;

/// The maximum depth of recursive evaluation of variables.
const MAX_DEPTH: usize = 2;

/// The limit of discarded cost, so that restarts cannot take longer than the evaluation itself.
const MAX_DISCARDED_COST: u64 = 4 * BUDGET;

static ANY: LazyLock<DeclType> = LazyLock::new(DeclType::any);

/// The budget is exhausted: no further expression is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "validation failed due to running out of cost budget, no further validation rules will be run"
)]
pub(super) struct BudgetExhausted;

/// See the [module documentation](self).
pub(super) struct Evaluation<'a> {
    /// The variables of the policy.
    pub variables: &'a [Variable],
    /// The new object, in the version that the policy matches.
    pub object: Option<&'a Object>,
    /// The stored object, in the version that the policy matches.
    pub old: Option<&'a Object>,
    /// The `AdmissionRequest`.
    pub request: &'a Value,
    /// The namespace of the object, or null.
    pub namespace: &'a Value,
    /// The parameter, if the policy has one.
    pub params: Option<&'a Object>,
    /// The authorizer, and the check that `authorizer.requestResource` starts from; None for
    /// messages and audit annotations.
    pub authorizer: Option<(Arc<dyn Authorizer>, Check)>,
}

/// The value of an expression, as the caller reads it, or an error message for the client.
pub(super) type EvaluationResult<T> = Result<T, String>;

impl Evaluation<'_> {
    /// Evaluates expressions in their order and reads their values. A missing expression has the
    /// result None.
    pub(super) fn run<'e, T>(
        &self,
        expressions: impl IntoIterator<Item = Option<&'e Expression>>,
        budget: &mut u64,
        read: impl Fn(&CelValue<'_>) -> T,
    ) -> Result<Vec<Option<EvaluationResult<T>>>, BudgetExhausted> {
        let lazy = LazyVariables::new(self.variables.len());
        let scope = VariableScope { evaluation: self, lazy: &lazy };
        let _ = lazy.scope.set(&scope);
        let mut outcomes = Vec::new();
        for expression in expressions {
            let Some(expression) = expression else {
                outcomes.push(None);
                continue;
            };
            let program = match &expression.program {
                Ok(program) => program,
                Err(error) => {
                    outcomes.push(Some(Err(format!("compilation error: {error}"))));
                    continue;
                }
            };
            let (outcome, cost) = scope.evaluate(program)?;
            *budget = budget.checked_sub(cost).ok_or(BudgetExhausted)?;
            outcomes.push(Some(outcome.map(|value| read(&value)).map_err(|error| {
                format!("expression '{}' resulted in error: {error}", expression.source)
            })));
        }
        Ok(outcomes)
    }
}

/// The variables that are evaluated so far.
struct LazyVariables<'a> {
    values: Vec<OnceLock<Result<CelValue<'a>, EvalError>>>,
    /// The value of `variables` in the expressions of variables.
    scope: OnceLock<&'a dyn Fields>,
    /// The cost of variables that is not subtracted from the budget yet.
    uncharged_cost: AtomicU64,
    /// The cost of discarded evaluations.
    discarded: AtomicU64,
    /// The current depth of recursive evaluation.
    depth: AtomicUsize,
    /// The index of the deferred variable plus one; zero for none.
    deferred: AtomicUsize,
}

impl LazyVariables<'_> {
    fn new(count: usize) -> Self {
        Self {
            values: (0..count).map(|_| OnceLock::new()).collect(),
            scope: OnceLock::new(),
            uncharged_cost: AtomicU64::new(0),
            discarded: AtomicU64::new(0),
            depth: AtomicUsize::new(0),
            deferred: AtomicUsize::new(0),
        }
    }

    /// The index of the variable that must be evaluated first.
    fn take_deferred(&self) -> Option<usize> {
        self.deferred.swap(0, Ordering::Relaxed).checked_sub(1)
    }

    fn has_deferred(&self) -> bool {
        self.deferred.load(Ordering::Relaxed) > 0
    }

    fn discard(&self, cost: u64) {
        self.discarded.fetch_add(cost, Ordering::Relaxed);
    }

    fn check_discarded_cost(&self) -> Result<(), BudgetExhausted> {
        if self.discarded.load(Ordering::Relaxed) > MAX_DISCARDED_COST {
            Err(BudgetExhausted)
        } else {
            Ok(())
        }
    }
}

/// The variables of expressions.
struct VariableScope<'a> {
    evaluation: &'a Evaluation<'a>,
    lazy: &'a LazyVariables<'a>,
}

impl<'a> VariableScope<'a> {
    fn bindings(&self) -> Bindings<'a> {
        let evaluation = self.evaluation;
        let json = |value: &'a Value| CelValue::from_json(value, &ANY).unwrap_or(CelValue::Null);
        let mut bindings = Bindings::new()
            .value("object", view(evaluation.object))
            .value("oldObject", view(evaluation.old))
            .value("request", json(evaluation.request))
            .value("namespaceObject", json(evaluation.namespace))
            .value("params", view(evaluation.params));
        if let Some((user_authorizer, check)) = &evaluation.authorizer {
            let request = authorizer::resource_check(Arc::clone(user_authorizer), check.clone());
            bindings = bindings
                .value("authorizer", authorizer::authorizer(Arc::clone(user_authorizer)))
                .value("authorizer.requestResource", request);
        }
        match self.lazy.scope.get() {
            Some(scope) => bindings.value("variables", CelValue::Fields(*scope)),
            None => bindings,
        }
    }

    /// The value of an expression, and its cost. The cost includes the variables that this
    /// expression is the first to use.
    fn evaluate(
        &self,
        program: &'a Program,
    ) -> Result<(Result<CelValue<'a>, EvalError>, u64), BudgetExhausted> {
        loop {
            let (outcome, cost) = self.run_program(program);
            let Some(deferred) = self.lazy.take_deferred() else {
                let variables = self.lazy.uncharged_cost.swap(0, Ordering::Relaxed);
                return Ok((outcome, cost.saturating_add(variables)));
            };
            self.lazy.discard(cost);
            self.compute_deferred(deferred)?;
        }
    }

    fn run_program(&self, program: &'a Program) -> (Result<CelValue<'a>, EvalError>, u64) {
        let mut budget = Budget { remaining: u64::MAX, per_call: PER_CALL };
        let outcome = program.evaluate(&self.bindings(), &mut budget);
        (outcome, u64::MAX - budget.remaining)
    }

    /// Evaluates a deferred variable, after the variables that it depends on.
    fn compute_deferred(&self, index: usize) -> Result<(), BudgetExhausted> {
        let mut waiting = vec![index];
        while let Some(index) = waiting.last() {
            self.lazy.check_discarded_cost()?;
            let _ = self.variable(*index);
            match self.lazy.take_deferred() {
                None => {
                    waiting.pop();
                }
                Some(deferred) if waiting.contains(&deferred) => {
                    let error = self.evaluation_error(deferred, "it depends on itself");
                    let _ = self.lazy.values[deferred].set(Err(error));
                }
                Some(deferred) => waiting.push(deferred),
            }
        }
        Ok(())
    }

    fn variable(&self, index: usize) -> Result<CelValue<'a>, EvalError> {
        let lazy = self.lazy;
        if let Some(value) = lazy.values[index].get() {
            return value.clone();
        }
        let variable = &self.evaluation.variables[index];
        let program = variable.program.as_ref().map_err(|error| {
            let name = quote(&variable.name);
            EvalError::from(format!("composited variable {name} fails to compile: {error}"))
        })?;
        if lazy.depth.load(Ordering::Relaxed) >= MAX_DEPTH {
            lazy.deferred.store(index + 1, Ordering::Relaxed);
            // CEL's logical operators do not absorb this error.
            return Err(EvalError::Cost);
        }
        lazy.depth.fetch_add(1, Ordering::Relaxed);
        let (outcome, cost) = self.run_program(program);
        lazy.depth.fetch_sub(1, Ordering::Relaxed);
        if lazy.has_deferred() {
            lazy.discard(cost);
            return Err(EvalError::Cost);
        }
        lazy.uncharged_cost.fetch_add(cost, Ordering::Relaxed);
        let outcome = outcome.map_err(|error| self.evaluation_error(index, &error.to_string()));
        lazy.values[index].get_or_init(|| outcome).clone()
    }

    fn evaluation_error(&self, index: usize, why: &str) -> EvalError {
        let name = quote(&self.evaluation.variables[index].name);
        format!("composited variable {name} fails to evaluate: {why}").into()
    }
}

impl Fields for VariableScope<'_> {
    fn get(&self, name: &str) -> Option<Result<CelValue<'_>, EvalError>> {
        let index = self.evaluation.variables.iter().rposition(|it| it.name == name)?;
        Some(self.variable(index))
    }
}

impl std::fmt::Debug for VariableScope<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.evaluation.variables.iter().map(|it| &it.name);
        f.debug_set().entries(names).finish()
    }
}

/// An object as a CEL value, without a copy and without a declared type.
fn view(object: Option<&Object>) -> CelValue<'_> {
    object.map_or(CelValue::Null, |object| {
        CelValue::Map(Map::Json { entries: object.map(), value: &ANY })
    })
}
