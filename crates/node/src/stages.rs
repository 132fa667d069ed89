//! KWOK's Stage objects: rules for the life of pods and nodes.
//!
//! If the CRD `stages.kwok.x-k8s.io` exists, its objects are read, and a Stage that selects a pod or a
//! node of this crate is applied: after its delay, its steps are executed. Of several Stages one is
//! chosen by weight.
//!
//! The built-in behavior corresponds to KWOK's stages `pod-ready`, `pod-complete` and `pod-delete`. A
//! Stage with one of these names replaces that part of it. A pod or node to which a Stage was applied
//! is otherwise left as the Stage has left it; the Lease of a node is renewed in any case.
//!
//! Not supported are CEL expressions, steps that `apply` other objects, impersonation, kinds other
//! than Pod and Node, and what [`template`](crate::template) and [`jq`](crate::jq) do not support. A
//! Stage that uses one of these, or is wrong, is ignored, with an Event about the Stage that says why.
//! If a template fails only for some object, there is an Event about that object, which remains as it
//! is; the Stage is applied again after a growing delay.
//!
//! Each step sees the object that the step before has written, and changes no other object of its
//! name. If others change the object between two steps, or a request fails, the Stage goes on with the
//! step that was not done, also if the steps before it have made the Stage select the object no more.

mod decode;
mod stage;
mod stage_state;
mod stage_watch;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::{Map, Value, json};

use crate::requests;
use crate::template::Functions;
use keel::{Backoff, Clock, Entropy, Timestamp};
use machinery::codec::yaml;
use runtime::informer::Item;
use runtime::recorder::{EventType, Recorder};
use runtime::{Client, Failure, ObjectKey};
use stage::{Patch, SelectedMetadata, Stage, Step};
use stage_state::Part;

pub(crate) use stage::StagedKind;
pub(crate) use stage_state::StageState;
pub(crate) use stage_watch::{StageWatch, StagedObjects, reconcile_crd};

/// The delay after which a Stage that has failed for an object is applied again: it doubles with each
/// failure.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The longest delay after failures.
const MAX_RETRY_DELAY: Duration = Duration::from_mins(5);

/// See the [module documentation](self).
pub(crate) struct Stages {
    pub client: Client,
    pub recorder: Recorder,
    pub clock: Clock,
    pub entropy: Entropy,
    /// Replaced as a whole.
    pub current: RwLock<Arc<Vec<Stage>>>,
    /// The generation of each Stage, by its uid, that was reported as not supported.
    pub reported: Mutex<HashMap<String, i64>>,
    /// Of pods and nodes; only pods have a namespace. Not locked while a request is sent.
    pub states: Mutex<HashMap<ObjectKey, StageState>>,
}

/// The result of [`Stages::apply`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StageOutcome {
    /// No Stage selects the object, or has been applied to it.
    NotStaged,
    /// A Stage will be applied after this time, or the object remains as a Stage has left it.
    Staged(Option<Duration>),
    /// A Stage has failed, and will be applied again after this time.
    Failed(Duration),
}

impl Stages {
    /// Whether a Stage replaces the built-in stage with this name.
    pub(crate) fn replaces(&self, kind: StagedKind, name: &str) -> bool {
        self.current().iter().any(|stage| stage.kind == kind && stage.name == name)
    }

