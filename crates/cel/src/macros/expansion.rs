//! The tools with which macros build their expansions.

use super::MacroError;
use crate::ast::{ACCUMULATOR, Expr, Fold, Item, Kind, Literal, UNUSED};
use crate::parser::Nodes;

/// A macro call that is being rewritten.
pub(super) struct Expansion<'a> {
    pub(super) nodes: &'a mut Nodes,
    /// The position of the call, and so of its expansion.
    pub(super) offset: usize,
}

impl Expansion<'_> {
    pub(super) fn make(&mut self, kind: Kind) -> Expr {
        self.nodes.new_expr(self.offset, kind)
    }

    pub(super) fn literal(&mut self, literal: Literal) -> Expr {
        self.make(Kind::Literal(literal))
    }

    pub(super) fn ident(&mut self, name: &str) -> Expr {
        self.make(Kind::Ident(name.to_owned()))
    }

    pub(super) fn accumulator(&mut self) -> Expr {
        self.ident(ACCUMULATOR)
    }

    pub(super) fn list(&mut self, values: Vec<Expr>) -> Expr {
        let items = values.into_iter().map(|value| Item { value, optional: false }).collect();
        self.make(Kind::List(items))
    }

    pub(super) fn call(&mut self, function: &str, args: Vec<Expr>) -> Expr {
        self.make(Kind::Call { function: function.to_owned(), target: None, args })
    }

    pub(super) fn method(&mut self, function: &str, target: Expr, args: Vec<Expr>) -> Expr {
        let target = Some(Box::new(target));
        self.make(Kind::Call { function: function.to_owned(), target, args })
    }

    pub(super) fn error(&self, expr: &Expr, message: &str) -> MacroError {
        MacroError(self.nodes.offset(expr.id), message.to_owned())
    }

    /// The same tree with new ids: types and costs are kept per node.
    pub(super) fn copy(&mut self, expr: &Expr) -> Expr {
        let offset = self.nodes.offset(expr.id);
        let mut kind = expr.kind.clone();
        match &mut kind {
            Kind::Literal(_) | Kind::Ident(_) | Kind::Invalid => {}
            Kind::Select { operand, .. } => **operand = self.copy(operand),
            Kind::Call { target, args, .. } => {
                if let Some(target) = target {
                    **target = self.copy(target);
                }
                for arg in args {
                    *arg = self.copy(arg);
                }
            }
            Kind::List(items) => {
                for item in items {
                    item.value = self.copy(&item.value);
                }
            }
            Kind::Map(entries) => {
                for entry in entries {
                    entry.key = self.copy(&entry.key);
                    entry.value = self.copy(&entry.value);
                }
            }
            Kind::Struct { fields, .. } => {
                for field in fields {
                    field.id = self.nodes.id(self.nodes.offset(field.id));
                    field.value = self.copy(&field.value);
                }
            }
            Kind::Fold(fold) => {
                fold.range = self.copy(&fold.range);
                fold.init = self.copy(&fold.init);
                fold.condition = self.copy(&fold.condition);
                fold.step = self.copy(&fold.step);
                fold.result = self.copy(&fold.result);
            }
        }
        self.nodes.new_expr(offset, kind)
    }

    /// The variables at the head of the arguments: one, or two if the macro has `rest` others.
    pub(super) fn variables(
        &self,
        args: &[Expr],
        two: bool,
    ) -> Result<(String, Option<String>), MacroError> {
        let words =
            if two { "argument must be a simple name" } else { "argument is not an identifier" };
        let first = self.variable(&args[0], words)?;
        if !two {
            return Ok((first, None));
        }
        let second = self.variable(&args[1], words)?;
        if first == second {
            return Err(self.error(&args[1], &format!("duplicate variable name: {first}")));
        }
        Ok((first, Some(second)))
    }

    pub(super) fn variable(&self, expr: &Expr, words: &str) -> Result<String, MacroError> {
        match &expr.kind {
            Kind::Ident(name) if name == "__result__" => {
                Err(self.error(expr, "iteration variable overwrites accumulator variable"))
            }
            Kind::Ident(name) => Ok(name.clone()),
            _ => Err(self.error(expr, words)),
        }
    }

    pub(super) fn fold(&mut self, fold: Fold) -> Expr {
        self.make(Kind::Fold(Box::new(fold)))
    }

    /// A fold that adds to a list or map: the shape of `map`, `filter` and the transformations.
    pub(super) fn collect(
        &mut self,
        range: Expr,
        (variable, second): (String, Option<String>),
        init: Expr,
        filter: Option<Expr>,
        mut step: Expr,
    ) -> Expr {
        if let Some(filter) = filter {
            let same = self.accumulator();
            step = self.call("_?_:_", vec![filter, step, same]);
        }
        let condition = self.literal(Literal::Bool(true));
        let result = self.accumulator();
        let accumulator = ACCUMULATOR.to_owned();
        self.fold(Fold { range, variable, second, accumulator, init, condition, step, result })
    }

    pub(super) fn bound(&mut self, name: String, init: Expr, result: Expr) -> Expr {
        let range = self.list(Vec::new());
        let condition = self.literal(Literal::Bool(false));
        let step = self.ident(&name);
        let variable = UNUSED.to_owned();
        self.fold(Fold {
            range,
            variable,
            second: None,
            accumulator: name,
            init,
            condition,
            step,
            result,
        })
    }
}
