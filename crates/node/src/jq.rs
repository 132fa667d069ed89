//! [`Query`]: the subset of jq that selectors of stages use.
//!
//! Supported are paths (`.a.b`, `.a["b"]`, `.a[0]`, `.a[]`, `.a.[]`), pipes, `select(…)`, comparisons,
//! `and`, `or`, `not`, `//`, `length`, parentheses and literals.
//!
//! An evaluation fails after a number of steps; no values are copied before the end.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::Value;

use crate::text_reader;

/// The depth of parentheses, pipes and alternatives.
const MAX_DEPTH: usize = 50;

/// The number of terms and of parts of paths, which are nested too.
const MAX_PARTS: usize = 250;

/// The largest number of steps of the queries with one [`Budget`]: filters that are applied and their
/// results. KWOK's own selectors need less than a hundred.
const MAX_STEPS: usize = 100_000;

/// The number of bytes of a text that are compared or counted in one step.
const BYTES_PER_STEP: usize = 64;

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Query(Filter);

#[derive(Debug)]
enum Filter {
    Identity,
    Field(Box<Filter>, String),
    Element(Box<Filter>, usize),
    Iterate(Box<Filter>),
    Literal(Value),
    Pipe(Box<Filter>, Box<Filter>),
    Select(Box<Filter>),
    Compare(Box<Filter>, Operator, Box<Filter>),
    And(Box<Filter>, Box<Filter>),
    Or(Box<Filter>, Box<Filter>),
    Alternative(Box<Filter>, Box<Filter>),
    Not,
    Length,
}

#[derive(Debug, Clone, Copy)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Query {
    /// Parses a query.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { rest: text, depth: 0, parts: 0 };
        let filter = parser.pipe()?;
        parser.skip_spaces();
        if !parser.rest.is_empty() {
            return Err(format!("{:?} in the query {text:?} is not supported", parser.rest));
        }
        Ok(Self(filter))
    }

    /// The results other than null; none after an error, such as the elements of a text. Fails if the
    /// budget does not suffice.
    pub(crate) fn results<'a>(
        &'a self,
        input: &'a Value,
        budget: &mut Budget,
    ) -> Result<Vec<Cow<'a, Value>>, String> {
        let results = self.0.apply(Found::Value(input), budget).unwrap_or_default();
        if budget.is_exhausted {
            return Err(format!("its queries take more than {MAX_STEPS} steps"));
        }
        let results = results.into_iter().map(Found::into_value);
        Ok(results.filter(|result| !result.is_null()).collect())
    }
}

/// Limits the work of several queries.
#[derive(Debug)]
pub(crate) struct Budget {
    /// The steps that are left.
    steps: usize,
    is_exhausted: bool,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self { steps: MAX_STEPS, is_exhausted: false }
    }

    /// Counts steps; `None` if there are too many, also of all later steps.
    fn count(&mut self, steps: usize) -> Option<()> {
        match self.steps.checked_sub(steps) {
            Some(left) if !self.is_exhausted => self.steps = left,
            _ => {
                self.is_exhausted = true;
                return None;
            }
        }
        Some(())
    }
}

/// An intermediate result: a part of the input or of the query, or a length.
#[derive(Debug, Clone, Copy)]
enum Found<'a> {
    Value(&'a Value),
    Length(usize),
}

static NULL: Value = Value::Null;
static TRUE: Value = Value::Bool(true);
static FALSE: Value = Value::Bool(false);

impl<'a> Found<'a> {
    fn bool(value: bool) -> Self {
        Self::Value(if value { &TRUE } else { &FALSE })
    }

    fn into_value(self) -> Cow<'a, Value> {
        match self {
            Self::Value(value) => Cow::Borrowed(value),
            Self::Length(length) => Cow::Owned(Value::from(length)),
        }
    }

    fn is_true(self) -> bool {
        !matches!(self, Self::Value(Value::Null | Value::Bool(false)))
    }
}

