//! Creates the missing pods of a Job and deletes the surplus.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::backoff;
use super::evaluation::{Evaluation, Indexes, action, active_indexes};
use super::indexes::IndexSet;
use super::policies::FailureAction;
use super::view::{
    COMPLETION_INDEX, IGNORED_INDEX_FAILURES, INDEX_FAILURES, JobPod, JobView, TRACKING_FINALIZER,
};
use super::{Context, remove_finalizer};
use crate::pod_control::{NewPod, PodOwner, TemplateMetadata};
use crate::raw_fields::RawFields;
use crate::slow_start::MAX_CONCURRENT;
use crate::time;
use keel::Clock;
use runtime::kube_client;

/// The largest number of pods that one reconcile creates or deletes.
const BURST: usize = 500;

/// The maximum length of the prefix of a generated name.
const MAX_NAME_PREFIX: usize = 58;

/// The numbers of pods after some were created or deleted.
#[derive(Debug, Default)]
pub(super) struct PodCounts {
    /// The active pods.
    pub active: usize,
    /// The active pods that are ready.
    pub ready: usize,
    /// The pods that have not ended and are being deleted.
    pub terminating: usize,
    /// The error of a creation or deletion.
    pub failed: Option<kube_client::Error>,
    /// The time after which pods may be created, if failures delay that, or the burst was exceeded.
    pub retry: Option<Duration>,
}

impl PodCounts {
    /// The numbers before a change.
    pub(super) fn of(pods: &[Arc<JobPod>]) -> Self {
        let count =
            |is_counted: fn(&JobPod) -> bool| pods.iter().filter(|it| is_counted(it)).count();
        Self {
            active: count(JobPod::is_active),
            ready: count(|pod| pod.is_active() && pod.is_ready()),
            terminating: count(JobPod::is_terminating),
            ..Self::default()
        }
    }
}

/// Whether the deleted pods are counted as failed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counting {
    /// They keep the finalizer until they are counted.
    Counted,
    /// They lose the finalizer before the deletion.
    Uncounted,
}

impl Context {
    /// Deletes the active pods of a Job that has ended.
    pub(super) async fn delete_active(
        &self,
        owner: &PodOwner<'_>,
        evaluation: &Evaluation,
        counts: &mut PodCounts,
    ) {
        let active = evaluation.pods.iter().filter(|pod| pod.is_active()).collect();
        self.delete_pods(owner, active, Counting::Counted, counts).await;
    }

    /// Creates or deletes pods, at most [`BURST`].
    pub(super) async fn manage(
        &self,
        job: &JobView,
        owner: &PodOwner<'_>,
        evaluation: &Evaluation,
        counts: &mut PodCounts,
    ) {
        let active: Vec<_> = evaluation.pods.iter().filter(|pod| pod.is_active()).collect();
        let wanted = wanted_pods(job, evaluation, active.len());
        let surplus = active.len().saturating_sub(wanted);
        let mut to_delete = choose_for_removal(job, active, surplus, &self.clock);
        if !job.is_suspended() && to_delete.len() > BURST {
            to_delete.truncate(BURST);
            counts.retry = Some(Duration::ZERO);
        }
        if !to_delete.is_empty() || job.is_suspended() {
            return self.delete_pods(owner, to_delete, Counting::Uncounted, counts).await;
        }
        let ending = if job.replaces_only_failed() { counts.terminating } else { 0 };
        let missing = wanted.saturating_sub(counts.active + ending);
        if missing > 0 {
            self.create_pods(job, owner, evaluation, missing, counts).await;
        }
    }

    async fn create_pods(
        &self,
        job: &JobView,
        owner: &PodOwner<'_>,
        evaluation: &Evaluation,
        missing: usize,
        counts: &mut PodCounts,
    ) {
        if !job.has_limit_per_index() {
            let delay = evaluation.series.remaining(&self.clock);
            if !delay.is_zero() {
                counts.retry = Some(delay);
                return;
            }
        }
        if missing > BURST {
            counts.retry = Some(Duration::ZERO);
        }
        let missing = missing.min(BURST);
        let size = job.spec.template.spec.get().len();
        let (created, failed) =
            if let (Some(indexes), Some(limit)) = (&evaluation.indexes, job.indexes()) {
                let occupied = occupied_indexes(job, indexes, &evaluation.pods);
                let mut new = occupied.missing(missing, limit);
                if let Some(delay) = delay_replacements(&mut new, indexes, &self.clock) {
                    counts.retry = Some(counts.retry.map_or(delay, |retry| retry.min(delay)));
                }
                let template = IndexedTemplate::of(job);
                let pod = |place: usize| template.pod(job, owner, indexes, new[place]);
                self.pod_control.create_each(owner, new.len(), size, pod).await
            } else {
                let mut metadata = job.spec.template.metadata.clone();
                add_finalizer(&mut metadata);
                let prefix = format!("{}-", job.metadata.name);
                let pod: NewPod<'_, RawValue> =
                    NewPod::new(&metadata, owner, "", prefix, &job.spec.template.spec);
                self.pod_control.create_each(owner, missing, size, |_| &pod).await
            };
        counts.active += created;
        counts.failed = failed;
    }

