//! The grammar of a JSON path.
//!
//! ```text
//! path   = [ "{" ] [ "$" | "@" ] { step } [ "}" ]
//! step   = "." NAME | "." "*" | ".." [ NAME | "*" ] | "[" inside "]"
//! inside = "*" | "?(" operand [ OPERATOR operand ] ")" | part { "," part }
//! part   = QUOTED | INTEGER | [ INTEGER ] ":" [ INTEGER ] [ ":" [ INTEGER ] ]
//! ```

use super::{Comparison, Filter, JsonPath, Operand, Step};
use crate::Value;

/// The maximum depth of filters in the paths of filters.
const NESTING_MAX: usize = 16;

pub(super) fn parse(text: &str) -> Result<JsonPath, String> {
    let inner = match text.trim().strip_prefix('{') {
        Some(inner) => inner.strip_suffix('}').ok_or("unclosed action")?,
        None => text.trim(),
    };
    let mut parser = Parser { rest: inner, nesting: 0 };
    parser.rest = parser.rest.strip_prefix(['$', '@']).unwrap_or(parser.rest);
    let path = parser.path()?;
    match parser.rest.chars().next() {
        None => Ok(path),
        Some(c) => Err(format!("unrecognized character in action: {}", describe(c))),
    }
}

struct Parser<'a> {
    rest: &'a str,
    nesting: usize,
}

impl<'a> Parser<'a> {
    fn eat(&mut self, prefix: &str) -> bool {
        let rest = self.rest.strip_prefix(prefix);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !wanted(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    /// As many steps as there are.
    fn path(&mut self) -> Result<JsonPath, String> {
        let mut steps = Vec::new();
        // The dot before the first name is optional: `kind`.
        if self.rest.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
            steps.push(Step::Field(self.name()));
        }
        loop {
            if self.eat("..") {
                steps.push(Step::Descend);
                if self.eat("*") {
                    steps.push(Step::Wildcard);
                } else if !self.rest.starts_with('[') {
                    let name = self.name();
                    if name.is_empty() {
                        return Err("a field must follow \"..\"".to_owned());
                    }
                    steps.push(Step::Field(name));
                }
            } else if self.eat(".") {
                if self.eat("*") {
                    steps.push(Step::Wildcard);
                    continue;
                }
                let name = self.name();
                if !name.is_empty() {
                    steps.push(Step::Field(name));
                }
            } else if self.eat("[") {
                steps.push(self.bracket()?);
            } else {
                return Ok(JsonPath { steps });
            }
        }
    }

    /// Up to the end of a name; a backslash escapes the next character.
    fn name(&mut self) -> String {
        let mut name = String::new();
        loop {
            name += self.take_while(|c| !" \t\r\n.[],=<>!()@${}|\\".contains(c));
            if !self.eat("\\") {
                return name;
            }
            if let Some(c) = self.rest.chars().next() {
                name.push(c);
                self.rest = &self.rest[c.len_utf8()..];
            }
        }
    }

    /// After the opening bracket.
    fn bracket(&mut self) -> Result<Step, String> {
        self.skip_space();
        if self.eat("?(") {
            return self.filter();
        }
        let mut parts = Vec::new();
        loop {
            self.skip_space();
            parts.push(self.part()?);
            self.skip_space();
            if self.eat(",") {
                continue;
            }
            if self.eat("]") {
                break;
            }
            return Err(self.bad_index());
        }
        match parts.len() {
            1 => Ok(parts.remove(0)),
            _ => Ok(Step::Union(parts)),
        }
    }

    fn part(&mut self) -> Result<Step, String> {
        if self.eat("*") {
            return Ok(Step::Wildcard);
        }
        if let Some(name) = self.quoted()? {
            return Ok(Step::Field(name));
        }
        let start = self.integer()?;
        if !self.eat(":") {
            return start.map(Step::Index).ok_or_else(|| self.bad_index());
        }
        let end = self.integer()?;
        let step = if self.eat(":") { self.integer()? } else { None };
        match usize::try_from(step.unwrap_or(1)) {
            Ok(step @ 1..) => Ok(Step::Slice { start, end, step }),
            _ => Err("step must be > 0".to_owned()),
        }
    }

    fn bad_index(&self) -> String {
        match self.rest {
            "" => "unterminated array".to_owned(),
            rest => format!("invalid array index {rest}"),
        }
    }

    fn integer(&mut self) -> Result<Option<i64>, String> {
        let text = self.take_while(|c| c == '-' || c.is_ascii_digit());
        match text {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| format!("invalid array index {text}")),
        }
    }

    fn quoted(&mut self) -> Result<Option<String>, String> {
        let Some(quote) = self.rest.chars().next().filter(|c| matches!(c, '\'' | '"')) else {
            return Ok(None);
        };
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((index, c)) = chars.next() {
            match c {
                c if c == quote => {
                    self.rest = &self.rest[index + 1..];
                    return Ok(Some(text));
                }
                '\\' => text.extend(chars.next().map(|(_, c)| c)),
                c => text.push(c),
            }
        }
        Err("unterminated quoted string".to_owned())
    }

    /// After `?(`.
    fn filter(&mut self) -> Result<Step, String> {
        const OPERATORS: [(&str, Comparison); 6] = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        self.nesting += 1;
        if self.nesting > NESTING_MAX {
            return Err("filters are nested too deeply".to_owned());
        }
        self.skip_space();
        let left = self.operand()?;
        self.skip_space();
        let operator = OPERATORS.iter().find(|(text, _)| self.eat(text));
        let comparison = match operator {
            None => None,
            Some((_, comparison)) => {
                self.skip_space();
                Some((*comparison, self.operand()?))
            }
        };
        self.skip_space();
        if !self.eat(")") || !self.eat("]") {
            return Err("unterminated filter".to_owned());
        }
        self.nesting -= 1;
        Ok(Step::Filter(Box::new(Filter { left, comparison })))
    }

    fn operand(&mut self) -> Result<Operand, String> {
        if self.eat("@") {
            return Ok(Operand::Path(self.path()?));
        }
        if self.rest.starts_with('.') {
            return Ok(Operand::Path(self.path()?));
        }
        if let Some(text) = self.quoted()? {
            return Ok(Operand::Literal(Value::String(text)));
        }
        let word = self.take_while(|c| c.is_alphanumeric() || "+-._".contains(c));
        let value = match word {
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            word => match word.parse::<i64>() {
                Ok(number) => Some(number.into()),
                Err(_) => word
                    .parse()
                    .ok()
                    .and_then(|float| Some(serde_json::Number::from_f64(float)?.into())),
            },
        };
        value.map(Operand::Literal).ok_or_else(|| match word {
            "" => "a filter compares paths, strings, numbers, true or false".to_owned(),
            word => format!("unrecognized identifier {word}"),
        })
    }
}

/// As Go shows a character: `U+0023 '#'`.
fn describe(c: char) -> String {
    format!("U+{:04X} '{c}'", c as u32)
}
