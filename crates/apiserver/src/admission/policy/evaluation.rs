//! [`Evaluation`]: runs a policy's expressions over one request, within a budget.
//!
//! Expressions that are evaluated together share their variables, each of which is computed when it
//! is first asked for, and a budget, from which the cost of the variables is taken as well.

use super::compiler::{Expression, Variable};
use cel::library::authorizer::{self, Authorizer, Check};
use cel::{Bindings, Budget, DeclType, EvalError, Fields, Map, Value as CelValue};
use machinery::field_path::quote;
use machinery::{Object, Value};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

/// What one expression or variable may cost: about a tenth of a second.
const PER_CALL: u64 = 1_000_000;

/// What the expressions of a policy may cost together, for one binding and parameter.
pub(super) const BUDGET: u64 = 10_000_000;

/// What match conditions may cost together.
pub(super) const CONDITIONS_BUDGET: u64 = 2_500_000;

/// How many variables may be computed for the sake of each other at a time: each takes its part of
/// the stack.
const MAX_NESTED: usize = 64;

static ANY: LazyLock<DeclType> = LazyLock::new(DeclType::any);

/// The budget is spent: nothing more is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "validation failed due to running out of cost budget, no further validation rules will be run"
)]
pub(super) struct Exhausted;

/// See the [module documentation](self).
pub(super) struct Evaluation<'a> {
    /// Those of the policy.
    pub variables: &'a [Variable],
    /// The new object, in the version that the policy is about.
    pub object: Option<&'a Object>,
    /// The same for the old one.
    pub old: Option<&'a Object>,
    /// The request.
    pub request: &'a Value,
    /// Of the object, or null.
    pub namespace: &'a Value,
    /// Or None.
    pub params: Option<&'a Object>,
    /// Whom to ask, and about what by default; None for messages.
    pub authorizer: Option<(Arc<dyn Authorizer>, Check)>,
}

/// What became of an expression, read by the caller; or why it failed, for the client.
pub(super) type Outcome<T> = Result<T, String>;

impl Evaluation<'_> {
    /// Evaluates expressions one after the other and reads their values. Where there is no
    /// expression there is no outcome.
    pub(super) fn run<'e, T>(
        &self,
        expressions: impl IntoIterator<Item = Option<&'e Expression>>,
        budget: &mut u64,
        read: impl Fn(&CelValue<'_>) -> T,
    ) -> Result<Vec<Option<Outcome<T>>>, Exhausted> {
        let computed = Computed::new(self.variables.len());
        let scope = Scope { evaluation: self, computed: &computed };
        let _ = computed.scope.set(&scope);
        let mut outcomes = Vec::new();
        for expression in expressions {
            let Some(expression) = expression else {
                outcomes.push(None);
                continue;
            };
            let program = match &expression.program {
                Ok(program) => program,
                Err(fault) => {
                    outcomes.push(Some(Err(format!("compilation error: {fault}"))));
                    continue;
                }
            };
            let mut own = Budget { remaining: u64::MAX, per_call: PER_CALL };
            let outcome = program.evaluate(&scope.bindings(), &mut own);
            let cost = (u64::MAX - own.remaining).saturating_add(computed.cost());
            *budget = budget.checked_sub(cost).ok_or(Exhausted)?;
            outcomes.push(Some(outcome.map(|value| read(&value)).map_err(|error| {
                format!("expression '{}' resulted in error: {error}", expression.source)
            })));
        }
        Ok(outcomes)
    }
}

/// The variables as far as they are known.
struct Computed<'a> {
    values: Vec<OnceLock<Result<CelValue<'a>, EvalError>>>,
    /// What variables see as `variables`.
    scope: OnceLock<&'a dyn Fields>,
    spent: AtomicU64,
    nested: AtomicUsize,
}

impl Computed<'_> {
    fn new(count: usize) -> Self {
        Self {
            values: (0..count).map(|_| OnceLock::new()).collect(),
            scope: OnceLock::new(),
            spent: AtomicU64::new(0),
            nested: AtomicUsize::new(0),
        }
    }

    /// What the variables have cost since this was last asked.
    fn cost(&self) -> u64 {
        self.spent.swap(0, Ordering::Relaxed)
    }
}

/// What the names in expressions stand for.
struct Scope<'a> {
    evaluation: &'a Evaluation<'a>,
    computed: &'a Computed<'a>,
}

impl<'a> Scope<'a> {
    fn bindings(&self) -> Bindings<'a> {
        let evaluation = self.evaluation;
        let json = |value: &'a Value| CelValue::from_json(value, &ANY).unwrap_or(CelValue::Null);
        let mut bindings = Bindings::new()
            .value("object", view(evaluation.object))
            .value("oldObject", view(evaluation.old))
            .value("request", json(evaluation.request))
            .value("namespaceObject", json(evaluation.namespace))
            .value("params", view(evaluation.params));
        if let Some((judge, check)) = &evaluation.authorizer {
            let request = authorizer::resource_check(Arc::clone(judge), check.clone());
            bindings = bindings
                .value("authorizer", authorizer::authorizer(Arc::clone(judge)))
                .value("authorizer.requestResource", request);
        }
        match self.computed.scope.get() {
            Some(scope) => bindings.value("variables", CelValue::Fields(*scope)),
            None => bindings,
        }
    }

    fn variable(&self, index: usize) -> Result<CelValue<'a>, EvalError> {
        let known = &self.computed.values[index];
        if let Some(value) = known.get() {
            return value.clone();
        }
        let variable = &self.evaluation.variables[index];
        let name = quote(&variable.name);
        let fails = |why: String| {
            EvalError::from(format!("composited variable {name} fails to evaluate: {why}"))
        };
        let program = variable.program.as_ref().map_err(|fault| {
            EvalError::from(format!("composited variable {name} fails to compile: {fault}"))
        })?;
        if self.computed.nested.fetch_add(1, Ordering::Relaxed) >= MAX_NESTED {
            self.computed.nested.fetch_sub(1, Ordering::Relaxed);
            return Err(fails("too many variables depend on each other".to_owned()));
        }
        let mut budget = Budget { remaining: u64::MAX, per_call: PER_CALL };
        let outcome = program.evaluate(&self.bindings(), &mut budget);
        self.computed.nested.fetch_sub(1, Ordering::Relaxed);
        self.computed.spent.fetch_add(u64::MAX - budget.remaining, Ordering::Relaxed);
        let outcome = outcome.map_err(|error| fails(error.to_string()));
        known.get_or_init(|| outcome).clone()
    }
}

impl Fields for Scope<'_> {
    fn get(&self, name: &str) -> Option<Result<CelValue<'_>, EvalError>> {
        let index = self.evaluation.variables.iter().rposition(|it| it.name == name)?;
        Some(self.variable(index))
    }
}

impl std::fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.evaluation.variables.iter().map(|it| &it.name);
        f.debug_set().entries(names).finish()
    }
}

/// An object as expressions see it: where it lies, and of whatever kind it is.
fn view(object: Option<&Object>) -> CelValue<'_> {
    object.map_or(CelValue::Null, |object| {
        CelValue::Map(Map::Json { entries: object.map(), value: &ANY })
    })
}
