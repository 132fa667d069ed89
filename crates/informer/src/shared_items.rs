//! Items from a server in the same process, which share the server's bytes: the request says that it
//! accepts them, and the response carries them beside its body, as extensions of HTTP messages.
//!
//! ```text
//! request   + AcceptItems                            the response may carry items
//! response  + ItemEvents | ItemList | WrittenItem    the content of the body, which is not read
//! ```
//!
//! Extensions do not pass a socket. A server on another machine, and one that cannot share the
//! requested objects, responds with a body only, and its client reads the body. A value is carried in
//! a cell that all clones of the extension share: the first of them takes it.
//!
//! ```
//! use informer::shared_items::{AcceptItems, ItemEvents, ItemList, WrittenItem};
//! use informer::{Item, List};
//!
//! let accepted = AcceptItems { managed_fields: false }; // an extension of the request
//! assert!(!accepted.managed_fields);
//! let page = ItemList::new(List::default()); // set by the server
//! assert!(page.clone().take().is_some() && page.take().is_none());
//! assert!(ItemEvents::new(|| None).take().is_none());
//! let item = Item::parse(br#"{"metadata":{"name":"a"}}"#.as_slice())?;
//! assert_eq!(WrittenItem(item).0.name(), "a");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

//!
//! ```
//! use futures_util::{StreamExt, stream};
//! use informer::shared_items::{AcceptItems, ItemEvents, ItemList, WrittenItem};
//! use informer::{Item, List, WatchStream};
//!
//! /// The extensions of a response to a watch, a list and a write.
//! fn respond(accepted: Option<AcceptItems>, item: Item) -> Option<(ItemEvents, ItemList, WrittenItem)> {
//!     accepted?;
//!     let events = ItemEvents::new(|| Some(stream::empty().boxed()));
//!     let list = List { items: vec![item.clone()], ..List::default() };
//!     Some((events, ItemList::new(list), WrittenItem(item)))
//! }
//!
//! let item = Item::parse(r#"{"metadata":{"name":"a"}}"#)?;
//! let accepted = Some(AcceptItems { managed_fields: false });
//! let (events, list, WrittenItem(written)) = respond(accepted, item).unwrap();
//! let stream: WatchStream = events.take().unwrap();
//! assert!(events.clone().take().is_none(), "it was taken");
//! assert_eq!(list.take().unwrap().items[0].name(), written.name());
//! # drop(stream);
//! # Ok::<(), informer::BadItem>(())
//! ```

use std::sync::{Arc, Mutex, PoisonError};

use crate::{Item, List, WatchStream};

/// The client of this request accepts items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptItems {
    /// Whether the items of a watch must have `metadata.managedFields`. Other items always have them.
    pub managed_fields: bool,
}

/// The events of a watch. They are taken once; after that, the body of the response is empty.
#[derive(Clone)]
pub struct ItemEvents(Arc<Mutex<Option<MakeEvents>>>);

/// A page of a list. It is taken once.
#[derive(Clone)]
pub struct ItemList(Arc<Mutex<Option<List>>>);

/// The object that a write has stored, which exists.
#[derive(Clone)]
pub struct WrittenItem(pub Item);

type MakeEvents = Box<dyn FnOnce() -> Option<WatchStream> + Send>;

impl ItemEvents {
    /// The events that `make` returns when they are taken; `None` if the body was read first.
    pub fn new(make: impl FnOnce() -> Option<WatchStream> + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Some(Box::new(make)))))
    }

    /// Takes the events.
    pub fn take(&self) -> Option<WatchStream> {
        let make = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        make()
    }
}

impl ItemList {
    /// Carries a list.
    pub fn new(list: List) -> Self {
        Self(Arc::new(Mutex::new(Some(list))))
    }

    /// Takes the list.
    pub fn take(&self) -> Option<List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