    async fn delete_pods(
        &self,
        owner: &PodOwner<'_>,
        pods: Vec<&Arc<JobPod>>,
        counting: Counting,
        counts: &mut PodCounts,
    ) {
        let requests: Vec<_> =
            pods.into_iter().map(|pod| self.delete_pod(owner, pod, counting)).collect();
        let mut requests = stream::iter(requests).buffer_unordered(MAX_CONCURRENT);
        while let Some(result) = requests.next().await {
            match result {
                Ok(pod) => {
                    counts.active -= 1;
                    counts.ready -= usize::from(pod.is_ready());
                    counts.terminating += 1;
                }
                Err(error) => counts.failed = Some(error),
            }
        }
    }

    async fn delete_pod<'a>(
        &self,
        owner: &PodOwner<'_>,
        pod: &'a Arc<JobPod>,
        counting: Counting,
    ) -> Result<&'a Arc<JobPod>, kube_client::Error> {
        if counting == Counting::Uncounted {
            remove_finalizer(&self.client, pod).await?;
        }
        self.pod_control.delete(owner, &pod.metadata).await?;
        Ok(pod)
    }
}

/// The number of pods that shall be active.
fn wanted_pods(job: &JobView, evaluation: &Evaluation, active: usize) -> usize {
    if job.is_suspended() {
        return 0;
    }
    match job.completions() {
        Some(completions) => {
            completions.saturating_sub(evaluation.succeeded).min(job.parallelism())
        }
        // After the first success, the other pods may end, but are not replaced.
        None if evaluation.succeeded > 0 => active,
        None => job.parallelism(),
    }
}

/// The pods to delete: at least `surplus`, and those without a valid index or with that of another.
fn choose_for_removal<'a>(
    job: &JobView,
    mut pods: Vec<&'a Arc<JobPod>>,
    surplus: usize,
    clock: &Clock,
) -> Vec<&'a Arc<JobPod>> {
    let mut chosen = Vec::new();
    if surplus > 0 || job.indexes().is_some() {
        pods.sort_by(|one, other| compare_progress(one, other, clock));
    }
    if let Some(limit) = job.indexes() {
        let mut kept = BTreeMap::new();
        for pod in pods {
            // The last pod of an index has progressed most.
            match pod.valid_index(limit) {
                Some(index) => chosen.extend(kept.insert(index, pod)),
                None => chosen.push(pod),
            }
        }
        pods = kept.into_values().collect();
        pods.sort_by(|one, other| compare_progress(one, other, clock));
    }
    let more = surplus.saturating_sub(chosen.len());
    chosen.extend(pods.into_iter().take(more));
    chosen
}

/// `Less` if `one` is deleted before `other`.
///
/// Upstream: `controller_utils.go` `ActivePods`
fn compare_progress(one: &JobPod, other: &JobPod, clock: &Clock) -> Ordering {
    let phase = |pod: &JobPod| match pod.status.phase.as_str() {
        "Unknown" => 1,
        "Running" => 2,
        _ => 0,
    };
    let key = |pod: &JobPod| (!pod.spec.node_name.is_empty(), phase(pod), pod.is_ready());
    let ready_for = |pod: &JobPod| {
        let since = pod.ready_condition().filter(|it| it.status == "True");
        let since = since.and_then(|it| it.last_transition_time.as_ref());
        since.map_or(Duration::ZERO, |since| time::since(clock, since))
    };
    let age = |pod: &JobPod| {
        let since = pod.metadata.creation_timestamp.as_ref();
        since.map_or(Duration::ZERO, |since| time::since(clock, since))
    };
    key(one)
        .cmp(&key(other))
        .then_with(|| ready_for(one).cmp(&ready_for(other)))
        .then_with(|| other.restarts().cmp(&one.restarts()))
        .then_with(|| age(one).cmp(&age(other)))
        .then_with(|| one.metadata.uid.cmp(&other.metadata.uid))
}

/// The indexes that need no new pod.
fn occupied_indexes(job: &JobView, indexes: &Indexes, pods: &[Arc<JobPod>]) -> IndexSet {
    let mut occupied = indexes.succeeded.union(&active_indexes(pods));
    if job.replaces_only_failed() {
        let ending = pods.iter().filter(|pod| pod.is_terminating());
        occupied = occupied.union(&IndexSet::of(ending.filter_map(|pod| pod.index())));
    }
    match &indexes.failed {
        Some(failed) => occupied.union(failed),
        None => occupied,
    }
}

