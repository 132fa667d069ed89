//! The evaluator: runs a plan over bound values, and pays for each step.
//!
//! Costs are those of cel-go: a name or field costs one, a call the size of its arguments, `&&`,
//! `||` and `?:` nothing. When the budget is exhausted, the evaluation ends with
//! [`EvalError::Cost`], which no operator absorbs.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cost::runtime;
use crate::error::EvalError;
use crate::go_regexp::Matcher;
use crate::library::{EvalResult, Run, regexes};
use crate::plan::{Attribute, Base, Call, Fold, Key, Node, Plan, Qualifier};
use crate::program::Bindings;
use crate::value::equality::equal;
use crate::value::map::Entries;
use crate::value::{List, Map, Struct, Value};

mod attribute;
mod fold;
mod type_errors;

/// Cost of making a list, a map and a message.
const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;
const STRUCT_COST: u64 = 40;

/// Cost of compiling a pattern that is no constant.
const PATTERN_COST: u64 = 2000;
/// That many such patterns are kept while an expression is evaluated.
const PATTERNS_MAX: usize = 16;

/// A run of one program.
pub(crate) struct Evaluator<'a, 'b> {
    plan: &'a Plan,
    bindings: &'b Bindings<'a>,
    /// The variables of the comprehensions that are under way; the planner numbered them.
    locals: Vec<Local<'a>>,
    /// Patterns that are no constants, as they were compiled.
    patterns: BTreeMap<String, Matcher>,
    spent: u64,
    limit: u64,
}

/// A variable of a comprehension.
enum Local<'a> {
    /// The initial value was not read yet.
    Lazy(&'a Node),
    Ready(EvalResult<'a>),
    /// Moved into the step that will replace it.
    Taken,
}

impl<'a, 'b> Evaluator<'a, 'b> {
    pub(crate) fn new(plan: &'a Plan, bindings: &'b Bindings<'a>, limit: u64) -> Self {
        Self { plan, bindings, locals: Vec::new(), patterns: BTreeMap::new(), spent: 0, limit }
    }

    /// The value, and what it cost; the cost is known for failures as well.
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
            Node::Equal(sides, wanted) => self.equality(sides, *wanted),
            Node::InConstants(value, list) => {
                let value = self.eval(value)?;
                Ok(Value::Bool(list.iter().any(|own| equal(own, &value))))
            }
            Node::OptionalOr(sides, unwrap) => self.optional_or(sides, *unwrap),
            Node::Call(call) => self.call(call),
            Node::List(items) => self.list(items),
            Node::Map(entries) => self.map(entries),
            Node::Struct { name, fields } => {
                let mut made = Struct { name: Arc::clone(name), fields: BTreeMap::new() };
                for (field, value, optional) in fields {
                    if let Some(value) = self.part(value, *optional)? {
                        made.fields.insert(field.clone(), value);
                    }
                }
                self.charge(STRUCT_COST)?;
                Ok(Value::Struct(made.into()))
            }
            Node::Fold(fold) => self.fold(fold),
        }
    }

    /// `&&` stops at the first false, `||` at the first true; what decides hides errors.
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

    fn equality(&mut self, sides: &'a (Node, Node), wanted: bool) -> EvalResult<'a> {
        let (left, right) = (self.eval(&sides.0), self.eval(&sides.1));
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

    fn optional_or(&mut self, sides: &'a (Node, Node), unwrap: bool) -> EvalResult<'a> {
        match self.eval(&sides.0)? {
            Value::Optional(Some(value)) if unwrap => Ok((*value).clone()),
            some @ Value::Optional(Some(_)) => Ok(some),
            Value::Optional(None) => self.eval(&sides.1),
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
                // Of two arguments both are evaluated; of more, the first failure ends the call.
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

    /// The accumulator of a comprehension is moved into the call that makes its next value, so
    /// that a list or map can grow in place.
    fn argument(&mut self, call: &Call, index: usize, arg: &'a Node) -> EvalResult<'a> {
        if index == 0
            && call.grows
            && let Node::Attribute(attribute) = arg
            && let Attribute { base: Base::Accumulator(slot), qualifiers, .. } = &**attribute
            && qualifiers.is_empty()
        {
            self.charge(1)?;
            return self.take(*slot);
        }
        self.eval(arg)
    }

    /// The pattern of a call that is no constant. Compiling one takes far longer than cel-go's cost
    /// of matching suggests.
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

    /// An element, entry or field; none if it is optional and has no value.
    fn part(&mut self, node: &'a Node, optional: bool) -> Result<Option<Value<'a>>, EvalError> {
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
            values.extend(self.part(item, *optional)?);
        }
        self.charge(LIST_COST)?;
        Ok(Value::list(values))
    }

    fn map(&mut self, items: &'a [(Node, Node, bool)]) -> EvalResult<'a> {
        let mut entries = Entries::default();
        for (key, value, optional) in items {
            let key = self.eval(key)?;
            if let Some(value) = self.part(value, *optional)? {
                entries.insert(key, value)?;
            }
        }
        self.charge(MAP_COST)?;
        Ok(Value::Map(Map::Values(entries.into())))
    }
}
