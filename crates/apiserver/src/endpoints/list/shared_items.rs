//! A page of a list as items, for a client in this process: they share the bytes of the cache.

use std::sync::Arc;

use crate::cache::watch_cache::Entry;
use crate::endpoints::context::RequestContext;
use crate::endpoints::object_response;
use informer::List;
use informer::shared_items::ItemList;
use machinery::Value;

/// The page with this metadata.
pub(super) fn list(cx: &RequestContext, metadata: &Value, entries: &[Arc<Entry>]) -> ItemList {
    let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
    let mut list = List {
        resource_version: text("resourceVersion"),
        continue_token: Some(text("continue")).filter(|it| !it.is_empty()),
        ..List::default()
    };
    list.items.reserve(entries.len());
    for entry in entries {
        match object_response::item(cx, entry, entry.revision, true) {
            Ok(item) => list.items.push(item),
            Err(bad) => list.bad.push(bad),
        }
    }
    ItemList::new(list)
}
