//! [`SimulatedNodes`]: runs the simulated nodes of a plane until they are stopped.
//!
//! There is one informer of pods and one of nodes for all of them.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Deserialize;
use tokio::sync::{OnceCell, mpsc};

use crate::commands::NodeFiles;
use crate::node_controller::{self, NodeContext};
use crate::node_ledger::NodeLedger;
use crate::node_object::{self, Capacity, SIMULATED_LABEL};
use crate::node_states::NodeStates;
use crate::node_view::NodeView;
use crate::pod_addresses::PodAddresses;
use crate::pod_config::PodConfig;
use crate::pod_controller::{self, PodContext};
use crate::pod_events::PodEvents;
use crate::requests;
use crate::roles;
use crate::stages::{self, StageWatch, StagedObjects, Stages};
use keel::{Clock, Entropy, Tasks, UncleanStop};
use machinery::selector::FieldSelector;
use runtime::client::json_requests;
use runtime::informer::{Item, Selection};
use runtime::kube_client;
use runtime::{BackgroundManager, Connect, Controller, Manager, ManagerOptions, Request};

/// The time limit for the nodes to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// The number of statuses of pods that are written at the same time.
const POD_WORKERS: usize = 32;

/// The number of nodes that are registered or renewed at the same time.
const NODE_WORKERS: usize = 32;

/// The source of the events about pods and nodes, as in Kubernetes.
const KUBELET: &str = "kubelet";

/// The name of the CRD of KWOK's Stages.
const STAGE_CRD: &str = "stages.kwok.x-k8s.io";

/// The index of pods by the name of their node.
pub(crate) const NODE_INDEX: &str = "node";

/// The settings of [`SimulatedNodes`].
#[derive(Clone)]
pub struct SimulatedNodesOptions {
    /// The number of nodes, which are named `sampan-0`, `sampan-1` and so on. Nodes of a former run
    /// with a larger number are deleted.
    pub count: usize,
    /// The resources of each node.
    pub capacity: Capacity,
    /// The time for which a pod that is being deleted runs on, if its controller may give its name to
    /// the next pod, as a `StatefulSet` does. It begins with the second of the deletion.
    pub termination: Duration,
    /// Connects to the plane.
    pub connect: Connect,
    /// The parent of the tasks.
    pub tasks: Tasks,
    /// The plane's clock.
    pub clock: Clock,
    /// The plane's source of randomness.
    pub entropy: Entropy,
}

/// See the [module documentation](self).
#[derive(Debug)]
pub struct SimulatedNodes(BackgroundManager);

impl SimulatedNodes {
    /// Starts the nodes. They register when the caches are complete. Must be called within a tokio
    /// runtime.
    pub fn start(options: &SimulatedNodesOptions) -> Self {
        let server = (options.connect)(&roles::identity());
        let manager_options = ManagerOptions {
            stop_within: STOP_TIMEOUT,
            clock: options.clock.clone(),
            entropy: options.entropy.clone(),
            ..ManagerOptions::default()
        };
        let add = |manager: &Manager| add_controllers(manager, options);
        let (tasks, name) = (&options.tasks, "simulated nodes");
        Self(BackgroundManager::start_within(tasks, name, server, manager_options, add))
    }

    /// Removes the nodes of a former run from a plane that has no nodes now; otherwise they would
    /// attract pods until they are found to be dead. Nodes of KWOK remain.
    pub async fn remove_former(connect: &Connect) -> Result<(), kube_client::Error> {
        #[derive(Deserialize)]
        struct List {
            items: Vec<NodeView>,
        }
        let client = connect(&roles::identity()).client();
        let path = format!("/api/v1/nodes?labelSelector={SIMULATED_LABEL}%3Dtrue");
        let list: Option<List> = json_requests::get(&client, &path).await?;
        let nodes = list.into_iter().flat_map(|list| list.items);
        for node in nodes.filter(|node| node.is_surplus(0)) {
            let path = format!("/api/v1/nodes/{}", node.metadata.name);
            let deleted = requests::delete_now(&client, &path, &node.metadata.uid).await;
            requests::unless_outdated(deleted)?;
        }
        Ok(())
    }

    /// The manager of the nodes, for its metrics and checks.
    pub fn manager(&self) -> &Manager {
        self.0.manager()
    }

