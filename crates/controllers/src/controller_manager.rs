//! [`ControllerManager`]: runs the selected controllers of a plane until it is stopped.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::controller_context::ControllerContext;
use crate::controller_table::CONTROLLERS;
use crate::metrics_api::MetricsApi;
use crate::selection::Selection;
use crate::signers::Signers;
use keel::{Clock, Entropy, Tasks, UncleanStop};
use runtime::{BackgroundManager, Connect, Identity, Manager, ManagerOptions};

/// The time limit for the controllers to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// The program of all controllers but the scheduler.
pub(crate) const PROGRAM: &str = "kube-controller-manager";

/// The duration of a reconcile after which its controller is not healthy.
const STUCK_AFTER: Duration = Duration::from_mins(30);

/// The user that fills the shared caches.
pub(crate) fn cache_identity() -> Identity {
    Identity::user("system:kube-controller-manager", PROGRAM)
}

/// The settings of a [`ControllerManager`].
#[derive(Clone)]
pub struct ControllerManagerOptions {
    /// The controllers that run.
    pub selection: Selection,
    /// Connects to the plane.
    pub connect: Connect,
    /// The certificates that clients of the plane trust, in PEM. They change when the authority of the
    /// plane is replaced.
    pub root_ca: watch::Receiver<String>,
    /// Sign with the keys of the plane.
    pub signers: Signers,
    /// The metrics of simulated pods, which the API server of the plane serves.
    pub metrics_api: MetricsApi,
    /// Whether there is a default storage class, whose volumes are simulated as the nodes are.
    pub simulated_storage: bool,
    /// The parent of the tasks.
    pub tasks: Tasks,
    /// The plane's clock.
    pub clock: Clock,
    /// The plane's source of randomness.
    pub entropy: Entropy,
}

/// See the [module documentation](self).
#[derive(Debug)]
pub struct ControllerManager {
    running: BackgroundManager,
    selection: Selection,
}

impl ControllerManager {
    /// Starts the controllers. They begin to work when their caches are complete.
    pub fn start(options: ControllerManagerOptions) -> Self {
        let options = Arc::new(options);
        let reader = (options.connect)(&cache_identity());
        let manager_options = ManagerOptions {
            stop_within: STOP_TIMEOUT,
            clock: options.clock.clone(),
            entropy: options.entropy.clone(),
            ..ManagerOptions::default()
        };
        let shared_discovery = Arc::default();
        let reading_client = reader.client();
        let add = |manager: &Manager| {
            for controller in CONTROLLERS.iter().filter(|it| options.selection.contains(it)) {
                // If a kind cannot be listed, since a Secret cannot be decrypted for example, only the
                // controllers that read it wait.
                let manager = manager.independent();
                let client = (options.connect)(&controller.identity());
                (controller.start)(&ControllerContext {
                    name: controller.name,
                    client: manager.managed_client(client),
                    manager,
                    reader: reading_client.clone(),
                    options: Arc::clone(&options),
                    shared_discovery: Arc::clone(&shared_discovery),
                });
            }
            manager.check_reconciles(STUCK_AFTER);
        };
        let server = reader.clone();
        let running = BackgroundManager::start_within(
            &options.tasks,
            "controllers",
            server,
            manager_options,
            add,
        );
        Self { running, selection: options.selection.clone() }
    }

    /// The manager of the controllers, for its metrics and checks.
    pub fn manager(&self) -> &Manager {
        self.running.manager()
    }

    /// The controllers that run.
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// Waits until the caches are complete, and the controllers work. If the objects of a kind cannot
    /// be listed, returns the reason; the controllers that read them do not work yet.
    pub async fn wait_until_ready(&self) -> Result<(), String> {
        self.manager().wait_until_listed().await?;
        self.manager().wait_until_ready().await;
        Ok(())
    }

    /// Stops the controllers, each after its present reconcile.
    pub async fn stop(self) -> Result<(), UncleanStop> {
        self.running.stop().await
    }
}
