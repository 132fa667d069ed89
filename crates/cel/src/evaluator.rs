//! The evaluator: evaluates a plan with bound values, and counts the cost of each step.
//!
//! Costs are those of cel-go: a name or field costs one, a call the size of its arguments, `&&`,
//! `||` and `?:` nothing. When the budget is exhausted, the evaluation ends with
//! [`EvalError::Cost`], which is not absorbed by `||` and `&&` as other errors are.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cost::runtime;
use crate::error::EvalError;
use crate::go_regexp::Matcher;
use crate::library::{EvalResult, Run, regexes};
use crate::plan::{Attribute, Base, Call, Comprehension, Key, Node, Plan, Qualifier};
use crate::program::Bindings;
use crate::value::equality::equal;
use crate::value::map::Entries;
use crate::value::{List, Map, Struct, Value};

mod attribute;
mod comprehension;
mod type_errors;

/// Cost of creating a list, a map and a message.
const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;
const STRUCT_COST: u64 = 40;

/// Cost of compiling a pattern that is not a constant.
const PATTERN_COST: u64 = 2000;
/// The maximum number of such patterns that are cached during an evaluation.
const PATTERNS_MAX: usize = 16;

/// One evaluation of a program.
pub(crate) struct Evaluator<'a, 'b> {
    plan: &'a Plan,
    bindings: &'b Bindings<'a>,
    /// The stack of variables of the current comprehensions. The planner assigned their positions.
    locals: Vec<Local<'a>>,
    /// Compiled patterns that are not constants.
    patterns: BTreeMap<String, Matcher>,
    spent: u64,
    limit: u64,
}

