//! [`Notes`]: what the authentication of a request has to say besides its user.

/// See the [module documentation](self).
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// The keys and values of audit annotations.
    pub annotations: Vec<(&'static str, String)>,
    /// The warnings of the response.
    pub warnings: Vec<&'static str>,
    /// Whether the request has no credentials, although they are needed.
    pub has_no_credentials: bool,
}

impl Notes {
    /// Adds an annotation.
    pub(super) fn annotate(&mut self, key: &'static str, value: String) {
        self.annotations.push((key, value));
    }

    /// The warnings as they are sent.
    pub(crate) fn warning_texts(&self) -> Vec<String> {
        self.warnings.iter().map(|it| (*it).to_owned()).collect()
    }
}
