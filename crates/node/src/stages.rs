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
//! is.

mod decode;
mod stage;
mod stage_watch;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::{Map, Value, json};

use crate::requests;
use crate::template::Functions;
use keel::{Clock, Entropy, Timestamp};
use machinery::codec::yaml;
use runtime::informer::Item;
use runtime::recorder::{EventType, Recorder};
use runtime::{Client, Failure, ObjectKey};
use stage::{Patch, Stage, Step};

pub(crate) use stage::StagedKind;
pub(crate) use stage_watch::{StageWatch, StagedObjects, reconcile_crd};

/// The least time between two applications of the same Stage to one object, so that a Stage that still
/// selects an object which it has changed does not run without pause.
const REPEAT_PAUSE: Duration = Duration::from_secs(1);

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

/// The state of an object's Stages.
#[derive(Debug, Default, Clone)]
pub(crate) struct StageState {
    uid: String,
    /// The name of the Stage that will be applied, and the time.
    next: Option<(String, Timestamp)>,
    /// The name of the Stage that was applied last, and the time.
    last: Option<(String, Timestamp)>,
}

/// The result of [`Stages::apply`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StageOutcome {
    /// No Stage selects the object, or has been applied to it.
    NotStaged,
    /// A Stage will be applied after this time, or the object remains as a Stage has left it.
    Staged(Option<Duration>),
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
        let selecting = stages.iter().filter(|it| it.kind == kind && it.selects(&object));
        let selecting: Vec<&Stage> = selecting.collect();
        let state = self.lock().get(item.key()).filter(|state| state.uid == item.uid()).cloned();
        let state = state.unwrap_or_default();
        if selecting.is_empty() {
            if state.last.is_none() {
                return Ok(StageOutcome::NotStaged);
            }
            self.change(item, |state| state.next = None);
            return Ok(StageOutcome::Staged(None));
        }
        let planned = state.next.as_ref();
        let known = selecting.iter().find(|it| planned.is_some_and(|(name, _)| *name == it.name));
        let stage = known.copied().unwrap_or_else(|| self.choose(&selecting, &object));
        let now = self.clock.now();
        let due = match state.next {
            Some((name, due)) if name == stage.name => due,
            _ => self.due(stage, &object, &state, now),
        };
        let wait = due.since(now);
        if !wait.is_zero() {
            self.change(item, |state| state.next = Some((stage.name.clone(), due)));
            return Ok(StageOutcome::Staged(Some(wait)));
        }
        self.change(item, |state| {
            (state.next, state.last) = (None, Some((stage.name.clone(), now)));
        });
        if let Err(error) = self.run(stage, item, &object, functions).await? {
            let message = format!("Stage {} cannot be applied: {error}", stage.name);
            tracing::warn!(stage = stage.name, object = %item.key(), error, "cannot apply a stage");
            let regarding = reference(kind, item);
            self.recorder.record_about(regarding, EventType::Warning, "StageFailed", &message);
        }
        Ok(StageOutcome::Staged(None))
    }

    /// Forgets an object that was deleted.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }

    /// Chooses a Stage by weight. Upstream: `pkg/utils/lifecycle/lifecycle.go`, `Match`.
    fn choose<'a>(&self, stages: &[&'a Stage], object: &Value) -> &'a Stage {
        let weights: Vec<u64> = stages.iter().map(|stage| stage.weight(object)).collect();
        let total: u64 = weights.iter().sum();
        if total == 0 {
            let index = self.entropy.below(stages.len() as u64);
            return stages[usize::try_from(index).unwrap_or_default()];
        }
        let mut drawn = self.entropy.below(total);
        for (stage, weight) in stages.iter().zip(weights) {
            if drawn < weight {
                return stage;
            }
            drawn -= weight;
        }
        stages[stages.len() - 1]
    }

    fn due(&self, stage: &Stage, object: &Value, state: &StageState, now: Timestamp) -> Timestamp {
        let due = now + stage.delay(object, now, &self.entropy);
        match &state.last {
            Some((name, at)) if *name == stage.name => due.max(*at + REPEAT_PAUSE),
            _ => due,
        }
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

    fn change(&self, item: &Item, change: impl FnOnce(&mut StageState)) {
        let mut states = self.lock();
        let state = states.entry(item.key().clone()).or_default();
        if state.uid != item.uid() {
            *state = StageState { uid: item.uid().to_owned(), ..StageState::default() };
        }
        change(state);
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
    if patch.root.is_empty() {
        return Ok(body);
    }
    if patch.media_type != requests::JSON_PATCH {
        return Ok(Value::Object(Map::from_iter([(patch.root.clone(), body)])));
    }
    let mut operations = body;
    for operation in operations.as_array_mut().into_iter().flatten() {
        let path = operation["path"].as_str().unwrap_or_default();
        operation["path"] = json!(format!("/{}{path}", patch.root));
    }
    Ok(operations)
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