/// Leaves out the indexes whose failed pod cannot be replaced yet, and returns the shortest delay.
fn delay_replacements(new: &mut Vec<usize>, indexes: &Indexes, clock: &Clock) -> Option<Duration> {
    let mut shortest = None;
    new.retain(|index| {
        let Some(failed) = indexes.replaced.get(index) else { return true };
        let delay = backoff::remaining_of_index(failed, clock);
        if !delay.is_zero() {
            shortest = Some(shortest.map_or(delay, |shortest: Duration| shortest.min(delay)));
        }
        delay.is_zero()
    });
    shortest
}

fn add_finalizer(metadata: &mut TemplateMetadata) {
    if !metadata.finalizers.iter().any(|it| it == TRACKING_FINALIZER) {
        metadata.finalizers.push(TRACKING_FINALIZER.to_owned());
    }
}

/// The template of the pods of an indexed Job.
struct IndexedTemplate {
    metadata: TemplateMetadata,
    /// With the variable `JOB_COMPLETION_INDEX` in each container.
    spec: RawFields,
}

/// The pod of an index.
struct IndexedPod<'a> {
    metadata: TemplateMetadata,
    owner: &'a PodOwner<'a>,
    name_prefix: String,
    spec: RawFields,
}

impl Serialize for IndexedPod<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { metadata, owner, name_prefix, spec } = self;
        NewPod::new(metadata, owner, "", name_prefix.clone(), spec).serialize(serializer)
    }
}

impl IndexedTemplate {
    fn of(job: &JobView) -> Self {
        let template = &job.spec.template;
        let mut metadata = template.metadata.clone();
        add_finalizer(&mut metadata);
        let mut spec = RawFields::parse(&template.spec).unwrap_or_default();
        for list in ["initContainers", "containers"] {
            if let Some(Value::Array(mut containers)) = spec.get(list) {
                containers.iter_mut().for_each(add_index_variable);
                spec.set(list, &containers.into());
            }
        }
        Self { metadata, spec }
    }

    /// The pod of an index.
    fn pod<'a>(
        &self,
        job: &JobView,
        owner: &'a PodOwner<'a>,
        indexes: &Indexes,
        index: usize,
    ) -> IndexedPod<'a> {
        let mut metadata = self.metadata.clone();
        metadata.annotations.insert(COMPLETION_INDEX.to_owned(), index.to_string());
        metadata.labels.insert(COMPLETION_INDEX.to_owned(), index.to_string());
        if job.has_limit_per_index() {
            add_failures(&mut metadata, job, indexes.replaced.get(&index));
        }
        let mut spec = self.spec.clone();
        spec.set("hostname", &format!("{}-{index}", job.metadata.name).into());
        IndexedPod { metadata, owner, name_prefix: name_prefix(&job.metadata.name, index), spec }
    }
}

/// Adds the numbers of failures of an index, which continue those of the replaced pod.
fn add_failures(metadata: &mut TemplateMetadata, job: &JobView, replaced: Option<&Arc<JobPod>>) {
    let (mut failures, mut ignored) = (0, 0);
    if let Some(pod) = replaced {
        failures = pod.annotated_count(INDEX_FAILURES);
        ignored = pod.annotated_count(IGNORED_INDEX_FAILURES);
        match action(job, pod) {
            FailureAction::Ignore => ignored += 1,
            _ => failures += 1,
        }
    }
    metadata.annotations.insert(INDEX_FAILURES.to_owned(), failures.to_string());
    if ignored > 0 {
        metadata.annotations.insert(IGNORED_INDEX_FAILURES.to_owned(), ignored.to_string());
    }
}

fn add_index_variable(container: &mut Value) {
    const NAME: &str = "JOB_COMPLETION_INDEX";
    let Some(container) = container.as_object_mut() else { return };
    let variables = container.entry("env").or_insert_with(|| json!([]));
    let Some(variables) = variables.as_array_mut() else { return };
    if variables.iter().any(|variable| variable["name"] == NAME) {
        return;
    }
    let path = format!("metadata.labels['{COMPLETION_INDEX}']");
    variables.push(json!({"name": NAME, "valueFrom": {"fieldRef": {"fieldPath": path}}}));
}

/// The prefix of the generated name of a pod, which contains the whole index.
fn name_prefix(job: &str, index: usize) -> String {
    let suffix = format!("-{index}-");
    let length = job.len().min(MAX_NAME_PREFIX.saturating_sub(suffix.len()));
    format!("{}{suffix}", job.get(..length).unwrap_or(job))
}
