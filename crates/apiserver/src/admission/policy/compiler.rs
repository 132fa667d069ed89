//! [`Compiler`]: compiles the expressions of a policy, with these variables:
//!
//! ```text
//! object, oldObject, params      any type: their kind is not known when a policy is compiled,
//!                                unless types are checked for one kind
//! request, namespaceObject       the types of the module `types`
//! authorizer                     not in messages, which must not depend on the user's rights
//! variables                      the variables that are declared before the expression
//! ```

use std::sync::Arc;

use super::types;
use cel::library::authorizer::{authorizer_type, resource_check_type};
use cel::{CompileError, CompileErrors, DeclType, Env, Library, Program, Type};

/// Compiles the expressions of one policy in their order.
pub(in crate::admission) struct Compiler {
    object: DeclType,
    /// The type of `params`; None if the policy has no parameters.
    params: Option<DeclType>,
    /// The variables that are declared so far; None if expressions cannot use variables.
    variables: Option<Vec<(String, DeclType)>>,
}

/// The declarations that an expression can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::admission) enum Declarations {
    /// The objects, the request and the namespace.
    Objects,
    /// In addition, the authorizer.
    Authorizer,
    /// In addition, the types of patches.
    Patches,
}

/// The reasons for which an expression does not compile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::admission) enum ExpressionError {
    /// The expression is invalid. Report the field as invalid.
    #[error("{0}")]
    Invalid(String),
    /// A constant subexpression always fails. Upstream finds this after compilation and reports an
    /// internal error.
    #[error("{0}")]
    Internal(String),
}

/// The source of an expression, and its program or compile error.
pub(super) struct Expression {
    pub source: String,
    pub program: Result<Program, ExpressionError>,
}

/// A named expression that other expressions use as `variables.name`.
pub(super) struct Variable {
    pub name: String,
    pub program: Result<Program, ExpressionError>,
}

impl Compiler {
    /// A compiler for a policy. `has_params` declares the variable `params`.
    pub(in crate::admission) fn new(has_params: bool) -> Self {
        let params = has_params.then(DeclType::any);
        Self { object: DeclType::any(), params, variables: None }
    }

    /// A compiler that declares `variables`, even if the policy has none.
    pub(super) fn with_variables(has_params: bool) -> Self {
        Self { variables: Some(Vec::new()), ..Self::new(has_params) }
    }

    /// A compiler for objects and parameters of these types, for type checking.
    pub(super) fn typed(object: DeclType, params: Option<DeclType>) -> Self {
        Self { object, params, variables: Some(Vec::new()) }
    }

    /// Compiles an expression whose type is one of `results`; an empty list allows every type.
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
        let expected = match names.as_slice() {
            [only] => only.clone(),
            several => format!("one of [{}]", several.join(" ")),
        };
        let found = types::name(found);
        Err(ExpressionError::Invalid(format!("must evaluate to {expected} but got {found}")))
    }

    /// Compiles an expression and keeps its source.
    pub(super) fn expression(
        &self,
        source: &str,
        declarations: Declarations,
        results: &[Type],
    ) -> Expression {
        let program = self.program(source, declarations, results);
        Expression { source: source.to_owned(), program }
    }

    /// Compiles a variable and declares it for later expressions. A variable that does not compile
    /// is declared too, so that its error is reported once.
    pub(super) fn variable(&mut self, name: &str, source: &str) -> Variable {
        let program = self.program(source, Declarations::Authorizer, &[]);
        let decl = match &program {
            Ok(program) => types::variable_type(program.result_type()),
            Err(_) => DeclType::any(),
        };
        self.variables.get_or_insert_default().push((name.to_owned(), decl));
        Variable { name: name.to_owned(), program }
    }

    /// Type checks an expression and returns its type. Upstream: type checking does not declare
    /// `authorizer.requestResource`.
    pub(super) fn check(&self, source: &str) -> Result<Type, CompileErrors> {
        let authorizer = DeclType::value(authorizer_type());
        self.env(Declarations::Objects).variable("authorizer", authorizer).check(source)
    }

    /// Declares a variable with the type of its expression, or with any type if the check fails.
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