impl Filter {
    /// The results; `None` after an error.
    fn apply<'a>(&'a self, input: Found<'a>, budget: &mut Budget) -> Option<Vec<Found<'a>>> {
        budget.count(1)?;
        Some(match self {
            Self::Identity => vec![input],
            Self::Literal(value) => vec![Found::Value(value)],
            Self::Field(of, name) => each(of, input, budget, |value| match value {
                Value::Null => Some(&NULL),
                Value::Object(map) => Some(map.get(name).unwrap_or(&NULL)),
                _ => None,
            })?,
            Self::Element(of, index) => each(of, input, budget, |value| match value {
                Value::Null => Some(&NULL),
                Value::Array(list) => Some(list.get(*index).unwrap_or(&NULL)),
                _ => None,
            })?,
            Self::Iterate(of) => {
                let mut all = Vec::new();
                for value in of.apply(input, budget)? {
                    match value {
                        Found::Value(Value::Array(list)) => {
                            budget.count(list.len())?;
                            all.extend(list.iter().map(Found::Value));
                        }
                        Found::Value(Value::Object(map)) => {
                            budget.count(map.len())?;
                            all.extend(map.values().map(Found::Value));
                        }
                        _ => return None,
                    }
                }
                all
            }
            Self::Pipe(first, second) => {
                let mut all = Vec::new();
                for value in first.apply(input, budget)? {
                    all.extend(second.apply(value, budget)?);
                }
                budget.count(all.len())?;
                all
            }
            Self::Select(condition) => {
                let mut results = condition.apply(input, budget)?;
                results.retain(|result| result.is_true());
                vec![input; results.len()]
            }
            Self::Compare(left, operator, right) => {
                pairs(left, right, input, budget, |left, right, budget| {
                    operator.holds(&left.into_value(), &right.into_value(), budget)
                })?
            }
            Self::And(left, right) => {
                pairs(left, right, input, budget, |a, b, _| Some(a.is_true() && b.is_true()))?
            }
            Self::Or(left, right) => {
                pairs(left, right, input, budget, |a, b, _| Some(a.is_true() || b.is_true()))?
            }
            Self::Alternative(left, right) => {
                let mut found = left.apply(input, budget).unwrap_or_default();
                found.retain(|result| result.is_true());
                if found.is_empty() { right.apply(input, budget)? } else { found }
            }
            Self::Not => vec![Found::bool(!input.is_true())],
            Self::Length => vec![match input {
                Found::Value(Value::Null) => Found::Length(0),
                Found::Value(Value::String(text)) => {
                    budget.count(text.len() / BYTES_PER_STEP)?;
                    Found::Length(text.chars().count())
                }
                Found::Value(Value::Array(list)) => Found::Length(list.len()),
                Found::Value(Value::Object(map)) => Found::Length(map.len()),
                _ => return None,
            }],
        })
    }
}

fn each<'a>(
    of: &'a Filter,
    input: Found<'a>,
    budget: &mut Budget,
    map: impl Fn(&'a Value) -> Option<&'a Value>,
) -> Option<Vec<Found<'a>>> {
    let values = of.apply(input, budget)?;
    budget.count(values.len())?;
    let map = |found| match found {
        Found::Value(value) => map(value).map(Found::Value),
        Found::Length(_) => None,
    };
    values.into_iter().map(map).collect()
}

fn pairs<'a>(
    left: &'a Filter,
    right: &'a Filter,
    input: Found<'a>,
    budget: &mut Budget,
    holds: impl Fn(Found<'a>, Found<'a>, &mut Budget) -> Option<bool>,
) -> Option<Vec<Found<'a>>> {
    let (left, right) = (left.apply(input, budget)?, right.apply(input, budget)?);
    budget.count(left.len().saturating_mul(right.len()))?;
    let mut all = Vec::new();
    for right in right {
        for left in &left {
            all.push(Found::bool(holds(*left, right, budget)?));
        }
    }
    Some(all)
}

