//! `daemonset-controller`: keeps a pod of a DaemonSet on each eligible node.
//!
//! Promise: each node that satisfies the node selector, the required node affinity and the taints of
//! the template gets one pod, which names its node by an affinity on `metadata.name` and which the
//! scheduler binds. Pods on nodes that are no longer eligible are deleted, pods that have ended are
//! replaced, and outdated pods are updated within `maxUnavailable` or `maxSurge`.
//!
//! Reads: daemonsets, pods, nodes, controllerrevisions. Writes: pods, controllerrevisions, the status
//! of the set, events.
//!
//! Upstream: pkg/controller/daemon

mod failed_pod_backoff;
mod history;
mod placement;
mod plan;
mod rolling_update;
mod status;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Node, Pod};

use crate::adoption::{self, Claimer};
use crate::api_requests;
use crate::controller_context::ControllerContext;
use crate::controller_history::{ControllerHistory, HISTORY_RULE, REVISION_LABEL, RevisionOwner};
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use crate::metadata::{Metadata, OwnerReference};
use crate::pod_control::{NewPod, PodControl, PodOwner};
use crate::slow_start;
use failed_pod_backoff::FailedPodBackoff;
use keel::Clock;
use machinery::PolicyRule;
use machinery::selector::LabelSelector;
use placement::Placement;
use plan::{Observed, Plan};
use runtime::informer::{Indexer, ObjectEvent};
use runtime::recorder::EventType;
use runtime::{
    Action, Client, Controller, Failure, Lister, Mapper, Predicate, Request, kube_client,
};
use status::DaemonSetStatus;
use view::{DaemonSetView, NodeView, PodView};

/// The controller of DaemonSets.
pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "daemonset-controller",
    aliases: &[],
    user: ControllerUser::ServiceAccount("daemon-set-controller"),
    rules: &[
        PolicyRule::new(&["apps"], &["daemonsets"], &["get"]),
        PolicyRule::new(&["apps"], &["daemonsets/status"], &["patch"]),
        PolicyRule::new(&[""], &["pods"], &["create", "delete", "patch"]),
        HISTORY_RULE,
    ],
    start,
};

/// The number of sets that are reconciled at once.
const WORKERS: usize = 2;

/// The largest number of pods that one reconcile creates or deletes.
const BURST: usize = 250;

/// The index that contains all nodes, whose decoded form is shared.
const ALL_NODES: &str = "all";

struct Context {
    sets: Lister<DaemonSetView>,
    pods: Lister<PodView>,
    nodes: Lister<NodeView>,
    history: ControllerHistory,
    client: Client,
    pod_control: PodControl,
    backoff: FailedPodBackoff,
    clock: Clock,
}

fn start(cx: &ControllerContext) {
    let (sets, pods) = (cx.manager.informer::<DaemonSet>(), cx.manager.informer::<Pod>());
    let nodes = cx.manager.informer::<Node>();
    adoption::add_orphan_index(&pods);
    nodes.indexer().add_index(ALL_NODES, |_| vec![String::new()]);
    let context = Context {
        sets: sets.lister(),
        pods: pods.lister(),
        nodes: nodes.lister(),
        history: ControllerHistory::new(cx, REVISION_LABEL),
        client: cx.client.clone(),
        pod_control: PodControl { client: cx.client.clone(), recorder: cx.recorder() },
        backoff: FailedPodBackoff::new(cx.clock().clone()),
        clock: cx.clock().clone(),
    };
    let controller = Controller::for_::<DaemonSet>()
        .named(cx.name)
        .owns::<Pod>()
        .owns::<ControllerRevision>()
        .when(is_not_created())
        .watches::<Pod>(adoption::adopters(sets.indexer()))
        .when(adoption::may_be_adopted(sets.indexer()))
        .watches::<ControllerRevision>(adoption::adopters(sets.indexer()))
        .when(adoption::may_be_adopted(sets.indexer()))
        .watches::<Node>(all_sets(sets.indexer()))
        .when(eligibility_changed())
        .workers(WORKERS)
        .reconcile(reconcile, context);
    cx.manager.add(controller);
}

