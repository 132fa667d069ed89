//! [`Error`]: why a value is not of its type.

/// A value of the wrong type or form: the message of Go's decoder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    pub(super) message: String,
    /// What upstream's other decoder says, if that is something else.
    pub(super) from_values: Option<String>,
    /// The place of a wrong number, and how the message shows it.
    pub(super) number: Option<(String, String)>,
}

impl Error {
    pub(super) fn new(message: String) -> Self {
        Self { message, from_values: None, number: None }
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

    /// What upstream says when it makes an object from values that were read before.
    pub fn from_values(&self) -> &str {
        self.from_values.as_deref().unwrap_or(&self.message)
    }
}
