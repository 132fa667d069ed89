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

mod decode;
mod stage;
mod stage_state;
mod stage_watch;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::{Map, Value};

use crate::requests;
use crate::template::Functions;
use keel::{Backoff, Clock, Entropy, Timestamp};
use machinery::codec::yaml;
use runtime::informer::Item;
use runtime::recorder::{EventType, Recorder};
use runtime::{Client, Failure, ObjectKey};
use stage::{Patch, Stage, Step};
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
        let object: Value = item.decode()?;
        let now = self.clock.now();
        let state = self.lock().get(item.key()).filter(|state| state.uid == item.uid()).cloned();
        let state = state.unwrap_or_default();
        let of_kind = stages.iter().filter(|stage| stage.kind == kind);
        let weight = |stage| Some((stage, self.weight(stage, item, &object, &state, now)?));
        let selecting: Vec<(&Stage, u64)> = of_kind.filter_map(weight).collect();
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
        if let Err(error) = self.run(stage, item, &object, functions).await? {
            return Ok(StageOutcome::Failed(self.fail(stage, item, Part::Steps, &error)));
        }
        if state.failures.contains_key(&stage.name) {
            self.change(item, |state| drop(state.failures.remove(&stage.name)));
        }
        Ok(StageOutcome::Staged(None))
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

    /// Executes the steps of a Stage. The inner error is one of the Stage itself.
    async fn run(
        &self,
        stage: &Stage,
        item: &Item,
        object: &Value,
        functions: Functions<'_>,
    ) -> Result<Result<(), String>, Failure> {
        let path = match stage.kind {
            StagedKind::Node => format!("/api/v1/nodes/{}", item.name()),
            StagedKind::Pod => {
                format!("/api/v1/namespaces/{}/pods/{}", item.namespace(), item.name())
            }
        };
        for step in &stage.steps {
            let sent = match step {
                Step::Event { event_type, reason, message } => {
                    let regarding = reference(stage.kind, item);
                    self.recorder.record_about(regarding, *event_type, reason, message);
                    continue;
                }
                Step::Delete => requests::delete_now(&self.client, &path, item.uid()).await,
                Step::Finalizers(change) => {
                    let Some(patch) = change.patch(object) else { continue };
                    requests::patch(&self.client, &path, requests::MERGE, &patch).await
                }
                Step::Patch(patch) => {
                    let body = match render(patch, object, functions) {
                        Ok(body) => body,
                        Err(error) => return Ok(Err(error)),
                    };
                    let path = match patch.subresource.as_str() {
                        "" => path.clone(),
                        subresource => format!("{path}/{subresource}"),
                    };
                    requests::patch(&self.client, &path, patch.media_type, &body).await
                }
            };
            match sent {
                Err(error)
                    if requests::has_code(&error, 422) || requests::has_code(&error, 400) =>
                {
                    return Ok(Err(error.to_string()));
                }
                sent => requests::unless_outdated(sent)?,
            }
            if matches!(step, Step::Delete) {
                break;
            }
        }
        Ok(Ok(()))
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

/// The body of a patch.
fn render(patch: &Patch, object: &Value, functions: Functions) -> Result<Value, String> {
    let text = patch.template.render(object, functions)?;
    let body = yaml::decode(text.as_bytes()).map_err(|error| format!("{error}: {text}"))?.value;
    if patch.media_type == requests::JSON_PATCH {
        return operations(body, &patch.root);
    }
    if patch.root.is_empty() {
        return Ok(body);
    }
    Ok(Value::Object(Map::from_iter([(patch.root.clone(), body)])))
}

/// The operations of a JSON patch, with paths below `root`.
fn operations(body: Value, root: &str) -> Result<Value, String> {
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
    use serde_json::json;

    use super::*;

    #[test]
    fn the_operations_of_a_json_patch_are_checked() {
        let add = |path: &str| json!([{"op": "add", "path": path, "value": 1}]);
        assert_eq!(operations(add("/a"), "status"), Ok(add("/status/a")));
        assert_eq!(operations(add("/a"), ""), Ok(add("/a")));
        for (body, expect) in [
            (json!([7]), "an operation of a JSON patch must be an object, not 7"),
            (json!(["a", 7]), "an operation of a JSON patch must be an object, not \"a\""),
            (json!([null]), "an operation of a JSON patch must be an object, not null"),
            (json!({"op": 1}), "a JSON patch must be a list of operations, not {\"op\":1}"),
            (json!([{"path": 1}]), "an operation of a JSON patch has no path: {\"path\":1}"),
        ] {
            assert_eq!(operations(body, "status").unwrap_err(), expect);
        }
    }
}
