//! [`EvalError`]: why an evaluation failed.

/// Why an evaluation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// The expression failed for these values. The message is cel-go's and is shown to users.
    #[error("{0}")]
    Failed(String),
    /// The cost limit of this evaluation, or the remaining budget, is exceeded.
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
