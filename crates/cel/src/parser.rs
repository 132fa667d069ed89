//! Parses tokens into the syntax tree and expands macros.
//!
//! The parser is a recursive descent. Its syntax errors have the messages of the generated parser
//! that cel-go uses, because clients see them. It stops at the first syntax error.

use std::sync::Arc;

use crate::ast::{Entry, Expr, Field, Id, Item, Kind, Literal};
use crate::lexer::{Token, TokenKind, tokenize};
use crate::literal;
use crate::macros::Macros;
use crate::source::Issue;

mod nodes;

pub(crate) use nodes::Nodes;

/// The maximum length of an expression.
const MAX_CODE_POINTS: usize = 100_000;

/// The maximum nesting of an expression; each bracket and each operator counts.
const MAX_NESTING: usize = 250;

/// The maximum height of the tree after the expansion of macros: all later phases are recursive.
const MAX_HEIGHT: usize = 300;

/// The tokens that can start an operand, as cel-go's parser lists them.
const OPERAND_STARTS: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, \
                      NUM_UINT, STRING, BYTES, IDENTIFIER}";

/// Reserved words, which cannot be names of variables.
const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "package",
    "namespace",
    "null",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// The symbol, the function and the precedence level of each binary operator.
const OPERATORS: &[(&str, &str, u8)] = &[
    ("||", "_||_", 0),
    ("&&", "_&&_", LOGICAL),
    ("<", "_<_", 2),
    ("<=", "_<=_", 2),
    (">=", "_>=_", 2),
    (">", "_>_", 2),
    ("==", "_==_", 2),
    ("!=", "_!=_", 2),
    ("in", "@in", 2),
    ("+", "_+_", 3),
    ("-", "_-_", 3),
    ("*", "_*_", 4),
    ("/", "_/_", 4),
    ("%", "_%_", 4),
];

/// The precedence level of `&&`; `||` has a lower one, all other operators have higher ones.
const LOGICAL: u8 = 1;

/// The tree of an expression, and the position of each node in the source.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) expr: Expr,
    /// Indexed by [`Id`], in code points.
    pub(crate) offsets: Vec<usize>,
}

/// Parses `source`, with the macros of the environment.
pub(crate) fn parse(source: &str, macros: &Macros) -> Result<Parsed, Vec<Issue>> {
    let size = source.chars().count();
    if size > MAX_CODE_POINTS {
        return Err(vec![Issue::without_location(format!(
            "expression code point size exceeds limit: size: {size}, limit {MAX_CODE_POINTS}"
        ))]);
    }
    let (tokens, issues) = tokenize(source);
    let nodes = Nodes { offsets: vec![0], heights: vec![0], issues };
    let mut parser = Parser { tokens, at: 0, nodes, macros, nesting: 0 };
    let outcome = parser.expr().and_then(|expr| parser.finish().map(|()| expr));
    match outcome {
        Ok(expr) if parser.nodes.issues.is_empty() => {
            Ok(Parsed { expr, offsets: parser.nodes.offsets })
        }
        _ => Err(parser.nodes.issues),
    }
}

/// The parser reported an error and cannot go on.
pub(crate) struct ParseAborted;

struct Parser<'a> {
    tokens: Vec<Token>,
    at: usize,
    nodes: Nodes,
    macros: &'a Macros,
    /// The number of brackets and operators around the current token.
    nesting: usize,
}

type Parse<T> = Result<T, ParseAborted>;

