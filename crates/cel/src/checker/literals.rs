//! Validates literals at compile time: `duration('soon')`, `x.matches('(')`, lists whose elements
//! have different types.

use super::Checked;
use crate::ast::{Expr, Id, Kind, Literal};
use crate::library::regexes;
use crate::source::Issue;
use crate::time::{Duration, Timestamp};
use crate::types::Type;

/// Errors in literals.
pub(super) fn check(checked: &Checked, offsets: &[usize]) -> Vec<Issue> {
    let mut literals = Literals { types: &checked.types, offsets, issues: Vec::new() };
    literals.visit(&checked.expr, false);
    literals.issues
}

struct Literals<'c> {
    types: &'c [Type],
    offsets: &'c [usize],
    issues: Vec<Issue>,
}

impl Literals<'_> {
    /// Inside of `format`, the elements of lists and maps may have different types.
    fn visit(&mut self, expr: &Expr, inside_format: bool) {
        let mut inside_format = inside_format;
        match &expr.kind {
            Kind::Call { function, target, args } => {
                inside_format |= function == "format";
                self.argument(function, target.is_none(), args);
            }
            Kind::List(items) if !inside_format => {
                let parts = items.iter().map(|item| (item.value.id, item.optional));
                self.unify_elements(parts);
            }
            Kind::Map(entries) if !inside_format => {
                self.unify_elements(entries.iter().map(|entry| (entry.key.id, false)));
                self.unify_elements(entries.iter().map(|entry| (entry.value.id, entry.optional)));
            }
            _ => {}
        }
        expr.for_each_child(&mut |child| self.visit(child, inside_format));
    }

    fn argument(&mut self, function: &str, global: bool, args: &[Expr]) {
        let position = usize::from(function == "matches" && global);
        if let Some(arg) = args.get(position)
            && let Kind::Literal(literal) = &arg.kind
            && !is_valid_argument(function, literal)
        {
            let message = format!("invalid {function} argument");
            self.issues.push(Issue::at(self.offsets[arg.id], message));
        }
    }

    /// All parts must have the type of the first.
    fn unify_elements(&mut self, parts: impl Iterator<Item = (Id, bool)>) {
        let mut expected: Option<&Type> = None;
        for (id, optional) in parts {
            let found = match &self.types[id] {
                Type::Optional(inner) if optional => inner,
                ty => ty,
            };
            let expected = *expected.get_or_insert(found);
            if expected != found {
                let message = format!("expected type '{expected}' but found '{found}'");
                self.issues.push(Issue::at(self.offsets[id], message));
                return;
            }
        }
    }
}

fn is_valid_argument(function: &str, literal: &Literal) -> bool {
    match (function, literal) {
        ("duration", Literal::String(text)) => Duration::parse(text).is_some(),
        ("timestamp", Literal::String(text)) => Timestamp::parse(text).is_some(),
        ("timestamp", Literal::Int(seconds)) => Timestamp::new(*seconds, 0).is_some(),
        ("matches", Literal::String(text)) => regexes::compile(text).is_ok(),
        _ => true,
    }
}