/// A variable of a comprehension.
enum Local<'a> {
    /// The initial value, which is not evaluated yet.
    Lazy(&'a Node),
    Ready(EvalResult<'a>),
    /// The value was moved into the step that computes the next one.
    Taken,
}

impl<'a, 'b> Evaluator<'a, 'b> {
    pub(crate) fn new(plan: &'a Plan, bindings: &'b Bindings<'a>, limit: u64) -> Self {
        Self { plan, bindings, locals: Vec::new(), patterns: BTreeMap::new(), spent: 0, limit }
    }

    /// The result and the cost, which is known for failures as well.
    pub(crate) fn run(mut self) -> (EvalResult<'a>, u64) {
        let plan = self.plan;
        let outcome = self.eval(&plan.root);
        (outcome, self.spent)
    }

    fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.spent = self.spent.saturating_add(cost);
        if self.spent > self.limit { Err(EvalError::Cost) } else { Ok(()) }
    }

    fn eval(&mut self, node: &'a Node) -> EvalResult<'a> {
        match node {
            Node::Constant(value) => Ok(value.clone()),
            Node::Attribute(attribute) => self.attribute(attribute),
            Node::All(terms) => self.logical(terms, false),
            Node::Any(terms) => self.logical(terms, true),
            Node::NotStrictlyFalse(inner) => self.not_strictly_false(inner),
            Node::Equal { operands, is_negated } => self.equality(operands, !is_negated),
            Node::InConstants(value, list) => {
                let value = self.eval(value)?;
                Ok(Value::Bool(list.iter().any(|own| equal(own, &value))))
            }
            Node::OptionalOr { operands, unwraps } => self.optional_or(operands, *unwraps),
            Node::Call(call) => self.call(call),
            Node::List(items) => self.list(items),
            Node::Map(entries) => self.map(entries),
            Node::Struct { name, fields } => {
                let mut made = Struct { name: Arc::clone(name), fields: BTreeMap::new() };
                for (field, value, optional) in fields {
                    if let Some(value) = self.element(value, *optional)? {
                        made.fields.insert(field.clone(), value);
                    }
                }
                self.charge(STRUCT_COST)?;
                Ok(Value::Struct(made.into()))
            }
            Node::Comprehension(comprehension) => self.comprehension(comprehension),
        }
    }

    /// `&&` stops at the first false, `||` at the first true (`decisive`); that operand hides
    /// errors of the others.
    fn logical(&mut self, terms: &'a [Node], decisive: bool) -> EvalResult<'a> {
        let mut failure = None;
        for term in terms {
            match self.eval(term) {
                Ok(Value::Bool(value)) if value == decisive => return Ok(Value::Bool(value)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => failure = failure.or_else(|| Some(EvalError::no_such_overload())),
                Err(EvalError::Cost) => return Err(EvalError::Cost),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        match failure {
            Some(error) => Err(error),
            None => Ok(Value::Bool(!decisive)),
        }
    }

    fn not_strictly_false(&mut self, inner: &'a Node) -> EvalResult<'a> {
        let outcome = self.eval(inner);
        self.charge(1)?;
        match outcome {
            Err(EvalError::Cost) => Err(EvalError::Cost),
            Ok(Value::Bool(value)) => Ok(Value::Bool(value)),
            _ => Ok(Value::Bool(true)),
        }
    }

    fn equality(&mut self, operands: &'a (Node, Node), wanted: bool) -> EvalResult<'a> {
        let (left, right) = (self.eval(&operands.0), self.eval(&operands.1));
        let (left, right) = match (left, right) {
            (Ok(left), Ok(right)) => (left, right),
            (Err(EvalError::Cost), _) | (_, Err(EvalError::Cost)) => return Err(EvalError::Cost),
            (Err(error), _) | (_, Err(error)) => {
                self.charge(1)?;
                return Err(error);
            }
        };
        self.charge(runtime::equality(&left, &right, wanted))?;
        if wanted && type_errors::cannot_equal(&left, &right) {
            return Err(EvalError::no_such_overload());
        }
        Ok(Value::Bool(equal(&left, &right) == wanted))
    }

    fn optional_or(&mut self, operands: &'a (Node, Node), unwraps: bool) -> EvalResult<'a> {
        match self.eval(&operands.0)? {
            Value::Optional(Some(value)) if unwraps => Ok((*value).clone()),
            some @ Value::Optional(Some(_)) => Ok(some),
            Value::Optional(None) => self.eval(&operands.1),
            _ => Err(EvalError::no_such_overload()),
        }
    }

    fn call(&mut self, call: &'a Call) -> EvalResult<'a> {
        let mut args = Vec::with_capacity(call.args.len());
        let mut failure = None;
        for (index, arg) in call.args.iter().enumerate() {
            match self.argument(call, index, arg) {
                Ok(value) => args.push(value),
                Err(EvalError::Cost) => return Err(EvalError::Cost),
                // As cel-go, evaluates both of two arguments, but stops at the first failure of
                // more.
                Err(error) if call.args.len() > 2 => return Err(error),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        if let Some(error) = failure {
            self.charge(1)?;
            return Err(error);
        }
        let chosen = call.overloads.iter().find(|overload| overload.accepts(&args));
        let Some(overload) = chosen else {
            self.charge(1)?;
            return Err(type_errors::no_overload(&call.function, &args));
        };
        let cost = runtime::before(call, &args);
        if let Some(cost) = cost {
            self.charge(cost)?;
        }
        let sized = cost.is_none().then(|| args.clone());
        let outcome = match overload.run {
            Run::Plain(run) => run(&mut args),
            Run::Regex(run) => {
                if let Some(regex) = &call.regex {
                    run(&mut args, regex)
                } else {
                    let regex = self.pattern(&args)?;
                    run(&mut args, &regex)
                }
            }
            Run::Evaluator => Err(EvalError::no_such_overload()),
        };
        if let Some(args) = sized {
            self.charge(runtime::after(call, &args, outcome.as_ref().ok()))?;
        }
        outcome
    }

    /// Evaluates an argument. The accumulator of a comprehension is moved into the call that
    /// computes its next value, so that a list or map can grow in place.
    fn argument(&mut self, call: &Call, index: usize, arg: &'a Node) -> EvalResult<'a> {
        if index == 0
            && call.consumes_accumulator
            && let Node::Attribute(attribute) = arg
            && let Attribute { base: Base::Accumulator(slot), qualifiers, .. } = &**attribute
            && qualifiers.is_empty()
        {
            self.charge(1)?;
            return self.take_accumulator(*slot);
        }
        self.eval(arg)
    }

    /// Compiles the pattern of a call if it is not a constant. It has an additional cost, because
    /// compiling takes far longer than cel-go's cost of matching suggests.
    fn pattern(&mut self, args: &[Value<'_>]) -> Result<Matcher, EvalError> {
        let pattern =
            args.get(1).and_then(Value::as_str).ok_or_else(EvalError::no_such_overload)?;
        if let Some(known) = self.patterns.get(pattern) {
            return Ok(known.clone());
        }
        self.charge(PATTERN_COST)?;
        let regex = regexes::compile_dynamic(pattern).map_err(EvalError::Failed)?;
        if self.patterns.len() >= PATTERNS_MAX {
            self.patterns.clear();
        }
        self.patterns.insert(pattern.to_owned(), regex.clone());
        Ok(regex)
    }

    /// The value of an element, entry or field; None if it is optional and has no value.
    fn element(&mut self, node: &'a Node, optional: bool) -> Result<Option<Value<'a>>, EvalError> {
        let value = self.eval(node)?;
        match value {
            Value::Optional(inner) if optional => Ok(inner.map(|inner| (*inner).clone())),
            value if optional => Err(format!(
                "cannot initialize optional list element from non-optional value {value}"
            )
            .into()),
            value => Ok(Some(value)),
        }
    }

    fn list(&mut self, items: &'a [(Node, bool)]) -> EvalResult<'a> {
        let mut values = Vec::with_capacity(items.len());
        for (item, optional) in items {
            values.extend(self.element(item, *optional)?);
        }
        self.charge(LIST_COST)?;
        Ok(Value::list(values))
    }

    fn map(&mut self, items: &'a [(Node, Node, bool)]) -> EvalResult<'a> {
        let mut entries = Entries::default();
        for (key, value, optional) in items {
            let key = self.eval(key)?;
            if let Some(value) = self.element(value, *optional)? {
                entries.insert(key, value)?;
            }
        }
        self.charge(MAP_COST)?;
        Ok(Value::Map(Map::Values(entries.into())))
    }
}
