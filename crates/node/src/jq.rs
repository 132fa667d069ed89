//! [`Query`]: the subset of jq that selectors of stages use.
//!
//! Supported are paths (`.a.b`, `.a["b"]`, `.a[0]`, `.a[]`, `.a.[]`), pipes, `select(…)`, comparisons,
//! `and`, `or`, `not`, `//`, `length`, parentheses and literals.

use serde_json::Value;

use crate::text_reader;

/// The depth of parentheses, pipes and alternatives.
const MAX_DEPTH: usize = 50;

/// The number of terms and of parts of paths, which are nested too.
const MAX_PARTS: usize = 250;

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

    /// The results other than null; none after an error, such as the elements of a text.
    pub(crate) fn results(&self, input: &Value) -> Vec<Value> {
        let mut results = self.0.apply(input).unwrap_or_default();
        results.retain(|result| !result.is_null());
        results
    }
}

impl Filter {
    /// The results; `None` after an error.
    fn apply(&self, input: &Value) -> Option<Vec<Value>> {
        Some(match self {
            Self::Identity => vec![input.clone()],
            Self::Literal(value) => vec![value.clone()],
            Self::Field(of, name) => each(of, input, |value| match value {
                Value::Null => Some(Value::Null),
                Value::Object(map) => Some(map.get(name).cloned().unwrap_or_default()),
                _ => None,
            })?,
            Self::Element(of, index) => each(of, input, |value| match value {
                Value::Null => Some(Value::Null),
                Value::Array(list) => Some(list.get(*index).cloned().unwrap_or_default()),
                _ => None,
            })?,
            Self::Iterate(of) => {
                let mut all = Vec::new();
                for value in of.apply(input)? {
                    match value {
                        Value::Array(list) => all.extend(list),
                        Value::Object(map) => all.extend(map.into_iter().map(|(_, value)| value)),
                        _ => return None,
                    }
                }
                all
            }
            Self::Pipe(first, second) => {
                let mut all = Vec::new();
                for value in first.apply(input)? {
                    all.extend(second.apply(&value)?);
                }
                all
            }
            Self::Select(condition) => {
                let selected = condition.apply(input)?.into_iter().filter(is_true);
                selected.map(|_| input.clone()).collect()
            }
            Self::Compare(left, operator, right) => {
                pairs(left, right, input, |left, right| operator.holds(left, right))?
            }
            Self::And(left, right) => pairs(left, right, input, |a, b| is_true(a) && is_true(b))?,
            Self::Or(left, right) => pairs(left, right, input, |a, b| is_true(a) || is_true(b))?,
            Self::Alternative(left, right) => {
                let found: Vec<Value> =
                    left.apply(input).unwrap_or_default().into_iter().filter(is_true).collect();
                if found.is_empty() { right.apply(input)? } else { found }
            }
            Self::Not => vec![Value::Bool(!is_true(input))],
            Self::Length => vec![Value::from(match input {
                Value::Null => 0,
                Value::String(text) => text.chars().count(),
                Value::Array(list) => list.len(),
                Value::Object(map) => map.len(),
                _ => return None,
            })],
        })
    }
}

fn each(of: &Filter, input: &Value, map: impl Fn(&Value) -> Option<Value>) -> Option<Vec<Value>> {
    of.apply(input)?.iter().map(map).collect()
}

fn pairs(
    left: &Filter,
    right: &Filter,
    input: &Value,
    holds: impl Fn(&Value, &Value) -> bool,
) -> Option<Vec<Value>> {
    let (left, right) = (left.apply(input)?, right.apply(input)?);
    let all = right.iter().flat_map(|right| left.iter().map(|left| holds(left, right)));
    Some(all.map(Value::Bool).collect())
}

fn is_true(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false))
}

impl Operator {
    fn holds(self, left: &Value, right: &Value) -> bool {
        let order = || match (left, right) {
            (Value::Number(left), Value::Number(right)) => {
                left.as_f64()?.partial_cmp(&right.as_f64()?)
            }
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            _ => None,
        };
        let is_equal = || left == right || order().is_some_and(std::cmp::Ordering::is_eq);
        match self {
            Self::Equal => is_equal(),
            Self::NotEqual => !is_equal(),
            Self::Less => order().is_some_and(std::cmp::Ordering::is_lt),
            Self::LessOrEqual => order().is_some_and(std::cmp::Ordering::is_le),
            Self::Greater => order().is_some_and(std::cmp::Ordering::is_gt),
            Self::GreaterOrEqual => order().is_some_and(std::cmp::Ordering::is_ge),
        }
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

    fn check(query: &str, expect: &Value) {
        let object = json!({
            "metadata": {"labels": {"a.b/c": "x"}, "ownerReferences": [{"kind": "Job"}]},
            "status": {"phase": "Running", "restarts": 3, "conditions": [
                {"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "False"}]},
        });
        let results = Query::parse(query).unwrap().results(&object);
        assert_eq!(Value::Array(results), *expect, "{query}");
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
            Query::parse(&query).map(|query| query.results(&Value::Null))
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
}