    /// Applies the Stage that selects an object, if it is due.
    pub(crate) async fn apply(
        &self,
        kind: StagedKind,
        item: &Item,
        functions: Functions<'_>,
    ) -> Result<StageOutcome, Failure> {
        let stages = self.current();
        if !stages.iter().any(|stage| stage.kind == kind) {
            return Ok(StageOutcome::NotStaged);
        }
        let now = self.clock.now();
        let state = self.lock().get(item.key()).filter(|state| state.uid == item.uid()).cloned();
        let state = state.unwrap_or_default();
        if let Some((stage, step)) = state.interrupted(&stages) {
            return self.execute(stage, item, item.decode()?, functions, step).await;
        }
        let candidates = candidates(&stages, kind, item);
        let object: Value = if candidates.is_empty() { Value::Null } else { item.decode()? };
        let weight = |stage| Some((stage, self.weight(stage, item, &object, &state, now)?));
        let selecting: Vec<(&Stage, u64)> = candidates.into_iter().filter_map(weight).collect();
        if selecting.is_empty() {
            if state.last.is_none() {
                return Ok(StageOutcome::NotStaged);
            }
            self.change(item, |state| state.next = None);
            return Ok(StageOutcome::Staged(None));
        }
        let planned = state.next.as_ref();
        let is_planned = |stage: &Stage| planned.is_some_and(|(name, _)| *name == stage.name);
        let known = selecting.iter().map(|(stage, _)| *stage).find(|stage| is_planned(stage));
        let stage = known.unwrap_or_else(|| self.choose(&selecting));
        if let Some((_, wait)) = state.failed_part(stage, now) {
            return Ok(StageOutcome::Failed(wait));
        }
        let due = match &state.next {
            Some((name, due)) if *name == stage.name => *due,
            _ => match stage.delay(&object, now, &self.entropy) {
                Ok(delay) => state.due(stage, now + delay, now),
                Err(error) => {
                    return Ok(StageOutcome::Failed(self.fail(stage, item, Part::Steps, &error)));
                }
            },
        };
        let wait = due.since(now);
        if !wait.is_zero() {
            self.change(item, |state| state.next = Some((stage.name.clone(), due)));
            return Ok(StageOutcome::Staged(Some(wait)));
        }
        if let Some(names) = self.change(item, |state| state.add_application(stage, now)) {
            tracing::warn!(object = %item.key(), stages = names, "a loop of stages is slowed down");
        }
        self.execute(stage, item, object, functions, 0).await
    }

    /// Executes the steps of a Stage from the number `first` on, and records the outcome.
    async fn execute(
        &self,
        stage: &Stage,
        item: &Item,
        object: Value,
        functions: Functions<'_>,
        first: usize,
    ) -> Result<StageOutcome, Failure> {
        let Err((step, error)) = self.run(stage, item, object, functions, first).await else {
            self.change(item, |state| {
                state.end();
                state.failures.remove(&stage.name);
            });
            return Ok(StageOutcome::Staged(None));
        };
        let error = match error {
            StepError::Wrong(error) => {
                self.change(item, StageState::end);
                return Ok(StageOutcome::Failed(self.fail(stage, item, Part::Steps, &error)));
            }
            StepError::Request(error) => error,
        };
        let now = self.clock.now();
        self.change(item, |state| state.interrupt(stage, step, now));
        if !requests::is_conflict(&error) {
            return Err(error.into());
        }
        tracing::debug!(stage = stage.name, object = %item.key(), step, %error, "a stage waits");
        // The event of the change comes earlier, as a rule.
        Ok(StageOutcome::Failed(RETRY_DELAY))
    }

    /// Reports the failure of a Stage for an object, unless it was reported before, and returns the
    /// time after which the Stage is applied again.
    fn fail(&self, stage: &Stage, item: &Item, part: Part, error: &str) -> Duration {
        let (now, stages) = (self.clock.now(), self.current());
        let backoff = Backoff::new(RETRY_DELAY, MAX_RETRY_DELAY, self.entropy.clone());
        let (wait, error) = self.change(item, |state| {
            state.failures.retain(|name, _| stages.iter().any(|it| it.name == *name));
            state.add_failure(stage, part, error, |count| backoff.delay_after(count), now)
        });
        if let Some(error) = error {
            let message = format!("Stage {} cannot be applied: {error}", stage.name);
            tracing::warn!(stage = stage.name, object = %item.key(), error, "cannot apply a stage");
            let regarding = reference(stage.kind, item);
            self.recorder.record_about(regarding, EventType::Warning, "StageFailed", &message);
        }
        wait
    }

    /// Forgets an object that was deleted.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }

    /// The weight of a Stage that selects an object. A Stage with a query that fails selects nothing;
    /// the query is evaluated again after a growing delay.
    fn weight(
        &self,
        stage: &Stage,
        item: &Item,
        object: &Value,
        state: &StageState,
        now: Timestamp,
    ) -> Option<u64> {
        if matches!(state.failed_part(stage, now), Some((Part::Selector, _))) {
            return None;
        }
        stage.weight(object).unwrap_or_else(|error| {
            self.fail(stage, item, Part::Selector, &error);
            None
        })
    }

