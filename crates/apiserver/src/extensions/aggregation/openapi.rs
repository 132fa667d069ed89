//! [`OpenApiPart`]: the paths and definitions that an aggregated server adds to the OpenAPI v2
//! document.
//!
//! A document is never decoded into a [`Value`](machinery::Value), which takes forty times the
//! memory of its text. Paths and definitions stay in the text form that the server sent.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use ring::digest::{Digest, SHA256, digest};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The maximum size of the document of one server. That of Kubernetes itself has 2.3 MiB.
pub(super) const MAX_DOCUMENT: usize = 4 << 20;

/// The maximum size of one path or definition, which is decoded when the document is written as
/// protobuf.
const MAX_PIECE: usize = 512 << 10;

/// The maximum total size of the parts of all servers.
pub(super) const MAX_TOTAL_SIZE: usize = 16 << 20;

/// The prefix of a reference to a definition.
const DEFINITIONS: &str = "#/definitions/";

/// The OpenAPI v2 document of an aggregated server.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) enum OpenApiV2 {
    /// The server has none.
    #[default]
    Absent,
    /// Its paths and definitions are part of the merged document.
    Part(Arc<OpenApiPart>),
    /// It is not part of the merged document.
    Omitted(OmitReason),
}

impl OpenApiV2 {
    /// The part, if there is one.
    pub(super) fn part(&self) -> Option<&Arc<OpenApiPart>> {
        match self {
            Self::Part(part) => Some(part),
            Self::Absent | Self::Omitted(_) => None,
        }
    }
}

/// The reason why a document is not part of the merged document. It is logged for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OmitReason {
    #[error("the document has more than {MAX_DOCUMENT} bytes")]
    TooLarge,
    #[error("a path or definition in the document has more than {MAX_PIECE} bytes")]
    PieceTooLarge,
    #[error("the documents of all aggregated servers have more than {MAX_TOTAL_SIZE} bytes")]
    TotalTooLarge,
    #[error("the document is not one of OpenAPI version 2: {0}")]
    Malformed(String),
}

/// See the [module documentation](self).
#[derive(PartialEq, Eq)]
pub(crate) struct OpenApiPart {
    /// An object with `paths` and `definitions`.
    text: String,
    /// The SHA-256 digest of the server's document.
    digest: [u8; 32],
}

/// The paths and definitions of a document by name, in their text form.
#[derive(Debug, Default, Deserialize, serde::Serialize)]
pub(crate) struct PathsAndDefinitions<'a> {
    /// The path items by path.
    #[serde(borrow, default)]
    pub paths: BTreeMap<String, &'a RawValue>,
    /// The definitions by name.
    #[serde(borrow, default)]
    pub definitions: BTreeMap<String, &'a RawValue>,
}

impl OpenApiPart {
    /// Takes the paths under `path`, and the definitions that they refer to.
    // Upstream: aggregator.go FilterSpecByPathsWithoutSideEffects
    pub(crate) fn from_document(document: &[u8], path: &str) -> Result<Self, OmitReason> {
        let malformed = |error: serde_json::Error| OmitReason::Malformed(error.to_string());
        let mut paths_and_definitions: PathsAndDefinitions<'_> =
            serde_json::from_slice(document).map_err(malformed)?;
        let is_below = |it: &str| {
            it.strip_prefix(path).is_some_and(|it| matches!(it.as_bytes(), [] | [b'/', ..]))
        };
        paths_and_definitions.paths.retain(|it, _| is_below(it));
        let mut unread: Vec<&RawValue> = paths_and_definitions.paths.values().copied().collect();
        let mut definitions = BTreeMap::new();
        while let Some(piece) = unread.pop() {
            if piece.get().len() > MAX_PIECE {
                return Err(OmitReason::PieceTooLarge);
            }
            for name in references(piece).map_err(malformed)? {
                if let Some((name, definition)) =
                    paths_and_definitions.definitions.remove_entry(&name)
                {
                    unread.push(definition);
                    definitions.insert(name, definition);
                }
            }
        }
        let paths_and_definitions =
            PathsAndDefinitions { paths: paths_and_definitions.paths, definitions };
        let text = serde_json::to_string(&paths_and_definitions).map_err(malformed)?;
        Ok(Self { text, digest: sha256(document) })
    }

