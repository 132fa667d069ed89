//! [`BackgroundManager`]: a manager that runs in the background of a program until it is stopped.

use std::fmt;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::{Manager, ManagerOptions};
use crate::ApiService;
use keel::{Tasks, UncleanStop};

/// See the [module documentation](self).
///
/// ```no_run
/// use runtime::{BackgroundManager, Client, Controller, ManagerOptions};
/// # async fn example(client: Client, controller: Controller) -> Result<(), keel::UncleanStop> {
/// let options = ManagerOptions::default();
/// let sites = BackgroundManager::start("sites", client, options, |manager| manager.add(controller));
/// sites.manager().wait_until_ready().await;
/// sites.stop().await
/// # }
/// ```
pub struct BackgroundManager {
    manager: Manager,
    run: JoinHandle<()>,
    tasks: Tasks,
    stop_within: Duration,
}

impl BackgroundManager {
    /// Runs a manager to which `add` adds controllers. Signals are those of the program. `name` is
    /// that of its task and in the log. Must be called within a tokio runtime.
    pub fn start(
        name: &'static str,
        service: impl Into<ApiService>,
        options: ManagerOptions,
        add: impl FnOnce(&Manager),
    ) -> Self {
        let (tasks, stop_within) = (Tasks::new(), options.stop_within);
        let options = ManagerOptions { handles_signals: false, ..options };
        let manager = Manager::with_tasks(service, options, &tasks);
        add(&manager);
        let running = manager.clone();
        let run = tasks.spawn(name, async move {
            if let Err(error) = running.run().await {
                tracing::error!(%error, "the {name} have ended");
            }
        });
        Self { manager, run, tasks, stop_within }
    }

    /// The manager, for its metrics and checks.
    pub fn manager(&self) -> &Manager {
        &self.manager
    }

    /// Stops the manager, each controller after its present reconcile.
    pub async fn stop(self) -> Result<(), UncleanStop> {
        self.manager.stop();
        // A panic of the task is reported by the stop of its group.
        let _ = self.run.await;
        self.tasks.stop(self.stop_within).await
    }
}

impl fmt::Debug for BackgroundManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackgroundManager").finish_non_exhaustive()
    }
}