    /// Chooses a Stage by weight. Upstream: `pkg/utils/lifecycle/lifecycle.go`, `Match`.
    fn choose<'a>(&self, stages: &[(&'a Stage, u64)]) -> &'a Stage {
        let total = stages.iter().fold(0, |sum: u64, (_, weight)| sum.saturating_add(*weight));
        if total == 0 {
            let index = self.entropy.below(stages.len() as u64);
            return stages[usize::try_from(index).unwrap_or_default()].0;
        }
        let mut drawn = self.entropy.below(total);
        for (stage, weight) in stages {
            if drawn < *weight {
                return stage;
            }
            drawn -= weight;
        }
        stages[stages.len() - 1].0
    }

    /// Executes the steps of a Stage from the number `first` on. An error has the number of its step.
    async fn run(
        &self,
        stage: &Stage,
        item: &Item,
        mut object: Value,
        functions: Functions<'_>,
        first: usize,
    ) -> Result<(), (usize, StepError)> {
        let path = match stage.kind {
            StagedKind::Node => format!("/api/v1/nodes/{}", item.name()),
            StagedKind::Pod => {
                format!("/api/v1/namespaces/{}/pods/{}", item.namespace(), item.name())
            }
        };
        for (number, step) in stage.steps.iter().enumerate().skip(first) {
            let written = match step {
                Step::Event { event_type, reason, message } => {
                    let regarding = reference(stage.kind, item);
                    self.recorder.record_about(regarding, *event_type, reason, message);
                    continue;
                }
                Step::Delete => {
                    let deleted = requests::delete_now(&self.client, &path, item.uid()).await;
                    return requests::unless_missing(deleted)
                        .map_err(|error| (number, StepError::from(error)));
                }
                Step::Finalizers(change) => {
                    let Some(patch) = change.patch(&object) else { continue };
                    requests::patch_and_read(&self.client, &path, requests::MERGE, &patch).await
                }
                Step::Patch(patch) => {
                    let body = render(patch, &object, item.uid(), functions)
                        .map_err(|error| (number, StepError::Wrong(error)))?;
                    let path = match patch.subresource.as_str() {
                        "" => path.clone(),
                        subresource => format!("{path}/{subresource}"),
                    };
                    requests::patch_and_read(&self.client, &path, patch.media_type, &body).await
                }
            };
            match written {
                Ok(changed) => object = changed,
                // The object was deleted.
                Err(error) if requests::has_code(&error, 404) => {}
                Err(error) => return Err((number, StepError::from(error))),
            }
        }
        Ok(())
    }

    fn change<T>(&self, item: &Item, change: impl FnOnce(&mut StageState) -> T) -> T {
        let mut states = self.lock();
        let state = states.entry(item.key().clone()).or_default();
        if state.uid != item.uid() {
            *state = StageState::new(item.uid());
        }
        change(state)
    }

    fn current(&self) -> Arc<Vec<Stage>> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, StageState>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The Stages that may select an object by its labels and annotations.
fn candidates<'a>(stages: &'a [Stage], kind: StagedKind, item: &Item) -> Vec<&'a Stage> {
    let metadata = SelectedMetadata::of(item);
    let may_select = |stage: &&Stage| stage.kind == kind && stage.may_select(&metadata);
    stages.iter().filter(may_select).collect()
}

/// Why a step was not executed.
enum StepError {
    /// The Stage is wrong for this object. It is reported.
    Wrong(String),
    /// The object was changed by others, or the request has failed. The step is tried again.
    Request(requests::Error),
}

impl From<requests::Error> for StepError {
    fn from(error: requests::Error) -> Self {
        let is_refused = requests::has_code(&error, 422) || requests::has_code(&error, 400);
        if is_refused && !requests::is_conflict(&error) {
            return Self::Wrong(error.to_string());
        }
        Self::Request(error)
    }
}

