//! Bytes on the wire to values and back: JSON, YAML, and the media types that name them.

pub mod json;
pub mod yaml;
pub mod media;

use crate::Value;

/// What a body says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decoded {
    /// Where a key occurs twice in a map, the later one has won.
    pub value: Value,
    /// What strict decoding reports for each repeated key: `duplicate field "spec.replicas"` for
    /// JSON, `line 5: key "k" already set in map` for YAML.
    pub duplicates: Vec<String>,
    /// The numbers that were not written as integers, if the reader keeps them.
    pub literals: Literals,
    /// What the body is written in.
    pub format: Format,
}

/// What a body is written in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// Or what has no repeated keys at all.
    #[default]
    Json,
    /// YAML that is read as such, even if it is JSON.
    Yaml,
}

impl Decoded {
    /// The repeated keys as the errors that a strict reader fails with: one for each of JSON, one for
    /// all of YAML.
    pub fn strict_errors(&self) -> Vec<String> {
        match self.format {
            Format::Yaml if !self.duplicates.is_empty() => {
                vec![format!("yaml: unmarshal errors:\n  {}", self.duplicates.join("\n  "))]
            }
            _ => self.duplicates.clone(),
        }
    }
}

/// Numbers as a body writes them, where [`Value`] may write them differently.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Literals {
    /// Path and text of each.
    noted: Vec<(String, String)>,
    /// The text of the first number that is too large for a float.
    pub too_large: Option<String>,
}

impl Literals {
    /// More than this are not kept: they are only for error messages.
    const MAX: usize = 100;

    /// The number at a path such as `spec.ports[0].port`.
    pub fn at(&self, path: &str) -> Option<&str> {
        self.noted.iter().find(|(noted, _)| noted == path).map(|(_, text)| text.as_str())
    }
}

/// A body that cannot be read; the message, in the words of Go's decoders, is for the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DecodeError {
    /// `unexpected end of JSON input`
    pub message: String,
}

impl DecodeError {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}
