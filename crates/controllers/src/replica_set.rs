//! `replicaset-controller` and `replicationcontroller-controller`: keep the desired number of pods.
//!
//! Promise: a set that is not being deleted has as many active pods as its spec says, or an Event and
//! the condition `ReplicaFailure` tell why not. Pods that match the selector and have no controller
//! are adopted; pods that no longer match are released.
//!
//! Reads: replicasets, replicationcontrollers, pods. Writes: pods, the status of the set, events.
//!
//! A ReplicationController is a set with another type of selector.
//! Upstream: pkg/controller/replicaset

mod deletion_order;
mod status;
mod view;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Pod, ReplicationController};

use crate::adoption::{self, Claimer};
use crate::api_requests;
use crate::controller_context::ControllerContext;
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use crate::metadata::{Metadata, OwnerReference};
use crate::minimum_intervals::MinimumIntervals;
use crate::pod_control::{PodControl, PodOwner};
use crate::pod_view::PodView;
use keel::Clock;
use machinery::PolicyRule;
use machinery::selector::LabelSelector;
use runtime::kube_core::Resource;
use runtime::{Action, Client, Controller, Failure, Lister, Request, kube_client};
use status::ReplicaSetStatus;
use view::ReplicaSetView;

/// The controller of ReplicaSets.
pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "replicaset-controller",
    aliases: &[],
    user: ControllerUser::ServiceAccount("replicaset-controller"),
    rules: &[
        PolicyRule::new(&["apps"], &["replicasets"], &["get"]),
        PolicyRule::new(&["apps"], &["replicasets/status"], &["patch"]),
        POD_RULE,
    ],
    start: |cx| start::<ReplicaSet>(cx, &REPLICA_SET),
};

/// The controller of ReplicationControllers.
pub(crate) const REPLICATION_CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "replicationcontroller-controller",
    aliases: &["replication-controller"],
    user: ControllerUser::ServiceAccount("replication-controller"),
    rules: &[
        PolicyRule::new(&[""], &["replicationcontrollers"], &["get"]),
        PolicyRule::new(&[""], &["replicationcontrollers/status"], &["patch"]),
        POD_RULE,
    ],
    start: |cx| start::<ReplicationController>(cx, &REPLICATION),
};

const POD_RULE: PolicyRule = PolicyRule::new(&[""], &["pods"], &["create", "delete", "patch"]);

/// The largest number of pods that one reconcile creates or deletes.
const BURST: usize = 500;

/// The number of sets that are reconciled at once.
const WORKERS: usize = 5;

/// The kind of the sets.
struct SetKind {
    kind: &'static str,
    api_version: &'static str,
    /// The path of the group and version.
    path: &'static str,
    plural: &'static str,
    /// The source of events, as in Kubernetes.
    event_source: &'static str,
    /// Whether the status has the number of terminating pods.
    counts_terminating: bool,
}

const REPLICA_SET: SetKind = SetKind {
    kind: "ReplicaSet",
    api_version: "apps/v1",
    path: "apis/apps/v1",
    plural: "replicasets",
    event_source: "replicaset-controller",
    counts_terminating: true,
};

const REPLICATION: SetKind = SetKind {
    kind: "ReplicationController",
    api_version: "v1",
    path: "api/v1",
    plural: "replicationcontrollers",
    event_source: "replication-controller",
    counts_terminating: false,
};

/// The minimum interval between two reconciles of a large set, for each of its pods.
const INTERVAL_PER_POD: Duration = Duration::from_micros(50);

struct Context {
    kind: &'static SetKind,
    sets: Lister<ReplicaSetView>,
    pods: Lister<PodView>,
    client: Client,
    pod_control: PodControl,
    clock: Clock,
    intervals: MinimumIntervals,
}

