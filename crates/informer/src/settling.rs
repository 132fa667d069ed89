//! Whether an informer has caught up: its cache with the server, and its handlers with the cache. For
//! tests, which wait for that instead of for time.
//!
//! ```
//! # use informer::{ListWatchError, SharedInformer};
//! async fn has_caught_up(informer: &SharedInformer) -> Result<bool, ListWatchError> {
//!     Ok(informer.handler_backlog() == 0 && informer.stale_keys().await?.is_empty())
//! }
//! ```

use std::collections::BTreeMap;

use crate::{ListRequest, ListWatchError, ObjectKey, SharedInformer};

impl SharedInformer {
    /// Lists the objects once more, and returns the keys of those whose cached state is another one:
    /// older or newer, missing, or left over.
    pub async fn stale_keys(&self) -> Result<Vec<ObjectKey>, ListWatchError> {
        let selection = self.0.options.selection.clone();
        let request = ListRequest { selection, ..ListRequest::default() };
        let list = self.source().list(request).await?;
        let versions = |items: &[crate::Item]| -> BTreeMap<ObjectKey, String> {
            items.iter().map(|it| (it.key().clone(), it.resource_version().to_owned())).collect()
        };
        let mut served = versions(&list.items);
        let mut stale = Vec::new();
        for (key, version) in versions(&self.indexer().list()) {
            if served.remove(&key) != Some(version) {
                stale.push(key);
            }
        }
        stale.extend(served.into_keys());
        Ok(stale)
    }

    /// The number of events that handlers and subscriptions have not processed yet.
    pub fn handler_backlog(&self) -> usize {
        self.0.lock().backlog()
    }
}
