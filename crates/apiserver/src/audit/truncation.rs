//! [`Truncation`]: events that are too large for a backend lose their objects, and batches are split.
//!
//! Upstream: `plugin/pkg/audit/truncate`

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use machinery::codec::json;

/// The annotation of an event without its objects.
const ANNOTATION: &str = "audit.k8s.io/truncated";

/// See the [module documentation](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncation {
    /// The maximum size of a batch in bytes. A larger one is split.
    pub max_batch_size: usize,
    /// The maximum size of an event in bytes. A larger one loses its objects, and is dropped if it is
    /// still too large.
    pub max_event_size: usize,
}

/// The event is too large even without its objects.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLarge;

impl Truncation {
    /// The event, without its objects if it is too large.
    pub(super) fn apply(self, event: &Bytes) -> Result<Bytes, TooLarge> {
        if event.len() <= self.max_event_size {
            return Ok(event.clone());
        }
        match without_objects(event) {
            Some(event) if event.len() <= self.max_event_size => Ok(event),
            _ => Err(TooLarge),
        }
    }

    /// The parts of a batch, each with at least one event.
    pub(super) fn split(self, batch: &[Bytes]) -> impl Iterator<Item = &[Bytes]> {
        let mut rest = batch;
        std::iter::from_fn(move || {
            let mut size = 0;
            let fits = |event: &&Bytes| {
                size += event.len();
                size <= self.max_batch_size
            };
            let count = rest.iter().take_while(fits).count().max(1);
            let part = rest.get(..count)?;
            rest = &rest[count..];
            Some(part)
        })
    }
}

/// The fields of an event in their order.
struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldsVisitor;
        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an event")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(FieldsVisitor)
    }
}

/// A copy of an event without its objects; None if its level has none.
fn without_objects(event: &[u8]) -> Option<Bytes> {
    let Fields(fields) = serde_json::from_slice(event).ok()?;
    let field = |name: &str| fields.iter().find(|it| it.0 == name).map(|it| it.1.get());
    if !matches!(field("level"), Some("\"Request\"" | "\"RequestResponse\"")) {
        return None;
    }
    let mut annotations: BTreeMap<String, String> =
        field("annotations").and_then(|it| serde_json::from_str(it).ok()).unwrap_or_default();
    annotations.insert(ANNOTATION.to_owned(), "true".to_owned());
    let mut out = Vec::new();
    for (name, value) in &fields {
        // The annotations are the last field.
        if !matches!(&**name, "requestObject" | "responseObject" | "annotations") {
            out.push(if out.is_empty() { b'{' } else { b',' });
            json::write_text(&mut out, name);
            out.push(b':');
            out.extend_from_slice(value.get().as_bytes());
        }
    }
    out.extend_from_slice(b",\"annotations\":");
    json::write(&mut out, &annotations);
    out.extend_from_slice(b"}\n");
    Some(out.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRUNCATION: Truncation = Truncation { max_batch_size: 250, max_event_size: 150 };

    fn event(level: &str, object: usize) -> Bytes {
        let object = "x".repeat(object);
        let text = format!(
            r#"{{"kind":"Event","level":"{level}","requestObject":{{"a":"{object}"}},"verb":"create","annotations":{{"z":"<"}}}}"#
        );
        format!("{text}\n").into()
    }

    #[test]
    fn a_large_event_loses_its_objects() {
        let small = event("Request", 10);
        assert_eq!(TRUNCATION.apply(&small).unwrap(), small);
        let expected = concat!(
            r#"{"kind":"Event","level":"RequestResponse","verb":"create","#,
            r#""annotations":{"audit.k8s.io/truncated":"true","z":"\u003c"}}"#,
            "\n"
        );
        assert_eq!(TRUNCATION.apply(&event("RequestResponse", 500)).unwrap(), expected);
    }

    #[test]
    fn an_event_that_is_still_too_large_is_refused() {
        assert_eq!(TRUNCATION.apply(&event("Metadata", 500)), Err(TooLarge), "it has no objects");
        let truncation = Truncation { max_event_size: 50, ..TRUNCATION };
        assert_eq!(truncation.apply(&event("Request", 500)), Err(TooLarge));
    }

    #[test]
    fn a_batch_is_split_by_its_size() {
        let batch: Vec<Bytes> = [100, 100, 100, 300, 10].map(|it| vec![0; it].into()).into();
        let sizes = TRUNCATION.split(&batch).map(<[Bytes]>::len).collect::<Vec<_>>();
        assert_eq!(sizes, [2, 1, 1, 1]);
    }
}
