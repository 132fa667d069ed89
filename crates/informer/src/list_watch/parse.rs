//! Reads lists and watch events in the JSON that a Kubernetes API server sends.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{List, ListWatchError, WatchEvent};
use crate::item::ElementType;
use crate::{BadItem, Item, ObjectKey};
use machinery::watch::{Event, EventType, INITIAL_EVENTS_END};
use machinery::{Object, Status, Value};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawList<'a> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: ListMetadata,
    // Go encodes a nil slice as null.
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ListMetadata {
    resource_version: String,
    #[serde(rename = "continue")]
    continue_token: String,
}

/// The JSON as UTF-8: invalid bytes become U+FFFD.
fn as_text(json: Bytes) -> Bytes {
    match String::from_utf8_lossy(&json) {
        Cow::Borrowed(_) => json,
        Cow::Owned(text) => text.into(),
    }
}

impl List {
    /// Parses a list in Kubernetes' JSON: `{"kind":"PodList","metadata":{…},"items":[…]}`.
    ///
    /// The items of a list lack `apiVersion` and `kind`, unlike those of a watch; they are added, so
    /// that the bytes of an object are the same from both. Bytes that are not UTF-8 become U+FFFD, as
    /// in Go, so that one object with such bytes does not hide the others.
    pub fn parse(json: impl Into<Bytes>) -> Result<Self, ListWatchError> {
        let json = as_text(json.into());
        let raw_list: RawList<'_> = serde_json::from_slice(&json)
            .map_err(|error| ListWatchError::Malformed(Box::new(error)))?;
        let kind = raw_list.kind.strip_suffix("List").filter(|kind| !kind.is_empty());
        let element_type = kind.map(|kind| ElementType {
            api_version: format!(r#""apiVersion":{}"#, Value::from(raw_list.api_version)),
            kind: format!(r#""kind":{}"#, Value::from(kind)),
        });
        let mut list = Self {
            resource_version: raw_list.metadata.resource_version,
            continue_token: Some(raw_list.metadata.continue_token)
                .filter(|token| !token.is_empty()),
            ..Self::default()
        };
        for raw in raw_list.items.unwrap_or_default() {
            let element = json.slice_ref(raw.get().as_bytes());
            match Item::parse_element(element, element_type.as_ref()) {
                Ok(item) => list.items.push(item),
                Err(bad) => list.bad.push(bad),
            }
        }
        Ok(list)
    }
}

impl WatchEvent {
    /// Parses one line of a watch.
    pub fn parse(line: impl Into<Bytes>) -> Result<Self, ListWatchError> {
        let line = line.into();
        if let Some(event) = Self::parse_fast(&line) {
            return Ok(event);
        }
        let malformed = |error: serde_json::Error| ListWatchError::Malformed(error.into());
        let line = as_text(line);
        let event = Event::parse(&line).map_err(malformed)?;
        let json = event.object.get();
        let make = match event.event_type {
            EventType::Added => Self::Added,
            EventType::Modified => Self::Modified,
            EventType::Deleted => Self::Deleted,
            EventType::Bookmark | EventType::Error => {
                let object = Object::new(serde_json::from_str(json).map_err(malformed)?);
                return Ok(Self::bookmark_or_error(event.event_type, object));
            }
        };
        let item = Item::parse(line.slice_ref(json.as_bytes()));
        Ok(item.map_or_else(|error| Self::bad(json, error), make))
    }

    fn bad(json: &str, error: BadItem) -> Self {
        #[derive(Deserialize)]
        struct Versioned {
            metadata: ListMetadata,
        }
        let versioned = serde_json::from_str(json);
        let resource_version =
            versioned.map_or_else(|_| String::new(), |it: Versioned| it.metadata.resource_version);
        Self::Bad { resource_version, error: Arc::new(error) }
    }

    /// Parses an event of an object in the usual order of its members, with one pass over the JSON of
    /// the object; `None` for any other line.
    fn parse_fast(line: &Bytes) -> Option<Self> {
        let typed = line.strip_prefix(br#"{"type":""#)?.strip_suffix(b"}")?;
        let object_of = |event_type: EventType| {
            let object = typed.strip_prefix(event_type.as_str().as_bytes())?;
            Item::parse(line.slice_ref(object.strip_prefix(br#"","object":"#)?)).ok()
        };
        object_of(EventType::Modified)
            .map(Self::Modified)
            .or_else(|| object_of(EventType::Added).map(Self::Added))
            .or_else(|| object_of(EventType::Deleted).map(Self::Deleted))
    }

    fn bookmark_or_error(event_type: EventType, object: Object) -> Self {
        if event_type == EventType::Bookmark {
            return Self::Bookmark {
                resource_version: object.resource_version().to_owned(),
                initial_events_end: object.annotation(INITIAL_EVENTS_END) == Some("true"),
            };
        }
        let value = object.into_value();
        let unknown = || Status::unclassified(format!("the watch failed: {value}"));
        Self::Error(Status::from_value(&value).unwrap_or_else(unknown))
    }

    /// The key of the changed object, if there is one.
    pub fn key(&self) -> Option<&ObjectKey> {
        match self {
            Self::Added(item) | Self::Modified(item) | Self::Deleted(item) => Some(item.key()),
            Self::Bookmark { .. } | Self::Bad { .. } | Self::Error(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_items_of_a_list_get_api_version_and_kind() {
        let list = List::parse(
            r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5","continue":"t"},
            "items":[{"metadata":{"name":"a"}},{"kind":"Pod","metadata":{"name":"b"}},{"metadata":{}},
            {"apiVersion":"v2","metadata":{"name":"c"},"kind":null},
            { "kind":"Pod", "apiVersion":"v1", "metadata":{"name":"d"}}]}"#,
        )
        .unwrap();
        let json: Vec<_> = list.items.iter().map(|item| item.json().to_vec()).collect();
        assert_eq!(json[0], br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#);
        assert_eq!(json[1], br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"}}"#);
        assert_eq!(json[2], br#"{"kind":"Pod","apiVersion":"v2","metadata":{"name":"c"}}"#);
        assert_eq!(json[3], br#"{ "kind":"Pod", "apiVersion":"v1", "metadata":{"name":"d"}}"#);
        assert_eq!((list.bad.len(), list.resource_version.as_str()), (1, "5"));
        assert_eq!(list.continue_token.as_deref(), Some("t"));
    }

    #[test]
    fn items_may_be_null() {
        let list =
            List::parse(r#"{"kind":"PodList","metadata":{"resourceVersion":"5"},"items":null}"#);
        assert!(list.unwrap().items.is_empty());
    }

    #[test]
    fn an_object_that_is_not_utf_8_does_not_hide_the_others() {
        let list = b"{\"items\":[{\"metadata\":{\"name\":\"a\"},\"spec\":\"\xff\"},{\"metadata\":{\"name\":\"b\"}}]}";
        let list = List::parse(list.as_slice()).unwrap();
        assert_eq!((list.items.len(), list.bad.len()), (2, 0));
        assert_eq!(list.items[0].object().unwrap().str_at(&["spec"]), "\u{fffd}");
    }

    #[test]
    fn members_of_a_line_may_have_any_order_and_white_space() {
        let object = r#"{"metadata":{"namespace":"n","name":"a"}}"#;
        for line in [
            format!(r#"{{"type":"DELETED","object":{object}}}"#),
            format!(r#"{{ "type": "DELETED", "object": {object} }}"#),
            format!(r#"{{"object":{object},"type":"DELETED"}}"#),
            format!(r#"{{"type":"DELETED","object":{object},"more":{{}}}}"#),
        ] {
            let WatchEvent::Deleted(item) = WatchEvent::parse(line.clone()).unwrap() else {
                panic!("not a deletion: {line}")
            };
            assert_eq!(&*item.json(), object.as_bytes());
        }
        for cut in [r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}"#, r#"{"type":"ADDED","#]
        {
            assert!(WatchEvent::parse(cut).is_err(), "{cut}");
        }
    }

    #[test]
    fn an_object_without_a_name_is_a_bad_event_and_not_an_error() {
        let line = r#"{"type":"MODIFIED","object":{"metadata":{"resourceVersion":"7"}}}"#;
        let WatchEvent::Bad { resource_version, error } = WatchEvent::parse(line).unwrap() else {
            panic!("it has no name")
        };
        assert_eq!(resource_version, "7");
        assert!(matches!(*error, BadItem::Nameless));
        let line = r#"{"type":"ADDED","object":{"metadata":{"name":"a"},"spec":[}}"#;
        assert!(WatchEvent::parse(line).is_err());
    }

    #[test]
    fn an_error_event_carries_its_status() {
        let line = format!(r#"{{"type":"ERROR","object":{}}}"#, Status::expired("gone").to_value());
        let WatchEvent::Error(status) = WatchEvent::parse(line).unwrap() else {
            panic!("not an error")
        };
        assert_eq!(status, Status::expired("gone"));
    }
}
