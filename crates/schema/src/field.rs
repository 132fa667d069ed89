//! Resolves a path such as `.spec.color` in a schema, for selectable fields and for the `fieldPath`
//! of rules.

use crate::json_schema::JsonSchema;
use machinery::Value;

/// Why a path does not resolve. The messages are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldPathError {
    /// `[0]` or `['key']` where only field names are allowed.
    #[error("array notation is not allowed")]
    ArrayNotation,
    /// The path ends after a dot or inside of brackets.
    #[error("unexpected end of JSON path")]
    UnexpectedEnd,
    /// Neither a dot nor a bracket where a step begins.
    #[error("expected [ or . but got: {0}")]
    Unexpected(String),
    /// The text between brackets is not in single quotes.
    #[error("expected single quoted string but got {0}")]
    NotQuoted(String),
    /// A backslash before a character that cannot be escaped.
    #[error("invalid string literal: invalid escape char \\{0}")]
    Escape(char),
    /// An opened bracket is not closed.
    #[error("expected ] but got {0}")]
    Unclosed(String),
    /// The schema has no such field.
    #[error("does not refer to a valid field")]
    NoSuchField,
}

/// The `type` of the field at `path`, or "" if the schema has none.
pub fn field_type<'a>(schema: &'a Value, path: &str) -> Result<&'a str, FieldPathError> {
    let source = JsonSchema::of(schema).ok_or(FieldPathError::NoSuchField)?;
    let mut steps = Steps { rest: path, brackets: BracketSyntax::Refused };
    let mut node = source;
    while let Some(name) = steps.next()? {
        node = field(node, &name)?;
    }
    Ok(node.text("type"))
}

/// The schema at `path`, which may have keys in brackets, and the path in the form of errors.
pub(crate) fn resolve_field_path<'a>(
    schema: JsonSchema<'a>,
    path: &str,
) -> Result<(String, JsonSchema<'a>), FieldPathError> {
    let mut steps = Steps { rest: path, brackets: BracketSyntax::Allowed };
    let (mut node, mut shown) = (schema, String::new());
    while let Some(name) = steps.next()? {
        shown += &match (node.non_empty("properties").is_some(), shown.is_empty()) {
            (false, _) => format!("[{name}]"),
            (true, true) => name.clone(),
            (true, false) => format!(".{name}"),
        };
        node = field(node, &name)?;
    }
    Ok((shown, node))
}

fn field<'a>(node: JsonSchema<'a>, name: &str) -> Result<JsonSchema<'a>, FieldPathError> {
    let found = match node.non_empty("properties") {
        Some(_) => node.property(name),
        None => node.schema("additionalProperties"),
    };
    found.ok_or(FieldPathError::NoSuchField)
}

/// Whether a path may have `['key']`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum BracketSyntax {
    Allowed,
    Refused,
}

/// The rest of a path.
struct Steps<'p> {
    rest: &'p str,
    brackets: BracketSyntax,
}

impl<'p> Steps<'p> {
    /// The next field or key.
    fn next(&mut self) -> Result<Option<String>, FieldPathError> {
        match self.token() {
            None => Ok(None),
            Some(".") => {
                let name = self.token().ok_or(FieldPathError::UnexpectedEnd)?;
                Ok(Some(name.to_owned()))
            }
            Some("[") if self.brackets == BracketSyntax::Refused => {
                Err(FieldPathError::ArrayNotation)
            }
            Some("[") => {
                let quoted = self.token().ok_or(FieldPathError::UnexpectedEnd)?;
                let inner = quoted.strip_prefix('\'').and_then(|it| it.strip_suffix('\''));
                let inner = inner.ok_or_else(|| FieldPathError::NotQuoted(quoted.to_owned()))?;
                let name = unescape(inner)?;
                match self.token().ok_or(FieldPathError::UnexpectedEnd)? {
                    "]" => Ok(Some(name)),
                    other => Err(FieldPathError::Unclosed(other.to_owned())),
                }
            }
            Some(other) => Err(FieldPathError::Unexpected(other.to_owned())),
        }
    }

    /// A dot, a bracket, a quoted string, or the text up to the next dot or bracket.
    fn token(&mut self) -> Option<&'p str> {
        if self.rest.is_empty() {
            return None;
        }
        let end = if self.rest.starts_with('\'') {
            let bytes = self.rest.as_bytes();
            let closes = |at: &usize| bytes[*at] == b'\'' && bytes[*at - 1] != b'\\';
            (1..bytes.len()).find(closes).map_or(bytes.len(), |at| at + 1)
        } else {
            self.rest.find(['.', '[', ']']).unwrap_or(self.rest.len()).max(1)
        };
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(token)
    }
}

fn unescape(text: &str) -> Result<String, FieldPathError> {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        let escaped = if c == '\\' { characters.next() } else { None };
        plain.push(match escaped {
            None => c,
            Some('a') => '\u{7}',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\u{b}',
            Some(same @ ('\'' | '\\')) => same,
            Some(other) => return Err(FieldPathError::Escape(other)),
        });
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    #[test]
    fn a_path_resolves_to_a_field_or_an_error() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
            "properties": {"color": {"type": "string"}}}}});
        assert_eq!(field_type(&schema, ".spec.color"), Ok("string"));
        assert_eq!(field_type(&schema, ".spec"), Ok("object"));
        for (path, message) in [
            (".spec.size", "does not refer to a valid field"),
            (".spec[0]", "array notation is not allowed"),
            ("spec.color", "expected [ or . but got: spec"),
            (".spec.", "unexpected end of JSON path"),
        ] {
            assert_eq!(field_type(&schema, path).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn keys_in_brackets_are_resolved_and_written_as_in_errors() {
        let schema = json!({"properties": {"a.b": {"additionalProperties": {"type": "string"}}}});
        let shown = |path| {
            resolve_field_path(JsonSchema::of(&schema).unwrap(), path).map(|(shown, _)| shown)
        };
        assert_eq!(shown("['a.b'].x"), Ok("a.b[x]".to_owned()));
        assert_eq!(shown("['a.b']['it\\'s']"), Ok("a.b[it's]".to_owned()));
        assert_eq!(shown("['c']"), Err(FieldPathError::NoSuchField));
        assert_eq!(shown("[a]"), Err(FieldPathError::NotQuoted("a".to_owned())));
        assert_eq!(shown("['a.b'"), Err(FieldPathError::UnexpectedEnd));
        assert_eq!(shown("['a.b'x"), Err(FieldPathError::Unclosed("x".to_owned())));
        assert_eq!(shown("['\\q']"), Err(FieldPathError::Escape('q')));
    }
}
