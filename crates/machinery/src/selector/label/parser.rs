//! The grammar of a label selector in a query.
//!
//! ```text
//! selector    = [ requirement { "," requirement } ]
//! requirement = [ "!" ] KEY | KEY ( "=" | "==" | "!=" | ">" | "<" ) [ VALUE ]
//!             | KEY ( "in" | "notin" ) "(" [ VALUE ] { "," [ VALUE ] } ")"
//! ```
//!
//! `in` and `notin` are ordinary words wherever an operator is not allowed.

use super::{LabelRequirement, Operator};
use crate::{ErrorList, Path, names};

/// The requirements in the order in which they are written.
pub(super) fn parse(text: &str) -> Result<Vec<LabelRequirement>, String> {
    let mut parser = Parser { rest: text };
    let mut requirements = Vec::new();
    loop {
        match parser.peek() {
            "!" => {}
            "" => return Ok(requirements),
            token if is_word(token) => {}
            token => {
                return Err(format!(
                    "found '{token}', expected: !, identifier, or 'end of string'"
                ));
            }
        }
        let requirement = parser
            .requirement()
            .map_err(|error| format!("unable to parse requirement: {error}"))?;
        requirements.push(requirement);
        match parser.next() {
            "" => return Ok(requirements),
            "," => match parser.peek() {
                "!" => {}
                token if is_word(token) => {}
                token => return Err(format!("found '{token}', expected: identifier after ','")),
            },
            token => return Err(format!("found '{token}', expected: ',' or 'end of string'")),
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    /// The next token and the rest after it. At the end, it is always the empty token.
    fn scan(&self) -> (&'a str, &'a str) {
        let text = self.rest.trim_start_matches(is_space);
        let length = match text.as_bytes() {
            // For upstream's lexer, NUL is the end of the text.
            [] | [0, ..] => return ("", ""),
            [b'=' | b'!', b'=', ..] => 2,
            [b, ..] if is_symbol(char::from(*b)) => 1,
            _ => text.find(|c| is_symbol(c) || is_space(c) || c == '\0').unwrap_or(text.len()),
        };
        text.split_at(length)
    }

    fn peek(&self) -> &'a str {
        self.scan().0
    }

    fn next(&mut self) -> &'a str {
        let (token, rest) = self.scan();
        self.rest = rest;
        token
    }

    fn requirement(&mut self) -> Result<LabelRequirement, String> {
        let mut key = self.next();
        let negated = key == "!";
        if negated {
            key = self.next();
        }
        if !is_word(key) {
            return Err(format!("found '{key}', expected: identifier"));
        }
        let messages = names::qualified_name(key);
        if !messages.is_empty() {
            let mut errors = ErrorList::new();
            errors.invalid(&Path::root("<nil>"), key, &messages.join("; "));
            return Err(errors.summary());
        }
        if negated {
            return LabelRequirement::new(key, Operator::DoesNotExist, Vec::new());
        }
        if matches!(self.peek(), "" | ",") {
            return LabelRequirement::new(key, Operator::Exists, Vec::new());
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => vec![self.value()?],
        };
        LabelRequirement::new(key, operator, values)
    }

    fn operator(&mut self) -> Result<Operator, String> {
        match self.next() {
            "in" => Ok(Operator::In),
            "notin" => Ok(Operator::NotIn),
            "=" => Ok(Operator::Equals),
            "==" => Ok(Operator::DoubleEquals),
            "!=" => Ok(Operator::NotEquals),
            ">" => Ok(Operator::GreaterThan),
            "<" => Ok(Operator::LessThan),
            token => Err(format!("found '{token}', expected: in, notin, =, ==, !=, gt, lt")),
        }
    }

    fn value(&mut self) -> Result<String, String> {
        match self.peek() {
            "" | "," => Ok(String::new()),
            token if is_word(token) => Ok(self.next().to_owned()),
            token => Err(format!("found '{token}', expected: identifier")),
        }
    }

    /// A list in parentheses. An omitted value is an empty one.
    fn values(&mut self) -> Result<Vec<String>, String> {
        match self.next() {
            "(" => {}
            token => return Err(format!("found '{token}' expected: '('")),
        }
        match self.peek() {
            "," | ")" => {}
            token if is_word(token) => {}
            token => return Err(format!("found '{token}', expected: ',', ')' or identifier")),
        }
        let mut values = Vec::new();
        loop {
            if matches!(self.peek(), "," | ")") {
                values.push(String::new());
            } else {
                let token = self.next();
                if !is_word(token) {
                    return Err(format!("found '{token}', expected: ',', or identifier"));
                }
                values.push(token.to_owned());
            }
            match self.next() {
                "," => {}
                ")" => return Ok(values),
                token => return Err(format!("found '{token}', expected: ',' or ')'")),
            }
        }
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn is_symbol(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn is_word(token: &str) -> bool {
    token.chars().next().is_some_and(|c| !is_symbol(c))
}