    /// Stops the nodes. Their objects remain, as those of machines that are switched off.
    pub async fn stop(self) -> Result<(), UncleanStop> {
        self.0.stop().await
    }
}

fn add_controllers(manager: &Manager, options: &SimulatedNodesOptions) {
    let pods = manager.informer::<Pod>();
    pods.indexer().add_index(NODE_INDEX, node_name);
    let nodes = manager.informer::<Node>();
    let (pod_sender, pod_requests) = mpsc::channel::<Request>(1_000);
    let (node_sender, node_requests) = mpsc::channel::<Request>(options.count.max(1));
    for index in 0..options.count {
        // The capacity of the channel is the number of nodes.
        let _ = node_sender.try_send(Request::new("", &node_object::name(index)));
    }
    let stages = Arc::new(Stages {
        client: manager.client(),
        recorder: manager.recorder(roles::NAME),
        clock: options.clock.clone(),
        entropy: options.entropy.clone(),
        current: RwLock::default(),
        reported: Mutex::default(),
        states: Mutex::default(),
    });
    let pod_context = PodContext {
        client: manager.client(),
        pods: pods.lister(),
        nodes: nodes.lister(),
        count: options.count,
        clock: options.clock.clone(),
        addresses: Arc::new(PodAddresses::default()),
        ledger: NodeLedger::default(),
        events: PodEvents::new(manager.recorder(KUBELET), options.clock.clone()),
        node_files: NodeFiles::default(),
        config: PodConfig::new(manager.client(), options.clock.clone()),
        existing: OnceCell::new(),
        stages: Arc::clone(&stages),
        termination: options.termination,
    };
    let node_context = NodeContext {
        client: manager.client(),
        nodes: nodes.lister(),
        pods: Arc::clone(pods.indexer()),
        pod_requests: pod_sender.clone(),
        options: options.clone(),
        states: NodeStates::default(),
        stages: Arc::clone(&stages),
        recorder: manager.recorder(KUBELET),
        reported: AtomicUsize::new(0),
    };
    let staged_objects = StagedObjects {
        pods: Arc::clone(pods.indexer()),
        nodes: Arc::clone(nodes.indexer()),
        pod_requests: pod_sender,
        node_requests: node_sender,
    };
    add_stage_watch(manager, options, stages, staged_objects);
    manager.add(
        Controller::for_::<Pod>()
            .named("simulated-pods")
            .channel(pod_requests)
            .workers(POD_WORKERS)
            .reconcile(pod_controller::reconcile, pod_context),
    );
    manager.add(
        Controller::for_::<Node>()
            .named("simulated-nodes")
            .channel(node_requests)
            .workers(NODE_WORKERS)
            .reconcile(node_controller::reconcile, node_context),
    );
}

/// Adds the controller that follows the CRD of Stages.
fn add_stage_watch(
    manager: &Manager,
    options: &SimulatedNodesOptions,
    stages: Arc<Stages>,
    staged_objects: StagedObjects,
) {
    let fields = format!("metadata.name={STAGE_CRD}");
    let fields = FieldSelector::parse(&fields).expect("the name of a CRD is a valid value");
    let selection = Selection { fields, ..Selection::default() };
    let crds = manager.informer_selecting::<CustomResourceDefinition>(&selection);
    let watch = StageWatch {
        stages,
        reader: (options.connect)(&roles::identity()).client(),
        clock: options.clock.clone(),
        entropy: options.entropy.clone(),
        tasks: manager.tasks().clone(),
        crds: Arc::clone(crds.indexer()),
        staged_objects,
        running: Mutex::default(),
    };
    manager.add(
        Controller::for_::<CustomResourceDefinition>()
            .named("simulated-stages")
            .selecting(selection)
            .workers(1)
            .reconcile(stages::reconcile_crd, watch),
    );
}

/// The values of a pod in the [`NODE_INDEX`].
fn node_name(item: &Item) -> Vec<String> {
    #[derive(Deserialize)]
    struct Bound {
        spec: Spec,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec {
        #[serde(default)]
        node_name: String,
    }
    let bound: Option<Bound> = item.decode().ok();
    bound.map(|bound| bound.spec.node_name).filter(|name| !name.is_empty()).into_iter().collect()
}
