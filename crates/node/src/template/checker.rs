//! [`check`]: finds the errors of a template that do not depend on the object for which it is
//! rendered: unknown functions and variables, and arguments of values that are not functions.

use super::functions;
use super::parser::{Branch, Node, Operand, Pipeline};

/// Checks a template in which these functions are known beside the built-in ones.
pub(super) fn check(nodes: &[Node], own_functions: &[&str]) -> Result<(), String> {
    let mut checker = Checker { own_functions, variables: vec!["$".to_owned()] };
    checker.nodes(nodes)
}

struct Checker<'a> {
    own_functions: &'a [&'a str],
    /// The variables in scope.
    variables: Vec<String>,
}

impl Checker<'_> {
    fn nodes(&mut self, nodes: &[Node]) -> Result<(), String> {
        let scope = self.variables.len();
        for node in nodes {
            match node {
                Node::Text(_) => {}
                Node::Action(pipeline) => self.pipeline(pipeline)?,
                Node::If(branches) | Node::With(branches) => self.branches(branches)?,
                Node::Range { pipeline, body, otherwise } => {
                    let scope = self.variables.len();
                    self.pipeline(pipeline)?;
                    self.nodes(body)?;
                    self.variables.truncate(scope);
                    self.nodes(otherwise)?;
                }
            }
        }
        self.variables.truncate(scope);
        Ok(())
    }

    fn branches(&mut self, branches: &[Branch]) -> Result<(), String> {
        let scope = self.variables.len();
        for Branch { condition, body } in branches {
            if let Some(condition) = condition {
                self.pipeline(condition)?;
            }
            self.nodes(body)?;
        }
        self.variables.truncate(scope);
        Ok(())
    }

    fn pipeline(&mut self, pipeline: &Pipeline) -> Result<(), String> {
        for (index, command) in pipeline.commands.iter().enumerate() {
            for operand in command {
                self.operand(operand)?;
            }
            let is_function = matches!(command.first(), Some(Operand::Function(_)));
            if !is_function && (index > 0 || command.len() > 1) {
                return Err("can't give arguments to a value that is not a function".to_owned());
            }
        }
        for name in &pipeline.variables {
            if pipeline.is_assignment {
                self.variable(name)?;
            } else {
                self.variables.push(name.clone());
            }
        }
        Ok(())
    }

    fn operand(&mut self, operand: &Operand) -> Result<(), String> {
        match operand {
            Operand::Literal(_) | Operand::Field(_) => Ok(()),
            Operand::Variable(name, _) => self.variable(name),
            Operand::Pipeline(pipeline, _) => self.pipeline(pipeline),
            Operand::Function(name) => {
                let is_known = functions::is_known(name) || self.own_functions.contains(&&**name);
                is_known.then_some(()).ok_or_else(|| functions::not_supported(name))
            }
        }
    }

    fn variable(&self, name: &String) -> Result<(), String> {
        let is_known = self.variables.contains(name);
        is_known.then_some(()).ok_or_else(|| format!("undefined variable {name}"))
    }
}
