//! [`BackgroundManager`]: a manager that runs in the background of a program until it is stopped.

use std::fmt;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::{Manager, ManagerError, ManagerOptions};
use crate::ApiService;
use keel::{Tasks, UncleanStop, message_with_causes};

/// See the [module documentation](self).
///
/// ```no_run
/// use runtime::{BackgroundManager, Client, Controller, ManagerOptions};
/// # async fn example(client: Client, controller: Controller) -> Result<(), runtime::ManagerError> {
/// let options = ManagerOptions::default();
/// let sites = BackgroundManager::start("sites", client, options, |manager| manager.add(controller));
/// sites.manager().wait_until_ready().await;
/// sites.end().await
/// # }
/// ```
///
/// A manager that is dropped runs on; [`kill`](Self::kill) aborts it.
pub struct BackgroundManager {
    manager: Manager,
    run: JoinHandle<Result<(), ManagerError>>,
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
        Self::start_with_tasks(Tasks::new(), name, service, options, add)
    }

    /// Like [`start`](Self::start), with tasks that belong to `parent`.
    pub fn start_within(
        parent: &Tasks,
        name: &'static str,
        service: impl Into<ApiService>,
        options: ManagerOptions,
        add: impl FnOnce(&Manager),
    ) -> Self {
        Self::start_with_tasks(parent.child(name), name, service, options, add)
    }

    fn start_with_tasks(
        tasks: Tasks,
        name: &'static str,
        service: impl Into<ApiService>,
        options: ManagerOptions,
        add: impl FnOnce(&Manager),
    ) -> Self {
        let stop_within = options.stop_within;
        let options = ManagerOptions { handles_signals: false, ..options };
        let manager = Manager::with_tasks(service, options, &tasks);
        add(&manager);
        let running = manager.clone();
        let run = tasks.spawn(name, async move {
            let outcome = running.run().await;
            if let Err(error) = &outcome {
                let error = message_with_causes(error);
                tracing::error!(manager = name, error, "a manager has ended with an error");
            }
            outcome
        });
        Self { manager, run, tasks, stop_within }
    }

    /// The manager, for its metrics and checks.
    pub fn manager(&self) -> &Manager {
        &self.manager
    }

    /// Stops the manager, each controller after its present reconcile. Returns the error with which
    /// the manager has ended, if it has not run until now.
    pub async fn end(self) -> Result<(), ManagerError> {
        self.manager.stop();
        // A panic of the task is reported by the stop of its group.
        let ended = self.run.await.unwrap_or(Ok(()));
        ended.and(self.tasks.stop(self.stop_within).await.map_err(ManagerError::UncleanStop))
    }

    /// Like [`end`](Self::end), without the error of the manager, which is in the log: for a part of a
    /// program that stops the next part in any case.
    pub async fn stop(self) -> Result<(), UncleanStop> {
        self.manager.stop();
        // A panic of the task is reported by the stop of its group.
        let _ = self.run.await;
        self.tasks.stop(self.stop_within).await
    }

    /// Aborts the manager at whatever step it is, as the end of its process would. The lease of a
    /// leader stays, and recorded events may be lost.
    ///
    /// ```no_run
    /// # use runtime::BackgroundManager;
    /// # async fn example(leader: BackgroundManager) {
    /// leader.kill().await; // another replica leads after the lease has expired
    /// # }
    /// ```
    pub async fn kill(self) {
        // A task that is asked to stop could still write, and the run would log a lost leadership.
        self.tasks.abort();
        // The tasks were aborted, so the stop is not a clean one.
        let _ = self.tasks.stop(self.stop_within).await;
        let _ = self.run.await;
    }
}

impl fmt::Debug for BackgroundManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackgroundManager").finish_non_exhaustive()
    }
}
