//! The parser of templates.

use serde_json::Value;

use crate::text_reader;

/// The depth of `if`, `with` and `range`, and of parentheses.
const MAX_DEPTH: usize = 50;

const TOO_DEEP: &str = "the template is nested too deeply";

/// A part of a template.
#[derive(Debug)]
pub(super) enum Node {
    Text(String),
    Action(Pipeline),
    If(Vec<Branch>),
    With(Vec<Branch>),
    Range { pipeline: Pipeline, body: Vec<Node>, otherwise: Vec<Node> },
}

/// A branch of `if` or `with`; the last one may have no condition.
#[derive(Debug)]
pub(super) struct Branch {
    pub condition: Option<Pipeline>,
    pub body: Vec<Node>,
}

/// `$x := command | command`
#[derive(Debug, Default)]
pub(super) struct Pipeline {
    /// The variables that are declared or assigned.
    pub variables: Vec<String>,
    pub is_assignment: bool,
    pub commands: Vec<Vec<Operand>>,
}

/// A part of a command.
#[derive(Debug)]
pub(super) enum Operand {
    Literal(Value),
    /// `.a.b`
    Field(Vec<String>),
    /// `$x.a.b`
    Variable(String, Vec<String>),
    Function(String),
    /// `(pipeline).a.b`
    Pipeline(Box<Pipeline>, Vec<String>),
}

/// A text or the inside of `{{ }}`.
enum Piece<'a> {
    Text(&'a str),
    Action(&'a str),
}

/// Parses a template.
pub(super) struct Parser<'a> {
    pieces: std::vec::IntoIter<Piece<'a>>,
    error: Option<String>,
    depth: usize,
}

/// How a list of nodes has ended.
enum Terminator {
    EndOfText,
    End,
    /// With the rest of the action: empty, or `if CONDITION`.
    Else(String),
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        match split(text.trim()) {
            Ok(pieces) => Self { pieces: pieces.into_iter(), error: None, depth: 0 },
            Err(error) => Self { pieces: Vec::new().into_iter(), error: Some(error), depth: 0 },
        }
    }

    pub(super) fn parse(mut self) -> Result<Vec<Node>, String> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        match self.nodes()? {
            (nodes, Terminator::EndOfText) => Ok(nodes),
            (_, Terminator::End) => Err("unexpected \"end\"".to_owned()),
            (_, Terminator::Else(_)) => Err("unexpected \"else\"".to_owned()),
        }
    }

    fn nodes(&mut self) -> Result<(Vec<Node>, Terminator), String> {
        if self.depth > MAX_DEPTH {
            return Err(TOO_DEEP.to_owned());
        }
        self.depth += 1;
        let nodes = self.nested_nodes();
        self.depth -= 1;
        nodes
    }

    fn nested_nodes(&mut self) -> Result<(Vec<Node>, Terminator), String> {
        let mut nodes = Vec::new();
        while let Some(piece) = self.pieces.next() {
            let action = match piece {
                Piece::Text(text) => {
                    nodes.push(Node::Text(text.to_owned()));
                    continue;
                }
                Piece::Action(action) => action.trim(),
            };
            let word = action.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            let rest = &action[word.len()..];
            match word {
                _ if action.starts_with("/*") => {}
                "end" => return Ok((nodes, Terminator::End)),
                "else" => return Ok((nodes, Terminator::Else(rest.trim().to_owned()))),
                "if" | "with" => nodes.push(self.branches(word, rest)?),
                "range" => nodes.push(self.range(rest)?),
                "define" | "template" | "block" | "break" | "continue" => {
                    return Err(format!("{word:?} is not supported"));
                }
                _ => nodes.push(Node::Action(Scanner::new(action).whole_pipeline()?)),
            }
        }
        Ok((nodes, Terminator::EndOfText))
    }

    fn branches(&mut self, word: &str, condition: &str) -> Result<Node, String> {
        let mut branches = Vec::new();
        let mut condition = Some(Scanner::new(condition).whole_pipeline()?);
        loop {
            let (body, end) = self.nodes()?;
            branches.push(Branch { condition: condition.take(), body });
            match end {
                Terminator::End => break,
                Terminator::EndOfText => return Err(UNCLOSED.to_owned()),
                Terminator::Else(rest) if rest.is_empty() => {}
                Terminator::Else(rest) => {
                    let next = rest.strip_prefix(word).ok_or("unexpected text after \"else\"")?;
                    condition = Some(Scanner::new(next).whole_pipeline()?);
                }
            }
        }
        Ok(if word == "if" { Node::If(branches) } else { Node::With(branches) })
    }

    fn range(&mut self, over: &str) -> Result<Node, String> {
        let pipeline = Scanner::new(over).whole_pipeline()?;
        let (body, end) = self.nodes()?;
        let otherwise = match end {
            Terminator::End => Vec::new(),
            Terminator::Else(_) => self.nodes()?.0,
            Terminator::EndOfText => return Err(UNCLOSED.to_owned()),
        };
        Ok(Node::Range { pipeline, body, otherwise })
    }
}

const UNCLOSED: &str = "\"if\", \"with\" or \"range\" without \"end\"";

