//! [`ListWatch`]: where lists and watches come from: an API server over HTTP, one in the same
//! process, or a simulated one in a test.
//!
//! A source answers with bytes that were barely read ([`Item`]); [`Page::parse`] and
//! [`WatchEvent::parse`] make them from what Kubernetes sends.
//!
//! ```
//! use informer::{ListWatchError, Selection, WatchEvent};
//! use machinery::selector::LabelSelector;
//!
//! let line = r#"{"type":"ADDED","object":{"metadata":{"name":"a","labels":{"app":"web"}}}}"#;
//! let WatchEvent::Added(item) = WatchEvent::parse(line)? else { panic!("it was added") };
//! let labels = LabelSelector::parse("app=web").unwrap();
//! let web = Selection { labels, ..Selection::default() };
//! assert_eq!(web.selects(&item), Some(true));
//! # Ok::<(), ListWatchError>(())
//! ```

use std::{borrow::Cow, error::Error as StdError, sync::Arc};

use bytes::Bytes;
use futures_util::{future::BoxFuture, stream::BoxStream};
use machinery::{
    Object, Status, Value,
    selector::{FieldSelector, LabelSelector},
    watch::{Event, EventType, INITIAL_EVENTS_END},
};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{BadItem, Item, ObjectKey, item::ElementType};

/// See the [module documentation](self).
pub trait ListWatch: Send + Sync + 'static {
    /// One page of the objects in scope.
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Page, ListWatchError>>;

    /// What happens to the objects in scope after a resourceVersion. Resolves when the server has
    /// accepted the request; refusals come as the error here, never as the first event.
    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream, ListWatchError>>;

    /// Whether it is worth asking for a watch that begins with all objects. One that is refused
    /// costs one request and is not tried again.
    fn offers_watch_list(&self) -> bool {
        true
    }
}

/// The events of one watch; it ends with None when the server closes it, or with an error.
pub type WatchStream = BoxStream<'static, Result<WatchEvent, ListWatchError>>;

/// Which objects are meant, beside their resource, which the source itself stands for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// All namespaces if None.
    pub namespace: Option<String>,
    /// By their labels.
    pub labels: LabelSelector,
    /// By their fields.
    pub fields: FieldSelector,
}

/// Asks for a page of a list.
#[derive(Debug, Clone, Default)]
pub struct ListRequest {
    /// Of these objects.
    pub selection: Selection,
    /// At most so many; all of them if None.
    pub limit: Option<u32>,
    /// Where the last page ended.
    pub continue_token: Option<String>,
    /// At this state or a later one; None for the most recent state, which is what the
    /// [reflector](crate::reflector) asks for, so that it never goes back in time.
    pub resource_version: Option<String>,
}

/// Asks for a watch. Bookmarks are always wanted.
#[derive(Debug, Clone, Default)]
pub struct WatchRequest {
    /// Of these objects.
    pub selection: Selection,
    /// From behind this state; None only with `initial_events`.
    pub resource_version: Option<String>,
    /// Begin with all objects, and a bookmark that says that these were all (`WatchList`).
    pub initial_events: bool,
    /// The server should close it after so long.
    pub timeout_seconds: u32,
}

/// A page of a list.
#[derive(Debug, Default)]
pub struct Page {
    /// The objects.
    pub items: Vec<Item>,
    /// What could not be read as an object at all; reported, and otherwise passed over.
    pub bad: Vec<BadItem>,
    /// The state that the list shows; the same in all pages.
    pub resource_version: String,
    /// How to get the next page, if this is not the last one.
    pub continue_token: Option<String>,
}

/// One event of a watch.
#[derive(Debug, Clone)]
pub enum WatchEvent {
    /// It came into view.
    Added(Item),
    /// It changed.
    Modified(Item),
    /// It went out of view; this was its last state.
    Deleted(Item),
    /// Nothing else happened up to this state.
    Bookmark {
        /// The state.
        resource_version: String,
        /// Whether it ends the initial events.
        initial_events_end: bool,
    },
    /// Something happened to an object that cannot be cached; reported, and otherwise passed over.
    Bad {
        /// Its state, or empty if that cannot be read either.
        resource_version: String,
        /// Why not.
        error: Arc<BadItem>,
    },
    /// The watch has failed.
    Error(Status),
}

