//! [`Env`]: the variables, types and library that an expression may use.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::checker::{self, Checked};
use crate::decl::{DeclType, Object};
use crate::library::{Library, Overload};
use crate::parser;
use crate::program::Program;
use crate::source::CompileErrors;
use crate::types::Type;

/// The environment of expressions. It is cheap to clone, and can compile any number of expressions.
#[derive(Debug, Clone)]
pub struct Env {
    library: Arc<Library>,
    variables: HashMap<String, Arc<Variable>>,
    /// The first declared variable. Estimates look up sizes in it if a value has no path.
    root: Option<Arc<Variable>>,
    messages: Option<Arc<dyn Messages>>,
}

/// A declared variable.
#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) decl: DeclType,
    /// Whether the type of the variable is an optional of the declared type.
    pub(crate) optional: bool,
}

/// The message types of which expressions can create values: `Object.spec{replicas: 1}`.
pub trait Messages: fmt::Debug + Send + Sync {
    /// The type of this name.
    fn find(&self, name: &str) -> Option<Arc<Object>>;

    /// The type of a field that the declaration of the message type does not have.
    fn open_field(&self, type_name: &str, field: &str) -> Option<Type>;
}

/// Why an expression does not compile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The expression has errors.
    #[error("compilation failed: {0}")]
    Issues(CompileErrors),
    /// The evaluation of a constant part of the expression fails.
    #[error("program instantiation failed: {0}")]
    Instantiation(String),
}

impl Env {
    /// An environment without variables.
    pub fn new(library: Arc<Library>) -> Self {
        Self { library, variables: HashMap::new(), root: None, messages: None }
    }

    /// Declares a variable. The name may have dots: `authorizer.requestResource`.
    #[must_use]
    pub fn variable(self, name: &str, decl: DeclType) -> Self {
        self.declare(name, Variable { decl, optional: false })
    }

    /// Declares a variable whose type is an optional of `decl`.
    #[must_use]
    pub fn optional_variable(self, name: &str, decl: DeclType) -> Self {
        self.declare(name, Variable { decl, optional: true })
    }

    /// Declares message types.
    #[must_use]
    pub fn messages(mut self, messages: Arc<dyn Messages>) -> Self {
        self.messages = Some(messages);
        self
    }

    fn declare(mut self, name: &str, variable: Variable) -> Self {
        let variable = Arc::new(variable);
        if self.root.is_none() {
            self.root = Some(Arc::clone(&variable));
        }
        self.variables.insert(name.to_owned(), variable);
        self
    }

    /// Parses, checks and plans an expression.
    pub fn compile(&self, source: &str) -> Result<Program, CompileError> {
        let checked = self.checked(source).map_err(CompileError::Issues)?;
        Program::new(&checked, self).map_err(CompileError::Instantiation)
    }

    /// Parses and checks an expression without planning it, and returns its type.
    pub fn check(&self, source: &str) -> Result<Type, CompileErrors> {
        self.checked(source).map(|checked| checked.types[checked.expr.id].clone())
    }

    /// Whether an expression has `operand.field` or `operand.?field` in it, where `operand` is a name.
    pub fn selects(&self, source: &str, operand: &str, field: &str) -> bool {
        let parsed = parser::parse(source, &self.library.macros);
        parsed.is_ok_and(|it| it.expr.selects(operand, field))
    }

    fn checked(&self, source: &str) -> Result<Checked, CompileErrors> {
        let errors = |issues| CompileErrors::new(source, issues);
        let parsed = parser::parse(source, &self.library.macros).map_err(errors)?;
        checker::check(parsed, self).map_err(errors)
    }

    pub(crate) fn function(&self, name: &str) -> Option<&[Arc<Overload>]> {
        self.library.function(name)
    }

    pub(crate) fn declared(&self, name: &str) -> Option<&Arc<Variable>> {
        self.variables.get(name)
    }

    pub(crate) fn root(&self) -> Option<&DeclType> {
        self.root.as_ref().map(|variable| &variable.decl)
    }

    pub(crate) fn variable_type(&self, name: &str) -> Option<Type> {
        let variable = self.variables.get(name)?;
        let ty = variable.decl.checked();
        Some(if variable.optional { Type::optional(ty) } else { ty })
    }

    pub(crate) fn type_named(&self, name: &str) -> Option<Type> {
        let message = || self.message_type(name).map(Type::Object);
        self.library.type_named(name).or_else(message)
    }

    pub(crate) fn message_type(&self, name: &str) -> Option<Arc<Object>> {
        self.messages.as_ref()?.find(name.strip_prefix('.').unwrap_or(name))
    }

    pub(crate) fn open_field(&self, type_name: &str, field: &str) -> Option<Type> {
        self.messages.as_ref()?.open_field(type_name, field)
    }
}