    /// Whether it was built from this document.
    pub(super) fn is_from(&self, document: &[u8]) -> bool {
        self.digest == sha256(document)
    }

    /// Its size in bytes.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// The digest of the server's document.
    pub(crate) fn digest(&self) -> &[u8] {
        &self.digest
    }

    /// Its paths and definitions.
    pub(crate) fn paths_and_definitions(&self) -> PathsAndDefinitions<'_> {
        serde_json::from_str(&self.text).expect("the text was written by from_document")
    }
}

impl fmt::Debug for OpenApiPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenApiPart").field("len", &self.text.len()).finish_non_exhaustive()
    }
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let digest: Digest = digest(&SHA256, bytes);
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// The names of the definitions that a path or definition refers to; an error if it is nested too
/// deeply.
fn references(piece: &RawValue) -> Result<Vec<String>, serde_json::Error> {
    let mut names = Vec::new();
    let mut reader = serde_json::Deserializer::from_str(piece.get());
    References { names: &mut names, is_reference: false }.deserialize(&mut reader)?;
    Ok(names)
}

/// A visitor that collects the names of the referenced definitions and skips everything else.
struct References<'a> {
    names: &'a mut Vec<String>,
    /// Whether the value is that of `$ref`.
    is_reference: bool,
}

impl<'de> DeserializeSeed<'de> for References<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for References<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        if self.is_reference {
            self.names.extend(text.strip_prefix(DEFINITIONS).map(str::to_owned));
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let names = self.names;
        while items.next_element_seed(References { names, is_reference: false })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let names = self.names;
        while let Some(name) = fields.next_key::<Cow<'de, str>>()? {
            let is_reference = name == "$ref";
            fields.next_value_seed(References { names, is_reference })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::{Value, json};

    fn part(document: &Value) -> Value {
        let part = OpenApiPart::from_document(document.to_string().as_bytes(), "/apis/g/v1");
        serde_json::from_str(&part.unwrap().text).unwrap()
    }

    #[test]
    fn a_part_has_the_paths_of_its_version_and_the_definitions_they_refer_to() {
        let refer = |name: &str| json!([{"schema": {"$ref": format!("#/definitions/{name}")}}]);
        let document = json!({
            "swagger": "2.0",
            "paths": {"/api": refer("D"), "/apis/g/v1/x": refer("A"), "/apis/g/v10": refer("D")},
            "definitions": {
                "A": {"properties": {"b": refer("B"), "$ref": {"type": "string"}}},
                "B": {"items": refer("A")}, "C": {}, "D": {},
            },
        });
        let expected = json!({
            "paths": {"/apis/g/v1/x": refer("A")},
            "definitions": {
                "A": {"properties": {"b": refer("B"), "$ref": {"type": "string"}}},
                "B": {"items": refer("A")},
            },
        });
        assert_eq!(part(&document), expected);
    }

    #[test]
    fn a_document_without_paths_is_an_empty_part() {
        assert_eq!(part(&json!({})), json!({"paths": {}, "definitions": {}}));
    }

    #[test]
    fn a_document_that_is_nested_too_deeply_is_refused() {
        let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
        let document = format!(r#"{{"paths": {{"/apis/g/v1": {deep}}}}}"#);
        let refused = OpenApiPart::from_document(document.as_bytes(), "/apis/g/v1");
        assert!(matches!(refused, Err(OmitReason::Malformed(_))), "{refused:?}");
    }

    #[test]
    fn a_document_with_one_huge_path_is_refused() {
        let document = json!({"paths": {"/apis/g/v1": "a".repeat(MAX_PIECE)}}).to_string();
        let refused = OpenApiPart::from_document(document.as_bytes(), "/apis/g/v1");
        assert_eq!(refused, Err(OmitReason::PieceTooLarge));
    }
}
