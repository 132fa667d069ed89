//! Kubernetes' roles and bindings: creates those that are missing, and restores what they must grant.
//!
//! Upstream: the post-start hook `rbac/bootstrap-roles`

use std::iter;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::stream::{self, TryStreamExt};

use super::Error;
use crate::in_process::loopback::Answer;
use crate::plane::Plane;
use crate::rbac;
use crate::rbac::bootstrap_policy::{self, BootstrapObject};
use crate::rbac::reconciliation::Reconciliation;
use machinery::{Object, Value};

/// The number of times that an object is read again after it was changed by somebody else.
const ATTEMPTS: usize = 5;

/// The number of tasks that write objects.
const WORKERS: usize = 2;

/// The number of objects that a task writes at the same time.
const CONCURRENT: usize = 16;

/// Creates and restores all roles and bindings, if roles are in effect.
pub(super) async fn reconcile(plane: &Arc<Plane>) -> Result<(), Error> {
    if !plane.has_roles {
        return Ok(());
    }
    // By several tasks: nothing else uses the processors while the plane starts.
    let objects = Arc::new(Mutex::new(bootstrap_policy::objects()));
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let (plane, objects) = (Arc::clone(plane), Arc::clone(&objects));
            let tasks = plane.storage.tasks.clone();
            tasks.spawn("bootstrap-roles", async move {
                let next = || objects.lock().unwrap_or_else(PoisonError::into_inner).next();
                // Concurrently: a disk needs the same time for several of them as for one.
                let reconciled = iter::from_fn(next).map(|it| Ok(reconcile_object(&plane, it)));
                stream::iter(reconciled).try_buffer_unordered(CONCURRENT).try_collect::<()>().await
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap_or_else(|error| {
            Err(Error { path: rbac::GROUP.to_owned(), message: error.to_string() })
        })?;
    }
    Ok(())
}

async fn reconcile_object(plane: &Arc<Plane>, wanted: BootstrapObject) -> Result<(), Error> {
    let BootstrapObject { plural, namespace, name, .. } = wanted;
    let collection = match namespace {
        "" => format!("/apis/{}/v1/{plural}", rbac::GROUP),
        _ => format!("/apis/{}/v1/namespaces/{namespace}/{plural}", rbac::GROUP),
    };
    let path = format!("{collection}/{name}");
    let client = &plane.loopback;
    let mut message = String::new();
    for _ in 0..ATTEMPTS {
        let answer = match stored(plane, plural, namespace, name) {
            None => client.create(&collection, &value(&wanted.object)).await,
            Some(found) => match wanted.reconcile(&found) {
                Reconciliation::Keep => return Ok(()),
                Reconciliation::Update(updated) => client.update(&path, &value(&updated)).await,
                Reconciliation::Recreate => {
                    client.delete(&path).await;
                    client.create(&collection, &value(&wanted.object)).await
                }
            },
        };
        let Answer { code, .. } = answer;
        if matches!(code, 200 | 201) {
            return Ok(());
        }
        message = answer.message();
        if !matches!(code, 404 | 409) {
            break;
        }
        // Another server on the same store has written or deleted it in the meantime.
        if let Err(error) = plane.storage.cache.catch_up().await {
            message = error.to_string();
            break;
        }
    }
    Err(Error { path, message })
}

fn stored(plane: &Plane, plural: &str, namespace: &str, name: &str) -> Option<Object> {
    let catalog = plane.storage.catalog.load();
    let served = catalog.resource(rbac::GROUP, plural)?;
    let entry = served.cache.get(&served.key(namespace, name))?;
    Some(entry.object())
}

fn value(object: &Object) -> Value {
    Value::Object(object.map().clone())
}
