//! kube-runtime with its defaults: a reflector's store of typed objects, lists in pages of 500,
//! HTTP/1.1, and as many concurrent reconciles as objects.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures_util::StreamExt;
use kube::runtime::controller::Action;
use kube::runtime::{Controller, WatchStreamExt, reflector, watcher};
use kube::{Api, Client};

use crate::contender::{Cache, Cached};
use crate::progress::{Next, Progress};
use crate::widget;
use crate::widget::Widget;
use keel::Tasks;

/// Whether `metadata.managedFields` are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ManagedFields {
    /// The default.
    Kept,
    /// As the documentation of kube-runtime recommends for large caches.
    Cleared,
}

/// Waits until the store has all objects.
pub(crate) async fn cache<K: Cached>(managed_fields: ManagedFields) -> Result<Cache> {
    let api = Api::<K>::namespaced(Client::try_default().await?, widget::CACHED);
    let (reader, writer) = reflector::store();
    let events = watcher(api, watcher::Config::default()).modify(move |object| {
        if managed_fields == ManagedFields::Cleared {
            object.meta_mut().managed_fields = None;
        }
    });
    let objects = reflector(writer, events).default_backoff().applied_objects();
    let tasks = Tasks::new();
    tasks.spawn("reflector", objects.for_each(|_| ready(())));
    reader.wait_until_ready().await?;
    Ok(Cache { objects: reader.len(), _kept: Box::new((reader, tasks)) })
}

/// Starts a controller, whose function gets the object from the store.
pub(crate) async fn control(progress: Arc<Progress>) -> Result<()> {
    let api = Api::<Widget>::namespaced(Client::try_default().await?, widget::CONTROLLED);
    let controller = Controller::new(api, watcher::Config::default());
    let reconciled = controller.run(reconcile, |_, error, _| match *error {}, progress);
    Tasks::new().spawn("controller", reconciled.for_each(|_| ready(())));
    Ok(())
}

async fn reconcile(object: Arc<Widget>, progress: Arc<Progress>) -> Result<Action, Infallible> {
    Ok(match progress.record_reconcile(&object) {
        Next::AwaitChange => Action::await_change(),
        Next::Requeue => Action::requeue(Duration::ZERO),
    })
}
