//! [`ReflectorStore`]: the store that a [`Reflector`](super::Reflector) keeps up to date.

use std::borrow::Cow;

use futures_util::future::BoxFuture;

use crate::{Item, ObjectKey};

/// A store whose content a [`Reflector`](super::Reflector) replaces by each list and brings up to
/// date with the events of each watch. See [the example](super).
///
/// The reflector calls one method at a time, and `begin_list` before each `replace`.
pub trait ReflectorStore<T>: Send + Sync + 'static {
    /// Replaces the whole content by a list of the state at `resource_version`. An item that is
    /// not in `items` was deleted. Long work yields to the runtime in between.
    ///
    /// The version is empty if the server does not know the resource any more.
    fn replace<'a>(&'a self, items: Vec<T>, resource_version: &'a str) -> BoxFuture<'a, ()>;

    /// Applies events in the order of their resourceVersions: all those that were ready, which are
    /// no more than 256.
    fn apply(&self, transactions: Vec<Transaction<T>>);

    /// All events up to `resource_version` have been applied.
    fn bookmark(&self, resource_version: &str) {
        let _ = resource_version;
    }

    /// A list is about to be requested. The next [`replace`](Self::replace) shows the state at this
    /// time or a later one.
    fn begin_list(&self) {}

    /// Transforms an item of a list as soon as its page arrives, for instance to release the memory
    /// of the page.
    fn transform(&self, item: T) -> T {
        item
    }
}

/// One change of a [`ReflectorStore`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transaction<T> {
    /// The item was created, or came into scope.
    Add(T),
    /// The item was changed.
    Update(T),
    /// The item was deleted, or left the scope; this is its last state.
    Delete(T),
}

/// The parts of an item that a [`Reflector`](super::Reflector) reads.
pub trait ReflectorItem: Send + Sync + 'static {
    /// Identifies an item within a list.
    type Key: Ord + Send;

    /// The key of this item.
    fn key(&self) -> Self::Key;

    /// The state of the item. Two versions that are decimal numbers are compared as numbers;
    /// others cannot be compared. Items that were changed in one transaction may share a version.
    fn resource_version(&self) -> Cow<'_, str>;
}

impl ReflectorItem for Item {
    type Key = ObjectKey;

    fn key(&self) -> ObjectKey {
        self.key().clone()
    }

    fn resource_version(&self) -> Cow<'_, str> {
        self.resource_version().into()
    }
}
