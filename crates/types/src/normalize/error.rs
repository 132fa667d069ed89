//! [`Error`]: why a value is not of its type.

/// A value of the wrong type or form: the message of Go's decoder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    pub(super) message: String,
    /// The message of upstream's `FromUnstructured`, if it differs.
    pub(super) from_unstructured: Option<String>,
    /// The path of a wrong number, and its text in the message.
    pub(super) number: Option<(String, String)>,
}

impl Error {
    pub(super) fn new(message: String) -> Self {
        Self { message, from_unstructured: None, number: None }
    }

    /// The same error with a wrong number as it was sent; `literal` returns that by its path.
    #[must_use]
    pub fn with_literal<'l>(mut self, literal: impl FnOnce(&str) -> Option<&'l str>) -> Self {
        if let Some((path, shown)) = &self.number
            && let Some(literal) = literal(path)
        {
            let (shown, sent) = (format!("number {shown} "), format!("number {literal} "));
            self.message = self.message.replacen(&shown, &sent, 1);
        }
        self
    }

    /// The message of upstream's `FromUnstructured`, which converts values that are decoded
    /// already.
    pub fn from_unstructured(&self) -> &str {
        self.from_unstructured.as_deref().unwrap_or(&self.message)
    }
}
