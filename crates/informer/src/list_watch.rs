//! [`ListWatch`]: a source of lists and watches, such as an API server over HTTP, an API server in
//! the same process, a store, or a simulation in a test.
//!
//! Items are Kubernetes objects ([`Item`]) unless the source names another type. [`List::parse`]
//! and [`WatchEvent::parse`] read what a Kubernetes API server sends.
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

mod parse;
mod selection;

use std::error::Error as StdError;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use machinery::Status;

use crate::{BadItem, Item};

pub use selection::Selection;

/// See the [module documentation](self).
pub trait ListWatch<T = Item>: Send + Sync + 'static {
    /// Returns one page of the items in scope.
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<List<T>, ListWatchError>>;

    /// Returns the changes of the items in scope after a resourceVersion. The future resolves when
    /// the server has accepted the request; a refusal is the error of the future, never the first
    /// event.
    fn watch(&self, request: WatchRequest)
    -> BoxFuture<'_, Result<WatchStream<T>, ListWatchError>>;

    /// Whether the reflector requests a watch that begins with all items (`WatchList`) instead of a
    /// list. If the server refuses the first such request, no other one is sent.
    fn uses_watch_list(&self) -> bool {
        true
    }
}

/// The events of one watch. It ends with `None` when the server closes the watch, or with an error.
pub type WatchStream<T = Item> = BoxStream<'static, Result<WatchEvent<T>, ListWatchError>>;

/// A request for a page of a list.
#[derive(Debug, Clone, Default)]
pub struct ListRequest {
    /// The requested items.
    pub selection: Selection,
    /// The largest number of items in the page; all of them if `None`.
    pub limit: Option<u32>,
    /// The continue token of the previous page.
    pub continue_token: Option<String>,
    /// The oldest state that the list may show. `None` requests the most recent state, as the
    /// [reflector](crate::reflector) does, so that its content never goes back in time.
    pub resource_version: Option<String>,
}

/// A request for a watch. Bookmarks are always requested.
#[derive(Debug, Clone, Default)]
pub struct WatchRequest {
    /// The requested items.
    pub selection: Selection,
    /// The state after which events are sent; `None` only with `initial_events`.
    pub resource_version: Option<String>,
    /// Whether the watch begins with all items, followed by a bookmark that marks their end
    /// (`WatchList`).
    pub initial_events: bool,
    /// The time after which the server closes the watch; unlimited if `None`.
    pub timeout_seconds: Option<u32>,
    /// Whether the receiver removes `metadata.managedFields`: the source may leave them out.
    pub strips_managed_fields: bool,
}

/// A page of a list.
#[derive(Debug)]
pub struct List<T = Item> {
    /// The items.
    pub items: Vec<T>,
    /// Elements that are not valid items. They are counted and left out.
    pub bad: Vec<BadItem>,
    /// The state that the list shows; the same in all pages.
    pub resource_version: String,
    /// The token of the next page, if there is one.
    pub continue_token: Option<String>,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            bad: Vec::new(),
            resource_version: String::new(),
            continue_token: None,
        }
    }
}

/// One event of a watch.
#[derive(Debug, Clone)]
pub enum WatchEvent<T = Item> {
    /// The item was created, or came into scope.
    Added(T),
    /// The item was changed.
    Modified(T),
    /// The item was deleted, or left the scope. The payload is its last state, with the
    /// resourceVersion of the deletion.
    Deleted(T),
    /// All events up to this state have been sent.
    Bookmark {
        /// The state.
        resource_version: String,
        /// Whether it ends the initial events.
        initial_events_end: bool,
    },
    /// An object was changed that is not a valid item. The event is counted and left out.
    Bad {
        /// The object's resourceVersion, or empty if it cannot be read.
        resource_version: String,
        /// The reason.
        error: Arc<BadItem>,
    },
    /// The watch has failed.
    Error(Status),
}

/// The reason why a list or a watch failed. The reflector tries again after all of them but
/// [`Stopped`](Self::Stopped).
#[derive(Debug, thiserror::Error)]
pub enum ListWatchError {
    /// The server refused the request. The code of the status decides what follows; see
    /// [reflector](crate::reflector).
    #[error(transparent)]
    Refused(Status),
    /// The requested resourceVersion was compacted: list again. An API server responds
    /// with the code 410 instead.
    #[error("the resource version has expired")]
    Expired(#[source] Box<dyn StdError + Send + Sync>),
    /// The server was not reached, or the connection broke: connect again.
    #[error("the connection failed")]
    Connection(#[source] Box<dyn StdError + Send + Sync>),
    /// The response is not valid, for instance because it was cut off: send the request again.
    #[error("cannot read the response")]
    Malformed(#[source] Box<dyn StdError + Send + Sync>),
    /// The server did not respond in time, or left a watch open past its timeout.
    #[error("the server did not respond in time")]
    TimedOut,
    /// The server closed a watch at once, or before it had sent all initial events.
    #[error("the watch was closed early")]
    ClosedEarly,
    /// An event is older than the one before: the server has lost its history, or a proxy repeats
    /// events. List again.
    #[error("the watch went back in time")]
    OutOfOrder,
    /// The source was stopped and will not respond any more. The reflector ends.
    #[error("the source was stopped")]
    Stopped,
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
