//! The expressions of an issuer, about the claims of a token or about the user.
//!
//! Upstream: `authentication/cel`.

use std::sync::LazyLock;

use super::super::User;
use cel::{Bindings, Budget, CompileError, DeclType, Env, Library, Object, Program, Type};
use machinery::{Value, json};

/// The cost limit of one expression, upstream's `PerCallLimit`.
const PER_CALL: u64 = 1_000_000;

/// The variable of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Variable {
    /// The claims of a token.
    Claims,
    /// The user that the claims describe.
    User,
}

/// An expression that compiles.
#[derive(Debug)]
pub(super) struct Expression {
    /// Its text.
    pub source: String,
    variable: Variable,
    program: Program,
}

/// An expression that must be true, and the error if it is not.
#[derive(Debug)]
pub(super) struct Rule {
    /// The expression.
    pub expression: Expression,
    /// The message.
    pub message: String,
}

static CLAIMS: LazyLock<Env> = LazyLock::new(|| {
    let claims = DeclType::map(DeclType::any(), u64::MAX);
    Env::new(Library::kubernetes()).variable("claims", claims)
});

static USER: LazyLock<Env> = LazyLock::new(|| {
    let text = || DeclType::string(u64::MAX);
    let texts = || DeclType::list(text(), u64::MAX);
    let fields = [
        ("username".to_owned(), text()),
        ("uid".to_owned(), text()),
        ("groups".to_owned(), texts()),
        ("extra".to_owned(), DeclType::map(texts(), u64::MAX)),
    ];
    let user = DeclType::object(Object::new("kubernetes.UserInfo", fields));
    Env::new(Library::kubernetes()).variable("user", user)
});

/// Whether an expression reads a claim as `claims.NAME`.
pub(super) fn reads_claim(source: &str, name: &str) -> bool {
    CLAIMS.selects(source, "claims", name)
}

impl Variable {
    fn name(self) -> &'static str {
        match self {
            Self::Claims => "claims",
            Self::User => "user",
        }
    }
}

impl Expression {
    /// Compiles an expression; a condition must be a boolean. The error is a message for users.
    pub(super) fn compile(
        source: &str,
        variable: Variable,
        is_condition: bool,
    ) -> Result<Self, CompileError> {
        let env = match variable {
            Variable::Claims => &*CLAIMS,
            Variable::User => &*USER,
        };
        let program = env.compile(source)?;
        if is_condition && *program.result_type() != Type::Bool {
            return Err(CompileError::Instantiation("must evaluate to bool".to_owned()));
        }
        Ok(Self { source: source.to_owned(), variable, program })
    }

    /// Evaluates the expression and reads its value.
    fn evaluate<T>(
        &self,
        input: &Value,
        read: impl FnOnce(&cel::Value<'_>) -> T,
    ) -> Result<T, String> {
        let bindings = Bindings::new().json(self.variable.name(), input);
        let value = self.program.evaluate(&bindings, &mut Budget::new(PER_CALL));
        let source = &self.source;
        let value =
            value.map_err(|why| format!("expression '{source}' resulted in error: {why}"))?;
        Ok(read(&value))
    }

    /// The value, which must be a string; `what` names it in the error.
    pub(super) fn text(&self, claims: &Value, what: &str) -> Result<String, String> {
        let text = self.evaluate(claims, |value| value.as_str().map(ToOwned::to_owned))?;
        text.ok_or_else(|| format!("{what} claim expression must return a string"))
    }

    /// The value, which is a string or a list of strings. Empty ones are left out.
    pub(super) fn texts(&self, claims: &Value) -> Result<Vec<String>, String> {
        let texts = self.evaluate(claims, |value| match value {
            cel::Value::Null => Some(Vec::new()),
            cel::Value::String(text) => Some(vec![text.to_string()]),
            cel::Value::List(list) => {
                let text = |item: &cel::Value<'_>| item.as_str().map(ToOwned::to_owned);
                list.iter().map(|item| item.ok().and_then(|it| text(&it))).collect()
            }
            _ => None,
        })?;
        let mut texts =
            texts.ok_or("expression must return a string or a list of strings".to_owned())?;
        texts.retain(|it| !it.is_empty());
        Ok(texts)
    }
}

impl Rule {
    /// An error if the rule is not true.
    pub(super) fn check(&self, input: &Value) -> Result<(), String> {
        let holds = |value: &cel::Value<'_>| match value {
            cel::Value::Bool(holds) => Some(*holds),
            _ => None,
        };
        match self.expression.evaluate(input, holds)? {
            Some(true) => Ok(()),
            Some(false) => Err(format!(
                "validation expression '{}' failed: {}",
                self.expression.source, self.message
            )),
            None => Err("validation expression must return a boolean".to_owned()),
        }
    }
}

/// The claims as the value of `claims`. Upstream: numbers are floating-point numbers.
pub(super) fn claims_value(claims: &Value) -> Value {
    match claims {
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), claims_value(value))).collect()
        }
        Value::Array(items) => items.iter().map(claims_value).collect(),
        Value::Number(number) => number.as_f64().into(),
        other => other.clone(),
    }
}

/// The user as the value of `user`.
pub(super) fn user_value(user: &User) -> Value {
    json!({"username": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra})
}
