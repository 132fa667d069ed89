//! Our runtime with its defaults: packed objects in the cache, which are decoded when they are read
//! and cached in that form within a budget; HTTP/2, two workers.

use std::sync::Arc;

use anyhow::Result;

use crate::contender::{Cache, Cached};
use crate::progress::{Next, Progress};
use crate::widget;
use crate::widget::Widget;
use keel::{Clock, Entropy, Tasks};
use runtime::informer::{InformerFactory, InformerOptions, Scope, Selection};
use runtime::{
    Action, Controller, Failure, InformerExt, Lister, Manager, ManagerOptions, Request, client,
};

/// Waits until the informer has all objects.
pub(crate) async fn cache<K: Cached>() -> Result<Cache> {
    let (clock, entropy, tasks) = (Clock::system(), Entropy::system(), Tasks::new());
    let client = client::connect(client::infer().await?, &clock)?;
    let source = client::source_of(client);
    let factory =
        InformerFactory::new(source, InformerOptions::default(), &clock, &entropy, &tasks);
    let namespace = Some(widget::CACHED.to_owned());
    let selection = Selection { namespace, ..Selection::default() };
    let lister: Lister<K> = factory.informer(&Scope { selection, ..K::scope() }).lister();
    factory.start();
    factory.wait_for_sync().await?;
    Ok(Cache { objects: lister.indexer().len(), _kept: Box::new((factory, lister, tasks)) })
}

struct Context {
    widgets: Lister<Widget>,
    progress: Arc<Progress>,
}

/// Starts a controller that reads its object from the cache.
pub(crate) async fn control(progress: Arc<Progress>) -> Result<()> {
    let options = ManagerOptions {
        namespace: Some(widget::CONTROLLED.to_owned()),
        ..ManagerOptions::default()
    };
    let client = client::connect(client::infer().await?, &options.clock)?;
    let tasks = Tasks::new();
    let manager = Manager::with_tasks(client, options, &tasks);
    let context = Context { widgets: manager.lister(), progress };
    manager.add(Controller::for_::<Widget>().reconcile(reconcile, context));
    tasks.spawn("manager", async move { manager.run().await });
    Ok(())
}

async fn reconcile(request: Request, cx: Arc<Context>) -> Result<Action, Failure> {
    let Some(object) = cx.widgets.shared_key(&request)? else { return Ok(Action::Done) };
    Ok(match cx.progress.record_reconcile(&object) {
        Next::AwaitChange => Action::Done,
        Next::Requeue => Action::RequeueAfter(std::time::Duration::ZERO),
    })
}
