//! [`EvalError`]: why an evaluation gave no value.

/// Why an evaluation gave no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// The expression failed for these values; the text is cel-go's and is shown to users.
    #[error("{0}")]
    Failed(String),
    /// The budget is spent; nothing more may be evaluated from it.
    #[error("operation cancelled: actual cost limit exceeded")]
    Cost,
}

impl EvalError {
    pub(crate) fn no_such_overload() -> Self {
        Self::Failed("no such overload".to_owned())
    }
}

impl From<String> for EvalError {
    fn from(message: String) -> Self {
        Self::Failed(message)
    }
}

impl From<&str> for EvalError {
    fn from(message: &str) -> Self {
        Self::Failed(message.to_owned())
    }
}
