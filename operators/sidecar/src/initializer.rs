//! The initializer: a controller that adds the sidecar to uninitialized pods and removes its name from
//! their pending initializers, in one patch.
//!
//! ```text
//! the first pending initializer is ours
//!   ├─ no annotation, or the sidecar is there ─▶ our name is removed
//!   ├─ the annotation ────────────────────────▶ the sidecar is added, and our name is removed
//!   └─ the annotation, and no valid sidecar ──▶ the result is a failure: the creation is refused
//! ```

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::INITIALIZER;
use crate::config::ConfigSource;
use crate::controller::REPORTER;
use runtime::informer::{Item, ObjectEvent};
use runtime::kube_client;
use runtime::prelude::*;

/// Many pods may be created at once, and each create request waits.
const WORKERS: usize = 8;

struct Context {
    config: ConfigSource,
    client: Client,
    pods: Lister<Pod>,
    recorder: Recorder,
}

/// `metadata.initializers`, which Kubernetes' present types do not have.
#[derive(Deserialize)]
struct Initializers {
    #[serde(default)]
    pending: Vec<Initializer>,
    result: Option<Value>,
}

#[derive(Deserialize)]
struct Initializer {
    name: String,
}

/// Initializes pods whose first pending initializer is [`INITIALIZER`].
pub(crate) fn controller(manager: &Manager, config: ConfigSource) -> Controller {
    let all = Selection { includes_uninitialized: true, ..Selection::default() };
    let context = Context {
        config,
        client: manager.client(),
        pods: manager.lister_selecting(&all),
        recorder: manager.recorder(REPORTER),
    };
    let awaits_us = Predicate::custom(|event| match event {
        ObjectEvent::Added { item: pod, .. } | ObjectEvent::Updated { new: pod, .. } => {
            is_awaited_by(pod)
        }
        ObjectEvent::Deleted { .. } => false,
    });
    Controller::for_::<Pod>()
        .selecting(all)
        .when(awaits_us)
        .workers(WORKERS)
        .reconcile(reconcile, context)
}

/// Whether this initializer is the next one of the pod.
fn is_awaited_by(pod: &Item) -> bool {
    let initializers = pod.decode_metadata::<Initializers>("initializers");
    initializers.ok().flatten().is_some_and(|initializers| {
        let first = initializers.pending.first();
        initializers.result.is_none() && first.is_some_and(|first| first.name == INITIALIZER)
    })
}

async fn reconcile(request: Request, cx: Arc<Context>) -> Result<Action, Failure> {
    let Some(item) = cx.pods.indexer().get(&request).filter(is_awaited_by) else {
        return Ok(Action::Done);
    };
    let pod: Value = item.decode().map_err(Failure::permanent)?;
    let patch = match cx.sidecar_patch(&pod) {
        Ok(patch) => patch,
        Err(why) => return cx.refuse(&item, &why).await,
    };
    let mut patch = patch.unwrap_or_else(|| json!({}));
    patch["metadata"] =
        metadata(&item, &json!({"pending": [{"$patch": "delete", "name": INITIALIZER}]}));
    match cx.patch(&request, &patch).await {
        // The pod is not valid with its sidecar: a retry would fail in the same way.
        Err(kube_client::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {
            cx.refuse(&item, &status.message).await
        }
        patched => {
            patched.ignore_not_found()?;
            Ok(Action::Done)
        }
    }
}

impl Context {
    /// The patch of a pod that requests a sidecar; the configuration matters to no other pod.
    fn sidecar_patch(&self, pod: &Value) -> Result<Option<Value>, String> {
        if !crate::is_requested(pod) {
            return Ok(None);
        }
        let sidecar = self.config.read().map_err(|error| error.to_string())?;
        Ok(sidecar.patch(pod))
    }

    /// Fails the initialization: the server deletes the pod, and responds to its creation with `why`.
    async fn refuse(&self, pod: &Item, why: &str) -> Result<Action, Failure> {
        let message = format!("the pod cannot get its sidecar: {why}");
        let regarding = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(pod.name().to_owned()),
            namespace: Some(pod.namespace().to_owned()),
            uid: Some(pod.uid().to_owned()),
            ..ObjectReference::default()
        };
        self.recorder.record_about(regarding, EventType::Warning, "SidecarRefused", &message);
        let result = json!({"status": "Failure", "code": 403, "reason": "Forbidden",
            "message": message});
        let patch = json!({"metadata": metadata(pod, &json!({"result": result}))});
        self.patch(pod.key(), &patch).await.ignore_not_found()?;
        Ok(Action::Done)
    }

    async fn patch(&self, request: &Request, patch: &Value) -> kube_client::Result<Pod> {
        let pods = self.client.api_in::<Pod>(request.namespace());
        pods.patch(request.name(), &PatchParams::default(), &Patch::Strategic(patch)).await
    }
}

/// The metadata of a patch of exactly this state of the pod.
fn metadata(pod: &Item, initializers: &Value) -> Value {
    json!({"uid": pod.uid(), "resourceVersion": pod.resource_version(),
        "initializers": initializers})
}