/// Maps a node to all sets.
fn all_sets(sets: &Arc<Indexer>) -> Mapper {
    let sets = Arc::clone(sets);
    Mapper::custom(move |_| sets.list().iter().map(|set| set.key().clone()).collect())
}

/// Rejects the creation of a revision that a set controls. Upstream: `addHistory`, so that a revision
/// which somebody else creates is not merged with an equal one at once.
fn is_not_created() -> Predicate {
    Predicate::custom(|event| !matches!(event, ObjectEvent::Added { .. }))
}

/// Accepts changes of labels and taints, but not the frequent ones of a node's status.
fn eligibility_changed() -> Predicate {
    Predicate::custom(|event| match event {
        ObjectEvent::Updated { old, new } => {
            let (old, new) = (old.decode::<NodeView>(), new.decode::<NodeView>());
            !matches!((old, new), (Ok(old), Ok(new)) if old == new)
        }
        ObjectEvent::Added { .. } | ObjectEvent::Deleted { .. } => true,
    })
}

async fn reconcile(request: Request, cx: Arc<Context>) -> Result<Action, Failure> {
    api_requests::requeue_conflict(sync(&request, &cx).await)
}

async fn sync(request: &Request, cx: &Context) -> Result<Action, Failure> {
    let Some(set) = cx.sets.shared_key(request)? else { return Ok(Action::Done) };
    let reference = OwnerReference::controller("apps/v1", "DaemonSet", &set.metadata);
    let owner = PodOwner { metadata: &set.metadata, reference };
    if set.selects_everything() {
        let message = "This daemon set is selecting all pods. A non-empty selector is required.";
        cx.record(&owner, EventType::Warning, "SelectingAll", message);
        return Ok(Action::Done);
    }
    if set.metadata.is_deleting() {
        return Ok(Action::Done);
    }
    let selector = set.selector().map_err(Failure::permanent)?;
    let set_path = path(&set.metadata);
    let revision_owner = RevisionOwner {
        metadata: &set.metadata,
        reference: &owner.reference,
        path: &set_path,
        selector: &selector,
        template: &set.spec.template,
    };
    let mut pods = cx.claim_pods(&owner, &selector).await?;
    let revisions = cx.resolve_history(&set, &revision_owner, &pods).await?;
    // Without revisions, nothing can be created in the namespace any more.
    let Some(revisions) = revisions else { return Ok(Action::Done) };
    let placement = Placement::of(&set.spec.template["spec"]).map_err(Failure::permanent)?;
    let nodes = cx.nodes.shared_by_index(ALL_NODES, "")?.objects;
    let reconciled = Reconcile {
        cx,
        set: &set,
        owner: &owner,
        selector: &selector,
        hash: revisions.hash(),
        placement: &placement,
        nodes: &nodes,
    };
    let updated = reconciled.update_pods(&mut pods).await;
    if updated.is_ok() {
        cx.truncate_history(&set, &revisions, &pods).await?;
    }
    let status = reconciled.write_status(&pods, revisions.collision_count).await;
    let retry = updated?;
    let delay = [retry, status?].into_iter().flatten().min();
    Ok(delay.map_or(Action::Done, Action::RequeueAfter))
}

/// One reconcile of a set.
struct Reconcile<'a> {
    cx: &'a Context,
    set: &'a DaemonSetView,
    owner: &'a PodOwner<'a>,
    selector: &'a LabelSelector,
    /// The hash of the revision that pods should have.
    hash: &'a str,
    placement: &'a Placement,
    nodes: &'a [Arc<NodeView>],
}

