//! `namespace-controller`: removes the contents of a namespace that is being deleted, and then the
//! namespace.
//!
//! It promises that
//! - all objects of all namespaced resources that can be deleted are deleted, pods before all others,
//!   and that the namespace exists until they are gone;
//! - the conditions of the namespace say what remains and why;
//! - a failure of one resource does not keep the others from being deleted.
//!
//! It reads Namespaces, and lists every namespaced resource. It deletes objects of every namespaced
//! resource, and writes the status of Namespaces and their subresource `finalize`.
//!
//! A namespace whose contents are not gone at once is processed again when the last of them is gone
//! ([`content_watch`]), and after half of the estimated time.
//!
//! Upstream waits five seconds before it begins, until all API servers know of the deletion. A plane
//! has one API server, so this controller begins at once.

mod conditions;
mod content;
mod content_watch;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::api_requests::{self, has_code};
use crate::controller_context::ControllerContext;
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use crate::resource_discovery::ResourceDiscovery;
use content::ContentRemoval;
use content_watch::ContentWatches;
use keel::Clock;
use machinery::PolicyRule;
use runtime::informer::work_queue::RateLimits;
use runtime::informer::{Item, ObjectEvent};
use runtime::{Action, Client, Controller, Failure, Predicate, Request};

/// The number of namespaces that are processed at a time. Upstream: `ConcurrentNamespaceSyncs`
const WORKERS: usize = 10;

/// The finalizer in the spec of a namespace that stands for its contents.
const FINALIZER: &str = "kubernetes";

/// The controller.
pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "namespace-controller",
    aliases: &[],
    user: ControllerUser::ServiceAccount("namespace-controller"),
    rules: &[
        PolicyRule::new(&[""], &["namespaces"], &["get", "list", "watch", "delete"]),
        PolicyRule::new(&[""], &["namespaces/finalize", "namespaces/status"], &["update"]),
        PolicyRule::new(&["*"], &["*"], &["get", "list", "watch", "delete", "deletecollection"]),
    ],
    start,
};

/// The context of the reconcile function.
struct NamespaceController {
    client: Client,
    discovery: ResourceDiscovery,
    clock: Clock,
    watches: ContentWatches,
}

fn start(cx: &ControllerContext) {
    // A full queue delays the watches of contents.
    let (sender, requests) = mpsc::channel(WORKERS);
    let context = NamespaceController {
        client: cx.client.clone(),
        discovery: cx.discovery(),
        clock: cx.clock().clone(),
        watches: ContentWatches::new(cx, sender),
    };
    let limits = RateLimits { backoff_cap: Duration::from_mins(1), ..RateLimits::default() };
    let controller = Controller::for_::<Namespace>()
        .named(cx.name)
        .when(Predicate::custom(is_deletion))
        .channel(requests)
        .back_off(limits)
        .workers(WORKERS)
        .reconcile(reconcile, context);
    cx.manager.add(controller);
}

/// Whether the deletion of a namespace begins or ends. The changes in between are those of this
/// controller, which repeats an attempt by itself.
fn is_deletion(event: &ObjectEvent) -> bool {
    let is_deleting = |namespace: &Item| {
        namespace.object().is_ok_and(|namespace| namespace.deletion_timestamp().is_some())
    };
    match event {
        ObjectEvent::Added { item, .. } => is_deleting(item),
        ObjectEvent::Updated { old, new } => {
            is_deleting(new) && (!is_deleting(old) || old.uid() != new.uid())
        }
        ObjectEvent::Deleted { .. } => true,
    }
}

/// Upstream: `deletion/namespaced_resources_deleter.go` Delete
async fn reconcile(request: Request, cx: Arc<NamespaceController>) -> Result<Action, Failure> {
    let name = request.name();
    cx.watches.stop(name);
    let path = format!("/api/v1/namespaces/{name}");
    let Some(namespace) = api_requests::get::<Value>(&cx.client, &path).await? else {
        return Ok(Action::Done);
    };
    if namespace["metadata"]["deletionTimestamp"].is_null() || is_finalized(&namespace) {
        return Ok(Action::Done);
    }
    let removal = ContentRemoval { client: &cx.client, clock: &cx.clock, namespace: name };
    let discovered = cx.discovery.refresh().await;
    let outcome = removal.remove_all(&discovered, &namespace).await;
    let namespace = update_conditions(&cx, &path, namespace, outcome.conditions).await;
    if let Some(error) = outcome.error {
        return Err(Failure::transient(error));
    }
    if outcome.estimate_seconds > 0 {
        cx.watches.start(&request, outcome.remaining);
        // Upstream: namespace_controller.go worker
        let delay = Duration::from_secs(outcome.estimate_seconds / 2 + 1);
        return Ok(Action::RequeueAfter(delay));
    }
    finalize(&cx, &path, namespace).await?;
    Ok(Action::Done)
}

fn is_finalized(namespace: &Value) -> bool {
    namespace["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty)
}

/// Writes the conditions if they have changed, and returns the namespace in its last known state.
async fn update_conditions(
    cx: &NamespaceController,
    path: &str,
    mut namespace: Value,
    conditions: Vec<conditions::NewCondition>,
) -> Value {
    if !conditions::update(&mut namespace, &conditions, &cx.clock) {
        return namespace;
    }
    let path = format!("{path}/status");
    match api_requests::replace::<Value>(&cx.client, &path, &namespace).await {
        Ok(updated) => updated,
        Err(error) => {
            // Upstream: the conditions are written with the next attempt.
            tracing::debug!(%error, path, "cannot update the conditions of a namespace");
            namespace
        }
    }
}

/// Removes the finalizer of the contents from a namespace.
///
/// Upstream: `namespaced_resources_deleter.go` finalizeNamespace
async fn finalize(
    cx: &NamespaceController,
    path: &str,
    mut namespace: Value,
) -> Result<(), Failure> {
    let finalize_path = format!("{path}/finalize");
    loop {
        if let Some(finalizers) = namespace["spec"]["finalizers"].as_array_mut() {
            finalizers.retain(|finalizer| finalizer != FINALIZER);
        }
        let finalized = api_requests::replace::<Value>(&cx.client, &finalize_path, &namespace);
        match finalized.await {
            Ok(_) => return Ok(()),
            Err(error) if has_code(&error, 404) => return Ok(()),
            Err(error) if has_code(&error, 409) => {}
            Err(error) => return Err(error.into()),
        }
        let Some(latest) = api_requests::get::<Value>(&cx.client, path).await? else {
            return Ok(());
        };
        if latest["metadata"]["uid"] != namespace["metadata"]["uid"] {
            return Err(Failure::transient("namespace uid has changed across retries"));
        }
        namespace = latest;
    }
}
