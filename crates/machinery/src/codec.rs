//! Decoders and encoders for JSON and YAML, and media types.

pub mod json;
pub mod yaml;
pub mod media;

use crate::Value;

/// A decoded body.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decoded {
    /// The value. If a map has a key twice, the last value counts.
    pub value: Value,
    /// The error of strict decoding for each repeated key: `duplicate field "spec.replicas"` for
    /// JSON, `line 5: key "k" already set in map` for YAML.
    pub duplicates: Vec<String>,
    /// The texts of the numbers that are not integers. Only the JSON decoder sets them.
    pub literals: Literals,
    /// The format of the body.
    pub format: Format,
}

/// The format of a body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// JSON; also the default for values that were not decoded from a body.
    #[default]
    Json,
    /// Decoded as YAML, even if the body is JSON as well.
    Yaml,
}

impl Decoded {
    /// The errors of strict decoding about repeated keys: one error for each key of JSON, one error
    /// for all keys of YAML.
    pub fn strict_errors(&self) -> Vec<String> {
        match self.format {
            Format::Yaml if !self.duplicates.is_empty() => {
                vec![format!("yaml: unmarshal errors:\n  {}", self.duplicates.join("\n  "))]
            }
            _ => self.duplicates.clone(),
        }
    }
}

/// The original texts of numbers that are not integers, which [`Value`] may print differently.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Literals {
    /// The path and the text of each number.
    recorded: Vec<(String, String)>,
    /// The text of the first number that is too large for a float.
    pub too_large: Option<String>,
}

impl Literals {
    /// The maximum number of texts, which are only used in error messages.
    const MAX: usize = 100;

    /// The text of the number at a path such as `spec.ports[0].port`.
    pub fn at(&self, path: &str) -> Option<&str> {
        self.recorded.iter().find(|(recorded, _)| recorded == path).map(|(_, text)| text.as_str())
    }
}

/// A body that cannot be decoded. The messages are those of Go's decoders.
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
