//! [`Expansion`]: creates the nodes of a macro's expansion.

use super::MacroError;
use crate::ast::{ACCUMULATOR, Comprehension, Expr, Item, Kind, Literal, UNUSED};
use crate::parser::Nodes;

/// The number of iteration variables of a macro.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Variables {
    One,
    Two,
}

/// A macro call that is being rewritten.
pub(super) struct Expansion<'a> {
    pub(super) nodes: &'a mut Nodes,
    /// The position of the call, which all nodes of the expansion have.
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

    /// The same tree with new ids, because types and costs are stored by id.
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
            Kind::Comprehension(comprehension) => {
                comprehension.range = self.copy(&comprehension.range);
                comprehension.init = self.copy(&comprehension.init);
                comprehension.condition = self.copy(&comprehension.condition);
                comprehension.step = self.copy(&comprehension.step);
                comprehension.result = self.copy(&comprehension.result);
            }
        }
        self.nodes.new_expr(offset, kind)
    }

    /// The names of the iteration variables, which are the first arguments.
    pub(super) fn variables(
        &self,
        args: &[Expr],
        variables: Variables,
    ) -> Result<(String, Option<String>), MacroError> {
        let message = match variables {
            Variables::One => "argument is not an identifier",
            Variables::Two => "argument must be a simple name",
        };
        let first = self.variable(&args[0], message)?;
        if variables == Variables::One {
            return Ok((first, None));
        }
        let second = self.variable(&args[1], message)?;
        if first == second {
            return Err(self.error(&args[1], &format!("duplicate variable name: {first}")));
        }
        Ok((first, Some(second)))
    }

    pub(super) fn variable(&self, expr: &Expr, message: &str) -> Result<String, MacroError> {
        match &expr.kind {
            Kind::Ident(name) if name == "__result__" => {
                Err(self.error(expr, "iteration variable overwrites accumulator variable"))
            }
            Kind::Ident(name) => Ok(name.clone()),
            _ => Err(self.error(expr, message)),
        }
    }

    pub(super) fn comprehension(&mut self, comprehension: Comprehension) -> Expr {
        self.make(Kind::Comprehension(Box::new(comprehension)))
    }

    /// A comprehension that adds to a list or map, for `map`, `filter` and the transformations.
    pub(super) fn collect(
        &mut self,
        range: Expr,
        (variable, second_variable): (String, Option<String>),
        init: Expr,
        filter: Option<Expr>,
        mut step: Expr,
    ) -> Expr {
        if let Some(filter) = filter {
            let unchanged = self.accumulator();
            step = self.call("_?_:_", vec![filter, step, unchanged]);
        }
        let condition = self.literal(Literal::Bool(true));
        let result = self.accumulator();
        let accumulator = ACCUMULATOR.to_owned();
        self.comprehension(Comprehension {
            range,
            variable,
            second_variable,
            accumulator,
            init,
            condition,
            step,
            result,
        })
    }

    /// Binds `init` to a name in `result`: a comprehension over an empty list, whose accumulator
    /// has the name.
    pub(super) fn bind(&mut self, name: String, init: Expr, result: Expr) -> Expr {
        let range = self.list(Vec::new());
        let condition = self.literal(Literal::Bool(false));
        let step = self.ident(&name);
        let variable = UNUSED.to_owned();
        self.comprehension(Comprehension {
            range,
            variable,
            second_variable: None,
            accumulator: name,
            init,
            condition,
            step,
            result,
        })
    }
}