fn start<K>(cx: &ControllerContext, kind: &'static SetKind)
where
    K: Resource<DynamicType = (), Scope: 'static>,
{
    let (sets, pods) = (cx.manager.informer::<K>(), cx.manager.informer::<Pod>());
    adoption::add_orphan_index(&pods);
    adoption::add_controller_index(&sets);
    let recorder = cx.manager.recorder_with(cx.client.clone(), kind.event_source);
    let context = Context {
        kind,
        sets: sets.lister(),
        pods: pods.lister(),
        client: cx.client.clone(),
        pod_control: PodControl { client: cx.client.clone(), recorder },
        clock: cx.clock().clone(),
        intervals: MinimumIntervals::new(cx.clock(), INTERVAL_PER_POD),
    };
    let controller = Controller::for_::<K>()
        .named(cx.name)
        .owns::<Pod>()
        .watches::<Pod>(adoption::adopters_by(sets.indexer(), view::read_selector))
        .when(adoption::may_be_adopted(sets.indexer()))
        .workers(WORKERS)
        .workers_per_namespace(WORKERS - 1)
        .reconcile(reconcile, context);
    cx.manager.add(controller);
}

async fn reconcile(request: Request, cx: Arc<Context>) -> Result<Action, Failure> {
    api_requests::requeue_conflict(sync(&request, &cx).await)
}

async fn sync(request: &Request, cx: &Context) -> Result<Action, Failure> {
    let Some(set) = cx.sets.shared_key(request)? else {
        cx.intervals.forget(request);
        return Ok(Action::Done);
    };
    // A new spec does not wait.
    if set.status.is_current(&set)
        && let Some(delay) = cx.intervals.remaining(request)
    {
        return Ok(Action::RequeueAfter(delay));
    }
    let selector = set.selector().map_err(Failure::permanent)?;
    let reference = OwnerReference::controller(cx.kind.api_version, cx.kind.kind, &set.metadata);
    let owner = PodOwner { metadata: &set.metadata, reference };
    let mut pods = cx.claim_pods(&set, &owner, &selector).await?;
    let mut failed = None;
    let mut is_unfinished = false;
    if !set.metadata.is_deleting() {
        let wanted = set.replicas();
        let active = pods.iter().filter(|pod| pod.is_active()).count();
        if active != wanted {
            let related = if active > wanted { cx.pods_of_related_sets(&set)? } else { Vec::new() };
            failed = cx.manage(&set, &owner, &pods, &related).await.err();
            // The cache shows what was created and deleted.
            pods = cx.claim_pods(&set, &owner, &selector).await?;
            let now_active = pods.iter().filter(|pod| pod.is_active()).count();
            // More than a burst. Without progress, as in a namespace that is being deleted, the set
            // waits for a change.
            is_unfinished = now_active != wanted && now_active != active;
        }
    }
    let status =
        ReplicaSetStatus::of(&set, &pods, cx.kind.counts_terminating, failed.as_ref(), &cx.clock);
    let written = cx.write_status(&set, &status).await;
    if let Some(error) = failed {
        return Err(error.into());
    }
    written?;
    if is_unfinished {
        return Ok(Action::RequeueAfter(Duration::ZERO));
    }
    cx.intervals.restart(request, pods.len());
    Ok(match status::next_availability(&set, &pods, &cx.clock) {
        Some(delay) => Action::RequeueAfter(delay),
        None => Action::Done,
    })
}

impl Context {
    fn path(&self, set: &Metadata) -> String {
        let SetKind { path, plural, .. } = self.kind;
        format!("/{path}/namespaces/{}/{plural}/{}", set.namespace, set.name)
    }

    /// The pods of the set, also those that have ended or are being deleted.
    async fn claim_pods(
        &self,
        set: &ReplicaSetView,
        owner: &PodOwner<'_>,
        selector: &LabelSelector,
    ) -> Result<Vec<Arc<PodView>>, Failure> {
        let path = self.path(&set.metadata);
        let claimer = Claimer::of_pods(&self.client, owner, &path, selector);
        claimer.claim_if(&self.pods, |pod| !pod.is_finished()).await
    }

    /// Creates or deletes pods, at most [`BURST`]. Of the surplus, those are deleted first that share
    /// their node with `related` pods.
    async fn manage(
        &self,
        set: &ReplicaSetView,
        owner: &PodOwner<'_>,
        pods: &[Arc<PodView>],
        related: &[Arc<PodView>],
    ) -> Result<(), kube_client::Error> {
        let wanted = set.replicas();
        let active: Vec<&Arc<PodView>> = pods.iter().filter(|pod| pod.is_active()).collect();
        if active.len() < wanted {
            let missing = (wanted - active.len()).min(BURST);
            return self.pod_control.create_all(owner, &set.spec.template, missing).await;
        }
        let surplus = (active.len() - wanted).min(BURST);
        let to_delete = deletion_order::choose(active, related, surplus, &self.clock);
        self.pod_control.delete_all(owner, to_delete.iter().map(|pod| &pod.metadata)).await
    }

    /// The active pods of all sets with the same controller, such as those of one Deployment.
    fn pods_of_related_sets(&self, set: &ReplicaSetView) -> Result<Vec<Arc<PodView>>, Failure> {
        let Some(controller) = set.metadata.controller() else { return Ok(Vec::new()) };
        let owner = Metadata {
            uid: controller.uid.clone(),
            namespace: set.metadata.namespace.clone(),
            ..Metadata::default()
        };
        let mut pods = Vec::new();
        for set in adoption::controlled_by(&self.sets, &owner)? {
            let owned = adoption::controlled_by(&self.pods, &set.metadata)?;
            pods.extend(owned.into_iter().filter(|pod| pod.is_active()));
        }
        Ok(pods)
    }

    async fn write_status(
        &self,
        set: &ReplicaSetView,
        status: &ReplicaSetStatus,
    ) -> Result<(), Failure> {
        if set.status == *status {
            return Ok(());
        }
        let path = format!("{}/status", self.path(&set.metadata));
        let written =
            api_requests::patch_status(&self.client, &path, &set.metadata, &set.status, status);
        written.await.map_err(Failure::from)
    }
}
