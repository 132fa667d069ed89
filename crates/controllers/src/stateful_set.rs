//! `statefulset-controller`: keeps pods with ordinals, whose successors have the same name, host name
//! and claims.
//!
//! Promise: there is never more than one pod of an ordinal. A pod that has ended or is out of date is
//! deleted, and its successor is created after it is gone; since the name is the same, the API server
//! refuses any other order, also after a crash. With the policy `OrderedReady`, pods are created in
//! the order of their ordinals and deleted in the reverse order, each after the former is available.
//!
//! Reads: statefulsets, pods, persistentvolumeclaims, controllerrevisions. Writes: pods,
//! persistentvolumeclaims, controllerrevisions, the status of the set, events.
//!
//! Upstream: pkg/controller/statefulset

mod claims;
mod identity;
mod pod_writer;
mod rollout;
mod status;
mod view;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};

use crate::adoption::{self, Claimer};
use crate::api_requests;
use crate::controller_context::ControllerContext;
use crate::controller_history::{
    ControllerHistory, HISTORY_RULE, RevisionOwner, RevisionView, live_revisions,
};
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use crate::metadata::{Metadata, OwnerReference};
use crate::pod_control::PodOwner;
use keel::Clock;
use machinery::PolicyRule;
use machinery::selector::LabelSelector;
use pod_writer::SetError;
use rollout::Rollout;
use runtime::informer::Indexer;
use runtime::recorder::Recorder;
use runtime::{Action, Client, Controller, Failure, Lister, Mapper, Request, kube_client};
use status::StatefulSetStatus;
use view::{ClaimView, PodView, StatefulSetView};

/// The controller of StatefulSets.
pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "statefulset-controller",
    aliases: &[],
    user: ControllerUser::ServiceAccount("statefulset-controller"),
    rules: &[
        PolicyRule::new(&["apps"], &["statefulsets"], &["get"]),
        PolicyRule::new(&["apps"], &["statefulsets/status"], &["patch"]),
        PolicyRule::new(&[""], &["pods"], &["create", "delete", "patch"]),
        PolicyRule::new(&[""], &["persistentvolumeclaims"], &["create", "patch"]),
        HISTORY_RULE,
    ],
    start,
};

/// The number of sets that are reconciled at once.
const WORKERS: usize = 5;

/// The label of revisions with their hash.
const HASH_LABEL: &str = "controller.kubernetes.io/hash";

struct Context {
    sets: Lister<StatefulSetView>,
    pods: Lister<PodView>,
    claims: Lister<ClaimView>,
    history: ControllerHistory,
    client: Client,
    recorder: Recorder,
    clock: Clock,
}

fn start(cx: &ControllerContext) {
    let (sets, pods) = (cx.manager.informer::<StatefulSet>(), cx.manager.informer::<Pod>());
    adoption::add_orphan_index(&pods);
    let context = Context {
        sets: sets.lister(),
        pods: pods.lister(),
        claims: cx.manager.informer::<PersistentVolumeClaim>().lister(),
        history: ControllerHistory::new(cx, HASH_LABEL),
        client: cx.client.clone(),
        recorder: cx.recorder(),
        clock: cx.clock().clone(),
    };
    let controller = Controller::for_::<StatefulSet>()
        .named(cx.name)
        .owns::<Pod>()
        .owns::<ControllerRevision>()
        .watches::<Pod>(adoption::adopters(sets.indexer()))
        .when(adoption::may_be_adopted(sets.indexer()))
        .watches::<ControllerRevision>(adoption::adopters(sets.indexer()))
        .when(adoption::may_be_adopted(sets.indexer()))
        .watches::<PersistentVolumeClaim>(users_of_claim(sets.indexer()))
        .workers(WORKERS)
        .workers_per_namespace(WORKERS - 1)
        .reconcile(reconcile, context);
    cx.manager.add(controller);
}

/// Maps a claim to the sets that may have a pod with it: `data-web-0` to `web`.
fn users_of_claim(sets: &Arc<Indexer>) -> Mapper {
    let sets = Arc::clone(sets);
    Mapper::custom(move |claim| {
        if sets.is_empty() {
            return Vec::new();
        }
        let keys = identity::sets_of_claim(claim.name());
        let keys = keys.map(|set| Request::new(claim.namespace(), set));
        keys.filter(|key| sets.get(key).is_some()).collect()
    })
}

async fn reconcile(request: Request, cx: Arc<Context>) -> Result<Action, Failure> {
    api_requests::requeue_conflict(sync(&request, &cx).await)
}

