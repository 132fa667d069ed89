//! `deployment-controller`: replaces the pods of a Deployment by those of its present template, through
//! one ReplicaSet for each template.
//!
//! Promise: the ReplicaSet with the present template has the desired number of pods, unless the
//! Deployment is paused; during a rollout, no more than `maxSurge` additional pods exist and no more
//! than `maxUnavailable` are missing. Old ReplicaSets are kept for `kubectl rollout undo`, up to the
//! limit of the history. The conditions tell whether the rollout progresses.
//!
//! Reads: deployments, replicasets, pods. Writes: replicasets, the status of the Deployment and its
//! revision, events.
//!
//! Each reconcile makes one step; the change of the ReplicaSet causes the next one.
//! Upstream: pkg/controller/deployment

mod proportions;
mod replica_sets;
mod rollout;
mod status;
mod view;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::adoption::{self, Claimer};
use crate::api_requests;
use crate::controller_context::ControllerContext;
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use crate::metadata::{Metadata, OwnerReference};
use crate::object_reference::object_reference;
use crate::pod_view::PodView;
use keel::Clock;
use machinery::PolicyRule;
use machinery::selector::LabelSelector;
use replica_sets::ReplicaSets;
use runtime::informer::{Indexer, Item};
use runtime::recorder::{EventType, Recorder};
use runtime::{Action, Client, Controller, Failure, Lister, Mapper, Request};
use view::{DeploymentStatus, DeploymentView, OwnedReplicaSetView, REVISION};

/// See the [module documentation](self).
pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "deployment-controller",
    aliases: &[],
    user: ControllerUser::ServiceAccount("deployment-controller"),
    rules: &[
        PolicyRule::new(&["apps"], &["deployments"], &["get"]),
        PolicyRule::new(&["apps"], &["deployments/status"], &["patch"]),
        PolicyRule::new(&["apps"], &["replicasets"], &["create", "delete", "patch"]),
    ],
    start,
};

/// The number of Deployments that are reconciled at once.
const WORKERS: usize = 5;

struct Context {
    deployments: Lister<DeploymentView>,
    sets: Lister<OwnedReplicaSetView>,
    pods: Lister<PodView>,
    client: Client,
    recorder: Recorder,
    clock: Clock,
}

fn start(cx: &ControllerContext) {
    let deployments = cx.manager.informer::<Deployment>();
    let sets = cx.manager.informer::<ReplicaSet>();
    let pods = cx.manager.informer::<Pod>();
    adoption::add_orphan_index(&sets);
    adoption::add_controller_index(&pods);
    let context = Context {
        deployments: deployments.lister(),
        sets: sets.lister(),
        pods: pods.lister(),
        client: cx.client.clone(),
        recorder: cx.recorder(),
        clock: cx.clock().clone(),
    };
    let controller = Controller::for_::<Deployment>()
        .named(cx.name)
        .owns::<ReplicaSet>()
        .watches::<ReplicaSet>(adoption::adopters(deployments.indexer()))
        .when(adoption::may_be_adopted(deployments.indexer()))
        .watches::<Pod>(waiting_deployments(sets.indexer()))
        .when(runtime::Predicate::custom(|event| {
            matches!(event, runtime::informer::ObjectEvent::Deleted { .. })
        }))
        .workers(WORKERS)
        .workers_per_namespace(WORKERS - 1)
        .reconcile(reconcile, context);
    cx.manager.add(controller);
}

/// Maps a deleted pod to its Deployment, which may wait for the end of its old pods.
fn waiting_deployments(sets: &Arc<Indexer>) -> Mapper {
    let sets = Arc::clone(sets);
    Mapper::custom(move |pod| {
        let controller = |item: &Item, kind: &str| {
            let owner = adoption::controller_of(item)?;
            (owner.kind == kind).then(|| Request::new(item.namespace(), &owner.name))
        };
        let set = controller(pod, "ReplicaSet").and_then(|key| sets.get(&key));
        set.and_then(|set| controller(&set, "Deployment")).into_iter().collect()
    })
}

async fn reconcile(request: Request, cx: Arc<Context>) -> Result<Action, Failure> {
    api_requests::requeue_conflict(sync(&request, &cx).await)
}

