//! [`Compiler`]: from the text of a policy's expression to a program, with what the expressions of
//! policies may speak of.
//!
//! ```text
//! object, oldObject, params      anything: what kind they are is known only when they come,
//!                                unless types are checked for one kind
//! request, namespaceObject       the types below
//! authorizer                     not in messages, which must not depend on who reads them
//! variables                      those that were declared so far
//! ```

use super::types;
use cel::library::authorizer::{authorizer_type, resource_check_type};
use cel::{CompileError, CompileErrors, DeclType, Env, Library, Program, Type};
use std::sync::Arc;

/// Compiles the expressions of one policy, in the order in which they stand.
pub(in crate::admission) struct Compiler {
    object: DeclType,
    /// None if the policy has none.
    params: Option<DeclType>,
    /// The variables so far, or None if expressions may not use any.
    variables: Option<Vec<(String, DeclType)>>,
}

/// What an expression may use besides the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::admission) enum Declarations {
    /// The objects alone.
    Objects,
    /// And the authorizer.
    Authorizer,
    /// And the types that patches are made of.
    Patches,
}

/// Why an expression has no program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::admission) enum ExpressionError {
    /// The author's: show it to them.
    #[error("{0}")]
    Invalid(String),
    /// A constant part can only fail, which upstream finds too late to blame the author.
    #[error("{0}")]
    Internal(String),
}

/// An expression, compiled if it could be.
pub(super) struct Expression {
    pub source: String,
    pub program: Result<Program, ExpressionError>,
}

/// A named expression that others use as `variables.name`.
pub(super) struct Variable {
    pub name: String,
    pub program: Result<Program, ExpressionError>,
}

impl Compiler {
    /// For a policy whose expressions see `params` if it has them.
    pub(in crate::admission) fn new(has_params: bool) -> Self {
        let params = has_params.then(DeclType::any);
        Self { object: DeclType::any(), params, variables: None }
    }

    /// The same for a policy with variables, even if there are none.
    pub(super) fn with_variables(has_params: bool) -> Self {
        Self { variables: Some(Vec::new()), ..Self::new(has_params) }
    }

    /// The same for objects and parameters of these types, to find out whether the policy fits.
    pub(super) fn typed(object: DeclType, params: Option<DeclType>) -> Self {
        Self { object, params, variables: Some(Vec::new()) }
    }

    /// Compiles an expression that must give one of `results`; none stands for anything.
    pub(in crate::admission) fn program(
        &self,
        source: &str,
        declarations: Declarations,
        results: &[Type],
    ) -> Result<Program, ExpressionError> {
        let program = self.env(declarations).compile(source).map_err(|error| match error {
            CompileError::Issues(_) => ExpressionError::Invalid(error.to_string()),
            CompileError::Instantiation(_) => ExpressionError::Internal(error.to_string()),
        })?;
        let found = program.result_type();
        if results.is_empty() || results.contains(found) {
            return Ok(program);
        }
        let names: Vec<String> = results.iter().map(types::name).collect();
        let wanted = match names.as_slice() {
            [only] => only.clone(),
            several => format!("one of [{}]", several.join(" ")),
        };
        let found = types::name(found);
        Err(ExpressionError::Invalid(format!("must evaluate to {wanted} but got {found}")))
    }

    /// The same, keeping the text.
    pub(super) fn expression(
        &self,
        source: &str,
        declarations: Declarations,
        results: &[Type],
    ) -> Expression {
        let program = self.program(source, declarations, results);
        Expression { source: source.to_owned(), program }
    }

    /// Compiles a variable, which those that come after it may use. One that does not compile is
    /// there all the same, so that its fault is told once.
    pub(super) fn variable(&mut self, name: &str, source: &str) -> Variable {
        let program = self.program(source, Declarations::Authorizer, &[]);
        let decl = match &program {
            Ok(program) => types::variable_type(program.result_type()),
            Err(_) => DeclType::any(),
        };
        self.variables.get_or_insert_default().push((name.to_owned(), decl));
        Variable { name: name.to_owned(), program }
    }

    /// What an expression gives, if its types fit. Upstream does not tell those who only look at
    /// types of `authorizer.requestResource`.
    pub(super) fn check(&self, source: &str) -> Result<Type, CompileErrors> {
        let authorizer = DeclType::value(authorizer_type());
        self.env(Declarations::Objects).variable("authorizer", authorizer).check(source)
    }

    /// Declares a variable by the type that it has, or as anything if it has none.
    pub(super) fn check_variable(&mut self, name: &str, source: &str) {
        let decl =
            self.check(source).map_or_else(|_| DeclType::any(), |ty| types::variable_type(&ty));
        self.variables.get_or_insert_default().push((name.to_owned(), decl));
    }

    fn env(&self, declarations: Declarations) -> Env {
        let library = match declarations {
            Declarations::Patches => Library::kubernetes_patches(),
            Declarations::Objects | Declarations::Authorizer => Library::kubernetes(),
        };
        let mut env = Env::new(library)
            .variable("object", self.object.clone())
            .variable("oldObject", self.object.clone())
            .variable("namespaceObject", types::namespace())
            .variable("request", types::request())
            .messages(Arc::new(types::Messages { patches: declarations == Declarations::Patches }));
        if let Some(params) = &self.params {
            env = env.variable("params", params.clone());
        }
        if declarations != Declarations::Objects {
            env = env
                .variable("authorizer", DeclType::value(authorizer_type()))
                .variable("authorizer.requestResource", DeclType::value(resource_check_type()));
        }
        if let Some(variables) = &self.variables {
            let fields = cel::Object::new("kubernetes.variables", variables.iter().cloned());
            env = env.variable("variables", DeclType::object(fields));
        }
        env
    }
}
