//! The controller of `Vpc`: makes the observed state equal to the expected one.

use std::sync::Arc;

use runtime::prelude::*;

use super::Vpc;

struct Context {
    /// Reads, from the cache.
    objects: Lister<Vpc>,
    /// Writes, which the cache shows at once.
    client: Client,
    clock: Clock,
}

/// The controller. After `.owns::<Pod>()`, it also reconciles an object when one of its pods changes.
pub fn controller(manager: &Manager) -> Controller {
    let context = Context {
        objects: manager.lister(),
        client: manager.client(),
        clock: manager.clock().clone(),
    };
    Controller::for_::<Vpc>().reconcile(reconcile, context)
}

/// Is called after each change of an object, and again after an error: it must be repeatable.
async fn reconcile(request: Request, cx: Arc<Context>) -> Result<Action, Failure> {
    // What a deleted object owned is deleted by the garbage collector of the cluster.
    let Some(object) = cx.objects.get_key(&request)? else { return Ok(Action::Done) };
    let mut status = object.status.clone().unwrap_or_default();

    // Your logic comes here: compare the expected state, `object.spec`, with the world, change the
    // world, and describe it in `status`. This example does as if it had.
    status.replicas = object.spec.replicas;

    let ready = NewCondition::new("Ready", true, "Reconciled");
    conditions::set(&mut status.conditions, ready, object.metadata.generation, &cx.clock);
    patch_status(&cx.client.api_of(&object), &object, &status).await?; // only if it has changed
    Ok(Action::Done)
}