impl Operator {
    fn holds(self, left: &Value, right: &Value, budget: &mut Budget) -> Option<bool> {
        let mut is_ordered =
            |holds: fn(Ordering) -> bool| Some(order(left, right, budget).is_some_and(holds));
        match self {
            Self::Equal => is_equal(left, right, budget),
            Self::NotEqual => is_equal(left, right, budget).map(|is_equal| !is_equal),
            Self::Less => is_ordered(Ordering::is_lt),
            Self::LessOrEqual => is_ordered(Ordering::is_le),
            Self::Greater => is_ordered(Ordering::is_gt),
            Self::GreaterOrEqual => is_ordered(Ordering::is_ge),
        }
    }
}

/// The order of two numbers or texts; `None` also if the budget does not suffice.
fn order(left: &Value, right: &Value, budget: &mut Budget) -> Option<Ordering> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64()?.partial_cmp(&right.as_f64()?),
        (Value::String(left), Value::String(right)) => {
            budget.count(left.len().min(right.len()) / BYTES_PER_STEP)?;
            Some(left.cmp(right))
        }
        _ => None,
    }
}

/// `None` if the budget does not suffice.
fn is_equal(left: &Value, right: &Value, budget: &mut Budget) -> Option<bool> {
    budget.count(1)?;
    match (left, right) {
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (left, right) in left.iter().zip(right) {
                if !is_equal(left, right, budget)? {
                    return Some(false);
                }
            }
            Some(true)
        }
        (Value::Object(left), Value::Object(right)) if left.len() == right.len() => {
            for (key, left) in left {
                let Some(right) = right.get(key) else { return Some(false) };
                if !is_equal(left, right, budget)? {
                    return Some(false);
                }
            }
            Some(true)
        }
        (Value::Null, Value::Null) => Some(true),
        (Value::Bool(left), Value::Bool(right)) => Some(left == right),
        _ => Some(order(left, right, budget).is_some_and(Ordering::is_eq)),
    }
}

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
    parts: usize,
}

