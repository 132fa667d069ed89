//! [`StatusWrites`]: the writes of definitions' statuses that are under way.
//!
//! Each write is a task of its own, since an admission webhook may keep it waiting for half a
//! minute, and other definitions need not wait for that. At most [`MAX_WRITES`] run at once.

use super::DEFINITIONS;
use crate::own_client::OwnClient;
use crate::plane::Plane;
use machinery::Object;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use tokio::sync::Notify;

/// The most writes that run at once.
const MAX_WRITES: usize = 16;

/// See the [module documentation](self).
#[derive(Default)]
pub(super) struct StatusWrites {
    /// By the name of the definition.
    writes: HashMap<String, StatusWrite>,
    /// Notified when a write is finished.
    finished: Arc<Notify>,
}

struct StatusWrite {
    /// The definition as the write leaves it.
    updated: Arc<Object>,
    /// Whether the write need not be tried again, once that is known.
    outcome: Arc<OnceLock<bool>>,
}

impl StatusWrites {
    /// Whether no further write may start.
    pub(super) fn is_full(&self) -> bool {
        self.writes.len() >= MAX_WRITES
    }

    /// Whether the status of the definition of this name is being written.
    pub(super) fn is_pending(&self, name: &str) -> bool {
        self.writes.contains_key(name)
    }

    /// The definition as a write that is under way leaves it.
    pub(super) fn pending(&self, definition: &Object) -> Option<&Object> {
        let updated = &self.writes.get(definition.name())?.updated;
        (updated.uid() == definition.uid()).then_some(&**updated)
    }

    /// Starts to write the status of a definition.
    pub(super) fn start(&mut self, plane: &Arc<Plane>, client: &OwnClient, updated: Object) {
        let (plane, client) = (Arc::clone(plane), client.clone());
        let (updated, outcome) = (Arc::new(updated), Arc::<OnceLock<bool>>::default());
        let write = StatusWrite { updated: Arc::clone(&updated), outcome: Arc::clone(&outcome) };
        self.writes.insert(updated.name().to_owned(), write);
        let finished = Arc::clone(&self.finished);
        let tasks = plane.tasks.clone();
        tasks.spawn("definition-status", async move {
            let stop = plane.tasks.shutdown();
            let is_done = tokio::select! {
                is_done = write_status(&plane, &client, &updated) => is_done,
                () = stop => false,
            };
            // Only this task sets it.
            let _ = outcome.set(is_done);
            finished.notify_one();
        });
    }

    /// Waits until a write is finished.
    pub(super) async fn finished(&self) {
        self.finished.notified().await;
    }

    /// Removes the writes that are finished; whether none of them must be tried again.
    pub(super) fn take_finished(&mut self) -> bool {
        let mut are_done = true;
        self.writes.retain(|_, write| match write.outcome.get() {
            None => true,
            Some(is_done) => {
                are_done &= *is_done;
                false
            }
        });
        are_done
    }
}

/// Writes the status of a definition, and waits until the watch cache has it; whether it need not be
/// tried again.
async fn write_status(plane: &Plane, client: &OwnClient, updated: &Object) -> bool {
    let path = format!("{DEFINITIONS}/{}/status", updated.name());
    let code = client.update(&path, &updated.clone().into_value()).await.code;
    match code {
        404 => true,
        // After a conflict the definition is not as it was, and its status is decided again.
        400.. => false,
        _ => plane.cache.catch_up().await.is_ok(),
    }
}
