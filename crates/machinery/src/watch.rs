//! [`Event`]: one line of a watch, `{"type":"ADDED","object":{…}}`, read without parsing the
//! object.
//!
//! ```
//! use machinery::watch::{Event, EventType};
//! let event = Event::parse(br#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#)?;
//! assert_eq!(event.event_type, EventType::Added);
//! assert_eq!(event.object.get(), r#"{"metadata":{"name":"a"}}"#);
//! # Ok::<(), serde_json::Error>(())
//! ```

use serde::Deserialize;
use serde_json::value::RawValue;

/// The annotation of the bookmark that ends the initial events of a watch that asked for them.
pub const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// The type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum EventType {
    /// The object was created, or the selector matches it now.
    Added,
    /// The object was changed.
    Modified,
    /// The object was deleted, or the selector no longer matches it.
    Deleted,
    /// All changes up to the resourceVersion of the object, its only content, have been sent.
    Bookmark,
    /// The object is a Status; the watch ends.
    Error,
}

impl EventType {
    /// The wire's spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
            Self::Bookmark => "BOOKMARK",
            Self::Error => "ERROR",
        }
    }
}

/// See the [module documentation](self).
#[derive(Debug, Deserialize)]
pub struct Event<'a> {
    /// The type of the event.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// The JSON of the object, not parsed.
    #[serde(borrow)]
    pub object: &'a RawValue,
}

impl<'a> Event<'a> {
    /// Reads one line. A line that was cut off is an error.
    pub fn parse(line: &'a [u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_read_as_it_is_written() {
        use EventType::{Added, Bookmark, Deleted, Error, Modified};
        for event_type in [Added, Modified, Deleted, Bookmark, Error] {
            let line = format!(r#"{{"type":"{}","object":{{}}}}"#, event_type.as_str());
            assert_eq!(Event::parse(line.as_bytes()).unwrap().event_type, event_type);
        }
    }

    #[test]
    fn a_line_that_was_cut_off_anywhere_is_an_error() {
        let line = br#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#;
        assert!((0..line.len()).all(|end| Event::parse(&line[..end]).is_err()));
    }
}