/// The body of a patch of the object with this uid, and of no other object of the same name.
fn render(patch: &Patch, object: &Value, uid: &str, functions: Functions) -> Result<Value, String> {
    let text = patch.template.render(object, functions)?;
    let body = yaml::decode(text.as_bytes()).map_err(|error| format!("{error}: {text}"))?.value;
    if patch.media_type == requests::JSON_PATCH {
        return operations(body, &patch.root, uid);
    }
    let mut body = match patch.root.as_str() {
        "" => body,
        root => Value::Object(Map::from_iter([(root.to_owned(), body)])),
    };
    if let Some(fields) = body.as_object_mut()
        && let Some(metadata) =
            fields.entry("metadata").or_insert_with(|| json!({})).as_object_mut()
    {
        metadata.insert("uid".to_owned(), json!(uid));
    }
    Ok(body)
}

/// The operations of a JSON patch, with paths below `root`. The last one is refused for an object with
/// another uid.
fn operations(body: Value, root: &str, uid: &str) -> Result<Value, String> {
    let Value::Array(mut operations) = body else {
        return Err(format!("a JSON patch must be a list of operations, not {body}"));
    };
    for operation in &mut operations {
        let Some(fields) = operation.as_object_mut() else {
            return Err(format!("an operation of a JSON patch must be an object, not {operation}"));
        };
        if root.is_empty() {
            continue;
        }
        let Some(path) = fields.get("path").and_then(Value::as_str) else {
            return Err(format!("an operation of a JSON patch has no path: {operation}"));
        };
        let path = format!("/{root}{path}");
        fields.insert("path".to_owned(), Value::String(path));
    }
    operations.push(json!({"op": "replace", "path": "/metadata/uid", "value": uid}));
    Ok(Value::Array(operations))
}

fn reference(kind: StagedKind, item: &Item) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some(if kind == StagedKind::Pod { "Pod" } else { "Node" }.to_owned()),
        name: Some(item.name().to_owned()),
        namespace: Some(item.namespace().to_owned()).filter(|namespace| !namespace.is_empty()),
        uid: Some(item.uid().to_owned()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stages_for_an_object_are_known_before_it_is_decoded() {
        let stage = |name: &str, selector: Value| {
            let spec = json!({"resourceRef": {"kind": "Pod"}, "selector": selector});
            Stage::compile(&json!({"metadata": {"name": name}, "spec": spec})).unwrap().unwrap()
        };
        let stages = [
            stage("all", json!({})),
            stage("label", json!({"matchLabels": {"a": "1"}})),
            stage("other", json!({"matchLabels": {"a": "2"}})),
            stage("both", json!({"matchLabels": {"a": "1"}, "matchAnnotations": {"b": "1"}})),
            stage("annotation", json!({"matchAnnotations": {"b": "2"}})),
        ];
        // The number is too large for a value.
        let item =
            r#"{"metadata":{"name":"p","labels":{"a":"1"},"annotations":{"b":"2"}},"n":1e999}"#;
        let item = Item::parse(item).unwrap();
        assert!(item.decode::<Value>().is_err());
        let names = |kind| -> Vec<&str> {
            candidates(&stages, kind, &item).into_iter().map(|it| it.name.as_str()).collect()
        };
        assert_eq!(names(StagedKind::Pod), ["all", "label", "annotation"]);
        assert_eq!(names(StagedKind::Node), [""; 0]);
    }

    #[test]
    fn the_operations_of_a_json_patch_are_checked() {
        let add = |path: &str| json!({"op": "add", "path": path, "value": 1});
        let uid = json!({"op": "replace", "path": "/metadata/uid", "value": "u"});
        for (root, expect) in [("status", "/status/a"), ("", "/a")] {
            let found = operations(json!([add("/a")]), root, "u");
            assert_eq!(found, Ok(json!([add(expect), uid])));
        }
        for (body, expect) in [
            (json!([7]), "an operation of a JSON patch must be an object, not 7"),
            (json!(["a", 7]), "an operation of a JSON patch must be an object, not \"a\""),
            (json!([null]), "an operation of a JSON patch must be an object, not null"),
            (json!({"op": 1}), "a JSON patch must be a list of operations, not {\"op\":1}"),
            (json!([{"path": 1}]), "an operation of a JSON patch has no path: {\"path\":1}"),
        ] {
            assert_eq!(operations(body, "status", "u").unwrap_err(), expect);
        }
    }
}
