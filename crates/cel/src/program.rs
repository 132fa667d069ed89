//! [`Program`]: a compiled expression, which any thread can evaluate any number of times.

use std::collections::HashMap;

use serde_json::Value as Json;

use crate::checker::Checked;
use crate::cost::{CostEstimate, estimator};
use crate::env::Env;
use crate::error::EvalError;
use crate::evaluator::Evaluator;
use crate::plan::{self, Plan};
use crate::types::Type;
use crate::value::Value;

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    plan: Plan,
    result: Type,
    estimate: CostEstimate,
}

/// The cost limits of evaluations; several evaluations can share one budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// The remaining cost.
    pub remaining: u64,
    /// The maximum cost of one evaluation.
    pub per_call: u64,
}

impl Budget {
    /// No limit.
    pub const UNLIMITED: Self = Self { remaining: u64::MAX, per_call: u64::MAX };

    /// A budget without a limit for one evaluation.
    pub fn new(remaining: u64) -> Self {
        Self { remaining, per_call: u64::MAX }
    }
}

/// The values of the variables for one evaluation.
#[derive(Debug, Default)]
pub struct Bindings<'a> {
    bound: HashMap<&'a str, Bound<'a>>,
}

#[derive(Debug)]
enum Bound<'a> {
    Json(&'a Json),
    Optional(Option<&'a Json>),
    Value(Value<'a>),
}

impl<'a> Bindings<'a> {
    /// No bindings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Binds JSON, which is converted by the declared type of the variable.
    #[must_use]
    pub fn json(mut self, name: &'a str, json: &'a Json) -> Self {
        self.bound.insert(name, Bound::Json(json));
        self
    }

    /// Binds an optional variable.
    #[must_use]
    pub fn optional_json(mut self, name: &'a str, json: Option<&'a Json>) -> Self {
        self.bound.insert(name, Bound::Optional(json));
        self
    }

    /// Binds a CEL value.
    #[must_use]
    pub fn value(mut self, name: &'a str, value: Value<'a>) -> Self {
        self.bound.insert(name, Bound::Value(value));
        self
    }

    pub(crate) fn get(&self, plan: &'a Plan, name: &str) -> Option<Result<Value<'a>, EvalError>> {
        let declared = || plan.variables.iter().find(|(own, _)| own == name).map(|(_, it)| it);
        Some(match self.bound.get(name)? {
            Bound::Value(value) => Ok(value.clone()),
            Bound::Json(json) => Value::from_json(json, &declared()?.decl),
            Bound::Optional(None) => Ok(Value::Optional(None)),
            Bound::Optional(Some(json)) => {
                Value::from_json(json, &declared()?.decl).map(Value::some)
            }
        })
    }
}

impl Program {
    pub(crate) fn new(checked: &Checked, env: &Env) -> Result<Self, String> {
        let plan = plan::build(checked, env)?;
        let estimate = estimator::estimate(checked, env);
        let result = checked.types[checked.expr.id].clone();
        Ok(Self { plan, result, estimate })
    }

    /// The type of the result.
    pub fn result_type(&self) -> &Type {
        &self.result
    }

    /// The minimum and the maximum cost of an evaluation, given the declared sizes.
    pub fn estimate_cost(&self) -> CostEstimate {
        self.estimate
    }

    /// The approximate memory of the program in bytes, mostly that of its patterns.
    pub fn memory(&self) -> usize {
        self.plan.memory
    }

    /// Whether the expression uses the variable.
    pub fn uses(&self, variable: &str) -> bool {
        self.plan.variables.iter().any(|(name, _)| name == variable)
    }

    /// Evaluates the expression, and subtracts its cost from the budget even if it fails.
    pub fn evaluate<'a>(
        &'a self,
        bindings: &Bindings<'a>,
        budget: &mut Budget,
    ) -> Result<Value<'a>, EvalError> {
        let limit = budget.remaining.min(budget.per_call);
        let (outcome, cost) = Evaluator::new(&self.plan, bindings, limit).run();
        budget.remaining = budget.remaining.saturating_sub(cost);
        outcome
    }
}
