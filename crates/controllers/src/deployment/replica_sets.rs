//! The ReplicaSets of a Deployment: the new one with the present template, and the old ones; their
//! creation, revisions, sizes and removal.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::status::PROGRESSING;
use super::view::{DeploymentStatus, DeploymentView, OwnedReplicaSetView, REVISION, TEMPLATE_HASH};
use super::{Context, path_of_set};
use crate::api_requests;
use crate::api_requests::is_namespace_terminating;
use crate::metadata::OwnerReference;
use crate::template_hash;
use runtime::Failure;
use runtime::recorder::EventType;

/// The revisions that a ReplicaSet had before, if the Deployment was rolled back to it.
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";

/// The maximum length of that history.
const MAX_HISTORY_LENGTH: usize = 2000;

/// The maximum length of a name.
const MAX_NAME_LENGTH: usize = 253;

/// Annotations of a Deployment that its ReplicaSets do not get.
const SKIPPED_ANNOTATIONS: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    super::view::DESIRED_REPLICAS,
    super::view::MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
];

/// The ReplicaSets of a Deployment, the oldest first.
pub(super) struct ReplicaSets {
    /// All of them.
    pub all: Vec<Arc<OwnedReplicaSetView>>,
    /// The index of the one with the template of the Deployment.
    new: Option<usize>,
}

impl ReplicaSets {
    /// Finds the new one among `sets`: the oldest with the template of the Deployment.
    pub(super) fn new(
        deployment: &DeploymentView,
        mut sets: Vec<Arc<OwnedReplicaSetView>>,
    ) -> Self {
        sets.sort_by(|one, other| {
            let key =
                |set: &OwnedReplicaSetView| set.metadata.creation_timestamp.clone().map(|it| it.0);
            key(one).cmp(&key(other)).then_with(|| one.metadata.name.cmp(&other.metadata.name))
        });
        let mut template = deployment.spec.template.clone();
        if let Some(labels) = template["metadata"]["labels"].as_object_mut() {
            labels.remove(TEMPLATE_HASH);
        }
        let new = sets.iter().position(|set| set.spec.template == template);
        Self { all: sets, new }
    }

    /// The one with the template of the Deployment.
    pub(super) fn new_set(&self) -> Option<&Arc<OwnedReplicaSetView>> {
        self.new.map(|index| &self.all[index])
    }

    /// The others, the oldest first.
    pub(super) fn old(&self) -> impl DoubleEndedIterator<Item = &Arc<OwnedReplicaSetView>> {
        let new = self.new;
        self.all.iter().enumerate().filter(move |(index, _)| Some(*index) != new).map(|(_, it)| it)
    }

    /// Those that should have pods.
    pub(super) fn active(&self) -> Vec<&Arc<OwnedReplicaSetView>> {
        self.all.iter().filter(|set| set.replicas() > 0).collect()
    }

    /// The old ones that should have pods.
    pub(super) fn active_old(&self) -> Vec<&Arc<OwnedReplicaSetView>> {
        self.old().filter(|set| set.replicas() > 0).collect()
    }

    /// The number of pods that all of them should have.
    pub(super) fn total(&self) -> i64 {
        self.all.iter().map(|set| i64::from(set.replicas())).sum()
    }

    /// The number of pods with which a new set starts, or to which it grows.
    pub(super) fn size_of_new(&self, deployment: &DeploymentView) -> i32 {
        let present = self.new_set().map_or(0, |set| i64::from(set.replicas()));
        if !deployment.is_rolling() {
            return deployment.replicas();
        }
        let room = (deployment.max_total() - self.total()).max(0);
        let size = present + room.min(i64::from(deployment.replicas()) - present);
        i32::try_from(size).unwrap_or(i32::MAX)
    }

    /// The revision of the new set: one more than that of all others.
    fn new_revision(&self) -> i64 {
        self.old().map(|set| set.revision()).max().unwrap_or(0).saturating_add(1)
    }

    /// The revision of the Deployment: that of the new set.
    pub(super) fn revision(&self) -> Option<i64> {
        self.new_set().map(|set| set.revision()).filter(|it| *it > 0)
    }
}

