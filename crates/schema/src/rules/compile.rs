//! Compiles rules into programs.

use super::Rule;
use cel::{CompileError, DeclType, Env, Library, Program, Type};

/// A compiled rule, or the errors of its compilation.
#[derive(Debug, Default)]
pub(crate) struct Compiled {
    /// None if the rule is empty or does not compile.
    pub(crate) program: Option<Program>,
    /// The errors of the rule.
    pub(crate) error: Option<String>,
    /// The program of `messageExpression`.
    pub(crate) message: Option<Program>,
    /// The errors of the message expression.
    pub(crate) message_error: Option<String>,
    /// Whether the rule is a transition rule: it uses `oldSelf`.
    pub(crate) uses_old_self: bool,
}

/// Compiles the rules of one node, whose values have the type `decl`. The iterator is lazy.
pub(crate) fn compile(rules: &[Rule], decl: &DeclType) -> impl Iterator<Item = Compiled> {
    let env = Env::new(Library::kubernetes()).variable("self", decl.clone());
    let plain = env.clone().variable("oldSelf", decl.clone());
    let optional = env.optional_variable("oldSelf", decl.clone());
    rules
        .iter()
        .map(move |rule| compile_one(rule, if rule.optional_old_self { &optional } else { &plain }))
}

fn compile_one(rule: &Rule, env: &Env) -> Compiled {
    if rule.expression.trim().is_empty() {
        return Compiled::default();
    }
    let faulty = |error: String| Compiled { error: Some(error), ..Compiled::default() };
    let program = match env.compile(&rule.expression) {
        Ok(program) => program,
        Err(error) => return faulty(error.to_string()),
    };
    if *program.result_type() != Type::Bool {
        return faulty("cel expression must evaluate to a bool".to_owned());
    }
    let uses_old_self = program.uses("oldSelf");
    let compiled = Compiled { program: Some(program), uses_old_self, ..Compiled::default() };
    match compile_message(rule, env) {
        Ok(message) => Compiled { message, ..compiled },
        Err(error) => Compiled { message_error: Some(error), ..compiled },
    }
}

fn compile_message(rule: &Rule, env: &Env) -> Result<Option<Program>, String> {
    if rule.message_expression.is_empty() {
        return Ok(None);
    }
    let program = env.compile(&rule.message_expression).map_err(|error| match error {
        CompileError::Issues(issues) => format!("messageExpression compilation failed: {issues}"),
        CompileError::Instantiation(why) => {
            format!("messageExpression instantiation failed: {why}")
        }
    })?;
    if *program.result_type() != Type::String {
        return Err("messageExpression must evaluate to a string".to_owned());
    }
    Ok(Some(program))
}
