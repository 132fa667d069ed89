//! [`StageWatch`]: follows the CRD of Stages, and the Stages while it exists.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{Notify, mpsc};

use super::Stages;
use super::stage::Stage;
use keel::{Clock, Entropy, Tasks};
use machinery::GroupVersion;
use runtime::client::source_of;
use runtime::informer::{
    EventHandler, HandlerOptions, Indexer, InformerFactory, InformerOptions, Item, Scope,
};
use runtime::recorder::EventType;
use runtime::{Action, Client, Failure, Request};

const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// See the [module documentation](self). It is the context of [`reconcile_crd`].
pub(crate) struct StageWatch {
    pub stages: Arc<Stages>,
    pub reader: Client,
    pub clock: Clock,
    pub entropy: Entropy,
    pub tasks: Tasks,
    pub crds: Arc<Indexer>,
    pub staged_objects: StagedObjects,
    /// The tasks of the informer of Stages, while there is one.
    pub running: Mutex<Option<Tasks>>,
}

/// The objects that are reconciled when the Stages change.
#[derive(Clone)]
pub(crate) struct StagedObjects {
    pub pods: Arc<Indexer>,
    pub nodes: Arc<Indexer>,
    pub pod_requests: mpsc::Sender<Request>,
    pub node_requests: mpsc::Sender<Request>,
}

impl StagedObjects {
    async fn reconcile_all(&self) {
        for (objects, requests) in
            [(&self.nodes, &self.node_requests), (&self.pods, &self.pod_requests)]
        {
            for item in objects.list() {
                if requests.send(item.key().clone()).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Starts or stops the informer of Stages.
pub(crate) async fn reconcile_crd(
    request: Request,
    watch: Arc<StageWatch>,
) -> Result<Action, Failure> {
    let crd = watch.crds.get(&request);
    let is_served = crd.as_ref().map(is_established).transpose()?.unwrap_or_default();
    let running = watch.running.lock().unwrap_or_else(PoisonError::into_inner).take();
    let running = match (is_served, running) {
        (true, None) => Some(watch.start()),
        (false, Some(tasks)) => {
            if let Err(error) = tasks.stop(STOP_TIMEOUT).await {
                // Their informer is gone with its CRD; what is left of it ends with the process.
                tracing::warn!(%error, "the watch of the stages has not stopped");
            }
            watch.stages.replace(Vec::new());
            watch.staged_objects.reconcile_all().await;
            None
        }
        (_, running) => running,
    };
    *watch.running.lock().unwrap_or_else(PoisonError::into_inner) = running;
    Ok(Action::Done)
}

fn is_established(crd: &Item) -> Result<bool, Failure> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Crd {
        status: Status,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Status {
        /// Null in a CRD that is new.
        conditions: Option<Vec<Condition>>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Condition {
        #[serde(rename = "type")]
        type_: String,
        status: String,
    }
    let crd: Crd = crd.decode()?;
    let mut conditions = crd.status.conditions.iter().flatten();
    Ok(conditions.any(|it| it.type_ == "Established" && it.status == "True"))
}

impl StageWatch {
    fn start(&self) -> Tasks {
        let tasks = self.tasks.child("stages");
        let factory = InformerFactory::new(
            source_of(self.reader.clone()),
            InformerOptions::default(),
            &self.clock,
            &self.entropy,
            &tasks,
        );
        let scope = Scope::all(GroupVersion::new("kwok.x-k8s.io", "v1alpha1"), "stages");
        let informer = factory.informer(&scope);
        let changes = Arc::<StageChanges>::default();
        informer.add_handler(Arc::<StageChanges>::clone(&changes), &HandlerOptions::default());
        let mut has_synced = informer.has_synced();
        factory.start();
        let (stages, staged_objects) = (Arc::clone(&self.stages), self.staged_objects.clone());
        let shutdown = tasks.shutdown();
        tasks.spawn("stages", async move {
            let follow = async {
                has_synced.wait().await;
                loop {
                    changes.0.notified().await;
                    stages.compile(&informer.indexer().list());
                    staged_objects.reconcile_all().await;
                }
            };
            tokio::select! {
                () = follow => {}
                () = shutdown => {}
            }
            drop(factory);
        });
        tasks
    }
}

/// Notifies of changed Stages. The changes since the last notification are one: all Stages are compiled,
/// and all objects are reconciled, once for all of them.
#[derive(Default)]
struct StageChanges(Notify);

impl EventHandler for StageChanges {
    fn on_add(&self, _item: &Item, _is_initial: bool) {
        self.0.notify_one();
    }

    fn on_update(&self, _old: &Item, _new: &Item) {
        self.0.notify_one();
    }

    fn on_delete(&self, _item: &Item, _is_final_state_unknown: bool) {
        self.0.notify_one();
    }

    fn is_inline(&self) -> bool {
        true
    }
}

impl Stages {
    fn replace(&self, stages: Vec<Stage>) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(stages);
    }

    /// Compiles all Stages, and reports those that are not supported.
    fn compile(&self, items: &[Item]) {
        let (mut stages, mut ignored) = (Vec::new(), HashMap::new());
        for item in items {
            let object = item.decode::<Value>().map_err(|error| error.to_string());
            match object.as_ref().map_err(String::clone).and_then(Stage::compile) {
                Ok(stage) => stages.extend(stage),
                Err(error) => {
                    let generation =
                        object.ok().and_then(|it| it["metadata"]["generation"].as_i64());
                    let generation = generation.unwrap_or_default();
                    ignored.insert(item.uid().to_owned(), generation);
                    if self.lock_reported().get(item.uid()) != Some(&generation) {
                        self.report_ignored(item, &error);
                    }
                }
            }
        }
        *self.lock_reported() = ignored;
        self.replace(stages);
    }

    fn report_ignored(&self, item: &Item, error: &str) {
        tracing::warn!(stage = item.name(), error, "a stage is ignored");
        let regarding = ObjectReference {
            api_version: Some("kwok.x-k8s.io/v1alpha1".to_owned()),
            kind: Some("Stage".to_owned()),
            name: Some(item.name().to_owned()),
            uid: Some(item.uid().to_owned()),
            ..ObjectReference::default()
        };
        let message = format!("the stage is ignored: {error}");
        let (warning, reason) = (EventType::Warning, "UnsupportedStage");
        self.recorder.record_about(regarding, warning, reason, &message);
    }

    fn lock_reported(&self) -> MutexGuard<'_, HashMap<String, i64>> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    #[tokio::test]
    async fn changes_that_come_together_are_one() {
        let (changes, stage) = (StageChanges::default(), r#"{"metadata":{"name":"s"}}"#);
        let stage = Item::parse(stage).unwrap();
        changes.on_add(&stage, true);
        changes.on_update(&stage, &stage);
        changes.on_delete(&stage, false);
        let is_notified = async || {
            tokio::select! {
                biased;
                () = changes.0.notified() => true,
                () = ready(()) => false,
            }
        };
        assert_eq!([is_notified().await, is_notified().await], [true, false]);
        changes.on_add(&stage, false);
        assert!(is_notified().await);
    }
}