impl Context {
    /// Updates annotations and `minReadySeconds` of the new set. Returns whether it was changed.
    ///
    /// The progress of a rollout to a set that exists already is counted from the time at which the
    /// set was found.
    pub(super) async fn sync_new_set(
        &self,
        deployment: &DeploymentView,
        sets: &ReplicaSets,
        status: &mut DeploymentStatus,
    ) -> Result<bool, Failure> {
        let Some(set) = sets.new_set() else { return Ok(false) };
        if status.condition(PROGRESSING).is_none() {
            let message = format!("Found new replica set {:?}", set.metadata.name);
            let reason = ("True", "FoundNewReplicaSet");
            status.set_progressing(deployment, reason, &message, &self.clock);
        }
        let annotations = annotations(deployment, &set.metadata.annotations, sets.new_revision());
        let min_ready = deployment.spec.min_ready_seconds;
        if annotations == set.metadata.annotations && set.spec.min_ready_seconds == min_ready {
            return Ok(false);
        }
        let patch = json!({
            "metadata": {"uid": set.metadata.uid, "annotations": annotations},
            "spec": {"minReadySeconds": min_ready},
        });
        api_requests::merge::<Value>(&self.client, &path_of_set(set), &patch).await?;
        Ok(true)
    }

    /// Creates the set for the present template.
    pub(super) async fn create_new_set(
        &self,
        deployment: &DeploymentView,
        sets: &ReplicaSets,
        status: &mut DeploymentStatus,
    ) -> Result<(), Failure> {
        let hash = template_hash::of(&deployment.spec.template, status.collision_count);
        let replicas = sets.size_of_new(deployment);
        let object = new_set(deployment, &hash, replicas, sets.new_revision());
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let path =
            format!("/apis/apps/v1/namespaces/{}/replicasets", deployment.metadata.namespace);
        match api_requests::create::<Value>(&self.client, &path, &object).await {
            Ok(_) => {
                if replicas > 0 {
                    let message = format!("Scaled up replica set {name} from 0 to {replicas}");
                    self.record(deployment, EventType::Normal, "ScalingReplicaSet", &message);
                }
                let message = format!("Created new replica set {name:?}");
                let reason = ("True", "NewReplicaSetCreated");
                status.set_progressing(deployment, reason, &message, &self.clock);
                Ok(())
            }
            Err(error) if api_requests::has_reason(&error, "AlreadyExists") => {
                // Another set has the name, since its template has the same hash.
                status.collision_count =
                    Some(status.collision_count.unwrap_or(0).saturating_add(1));
                self.write_status(deployment, sets, status).await?;
                Err(error.into())
            }
            Err(error) if is_namespace_terminating(&error) => Ok(()),
            Err(error) => {
                let message = api_requests::message(&error);
                let message = format!("Failed to create new replica set {name:?}: {message}");
                self.record(deployment, EventType::Warning, "ReplicaSetCreateError", &message);
                let reason = ("False", "ReplicaSetCreateError");
                status.set_progressing(deployment, reason, &message, &self.clock);
                self.write_status(deployment, sets, status).await?;
                Err(error.into())
            }
        }
    }

    /// Changes the size of a set. Returns whether it had another size.
    ///
    /// The write depends on the uid and not on the resourceVersion: only this controller sets the
    /// size, and the status of the set changes with each of its pods.
    pub(super) async fn scale(
        &self,
        deployment: &DeploymentView,
        set: &OwnedReplicaSetView,
        size: i32,
    ) -> Result<bool, Failure> {
        let (before, name) = (set.replicas(), &set.metadata.name);
        let annotations = BTreeMap::from(deployment.replicas_annotations());
        let is_recorded = annotations
            .iter()
            .all(|(key, value)| set.metadata.annotations.get(*key) == Some(value));
        if before == size && is_recorded {
            return Ok(false);
        }
        let patch = json!({
            "metadata": {"uid": set.metadata.uid, "annotations": annotations},
            "spec": {"replicas": size},
        });
        api_requests::merge::<Value>(&self.client, &path_of_set(set), &patch).await?;
        if before != size {
            let direction = if size > before { "up" } else { "down" };
            let message = format!("Scaled {direction} replica set {name} from {before} to {size}");
            self.record(deployment, EventType::Normal, "ScalingReplicaSet", &message);
        }
        Ok(before != size)
    }