async fn sync(request: &Request, cx: &Context) -> Result<Action, Failure> {
    let Some(set) = cx.sets.shared_key(request)? else { return Ok(Action::Done) };
    let selector = set.selector().map_err(Failure::permanent)?;
    let reference = OwnerReference::controller("apps/v1", "StatefulSet", &set.metadata);
    let owner = PodOwner { metadata: &set.metadata, reference };
    let set_path = path(&set.metadata);
    let revision_owner = RevisionOwner {
        metadata: &set.metadata,
        reference: &owner.reference,
        path: &set_path,
        selector: &selector,
        template: &set.spec.template,
    };
    let mut revisions = cx.history.claim(&revision_owner).await?;
    let mut pods = cx.claim_pods(&owner, &selector).await?;
    if set.metadata.is_deleting() {
        // The pods belong to the garbage collector now.
        let status = StatefulSetStatus::of(&set, &pods, &set.status.revisions(), &cx.clock);
        cx.write_status(&set, &status).await?;
        return Ok(Action::Done);
    }
    let resolved = cx.resolve_revisions(&set, &revision_owner, &mut revisions).await;
    let resolved = match resolved {
        Err(error) if api_requests::is_namespace_terminating(&error) => return Ok(Action::Done),
        resolved => resolved?,
    };
    let rollout = Rollout { cx, set: &set, owner: &owner, revisions: &resolved };
    let failed = rollout.run(&pods).await.err();
    // The cache shows what was created and deleted.
    pods = cx.claim_pods(&owner, &selector).await?;
    let status = StatefulSetStatus::of(&set, &pods, &resolved.names(), &cx.clock);
    cx.write_status(&set, &status).await?;
    let in_use = live_revisions(pods.iter().map(|pod| &pod.metadata));
    let is_live = |revision: &RevisionView| {
        let name = revision.metadata.name.as_str();
        in_use.contains(name) || resolved.contains(name)
    };
    let limit = set.spec.revision_history_limit;
    cx.history.truncate(&revisions, limit, is_live).await?;
    match failed {
        // Nothing can be created there any more, which is not an error of the set.
        Some(SetError::Api(error)) if api_requests::is_namespace_terminating(&error) => {
            Ok(Action::Done)
        }
        Some(error) => Err(error.into()),
        None => Ok(match status::next_availability(&set, &pods, &cx.clock) {
            Some(delay) => Action::RequeueAfter(delay),
            None => Action::Done,
        }),
    }
}

/// The revisions between which the pods of a set are updated.
struct Revisions {
    current: Arc<RevisionView>,
    update: Arc<RevisionView>,
    collision_count: i32,
}

/// The names of the revisions in the status.
struct RevisionNames {
    current: String,
    update: String,
    collision_count: Option<i32>,
}

impl Revisions {
    fn names(&self) -> RevisionNames {
        RevisionNames {
            current: self.current.metadata.name.clone(),
            update: self.update.metadata.name.clone(),
            collision_count: Some(self.collision_count),
        }
    }

    fn contains(&self, name: &str) -> bool {
        self.current.metadata.name == name || self.update.metadata.name == name
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
        let is_member = |pod: &PodView| identity::is_member(&owner.metadata.name, pod);
        claimer.claim_members(&self.pods, is_member).await
    }

    /// The revision of the template, which may be new, and that of the status.
    async fn resolve_revisions(
        &self,
        set: &StatefulSetView,
        owner: &RevisionOwner<'_>,
        revisions: &mut Vec<Arc<RevisionView>>,
    ) -> Result<Revisions, kube_client::Error> {
        let mut collision_count = set.status.collision_count.unwrap_or(0);
        let update = self.history.update_revision(owner, revisions, &mut collision_count).await?;
        let is_current = |it: &&Arc<RevisionView>| it.metadata.name == set.status.current_revision;
        let current = revisions.iter().find(is_current).unwrap_or(&update);
        Ok(Revisions { current: Arc::clone(current), update, collision_count })
    }

    async fn write_status(
        &self,
        set: &StatefulSetView,
        status: &StatefulSetStatus,
    ) -> Result<(), Failure> {
        if set.status == *status {
            return Ok(());
        }
        let path = format!("{}/status", path(&set.metadata));
        let written =
            api_requests::patch_status(&self.client, &path, &set.metadata, &set.status, status);
        written.await.map_err(Failure::from)
    }
}

fn path(set: &Metadata) -> String {
    format!("/apis/apps/v1/namespaces/{}/statefulsets/{}", set.namespace, set.name)
}