/// Splits a template at `{{` and `}}`, and trims the texts next to `{{-` and `-}}`.
fn split(mut text: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut trims_start = false;
    while let Some(start) = text.find("{{") {
        let (mut before, rest) = (&text[..start], &text[start + 2..]);
        let end = action_end(rest).ok_or("unclosed action")?;
        let mut action = &rest[..end];
        if trims_start {
            before = before.trim_start();
        }
        if let Some(trimmed) = action.strip_prefix("- ") {
            before = before.trim_end();
            action = trimmed;
        }
        trims_start = action.ends_with(" -");
        if trims_start {
            action = &action[..action.len() - 2];
        }
        if !before.is_empty() {
            pieces.push(Piece::Text(before));
        }
        pieces.push(Piece::Action(action));
        text = &rest[end + 2..];
    }
    let last = if trims_start { text.trim_start() } else { text };
    if !last.is_empty() {
        pieces.push(Piece::Text(last));
    }
    Ok(pieces)
}

/// The position of `}}` outside of strings.
fn action_end(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut is_escaped = false;
    for (i, c) in text.char_indices() {
        match quote {
            _ if is_escaped => is_escaped = false,
            Some('"') if c == '\\' => is_escaped = true,
            Some(open) if c == open => quote = None,
            None if c == '"' || c == '`' => quote = Some(c),
            None if text[i..].starts_with("}}") => return Some(i),
            _ => {}
        }
    }
    None
}

/// Parses the inside of an action.
struct Scanner<'a> {
    rest: &'a str,
    depth: usize,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str) -> Self {
        Self { rest: text, depth: 0 }
    }

    fn whole_pipeline(mut self) -> Result<Pipeline, String> {
        let pipeline = self.pipeline()?;
        self.skip_spaces();
        if self.rest.is_empty() { Ok(pipeline) } else { Err(format!("unexpected {:?}", self.rest)) }
    }

    fn pipeline(&mut self) -> Result<Pipeline, String> {
        let mut pipeline = Pipeline::default();
        self.declaration(&mut pipeline);
        loop {
            let mut command = Vec::new();
            while let Some(operand) = self.operand()? {
                command.push(operand);
            }
            if command.is_empty() {
                return Err("missing value for command".to_owned());
            }
            pipeline.commands.push(command);
            if !self.take("|") {
                return Ok(pipeline);
            }
        }
    }

    /// `$x :=`, `$x =`, or `$i, $x :=`
    fn declaration(&mut self, pipeline: &mut Pipeline) {
        let start = self.rest;
        let mut names = Vec::new();
        loop {
            self.skip_spaces();
            if !self.rest.starts_with('$') {
                break;
            }
            names.push(format!("${}", self.word(1)));
            if self.take(":=") {
                pipeline.variables = names;
                return;
            }
            if self.rest.trim_start().starts_with("==") {
                break;
            }
            if self.take("=") {
                (pipeline.variables, pipeline.is_assignment) = (names, true);
                return;
            }
            if !self.take(",") {
                break;
            }
        }
        self.rest = start;
    }

    /// The next operand of a command, unless the command ends.
    fn operand(&mut self) -> Result<Option<Operand>, String> {
        self.skip_spaces();
        let Some(first) = self.rest.chars().next() else { return Ok(None) };
        let operand = match first {
            '|' | ')' => return Ok(None),
            '(' => {
                self.rest = &self.rest[1..];
                if self.depth == MAX_DEPTH {
                    return Err(TOO_DEEP.to_owned());
                }
                self.depth += 1;
                let pipeline = self.pipeline()?;
                self.depth -= 1;
                if !self.take(")") {
                    return Err("unclosed parenthesis".to_owned());
                }
                Operand::Pipeline(Box::new(pipeline), self.fields())
            }
            '.' => {
                let fields = self.fields();
                if fields.is_empty() {
                    self.rest = &self.rest[1..];
                }
                Operand::Field(fields)
            }
            '$' => {
                let name = format!("${}", self.word(1));
                Operand::Variable(name, self.fields())
            }
            '"' => Operand::Literal(Value::String(text_reader::quoted(&mut self.rest)?)),
            '`' => {
                let (text, rest) = self.rest[1..].split_once('`').ok_or("unclosed string")?;
                self.rest = rest;
                Operand::Literal(Value::String(text.to_owned()))
            }
            '0'..='9' | '-' | '+' => Operand::Literal(self.number()?),
            _ => match self.word(0) {
                "" => return Err(format!("unexpected {:?}", self.rest)),
                "true" => Operand::Literal(Value::Bool(true)),
                "false" => Operand::Literal(Value::Bool(false)),
                "nil" => Operand::Literal(Value::Null),
                name => Operand::Function(name.to_owned()),
            },
        };
        Ok(Some(operand))
    }

    /// `.a.b` directly after an operand.
    fn fields(&mut self) -> Vec<String> {
        let mut fields = Vec::new();
        while let Some(rest) = self.rest.strip_prefix('.') {
            if !rest.starts_with(|c: char| c.is_alphabetic() || c == '_') {
                break;
            }
            fields.push(self.word(1).to_owned());
        }
        fields
    }

    /// The letters and digits after the first `skipped` characters, which are ASCII.
    fn word(&mut self, skipped: usize) -> &'a str {
        self.rest = &self.rest[skipped..];
        text_reader::word(&mut self.rest)
    }

    fn number(&mut self) -> Result<Value, String> {
        let is_end = |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '+' | '.');
        let (text, rest) = self.rest.split_at(self.rest.find(is_end).unwrap_or(self.rest.len()));
        self.rest = rest;
        if let Ok(number) = text.parse::<i64>() {
            return Ok(number.into());
        }
        text.parse::<f64>().map(Value::from).map_err(|_| format!("bad number {text:?}"))
    }

    fn take(&mut self, token: &str) -> bool {
        text_reader::take(&mut self.rest, token)
    }

    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start();
    }
}