impl Reconcile<'_> {
    /// Creates and deletes pods, of which `pods` are those of the set before and after. Returns the
    /// time after which an ended pod can be replaced.
    async fn update_pods(&self, pods: &mut Vec<Arc<PodView>>) -> Result<Option<Duration>, Failure> {
        let mut plan = self.observed(pods).plan_nodes(&self.cx.backoff);
        for event in std::mem::take(&mut plan.events) {
            self.cx.record(self.owner, event.event_type, event.reason, &event.message);
        }
        self.execute(&plan, pods).await?;
        if self.set.spec.update_strategy.type_ == "RollingUpdate" {
            let update = self.observed(pods).plan_update().map_err(Failure::permanent)?;
            self.execute(&update, pods).await?;
        }
        Ok(plan.retry_after)
    }

    fn observed(&self, pods: &[Arc<PodView>]) -> Observed<'_> {
        Observed {
            set: self.set,
            hash: self.hash,
            placement: self.placement,
            nodes: self.nodes,
            pods: plan::pods_by_node(pods),
            clock: &self.cx.clock,
        }
    }

    /// Creates and deletes the pods of a plan, at most [`BURST`] of each. `pods` are those of the set
    /// afterwards.
    async fn execute(&self, plan: &Plan, pods: &mut Vec<Arc<PodView>>) -> Result<(), Failure> {
        if plan.create_on.is_empty() && plan.delete.is_empty() {
            return Ok(());
        }
        let nodes = &plan.create_on[..plan.create_on.len().min(BURST)];
        let (metadata, spec) = placement::pod_template(self.set, self.hash);
        let create = async |at: usize| -> Result<String, kube_client::Error> {
            let spec = placement::on_node(&spec, &nodes[at]);
            let prefix = format!("{}-", self.set.metadata.name);
            let pod = NewPod::new(&metadata, self.owner, "", prefix, &spec);
            self.cx.pod_control.create(self.owner, &pod).await
        };
        let created = slow_start::run(nodes.len(), spec.size(), create).await;
        let to_delete = plan.delete.iter().take(BURST).map(|pod| &pod.metadata);
        let deleted = self.cx.pod_control.delete_all(self.owner, to_delete).await;
        // The cache shows what was created and deleted.
        *pods = self.cx.claim_pods(self.owner, self.selector).await?;
        match created {
            Err(error) if api_requests::is_namespace_terminating(&error) => {}
            created => created?,
        }
        Ok(deleted?)
    }

    /// Writes the status. Returns the time until the next pod becomes available.
    async fn write_status(
        &self,
        pods: &[Arc<PodView>],
        collision_count: Option<i32>,
    ) -> Result<Option<Duration>, Failure> {
        let observed = self.observed(pods);
        let status = DaemonSetStatus::of(&observed, collision_count);
        if self.set.status != status {
            let path = format!("{}/status", path(&self.set.metadata));
            let (client, old) = (&self.cx.client, &self.set.status);
            api_requests::patch_status(client, &path, &self.set.metadata, old, &status).await?;
        }
        Ok(status::next_availability(&observed))
    }
}

impl Context {
    /// The pods of the set, also those that have ended or are being deleted.
    async fn claim_pods(
        &self,
        owner: &PodOwner<'_>,
        selector: &LabelSelector,
    ) -> Result<Vec<Arc<PodView>>, Failure> {
        let path = path(owner.metadata);
        let claimer = Claimer::of_pods(&self.client, owner, &path, selector);
        claimer.claim_if(&self.pods, |_| true).await
    }

    fn record(&self, owner: &PodOwner<'_>, event_type: EventType, reason: &str, message: &str) {
        let set = owner.object_reference();
        self.pod_control.recorder.record_about(set, event_type, reason, message);
    }
}

/// Pods by the node on which they are or will be.
type PodsByNode = BTreeMap<String, Vec<Arc<PodView>>>;

fn path(set: &Metadata) -> String {
    format!("/apis/apps/v1/namespaces/{}/daemonsets/{}", set.namespace, set.name)
}
