//! [`ContentWatches`]: watches the objects that remain in namespaces, and requests the next attempt for
//! a namespace when the last of them is gone. If a watch ends, the namespace waits for its estimated
//! time.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt;
use futures_util::future::join_all;
use runtime::client::ClientListWatch;
use runtime::informer::{Form, ListWatch, Selection, WatchEvent, WatchRequest};
use runtime::{Client, Request};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::content::RemainingObjects;
use crate::controller_context::ControllerContext;
use keel::Tasks;

/// The number of resources of a namespace that are watched. More of them wait for the estimated time.
const MAX_WATCHES: usize = 100;

/// See the [module documentation](self).
pub(super) struct ContentWatches {
    client: Client,
    tasks: Tasks,
    requests: mpsc::Sender<Request>,
    /// The watches, by namespace.
    running: Arc<Mutex<HashMap<String, AbortHandle>>>,
}

impl ContentWatches {
    pub(super) fn new(cx: &ControllerContext, requests: mpsc::Sender<Request>) -> Self {
        Self {
            client: cx.client.clone(),
            tasks: cx.tasks().clone(),
            requests,
            running: Arc::default(),
        }
    }

    /// Stops the watches of a namespace.
    pub(super) fn stop(&self, namespace: &str) {
        if let Some(running) = lock(&self.running).remove(namespace) {
            running.abort();
        }
    }

    /// Watches the remaining objects of a namespace.
    pub(super) fn start(&self, namespace: &Request, remaining: Vec<RemainingObjects>) {
        if remaining.is_empty() || remaining.len() > MAX_WATCHES {
            return;
        }
        let (client, requests) = (self.client.clone(), self.requests.clone());
        let (request, stop) = (namespace.clone(), self.tasks.shutdown());
        let task = self.tasks.spawn("namespace content", async move {
            let watches = remaining.iter().map(|it| removed(&client, request.name(), it));
            tokio::select! {
                () = stop => {}
                all = join_all(watches) => {
                    if all.into_iter().all(|is_removed| is_removed) {
                        // An error means that the controller has ended.
                        let _ = requests.send(request).await;
                    }
                }
            }
        });
        lock(&self.running).insert(namespace.name().to_owned(), task.abort_handle());
    }
}

fn lock(
    running: &Mutex<HashMap<String, AbortHandle>>,
) -> MutexGuard<'_, HashMap<String, AbortHandle>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until these objects are gone; returns false if the watch has ended before.
async fn removed(client: &Client, namespace: &str, objects: &RemainingObjects) -> bool {
    let mut names: HashSet<&str> = objects.names.iter().map(String::as_str).collect();
    let source = ClientListWatch::new(client.clone(), &objects.resource.scope(Form::Whole));
    let request = WatchRequest {
        selection: Selection { namespace: Some(namespace.to_owned()), ..Selection::default() },
        resource_version: Some(objects.resource_version.clone()),
        ..WatchRequest::default()
    };
    let Ok(mut events) = source.watch(request).await else { return false };
    while !names.is_empty() {
        match events.next().await {
            Some(Ok(WatchEvent::Deleted(item))) => drop(names.remove(item.name())),
            Some(Ok(WatchEvent::Error(_)) | Err(_)) | None => return false,
            Some(Ok(_)) => {}
        }
    }
    true
}