impl Parser<'_> {
    fn pipe(&mut self) -> Result<Filter, String> {
        self.nested(Self::one_pipe)
    }

    fn one_pipe(&mut self) -> Result<Filter, String> {
        let first = self.alternative()?;
        if !self.take("|") {
            return Ok(first);
        }
        Ok(Filter::Pipe(Box::new(first), Box::new(self.pipe()?)))
    }

    fn alternative(&mut self) -> Result<Filter, String> {
        self.nested(Self::one_alternative)
    }

    fn one_alternative(&mut self) -> Result<Filter, String> {
        let first = self.or()?;
        if !self.take("//") {
            return Ok(first);
        }
        Ok(Filter::Alternative(Box::new(first), Box::new(self.alternative()?)))
    }

    fn or(&mut self) -> Result<Filter, String> {
        let mut left = self.and()?;
        while self.take_word("or") {
            left = Filter::Or(Box::new(left), Box::new(self.and()?));
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Filter, String> {
        let mut left = self.comparison()?;
        while self.take_word("and") {
            left = Filter::And(Box::new(left), Box::new(self.comparison()?));
        }
        Ok(left)
    }

    fn comparison(&mut self) -> Result<Filter, String> {
        let left = self.term()?;
        let operators = [
            ("==", Operator::Equal),
            ("!=", Operator::NotEqual),
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        for (text, operator) in operators {
            if self.take(text) {
                return Ok(Filter::Compare(Box::new(left), operator, Box::new(self.term()?)));
            }
        }
        Ok(left)
    }

    fn nested(&mut self, parse: fn(&mut Self) -> Result<Filter, String>) -> Result<Filter, String> {
        // Each level is a pipe and an alternative.
        if self.depth == 2 * MAX_DEPTH {
            return Err("the query is nested too deeply".to_owned());
        }
        self.depth += 1;
        let filter = parse(self);
        self.depth -= 1;
        filter
    }

    fn count_part(&mut self) -> Result<(), String> {
        self.parts += 1;
        if self.parts > MAX_PARTS { Err("the query is too long".to_owned()) } else { Ok(()) }
    }

    fn term(&mut self) -> Result<Filter, String> {
        self.count_part()?;
        self.skip_spaces();
        let filter = match self.rest.chars().next() {
            Some('.') => {
                self.rest = &self.rest[1..];
                match text_reader::word(&mut self.rest) {
                    "" => Filter::Identity,
                    name => Filter::Field(Box::new(Filter::Identity), name.to_owned()),
                }
            }
            Some('(') => {
                self.rest = &self.rest[1..];
                let inner = self.pipe()?;
                self.expect(")")?;
                inner
            }
            Some('"') => Filter::Literal(Value::String(text_reader::quoted(&mut self.rest)?)),
            Some('0'..='9' | '-') => {
                let end = self.rest.find(|c: char| !c.is_ascii_digit() && c != '-' && c != '.');
                let (text, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
                self.rest = rest;
                Filter::Literal(serde_json::from_str(text).map_err(|it| format!("{text}: {it}"))?)
            }
            _ => match text_reader::word(&mut self.rest) {
                "select" => {
                    self.expect("(")?;
                    let condition = self.pipe()?;
                    self.expect(")")?;
                    Filter::Select(Box::new(condition))
                }
                "not" => Filter::Not,
                "length" => Filter::Length,
                "true" => Filter::Literal(Value::Bool(true)),
                "false" => Filter::Literal(Value::Bool(false)),
                "null" => Filter::Literal(Value::Null),
                name => return Err(format!("{name:?} is not supported in queries")),
            },
        };
        self.suffixes(filter)
    }

    /// `.a`, `[]`, `.[]`, `[0]`, `["a"]`, `?`
    fn suffixes(&mut self, mut filter: Filter) -> Result<Filter, String> {
        loop {
            if let Some(rest) = self.rest.strip_prefix('?') {
                self.rest = rest;
                continue;
            }
            let has_bracket = self.rest.starts_with('[') || self.rest.starts_with(".[");
            if has_bracket {
                self.count_part()?;
                self.rest = self.rest.trim_start_matches('.').trim_start_matches('[');
                self.skip_spaces();
                filter = match self.rest.chars().next() {
                    Some(']') => Filter::Iterate(Box::new(filter)),
                    Some('"') => {
                        Filter::Field(Box::new(filter), text_reader::quoted(&mut self.rest)?)
                    }
                    _ => {
                        let end = self.rest.find(']').unwrap_or(self.rest.len());
                        let (text, rest) = self.rest.split_at(end);
                        self.rest = rest;
                        let index = text.trim().parse();
                        let index = index.map_err(|_| format!("bad index {text:?}"))?;
                        Filter::Element(Box::new(filter), index)
                    }
                };
                self.expect("]")?;
                continue;
            }
            let Some(rest) = self.rest.strip_prefix('.') else { return Ok(filter) };
            self.rest = rest;
            self.count_part()?;
            let name = if self.rest.starts_with('"') {
                text_reader::quoted(&mut self.rest)?
            } else {
                text_reader::word(&mut self.rest).to_owned()
            };
            if name.is_empty() {
                return Err("a path ends with a dot".to_owned());
            }
            filter = Filter::Field(Box::new(filter), name);
        }
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        let found = self.take(token);
        found.then_some(()).ok_or_else(|| format!("{token:?} expected before {:?}", self.rest))
    }

    fn take_word(&mut self, word: &str) -> bool {
        let rest = self.rest.trim_start();
        let is_word =
            rest.strip_prefix(word).is_some_and(|it| !it.starts_with(char::is_alphanumeric));
        is_word && self.take(word)
    }

    fn take(&mut self, token: &str) -> bool {
        text_reader::take(&mut self.rest, token)
    }

    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn evaluate(query: &str, object: &Value) -> Result<Value, String> {
        let query = Query::parse(query)?;
        let results = query.results(object, &mut Budget::new())?;
        Ok(results.into_iter().map(Cow::into_owned).collect())
    }

    fn check(query: &str, expect: &Value) {
        let object = json!({
            "metadata": {"labels": {"a.b/c": "x"}, "ownerReferences": [{"kind": "Job"}]},
            "status": {"phase": "Running", "restarts": 3, "conditions": [
                {"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "False"}]},
        });
        assert_eq!(evaluate(query, &object), Ok(expect.clone()), "{query}");
    }

    #[test]
    fn the_queries_of_the_stages_of_kwok_are_evaluated() {
        check(".status.phase", &json!(["Running"]));
        check(".status.podIP", &json!([]));
        check(".metadata.ownerReferences.[].kind", &json!(["Job"]));
        check(".status.containerStatuses.[].state.running.startedAt", &json!([]));
        check(r#".status.conditions.[] | select( .type == "Ready" ) | .status"#, &json!(["True"]));
        check(r#".metadata.labels["a.b/c"]"#, &json!(["x"]));
        check(r#".metadata.annotations["a.b/c"]"#, &json!([]));
    }

    #[test]
    fn conditions_are_combined() {
        let conditions = r#".status.conditions[] | select(.type == "Ready" or .status != "True" and (.type | not)) | .type"#;
        check(conditions, &json!(["Ready"]));
        check(".status.restarts >= 3", &json!([true]));
        check(".status.missing // \"none\"", &json!(["none"]));
        check(".status.conditions | length", &json!([2]));
        check(".status.conditions[1].type", &json!(["Initialized"]));
    }

    #[test]
    fn queries_that_are_nested_too_deeply_are_refused() {
        let parse = |levels: usize, before: &str, after: &str| {
            let query = before.repeat(levels) + "." + &after.repeat(levels);
            evaluate(&query, &Value::Null)
        };
        for (before, after) in [
            ("(", ")"),
            ("select(", ")"),
            (". | ", ""),
            (". // ", ""),
            (". and ", ""),
            (". or ", ""),
            (".a", ""),
            ("", "[0]"),
            ("", "[]"),
            ("", "[\"a\"]"),
        ] {
            let error = parse(100_000, before, after).unwrap_err();
            assert!(error.starts_with("the query is "), "{before}: {error}");
            if before != ".a" {
                parse(40, before, after).unwrap();
            }
        }
        Query::parse(&".a".repeat(40)).unwrap();
        Query::parse(&"(".repeat(100_000)).unwrap_err();
    }

    #[test]
    fn other_functions_are_refused() {
        let error = Query::parse(".a | test(\"x\")").unwrap_err();
        assert_eq!(error, "\"test\" is not supported in queries");
    }

    #[test]
    fn values_are_compared() {
        check(".status.conditions == .status.conditions", &json!([true]));
        check(".status.conditions[0] == .status.conditions[1]", &json!([false]));
        check(".status == .metadata", &json!([false]));
        check(".status.conditions != .status", &json!([true]));
        check("(.status.conditions | length) == 2", &json!([true]));
        check("3.0 == .status.restarts", &json!([true]));
        check(".status.phase < \"S\"", &json!([true]));
        check(".status.conditions | length | length", &json!([]));
        check("(.status.phase | .a) // .status.restarts", &json!([3]));
    }

    #[test]
    fn an_evaluation_takes_a_limited_number_of_steps() {
        let labels: Value = (0..100).map(|i| (format!("l{i}"), json!("x"))).collect();
        let long = vec!["x".repeat(10_000); 50];
        let object = json!({"labels": labels, "long": long});
        let product = |times: usize| vec![".labels[]"; times].join(" and ");
        let all = evaluate(&product(2), &object).unwrap();
        assert_eq!(all.as_array().unwrap().len(), 10_000);
        let caught = format!("({}) // true", product(10));
        for query in [
            product(3).as_str(),
            product(10).as_str(),
            caught.as_str(),
            ".long[] == .long[]",
            &vec![". == ."; 100].join(" and "),
        ] {
            let error = evaluate(query, &object).unwrap_err();
            assert_eq!(error, "its queries take more than 100000 steps", "{query}");
        }
    }
}
