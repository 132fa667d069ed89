//! [`StageWatch`]: follows the CRD of Stages, and the Stages while it exists.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;

use super::Stages;
use super::stage::Stage;
use keel::{Clock, Entropy, Tasks};
use machinery::GroupVersion;
use runtime::client::source_of;
use runtime::informer::{HandlerOptions, Indexer, InformerFactory, InformerOptions, Item, Scope};
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
    pub followers: Followers,
    /// The tasks of the informer of Stages, while there is one.
    pub running: Mutex<Option<Tasks>>,
}

/// The objects that are reconciled when the Stages change.
#[derive(Clone)]
pub(crate) struct Followers {
    pub pods: Arc<Indexer>,
    pub nodes: Arc<Indexer>,
    pub pod_requests: mpsc::Sender<Request>,
    pub node_requests: mpsc::Sender<Request>,
}

impl Followers {
    async fn wake(&self) {
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
    let is_served = watch.crds.get(&request).is_some_and(|crd| is_established(&crd));
    let running = watch.running.lock().unwrap_or_else(PoisonError::into_inner).take();
    let running = match (is_served, running) {
        (true, None) => Some(watch.start()),
        (false, Some(tasks)) => {
            let _ = tasks.stop(STOP_TIMEOUT).await;
            watch.stages.replace(Vec::new());
            watch.followers.wake().await;
            None
        }
        (_, running) => running,
    };
    *watch.running.lock().unwrap_or_else(PoisonError::into_inner) = running;
    Ok(Action::Done)
}

fn is_established(crd: &Item) -> bool {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Crd {
        status: Status,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Status {
        conditions: Vec<Condition>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Condition {
        #[serde(rename = "type")]
        type_: String,
        status: String,
    }
    let crd: Crd = crd.decode().unwrap_or_default();
    crd.status.conditions.iter().any(|it| it.type_ == "Established" && it.status == "True")
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
        let mut events = informer.subscribe(&HandlerOptions::default());
        factory.start();
        let (stages, followers) = (Arc::clone(&self.stages), self.followers.clone());
        let shutdown = tasks.shutdown();
        tasks.spawn("followers of stages", async move {
            let follow = async {
                while events.next().await.is_some() {
                    stages.compile(&informer.indexer().list());
                    followers.wake().await;
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

impl Stages {
    fn replace(&self, stages: Vec<Stage>) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(stages);
    }

    /// Compiles all Stages, and reports those that are not supported.
    fn compile(&self, items: &[Item]) {
        let (mut stages, mut ignored) = (Vec::new(), HashMap::new());
        for item in items {
            let object = item.decode::<Value>().unwrap_or_default();
            match Stage::compile(&object) {
                Ok(stage) => stages.extend(stage),
                Err(error) => {
                    let generation = object["metadata"]["generation"].as_i64().unwrap_or_default();
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
