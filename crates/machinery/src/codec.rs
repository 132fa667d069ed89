//! Bytes on the wire to values and back: JSON, YAML, and the media types that name them.

pub mod json;
pub mod yaml;
pub mod media;

use crate::Value;

/// What a body says.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// Where a key occurs twice in a map, the later one has won.
    pub value: Value,
    /// What a strict reader has to say of each repeated key: `duplicate field "spec.replicas"` of
    /// JSON, `line 5: key "k" already set in map` of YAML.
    pub duplicates: Vec<String>,
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
