//! Kubernetes' flow schemas and priority levels: creates those that are missing, restores those that
//! the server maintains, puts all stored ones into effect, and writes the status of flow schemas.
//!
//! Upstream: the post-start hook `priority-and-fairness-config-producer`, and the controller
//! `priority-and-fairness-config-consumer`

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, TryStreamExt};

use super::{Error, log_failure};
use crate::cache::watch_cache::{Snapshot, Subscription};
use crate::flow_control::bootstrap_configuration::{
    self, BootstrapObject, FLOW_SCHEMAS, GROUP, PRIORITY_LEVELS,
};
use crate::flow_control::{FlowSchemaSpec, PriorityLevelSpec, Stored};
use crate::plane::Plane;
use crate::storage::catalog::ServedResource;
use machinery::{Object, Value, json};

/// The interval in which objects are restored.
const INTERVAL: Duration = Duration::from_mins(1);

/// The number of objects that are written at the same time.
const CONCURRENT: usize = 16;

/// The field manager of the objects.
const PRODUCER: &str = "api-priority-and-fairness-config-producer-v1";

/// The field manager of the status.
const CONSUMER: &str = "api-priority-and-fairness-config-consumer-v1";

/// Creates and restores the objects, and puts them into effect.
pub(super) async fn reconcile(plane: &Arc<Plane>) -> Result<(), Error> {
    let written = bootstrap_configuration::objects().map(|it| Ok(write(plane, it)));
    let is_changed = stream::iter(written)
        .try_buffer_unordered(CONCURRENT)
        .try_fold(false, async |before, is_changed| Ok(before | is_changed))
        .await?;
    if is_changed && let Err(error) = plane.storage.cache.catch_up().await {
        return Err(Error { path: FLOW_SCHEMAS.to_owned(), message: error.to_string() });
    }
    configure(plane);
    Ok(())
}

/// Follows the stored objects until the plane stops.
pub(in crate::server) async fn maintain(plane: Arc<Plane>) {
    let (Some(schemas), Some(levels)) =
        (served(&plane, FLOW_SCHEMAS), served(&plane, PRIORITY_LEVELS))
    else {
        return;
    };
    let mut changed = [&schemas, &levels].map(|it| it.cache.subscribe());
    let stop = plane.storage.tasks.shutdown();
    tokio::pin!(stop);
    let mut interval = Box::pin(plane.storage.clock.sleep(INTERVAL));
    loop {
        changed.iter_mut().for_each(Subscription::mark_seen);
        configure(&plane);
        if plane.flow_control.priority_and_fairness().is_some() {
            write_status(&plane, &schemas.cache.snapshot(), &levels).await;
        }
        let [first, second] = &mut changed;
        tokio::select! {
            () = first.changed() => {}
            () = second.changed() => {}
            () = &mut interval => {
                interval = Box::pin(plane.storage.clock.sleep(INTERVAL));
                log_failure(reconcile(&plane).await);
                delete_obsolete(&plane, &schemas).await;
                delete_obsolete(&plane, &levels).await;
            }
            () = &mut stop => return,
        }
    }
}

fn served(plane: &Plane, plural: &str) -> Option<Arc<ServedResource>> {
    plane.storage.catalog.load().resource(GROUP, plural).cloned()
}

fn collection(plural: &str) -> String {
    format!("/apis/{GROUP}/v1/{plural}")
}

/// Puts the stored objects into effect.
fn configure(plane: &Plane) {
    let Some(fair) = plane.flow_control.priority_and_fairness() else { return };
    let (Some(schemas), Some(levels)) =
        (served(plane, FLOW_SCHEMAS), served(plane, PRIORITY_LEVELS))
    else {
        return;
    };
    let schemas = schemas.cache.snapshot().initialized();
    let levels = levels.cache.snapshot().initialized();
    let schemas: Vec<Stored<FlowSchemaSpec>> =
        schemas.entries.values().filter_map(|it| it.read()).collect();
    let levels: Vec<Stored<PriorityLevelSpec>> =
        levels.entries.values().filter_map(|it| it.read()).collect();
    fair.configure(schemas, levels);
}

/// Creates or restores an object; false if it is up to date.
async fn write(plane: &Arc<Plane>, wanted: BootstrapObject) -> Result<bool, Error> {
    let collection = collection(wanted.plural);
    let client = &plane.loopback;
    let stored = served(plane, wanted.plural)
        .and_then(|it| it.cache.get(&it.key("", wanted.name)))
        .map(|it| it.object());
    let answer = match stored {
        None => client.create_as(&collection, PRODUCER, &wanted.object()).await,
        Some(stored) => {
            let Some(revised) = wanted.revise(&stored) else { return Ok(false) };
            let path = format!("{collection}/{}?fieldManager={PRODUCER}", wanted.name);
            client.update(&path, &revised).await
        }
    };
    match answer.code {
        // A conflict: the object was written meanwhile, and is checked again after the interval.
        200 | 201 | 404 | 409 => Ok(true),
        _ => Err(Error { path: collection, message: answer.message() }),
    }
}

/// Deletes the objects of earlier releases.
async fn delete_obsolete(plane: &Plane, served: &ServedResource) {
    let plural = &served.resource.plural;
    for entry in served.cache.snapshot().entries.values() {
        if bootstrap_configuration::is_obsolete(entry.name(), plural, &entry.object()) {
            plane.loopback.delete(&format!("{}/{}", collection(plural), entry.name())).await;
        }
    }
}

/// Writes the condition `Dangling` of the flow schemas for which it has changed.
async fn write_status(plane: &Plane, schemas: &Snapshot, levels: &ServedResource) {
    for entry in schemas.entries.values() {
        let schema = entry.object();
        let level = schema.str_at(&["spec", "priorityLevelConfiguration", "name"]);
        let exists = levels.cache.get(&levels.key("", level)).is_some();
        let Some(mut condition) = dangling(&schema, level, exists) else { continue };
        condition["lastTransitionTime"] = plane.storage.now().into();
        let config = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "FlowSchema",
            "metadata": {"name": entry.name()}, "status": {"conditions": [condition]},
        });
        let path = format!("{}/{}/status", collection(FLOW_SCHEMAS), entry.name());
        plane.loopback.apply(&path, CONSUMER, &config).await;
    }
}

/// The condition of a schema without its time; None if the schema has it.
fn dangling(schema: &Object, level: &str, exists: bool) -> Option<Value> {
    let what = if exists { "and it exists" } else { "but there is no such object" };
    let (status, reason) = if exists { ("False", "Found") } else { ("True", "NotFound") };
    let message = format!(
        "This FlowSchema references the PriorityLevelConfiguration object named \"{level}\" {what}"
    );
    let conditions = schema.get(&["status", "conditions"]).and_then(Value::as_array);
    let has = conditions.into_iter().flatten().any(|it| {
        it["type"] == "Dangling"
            && it["status"] == status
            && it["reason"] == reason
            && it["message"] == message.as_str()
    });
    (!has).then(
        || json!({"type": "Dangling", "status": status, "reason": reason, "message": message}),
    )
}