    /// Deletes old sets without pods beyond the limit of the history, the oldest revisions first.
    pub(super) async fn clean_up(
        &self,
        deployment: &DeploymentView,
        sets: &ReplicaSets,
    ) -> Result<(), Failure> {
        let limit = deployment.spec.revision_history_limit.filter(|it| *it != i32::MAX);
        let Some(limit) = limit.and_then(|it| usize::try_from(it).ok()) else { return Ok(()) };
        let mut old: Vec<_> = sets.old().filter(|set| !set.metadata.is_deleting()).collect();
        let surplus = old.len().saturating_sub(limit);
        old.sort_by_key(|set| set.revision());
        let is_empty = |set: &&&Arc<OwnedReplicaSetView>| {
            set.replicas() == 0
                && set.status.replicas == 0
                && set.metadata.generation <= set.status.observed_generation
        };
        for set in old.iter().take(surplus).filter(is_empty) {
            let path = path_of_set(set);
            let deleted = api_requests::delete(&self.client, &path, &set.metadata.uid).await;
            api_requests::none_if_missing(deleted)?;
        }
        Ok(())
    }
}

/// A set with the template of the Deployment.
fn new_set(deployment: &DeploymentView, hash: &str, replicas: i32, revision: i64) -> Value {
    let metadata = &deployment.metadata;
    let mut labels = deployment.template_labels();
    labels.insert(TEMPLATE_HASH.to_owned(), hash.to_owned());
    let mut template = deployment.spec.template.clone();
    template["metadata"]["labels"] = json!(labels);
    let mut selector = deployment.spec.selector.clone();
    selector["matchLabels"][TEMPLATE_HASH] = hash.into();
    let mut annotations = annotations(deployment, &BTreeMap::new(), revision);
    for (key, value) in deployment.replicas_annotations() {
        annotations.insert(key.to_owned(), value);
    }
    let base: String = metadata.name.chars().take(MAX_NAME_LENGTH - 1 - hash.len()).collect();
    json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{base}-{hash}"),
            "namespace": metadata.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [OwnerReference::controller("apps/v1", "Deployment", metadata)],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": deployment.spec.min_ready_seconds,
            "selector": selector,
            "template": template,
        },
    })
}

/// The annotations of the new set: those of the Deployment, and its revision. If the Deployment is
/// rolled back to the set, its previous revisions are kept in a list.
fn annotations(
    deployment: &DeploymentView,
    present: &BTreeMap<String, String>,
    revision: i64,
) -> BTreeMap<String, String> {
    let mut annotations = present.clone();
    for (key, value) in &deployment.metadata.annotations {
        if !SKIPPED_ANNOTATIONS.contains(&key.as_str()) {
            annotations.insert(key.clone(), value.clone());
        }
    }
    let before = present.get(REVISION);
    let number = before.map_or(Some(0), |it| it.parse::<i64>().ok());
    // A revision that is not a number was set by somebody else.
    let Some(number) = number else { return annotations };
    if number < revision {
        annotations.insert(REVISION.to_owned(), revision.to_string());
        if let Some(before) = before {
            let history = history(present.get(REVISION_HISTORY).map_or("", String::as_str), before);
            annotations.insert(REVISION_HISTORY.to_owned(), history);
        }
    }
    annotations
}

/// Appends a revision to a history; the first ones are removed if it becomes too long.
fn history(present: &str, revision: &str) -> String {
    let mut revisions: Vec<&str> = present.split(',').filter(|it| !it.is_empty()).collect();
    revisions.push(revision);
    let length = |revisions: &[&str]| revisions.iter().map(|it| it.len() + 1).sum::<usize>() - 1;
    while revisions.len() > 1 && length(&revisions) > MAX_HISTORY_LENGTH {
        revisions.remove(0);
    }
    revisions.join(",")
}
