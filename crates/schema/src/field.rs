//! Following a path such as `.spec.color` through a schema, for selectable fields.

use crate::source::Source;
use machinery::Value;

/// Why a path leads nowhere; the texts are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownField {
    /// `[0]` or `['key']`
    #[error("array notation is not allowed")]
    ArrayNotation,
    /// A dot at the end.
    #[error("unexpected end of JSON path")]
    UnexpectedEnd,
    /// No dot at the beginning.
    #[error("expected [ or . but got: {0}")]
    Unexpected(String),
    /// The schema knows no such field.
    #[error("does not refer to a valid field")]
    NoSuchField,
}

/// The `type` of the field at `path`, or "" where the schema states none.
pub fn field_type<'a>(schema: &'a Value, path: &str) -> Result<&'a str, UnknownField> {
    let mut node = Source::of(schema).ok_or(UnknownField::NoSuchField)?;
    let mut rest = path;
    while !rest.is_empty() {
        if rest.starts_with('[') {
            return Err(UnknownField::ArrayNotation);
        }
        let Some(after) = rest.strip_prefix('.') else {
            let end = rest.find(['.', '[', ']']).unwrap_or(rest.len()).max(1);
            return Err(UnknownField::Unexpected(rest[..end].to_owned()));
        };
        if after.is_empty() {
            return Err(UnknownField::UnexpectedEnd);
        }
        let end = after.find(['.', '[', ']']).unwrap_or(after.len()).max(1);
        let (name, after) = after.split_at(end);
        let field = match node.stated("properties") {
            Some(_) => node.property(name),
            None => node.schema("additionalProperties"),
        };
        node = field.ok_or(UnknownField::NoSuchField)?;
        rest = after;
    }
    Ok(node.text("type"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    #[test]
    fn a_path_leads_to_a_field_or_says_why_not() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
            "properties": {"color": {"type": "string"}}}}});
        assert_eq!(field_type(&schema, ".spec.color"), Ok("string"));
        assert_eq!(field_type(&schema, ".spec"), Ok("object"));
        for (path, complaint) in [
            (".spec.size", "does not refer to a valid field"),
            (".spec[0]", "array notation is not allowed"),
            ("spec.color", "expected [ or . but got: spec"),
            (".spec.", "unexpected end of JSON path"),
        ] {
            assert_eq!(field_type(&schema, path).unwrap_err().to_string(), complaint);
        }
    }
}