async fn sync(request: &Request, cx: &Context) -> Result<Action, Failure> {
    let Some(deployment) = cx.deployments.shared_key(request)? else { return Ok(Action::Done) };
    let selector =
        LabelSelector::from_value(&deployment.spec.selector).map_err(Failure::permanent)?;
    let mut sets = cx.claim_sets(&deployment, &selector).await?;
    let mut status = deployment.status.clone();
    if selector.is_empty() {
        let message = "This deployment is selecting all pods. A non-empty selector is required.";
        cx.record(&deployment, EventType::Warning, "SelectingAll", message);
        status.observed_generation = deployment.metadata.generation;
        cx.write_status(&deployment, &sets, &status).await?;
        return Ok(Action::Done);
    }
    let mut rolls_out = false;
    if !deployment.metadata.is_deleting() {
        status.note_pause(&deployment, &cx.clock);
        if cx.sync_new_set(&deployment, &sets, &mut status).await? {
            sets = cx.claim_sets(&deployment, &selector).await?;
        }
        if deployment.spec.paused || rollout::was_scaled(&deployment, &sets) {
            cx.scale_all(&deployment, &sets).await?;
            if deployment.spec.paused {
                cx.clean_up(&deployment, &sets).await?;
            }
        } else {
            rolls_out = true;
            cx.step(&deployment, &sets, &mut status).await?;
        }
        // The cache shows what was created and scaled.
        sets = cx.claim_sets(&deployment, &selector).await?;
    }
    let new = sets.new_set().map(Arc::as_ref);
    status.count(&deployment, &sets.all, new, &cx.clock);
    if rolls_out {
        status.note_progress(&deployment, &sets.all, new, &cx.clock);
    }
    cx.write_status(&deployment, &sets, &status).await?;
    Ok(match status.until_timeout(&deployment, &cx.clock) {
        Some(delay) => Action::RequeueAfter(delay),
        None => Action::Done,
    })
}

impl Context {
    /// Makes one step of the rollout.
    async fn step(
        &self,
        deployment: &DeploymentView,
        sets: &ReplicaSets,
        status: &mut DeploymentStatus,
    ) -> Result<(), Failure> {
        let is_scaled = if deployment.is_rolling() {
            if sets.new_set().is_none() {
                return self.create_new_set(deployment, sets, status).await;
            }
            self.roll(deployment, sets).await?
        } else {
            if !self.end_old_pods(deployment, sets).await? {
                return Ok(());
            }
            match sets.new_set() {
                None => return self.create_new_set(deployment, sets, status).await,
                Some(new) => self.scale(deployment, new, deployment.replicas()).await?,
            }
        };
        if !is_scaled && deployment.status.is_complete(deployment) {
            self.clean_up(deployment, sets).await?;
        }
        Ok(())
    }

    /// The ReplicaSets of the Deployment, after adoptions and releases.
    async fn claim_sets(
        &self,
        deployment: &DeploymentView,
        selector: &LabelSelector,
    ) -> Result<ReplicaSets, Failure> {
        let metadata = &deployment.metadata;
        let claimer = Claimer {
            client: &self.client,
            owner: metadata,
            reference: &OwnerReference::controller("apps/v1", "Deployment", metadata),
            owner_path: &path_of(metadata),
            collection: ("apis/apps/v1", "replicasets"),
            selector,
        };
        let sets = claimer.claim_if(&self.sets, |_| true).await?;
        Ok(ReplicaSets::new(deployment, sets))
    }

    /// Writes the status and the revision, if one of them has changed. Fails with 409 if the
    /// Deployment was changed by others in the meantime.
    async fn write_status(
        &self,
        deployment: &DeploymentView,
        sets: &ReplicaSets,
        status: &DeploymentStatus,
    ) -> Result<(), Failure> {
        let metadata = &deployment.metadata;
        let revision = sets.revision().map(|it| it.to_string());
        let has_revision =
            revision.is_none() || metadata.annotations.get(REVISION) == revision.as_ref();
        if has_revision && *status == deployment.status {
            return Ok(());
        }
        let mut patch = json!({"metadata": metadata.precondition(), "status": status});
        if !has_revision {
            patch["metadata"]["annotations"] = json!({REVISION: revision});
        }
        let path = format!("{}/status", path_of(metadata));
        let written = api_requests::merge::<Value>(&self.client, &path, &patch).await;
        // Its deletion leads to the next call.
        api_requests::none_if_missing(written)?;
        Ok(())
    }

    fn record(
        &self,
        deployment: &DeploymentView,
        event_type: EventType,
        reason: &str,
        message: &str,
    ) {
        let regarding = object_reference("apps/v1", "Deployment", &deployment.metadata);
        self.recorder.record_about(regarding, event_type, reason, message);
    }
}

fn path_of(deployment: &Metadata) -> String {
    let Metadata { namespace, name, .. } = deployment;
    format!("/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
}

fn path_of_set(set: &OwnedReplicaSetView) -> String {
    let Metadata { namespace, name, .. } = &set.metadata;
    format!("/apis/apps/v1/namespaces/{namespace}/replicasets/{name}")
}
