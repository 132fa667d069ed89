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

/// The surroundings of expressions. Cheap to clone; compile any number of expressions with it.
#[derive(Debug, Clone)]
pub struct Env {
    library: Arc<Library>,
    variables: HashMap<String, Arc<Variable>>,
    /// The first variable: sizes of what has no path are looked up in it.
    root: Option<Arc<Variable>>,
    messages: Option<Arc<dyn Messages>>,
}

/// A declared variable.
#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) decl: DeclType,
    /// Whether expressions see an optional of the declared type.
    pub(crate) optional: bool,
}

/// Types that expressions may make values of: `Object.spec{replicas: 1}`.
pub trait Messages: fmt::Debug + Send + Sync {
    /// The type of this name.
    fn find(&self, name: &str) -> Option<Arc<Object>>;

    /// The type of a field that the type's declaration does not list.
    fn open_field(&self, type_name: &str, field: &str) -> Option<Type>;
}

/// Why an expression cannot become a program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The expression has errors: show them to its author.
    #[error("compilation failed: {0}")]
    Issues(CompileErrors),
    /// A constant part of the expression can only fail.
    #[error("program instantiation failed: {0}")]
    Instantiation(String),
}

impl Env {
    /// Surroundings without variables.
    pub fn new(library: Arc<Library>) -> Self {
        Self { library, variables: HashMap::new(), root: None, messages: None }
    }

    /// Declares a variable. The name may have dots: `authorizer.requestResource`.
    #[must_use]
    pub fn variable(self, name: &str, decl: DeclType) -> Self {
        self.declare(name, Variable { decl, optional: false })
    }

    /// Declares a variable that is an optional of the type.
    #[must_use]
    pub fn optional_variable(self, name: &str, decl: DeclType) -> Self {
        self.declare(name, Variable { decl, optional: true })
    }

    /// Lets expressions make messages.
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

    fn checked(&self, source: &str) -> Result<Checked, CompileErrors> {
        let faulty = |issues| CompileErrors::new(source, issues);
        let parsed = parser::parse(source, &self.library.macros).map_err(faulty)?;
        checker::check(parsed, self).map_err(faulty)
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