/// Why a list or a watch failed. The reflector tries again after all of them.
#[derive(Debug, thiserror::Error)]
pub enum ListWatchError {
    /// The server refused. What to do next depends on its code; see
    /// [reflector](crate::reflector).
    #[error("the server refused")]
    Refused(#[source] Status),
    /// The server was not reached, or the connection broke: connect again.
    #[error("the connection failed")]
    Connection(#[source] Box<dyn StdError + Send + Sync>),
    /// The answer makes no sense, perhaps because it was cut off: ask again.
    #[error("cannot read the answer")]
    Malformed(#[source] Box<dyn StdError + Send + Sync>),
    /// The server said nothing for longer than it was asked to.
    #[error("the server fell silent")]
    Silent,
    /// The server closed a watch at once, or before it had shown all objects: ask again.
    #[error("the watch was closed early")]
    Closed,
    /// An event is older than the one before: the server has lost its history, or somebody in
    /// between repeats it. List again.
    #[error("the watch went back in time")]
    WentBack,
}

impl ListWatchError {
    /// The status, if the server refused with one.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Refused(status) => Some(status),
            _ => None,
        }
    }
}

impl Selection {
    /// Whether `item` is meant, as far as that can be told from its metadata: None if it depends
    /// on fields that only the server knows how to read.
    pub fn selects(&self, item: &Item) -> Option<bool> {
        let in_namespace =
            self.namespace.as_ref().is_none_or(|namespace| namespace == item.namespace());
        if !in_namespace || !item.is_selected_by(&self.labels) {
            return Some(false);
        }
        let mut known = true;
        for requirement in self.fields.requirements() {
            let found = match requirement.field.as_str() {
                "metadata.name" => item.name(),
                "metadata.namespace" => item.namespace(),
                _ => {
                    known = false;
                    continue;
                }
            };
            if (found == requirement.value) != requirement.equal {
                return Some(false);
            }
        }
        known.then_some(true)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawList<'a> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: ListMetadata,
    // Go writes a list without elements as null at times.
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

/// Bytes that are not UTF-8 become U+FFFD.
fn as_text(json: Bytes) -> Bytes {
    match String::from_utf8_lossy(&json) {
        Cow::Borrowed(_) => json,
        Cow::Owned(text) => text.into(),
    }
}

impl Page {
    /// Reads a list as Kubernetes sends it: `{"kind":"PodList","metadata":{…},"items":[…]}`.
    ///
    /// The items of a list lack the type that they have in a watch; it is written into them, so
    /// that an object's bytes do not depend on how it was seen. Bytes that are not UTF-8 become
    /// U+FFFD, as in Go: one object that has them must not cost all others.
    pub fn parse(json: impl Into<Bytes>) -> Result<Self, ListWatchError> {
        let json = as_text(json.into());
        let list: RawList<'_> = serde_json::from_slice(&json)
            .map_err(|error| ListWatchError::Malformed(Box::new(error)))?;
        let kind = list.kind.strip_suffix("List").filter(|kind| !kind.is_empty());
        let element_type = kind.map(|kind| ElementType {
            api_version: format!(r#""apiVersion":{}"#, Value::from(list.api_version)),
            kind: format!(r#""kind":{}"#, Value::from(kind)),
        });
        let mut page = Self {
            resource_version: list.metadata.resource_version,
            continue_token: Some(list.metadata.continue_token).filter(|token| !token.is_empty()),
            ..Self::default()
        };
        for raw in list.items.unwrap_or_default() {
            let element = json.slice_ref(raw.get().as_bytes());
            match Item::parse_element(element, element_type.as_ref()) {
                Ok(item) => page.items.push(item),
                Err(bad) => page.bad.push(bad),
            }
        }
        Ok(page)
    }
}

impl WatchEvent {
    /// Reads one line of a watch.
    pub fn parse(line: impl Into<Bytes>) -> Result<Self, ListWatchError> {
        let line = line.into();
        if let Some(event) = Self::parse_usual(&line) {
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
                return Ok(Self::about_the_watch(event.event_type, object));
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

    /// A line about an object, written as all servers write it; None if it is another one. What is
    /// left between the words around it is the object, if it is JSON at all: so it is read once.
    fn parse_usual(line: &Bytes) -> Option<Self> {
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

    fn about_the_watch(event_type: EventType, object: Object) -> Self {
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

    /// Which object it is about, if it is about one.
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
    fn the_items_of_a_list_get_their_type() {
        let page = Page::parse(
            r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5","continue":"t"},
            "items":[{"metadata":{"name":"a"}},{"kind":"Pod","metadata":{"name":"b"}},{"metadata":{}},
            {"apiVersion":"v2","metadata":{"name":"c"},"kind":null},
            { "kind":"Pod", "apiVersion":"v1", "metadata":{"name":"d"}}]}"#,
        )
        .unwrap();
        let json: Vec<_> = page.items.iter().map(|item| item.json().to_vec()).collect();
        assert_eq!(json[0], br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#);
        assert_eq!(json[1], br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"}}"#);
        assert_eq!(json[2], br#"{"kind":"Pod","apiVersion":"v2","metadata":{"name":"c"}}"#);
        assert_eq!(json[3], br#"{ "kind":"Pod", "apiVersion":"v1", "metadata":{"name":"d"}}"#);
        assert_eq!((page.bad.len(), page.resource_version.as_str()), (1, "5"));
        assert_eq!(page.continue_token.as_deref(), Some("t"));
    }

    #[test]
    fn a_list_of_nothing_may_be_null() {
        let page =
            Page::parse(r#"{"kind":"PodList","metadata":{"resourceVersion":"5"},"items":null}"#);
        assert!(page.unwrap().items.is_empty());
    }

    #[test]
    fn one_object_that_is_no_unicode_does_not_hide_the_others() {
        let list = b"{\"items\":[{\"metadata\":{\"name\":\"a\"},\"spec\":\"\xff\"},{\"metadata\":{\"name\":\"b\"}}]}";
        let page = Page::parse(list.as_slice()).unwrap();
        assert_eq!((page.items.len(), page.bad.len()), (2, 0));
        assert_eq!(page.items[0].object().unwrap().str_at(&["spec"]), "\u{fffd}");
    }

    #[test]
    fn a_line_means_the_same_however_it_is_written() {
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
    fn a_whole_line_about_a_bad_object_is_an_event() {
        let line = r#"{"type":"MODIFIED","object":{"metadata":{"resourceVersion":"7"}}}"#;
        let WatchEvent::Bad { resource_version, error } = WatchEvent::parse(line).unwrap() else {
            panic!("it has no name")
        };
        assert_eq!(resource_version, "7");
        assert!(matches!(*error, BadItem::KeyError));
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

    #[test]
    fn selection_admits_what_it_cannot_judge() {
        let item = Item::parse(br#"{"metadata":{"name":"a","namespace":"n"}}"#.as_slice()).unwrap();
        let fields = |text| Selection {
            fields: FieldSelector::parse(text).unwrap(),
            ..Selection::default()
        };
        assert_eq!(fields("metadata.name=a").selects(&item), Some(true));
        assert_eq!(fields("metadata.name!=a,spec.x=y").selects(&item), Some(false));
        assert_eq!(fields("metadata.name=a,spec.x=y").selects(&item), None);
        let elsewhere = Selection { namespace: Some("m".into()), ..Selection::default() };
        assert_eq!(elsewhere.selects(&item), Some(false));
    }
}
