//! [`Evaluation`]: runs a policy's expressions over one request, within a budget.
//!
//! Expressions that are evaluated together share their variables, each of which is computed when it
//! is first asked for, and a budget, from which the cost of the variables is taken as well.
//!
//! A variable is computed in the midst of the expression that asks for it, unless too many wait for
//! each other already: each takes its part of the stack. Then they are all given up, the one that
//! is wanted is computed by itself, and the expression is begun anew.

use super::compiler::{Expression, Variable};
use cel::library::authorizer::{self, Authorizer, Check};
use cel::{Bindings, Budget, DeclType, EvalError, Fields, Map, Program, Value as CelValue};
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

/// How many variables may wait for each other.
const MAX_WAITING: usize = 2;

/// What may be given up for variables, lest beginning anew take longer than everything else.
const MAX_GIVEN_UP: u64 = 4 * BUDGET;

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
            let (outcome, cost) = scope.evaluate(program)?;
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
    /// What they have cost since that was last charged.
    spent: AtomicU64,
    /// What was spent in vain.
    given_up: AtomicU64,
    /// How many wait for each other.
    waiting: AtomicUsize,
    /// The one for which everything is given up, counted from one; zero for none.
    wanted: AtomicUsize,
}

impl Computed<'_> {
    fn new(count: usize) -> Self {
        Self {
            values: (0..count).map(|_| OnceLock::new()).collect(),
            scope: OnceLock::new(),
            spent: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            wanted: AtomicUsize::new(0),
        }
    }

    /// The one that must be computed before anything else.
    fn take_wanted(&self) -> Option<usize> {
        self.wanted.swap(0, Ordering::Relaxed).checked_sub(1)
    }

    fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) > 0
    }

    fn give_up(&self, cost: u64) {
        self.given_up.fetch_add(cost, Ordering::Relaxed);
    }

    fn check(&self) -> Result<(), Exhausted> {
        if self.given_up.load(Ordering::Relaxed) > MAX_GIVEN_UP { Err(Exhausted) } else { Ok(()) }
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
        if let Some((for_user, check)) = &evaluation.authorizer {
            let request = authorizer::resource_check(Arc::clone(for_user), check.clone());
            bindings = bindings
                .value("authorizer", authorizer::authorizer(Arc::clone(for_user)))
                .value("authorizer.requestResource", request);
        }
        match self.computed.scope.get() {
            Some(scope) => bindings.value("variables", CelValue::Fields(*scope)),
            None => bindings,
        }
    }

    /// The value of an expression, and its cost with that of the variables that it was the first to
    /// ask for.
    fn evaluate(
        &self,
        program: &'a Program,
    ) -> Result<(Result<CelValue<'a>, EvalError>, u64), Exhausted> {
        loop {
            let (outcome, cost) = self.attempt(program);
            let Some(wanted) = self.computed.take_wanted() else {
                let variables = self.computed.spent.swap(0, Ordering::Relaxed);
                return Ok((outcome, cost.saturating_add(variables)));
            };
            self.computed.give_up(cost);
            self.settle(wanted)?;
        }
    }

    fn attempt(&self, program: &'a Program) -> (Result<CelValue<'a>, EvalError>, u64) {
        let mut budget = Budget { remaining: u64::MAX, per_call: PER_CALL };
        let outcome = program.evaluate(&self.bindings(), &mut budget);
        (outcome, u64::MAX - budget.remaining)
    }

    /// Computes a variable, after those that it waits for.
    fn settle(&self, index: usize) -> Result<(), Exhausted> {
        let mut waiting = vec![index];
        while let Some(index) = waiting.last() {
            self.computed.check()?;
            let _ = self.variable(*index);
            match self.computed.take_wanted() {
                None => {
                    waiting.pop();
                }
                Some(wanted) if waiting.contains(&wanted) => {
                    let error = self.fails(wanted, "it depends on itself");
                    let _ = self.computed.values[wanted].set(Err(error));
                }
                Some(wanted) => waiting.push(wanted),
            }
        }
        Ok(())
    }

    fn variable(&self, index: usize) -> Result<CelValue<'a>, EvalError> {
        let computed = self.computed;
        if let Some(value) = computed.values[index].get() {
            return value.clone();
        }
        let variable = &self.evaluation.variables[index];
        let program = variable.program.as_ref().map_err(|fault| {
            let name = quote(&variable.name);
            EvalError::from(format!("composited variable {name} fails to compile: {fault}"))
        })?;
        if computed.waiting.load(Ordering::Relaxed) >= MAX_WAITING {
            computed.wanted.store(index + 1, Ordering::Relaxed);
            // No operator absorbs this error.
            return Err(EvalError::Cost);
        }
        computed.waiting.fetch_add(1, Ordering::Relaxed);
        let (outcome, cost) = self.attempt(program);
        computed.waiting.fetch_sub(1, Ordering::Relaxed);
        if computed.is_wanted() {
            computed.give_up(cost);
            return Err(EvalError::Cost);
        }
        computed.spent.fetch_add(cost, Ordering::Relaxed);
        let outcome = outcome.map_err(|error| self.fails(index, &error.to_string()));
        computed.values[index].get_or_init(|| outcome).clone()
    }

    fn fails(&self, index: usize, why: &str) -> EvalError {
        let name = quote(&self.evaluation.variables[index].name);
        format!("composited variable {name} fails to evaluate: {why}").into()
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