impl Parser<'_> {
    fn token(&self) -> &Token {
        &self.tokens[self.at]
    }

    /// The token after the current one; the end token if there is none.
    fn after(&self) -> &Token {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)]
    }

    fn advance(&mut self) -> Token {
        let token = self.token().clone();
        if token.kind != TokenKind::End {
            self.at += 1;
        }
        token
    }

    fn accept(&mut self, symbol: &str) -> Option<usize> {
        if !self.token().is(symbol) {
            return None;
        }
        Some(self.advance().offset)
    }

    /// Enters one more level of nesting.
    fn enter(&mut self) -> Parse<()> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING { Err(self.nodes.too_deep()) } else { Ok(()) }
    }

    /// Checks the height of a new node.
    fn check_height(&mut self, expr: Expr) -> Parse<Expr> {
        if self.nodes.heights[expr.id] > MAX_HEIGHT { Err(self.nodes.too_deep()) } else { Ok(expr) }
    }

    fn fail(&mut self, message: &str) -> ParseAborted {
        let offset = self.token().offset;
        self.nodes.report(offset, format!("Syntax error: {message}"));
        ParseAborted
    }

    fn expect(&mut self, symbol: &str) -> Parse<usize> {
        if let Some(offset) = self.accept(symbol) {
            return Ok(offset);
        }
        let found = escaped_text(self.token());
        Err(if self.after().is(symbol) {
            self.fail(&format!("extraneous input '{found}' expecting '{symbol}'"))
        } else if self.may_follow_an_operand() {
            self.fail(&format!("missing '{symbol}' at '{found}'"))
        } else {
            self.fail(&format!("mismatched input '{found}' expecting '{symbol}'"))
        })
    }

    /// Whether the current token could follow a closed bracket.
    fn may_follow_an_operand(&self) -> bool {
        match self.token().kind {
            TokenKind::End => true,
            TokenKind::Symbol(symbol) => !matches!(symbol, "!" | "(" | "true" | "false" | "null"),
            _ => false,
        }
    }

    fn finish(&mut self) -> Parse<()> {
        if self.token().kind == TokenKind::End {
            return Ok(());
        }
        let found = escaped_text(self.token());
        let error = if self.after().kind == TokenKind::End { "extraneous" } else { "mismatched" };
        Err(self.fail(&format!("{error} input '{found}' expecting <EOF>")))
    }

    fn no_operand(&mut self) -> ParseAborted {
        let found = escaped_text(self.token());
        let error = if starts_operand(self.after()) { "extraneous" } else { "mismatched" };
        self.fail(&format!("{error} input '{found}' expecting {OPERAND_STARTS}"))
    }

    fn expr(&mut self) -> Parse<Expr> {
        let outer = self.nesting;
        self.enter()?;
        let condition = self.binary(0)?;
        let Some(offset) = self.accept("?") else {
            self.nesting = outer;
            return Ok(condition);
        };
        let id = self.nodes.id(offset);
        let yes = self.binary(0)?;
        self.expect(":")?;
        let no = self.expr()?;
        self.nesting = outer;
        self.operator(id, "_?_:_", vec![condition, yes, no])
    }

    /// Parses operators of at least this level and their operands. One function handles all levels,
    /// because a function for each level would multiply the stack depth of nested brackets.
    fn binary(&mut self, lowest: u8) -> Parse<Expr> {
        let outer = self.nesting;
        let mut left = self.unary()?;
        while let Some(&(symbol, function, level)) =
            OPERATORS.iter().find(|(symbol, _, level)| *level >= lowest && self.token().is(symbol))
        {
            let id = self.nodes.id(self.token().offset);
            if level <= LOGICAL {
                // All terms of `a && b && …` are arguments of one call, so a long chain is not
                // deep.
                let mut terms = vec![left];
                while self.accept(symbol).is_some() {
                    terms.push(self.binary(level + 1)?);
                }
                left = self.operator(id, function, terms)?;
                continue;
            }
            self.enter()?;
            self.advance();
            let right = self.binary(level + 1)?;
            left = self.operator(id, function, vec![left, right])?;
        }
        self.nesting = outer;
        Ok(left)
    }

    fn operator(&mut self, id: Id, function: &str, args: Vec<Expr>) -> Parse<Expr> {
        let kind = Kind::Call { function: function.to_owned(), target: None, args };
        let expr = self.nodes.with_id(id, kind);
        self.check_height(expr)
    }

    fn unary(&mut self) -> Parse<Expr> {
        let TokenKind::Symbol(symbol @ ("!" | "-")) = self.token().kind else {
            return self.member();
        };
        if symbol == "-" && is_number(self.after()) {
            return self.member();
        }
        let first = self.token().offset;
        let mut count = 0;
        while self.token().is(symbol) && !(symbol == "-" && is_number(self.after())) {
            self.advance();
            count += 1;
        }
        if count % 2 == 0 {
            return self.member();
        }
        let id = self.nodes.id(first);
        let operand = self.member()?;
        self.operator(id, if symbol == "!" { "!_" } else { "-_" }, vec![operand])
    }

    fn member(&mut self) -> Parse<Expr> {
        let outer = self.nesting;
        let mut expr = self.primary()?;
        loop {
            if self.token().is(".") {
                self.enter()?;
                expr = self.select(expr)?;
            } else if self.token().is("[") {
                self.enter()?;
                expr = self.index(expr)?;
            } else if self.token().is("{") && expr.qualified_name().is_some() {
                expr = self.message(&expr)?;
            } else {
                self.nesting = outer;
                return Ok(expr);
            }
        }
    }

    fn select(&mut self, operand: Expr) -> Parse<Expr> {
        let dot = self.advance();
        let optional = self.accept("?").is_some();
        match self.token().kind {
            TokenKind::Identifier => {}
            TokenKind::EscapedIdentifier => {
                let offset = self.token().offset;
                self.nodes.report(offset, "unsupported syntax: '`'");
                return Err(ParseAborted);
            }
            TokenKind::Symbol(word @ ("true" | "false" | "null")) => {
                return Err(self.fail(&format!("mismatched input '{word}' expecting IDENTIFIER")));
            }
            TokenKind::End => return Err(self.fail("no viable alternative at input '.'")),
            _ => {
                let found = escaped_text(self.token());
                return Err(self.fail(&format!("no viable alternative at input '.{found}'")));
            }
        }
        let name = self.advance();
        if optional {
            let literal = Kind::Literal(Literal::String(Arc::from(name.text.as_str())));
            let field = self.nodes.new_expr(name.offset, literal);
            let id = self.nodes.id(dot.offset);
            return self.operator(id, "_?._", vec![operand, field]);
        }
        if self.token().is("(") {
            let id = self.nodes.id(self.token().offset);
            self.advance();
            let args = self.arguments()?;
            return self.call(id, name.text, Some(operand), args);
        }
        let kind = Kind::Select { operand: Box::new(operand), field: name.text, test: false };
        let expr = self.nodes.new_expr(dot.offset, kind);
        self.check_height(expr)
    }

    fn index(&mut self, operand: Expr) -> Parse<Expr> {
        let offset = self.advance().offset;
        let id = self.nodes.id(offset);
        let function = if self.accept("?").is_some() { "_[?_]" } else { "_[_]" };
        let key = self.expr()?;
        self.expect("]")?;
        self.operator(id, function, vec![operand, key])
    }

    fn arguments(&mut self) -> Parse<Vec<Expr>> {
        let mut args = Vec::new();
        if self.accept(")").is_some() {
            return Ok(args);
        }
        loop {
            args.push(self.expr()?);
            if self.accept(",").is_none() {
                self.expect(")")?;
                return Ok(args);
            }
        }
    }

    fn call(
        &mut self,
        id: Id,
        function: String,
        target: Option<Expr>,
        args: Vec<Expr>,
    ) -> Parse<Expr> {
        let macros = self.macros;
        let expr = match macros.expand(&mut self.nodes, id, &function, target, args) {
            Ok(expanded) => expanded,
            Err((target, args)) => {
                let target = target.map(Box::new);
                self.nodes.with_id(id, Kind::Call { function, target, args })
            }
        };
        self.check_height(expr)
    }

    fn primary(&mut self) -> Parse<Expr> {
        match self.token().kind {
            TokenKind::Identifier => self.name(""),
            TokenKind::Symbol(".") if self.after().kind == TokenKind::Identifier => {
                self.advance();
                self.name(".")
            }
            TokenKind::Symbol("(") => {
                self.advance();
                let inner = self.expr()?;
                self.expect(")")?;
                Ok(inner)
            }
            TokenKind::Symbol("[") => self.list(),
            TokenKind::Symbol("{") => self.map(),
            _ => self.constant(),
        }
    }

    fn name(&mut self, dot: &str) -> Parse<Expr> {
        let token = self.advance();
        let start = token.offset - dot.len();
        if RESERVED.contains(&token.text.as_str()) {
            self.nodes.report(start, format!("reserved identifier: {}", token.text));
            return Err(ParseAborted);
        }
        let name = format!("{dot}{}", token.text);
        if !self.token().is("(") {
            return Ok(self.nodes.new_expr(token.offset, Kind::Ident(name)));
        }
        let id = self.nodes.id(self.token().offset);
        self.advance();
        let args = self.arguments()?;
        self.call(id, name, None, args)
    }

    fn list(&mut self) -> Parse<Expr> {
        let offset = self.advance().offset;
        let id = self.nodes.id(offset);
        let mut items = Vec::new();
        while self.accept("]").is_none() {
            let optional = self.accept("?").is_some();
            items.push(Item { value: self.expr()?, optional });
            if self.accept(",").is_none() {
                self.expect("]")?;
                break;
            }
        }
        let expr = self.nodes.with_id(id, Kind::List(items));
        self.check_height(expr)
    }

    fn map(&mut self) -> Parse<Expr> {
        let offset = self.advance().offset;
        let id = self.nodes.id(offset);
        let mut entries = Vec::new();
        while self.accept("}").is_none() {
            let optional = self.accept("?").is_some();
            let key = self.expr()?;
            self.expect(":")?;
            entries.push(Entry { key, value: self.expr()?, optional });
            if self.accept(",").is_none() {
                self.expect("}")?;
                break;
            }
        }
        let expr = self.nodes.with_id(id, Kind::Map(entries));
        self.check_height(expr)
    }

    fn message(&mut self, type_name: &Expr) -> Parse<Expr> {
        let offset = self.advance().offset;
        let id = self.nodes.id(offset);
        let mut fields = Vec::new();
        while self.accept("}").is_none() {
            let optional = self.accept("?").is_some();
            if self.token().kind != TokenKind::Identifier {
                let found = escaped_text(self.token());
                let message =
                    format!("mismatched input '{found}' expecting {{'}}', ',', IDENTIFIER}}");
                return Err(self.fail(&message));
            }
            let name = self.advance().text;
            let colon = self.expect(":")?;
            let field = self.nodes.id(colon);
            fields.push(Field { id: field, name, value: self.expr()?, optional });
            if self.accept(",").is_none() {
                self.expect("}")?;
                break;
            }
        }
        let name = type_name.qualified_name().unwrap_or_default();
        let expr = self.nodes.with_id(id, Kind::Struct { name, fields });
        self.check_height(expr)
    }

    fn constant(&mut self) -> Parse<Expr> {
        let start = self.token().offset;
        let negative = self.token().is("-") && is_number(self.after());
        if !negative && !starts_operand(self.token())
            || self.token().is(".")
            || self.token().is("!")
        {
            return Err(self.no_operand());
        }
        if negative {
            self.advance();
        }
        let token = self.advance();
        let sign = if negative { "-" } else { "" };
        let literal = match token.kind {
            TokenKind::Symbol("true") => Ok(Literal::Bool(true)),
            TokenKind::Symbol("false") => Ok(Literal::Bool(false)),
            TokenKind::Symbol("null") => Ok(Literal::Null),
            TokenKind::Int => literal::integer(sign, &token.text).map(Literal::Int),
            TokenKind::Uint => literal::unsigned(&token.text).map(Literal::Uint),
            TokenKind::Float => literal::double(sign, &token.text).map(Literal::Double),
            TokenKind::Bytes => literal::bytes(&token.text).map(|it| Literal::Bytes(it.into())),
            _ => literal::string(&token.text).map(|it| Literal::String(it.into())),
        };
        match literal {
            Ok(literal) => Ok(self.nodes.new_expr(start, Kind::Literal(literal))),
            Err(message) => {
                self.nodes.report(start, message);
                Ok(self.nodes.new_expr(start, Kind::Invalid))
            }
        }
    }
}

fn is_number(token: &Token) -> bool {
    matches!(token.kind, TokenKind::Int | TokenKind::Float)
}

fn starts_operand(token: &Token) -> bool {
    match token.kind {
        TokenKind::Symbol(symbol) => {
            matches!(symbol, "[" | "{" | "(" | "." | "-" | "!" | "true" | "false" | "null")
        }
        TokenKind::End | TokenKind::EscapedIdentifier => false,
        _ => true,
    }
}

fn escaped_text(token: &Token) -> String {
    token.text.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t")
}

#[cfg(test)]
mod tests;
