//! YAML as Kubernetes decodes and encodes it: version 1.1, restricted to the values of JSON.
//!
//! - `yes`, `on`, `n` and similar words are booleans. As keys they become the strings `true` and
//!   `false`.
//! - A repeated key is recorded; the last value counts.
//! - The size of the copies that aliases make is limited.
//!
//! ```
//! use machinery::{codec::yaml, json};
//! let decoded = yaml::decode(b"a: {n: 010, list: [1.5, ~]}").unwrap();
//! assert_eq!(decoded.value, json!({"a": {"false": 8, "list": [1.5, null]}}));
//! ```

mod builder;
mod encoder;
mod scalar;

pub use encoder::encode;

use serde_saphyr::granit_parser::{self, ErrorKind, Event, Parser, ScanError};

use super::{DecodeError, Decoded, Format, Literals, json};
use builder::Builder;

/// Decodes the first document; an empty stream is null.
pub fn decode(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| DecodeError::new("yaml: invalid leading UTF-8 octet"))?;
    Ok(first_document(text)?.unwrap_or_default())
}

/// Decodes all documents of a file except empty ones.
pub fn documents(text: &str) -> Result<Vec<Decoded>, DecodeError> {
    let mut documents = Vec::new();
    for document in split_documents(text) {
        let decoded = first_document(document)?;
        documents.extend(decoded.filter(|decoded| !decoded.value.is_null()));
    }
    Ok(documents)
}

fn first_document(text: &str) -> Result<Option<Decoded>, DecodeError> {
    let options = granit_parser::options! { emit_comments: false, emit_unresolved_aliases: true };
    if !text.chars().all(is_allowed) {
        return Err(in_line(0, "control characters are not allowed"));
    }
    if let Some(decoded) = json_object(text) {
        return Ok(Some(decoded));
    }
    let mut builder = Builder::default();
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = next.map_err(|error| translate(&error, text))?;
        let is_end = matches!(event, Event::DocumentEnd);
        builder.take(event, span.start.line())?;
        if is_end {
            return Ok(Some(builder.finish()));
        }
    }
    Ok(None)
}

/// Decodes a text that is a JSON object, as most programs send when they apply, without the parser.
/// `None` for other texts, and where YAML has a result of its own: repeated keys, floats and
/// surrogate pairs.
fn json_object(text: &str) -> Option<Decoded> {
    if !text.starts_with('{') || text.contains(r"\ud") || text.contains(r"\uD") {
        return None;
    }
    let decoded = json::decode_exact(text.as_bytes()).ok()?;
    let is_same = decoded.duplicates.is_empty() && decoded.literals == Literals::default();
    is_same.then_some(Decoded { format: Format::Yaml, ..decoded })
}

/// Splits before every line that begins with `---`. A document cannot contain such a line.
fn split_documents(text: &str) -> Vec<&str> {
    let (mut documents, mut start, mut at) = (Vec::new(), 0, 0);
    for line in text.split_inclusive('\n') {
        let is_separator = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']));
        if is_separator && at > start {
            documents.push(&text[start..at]);
            start = at;
        }
        at += line.len();
    }
    documents.push(&text[start..]);
    documents
}

const NO_NODE: &str = "did not find expected node content";

/// Whether a YAML stream may contain the character.
fn is_allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | '\u{85}' | '\u{feff}') || !c.is_control()
}

/// The part of Go's library that would have found an error: its parts count lines differently.
#[derive(Clone, Copy)]
enum FoundBy {
    /// Counts from one, but writes no line for the first.
    Scanner,
    /// Counts from zero.
    Parser,
    /// At the end of the text; writes the last line.
    ParserAtEnd,
}

/// The error with the message of Go's YAML library, if it has an equivalent one.
fn translate(error: &ScanError, text: &str) -> DecodeError {
    let line = error.marker().line();
    let Some((found_by, message)) = go_message(error.kind()) else {
        return in_line(line, &error.info());
    };
    let at_end = error.marker().index() >= text.chars().count();
    match found_by {
        FoundBy::Scanner if line == 1 => in_line(0, message),
        FoundBy::Scanner => in_line(line, message),
        FoundBy::Parser if !at_end => in_line(line.saturating_sub(1), message),
        FoundBy::ParserAtEnd if text.trim_end().ends_with(['[', '{', ',']) => {
            in_line(text.lines().count(), NO_NODE)
        }
        FoundBy::Parser | FoundBy::ParserAtEnd => in_line(text.lines().count(), message),
    }
}

fn go_message(kind: &ErrorKind) -> Option<(FoundBy, &'static str)> {
    const NO_BRACKET: &str = "did not find expected ',' or ']'";
    const NO_BRACE: &str = "did not find expected ',' or '}'";
    Some(match kind {
        ErrorKind::UnexpectedEofFlowSequence | ErrorKind::UnclosedFlowCollection { open: '[' } => {
            (FoundBy::ParserAtEnd, NO_BRACKET)
        }
        ErrorKind::UnexpectedEofFlowMapping | ErrorKind::UnclosedFlowCollection { .. } => {
            (FoundBy::ParserAtEnd, NO_BRACE)
        }
        ErrorKind::ExpectedFlowSequenceSeparator => (FoundBy::Parser, NO_BRACKET),
        ErrorKind::ExpectedFlowMappingSeparator => (FoundBy::Parser, NO_BRACE),
        ErrorKind::ExpectedBlockMappingKey => (FoundBy::Parser, "did not find expected key"),
        ErrorKind::ExpectedBlockSequenceEntry => {
            (FoundBy::Parser, "did not find expected '-' indicator")
        }
        ErrorKind::ExpectedNodeContent | ErrorKind::MisplacedFlowCollectionEnd => {
            (FoundBy::Parser, NO_NODE)
        }
        ErrorKind::ExpectedDocumentStart => {
            (FoundBy::Parser, "did not find expected <document start>")
        }
        ErrorKind::UnexpectedCharacter { .. }
        | ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation => {
            (FoundBy::Scanner, "found character that cannot start any token")
        }
        ErrorKind::TabInPlainScalar => {
            (FoundBy::Scanner, "found a tab character that violates indentation")
        }
        ErrorKind::MappingValueNotAllowed => {
            (FoundBy::Scanner, "mapping values are not allowed in this context")
        }
        ErrorKind::MappingKeyNotAllowed => {
            (FoundBy::Scanner, "mapping keys are not allowed in this context")
        }
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey => {
            (FoundBy::Scanner, "could not find expected ':'")
        }
        ErrorKind::UnclosedQuotedScalar => (FoundBy::Scanner, "found unexpected end of stream"),
        ErrorKind::UnknownQuotedScalarEscape => {
            (FoundBy::Scanner, "found unknown escape character")
        }
        _ => return None,
    })
}

/// An error in a line; 0 if the message names no line.
fn in_line(line: usize, message: &str) -> DecodeError {
    match line {
        0 => DecodeError::new(format!("yaml: {message}")),
        line => DecodeError::new(format!("yaml: line {line}: {message}")),
    }
}

#[cfg(test)]
mod tests;
