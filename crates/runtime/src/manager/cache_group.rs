//! [`CacheGroup`]: the caches that some controllers of a manager wait for before they start.
//!
//! All controllers of a manager are in one group, so none of them works before all caches are
//! complete. A program with many controllers can add each through a manager of its own group
//! ([`Manager::independent`]): if one kind cannot be listed, only the controllers that read it wait.
//!
//! ```text
//! manager ── a, b                wait for Pods and Sites
//!    └─ independent() ── c       waits for Secrets
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;

use super::{Manager, ManagerState, caches};
use crate::control_loop::ControlLoop;
use informer::{HasSynced, Scope, SharedInformer};

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct CacheGroup {
    /// By the text of their scope.
    informers: Mutex<BTreeMap<String, SharedInformer>>,
}

impl CacheGroup {
    fn add(&self, scope: String, informer: &SharedInformer) {
        self.lock().insert(scope, informer.clone());
    }

    /// Waits until the first lists are in the caches; false if the caches were stopped before.
    pub(super) async fn wait_for_sync(&self) -> bool {
        let waiting: Vec<HasSynced> =
            self.lock().values().map(SharedInformer::has_synced).collect();
        for mut synced in waiting {
            if !synced.wait().await {
                return false;
            }
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, SharedInformer>> {
        self.informers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Manager {
    /// The same manager, for controllers that wait only for the caches that they and
    /// their contexts get from it. The other controllers do not wait for these caches, unless they
    /// read them too.
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::Secret;
    /// # use runtime::{Action, Controller, Failure, Lister, Manager, Request};
    /// # use std::sync::Arc;
    /// # async fn reconcile(_: Request, _: Arc<Lister<Secret>>) -> Result<Action, Failure> { Ok(Action::Done) }
    /// # fn example(manager: &Manager) {
    /// let independent = manager.independent();
    /// let secrets = independent.lister::<Secret>();
    /// independent.add(Controller::for_::<Secret>().reconcile(reconcile, secrets));
    /// # }
    /// ```
    #[must_use]
    pub fn independent(&self) -> Self {
        Self { state: Arc::clone(&self.state), cache_group: Arc::default() }
    }

    /// The informer of a scope, for which the controllers of this group wait.
    pub(super) fn informer_of(&self, scope: Scope, is_namespaced: bool) -> SharedInformer {
        let text = scope.to_string();
        let informer = self.state.caches.informer(scope, is_namespaced);
        self.cache_group.add(text, &informer);
        informer
    }

    /// Waits until the workers start: the caches are complete and, with leader election, this manager
    /// leads. For [tasks](Self::tasks) that write. Returns false if the manager has ended. An
    /// [independent](Self::independent) manager waits for its own caches only.
    ///
    /// ```no_run
    /// # async fn example(manager: &runtime::Manager) {
    /// if manager.wait_until_ready().await {
    ///     println!("the workers run"); // in another task
    /// }
    /// # }
    /// ```
    pub async fn wait_until_ready(&self) -> bool {
        let state = &self.state;
        let (mut leading, mut unstarted) = (state.leading.subscribe(), state.unstarted.subscribe());
        let ready = async {
            if Arc::ptr_eq(&self.cache_group, &state.common_caches) {
                return unstarted.wait_for(|unstarted| *unstarted == Some(0)).await.is_ok();
            }
            leading.wait_for(|leading| *leading).await.is_ok()
                && self.cache_group.wait_for_sync().await
        };
        state.until_ended(ready).await.unwrap_or(false)
    }

    /// Waits until each cache is complete or could not be listed. Returns the caches that could not be
    /// listed, and the reasons; they are listed again.
    ///
    /// ```no_run
    /// # async fn example(manager: &runtime::Manager) {
    /// if let Err(reasons) = manager.wait_until_listed().await {
    ///     eprintln!("some controllers do not work yet: {reasons}");
    /// }
    /// # }
    /// ```
    pub async fn wait_until_listed(&self) -> Result<(), String> {
        let factory = &self.state.caches.factory;
        for (_, informer) in factory.informers() {
            let (mut synced, mut status) = (informer.has_synced(), informer.reflector_status());
            tokio::select! {
                biased;
                _ = synced.wait() => {}
                _ = status.wait_for(|status| status.last_error.is_some()) => {}
            }
        }
        caches::all_complete(factory)
    }
}

impl ManagerState {
    /// Whether the workers of all controllers have started.
    pub(super) fn is_working(&self) -> bool {
        *self.unstarted.borrow() == Some(0)
    }

    /// Starts the workers of the controllers that were added, each when its caches are complete.
    pub(super) fn start_workers(&self) {
        self.leading.send_replace(true);
        let mut loops = self.lock_loops();
        loops.are_started = true;
        self.start_loops(loops.all.clone());
    }

    /// Starts the workers of some controllers, each when its caches are complete.
    pub(super) fn start_loops(&self, loops: Vec<Arc<ControlLoop>>) {
        self.unstarted.send_modify(|unstarted| *unstarted.get_or_insert(0) += loops.len());
        let (workers, sources) = (self.worker_tasks.clone(), self.cache_tasks.clone());
        let (unstarted, stop) = (self.unstarted.clone(), workers.shutdown());
        let starts = async move {
            let starts = loops.into_iter().map(async |control_loop| {
                if control_loop.caches.wait_for_sync().await {
                    control_loop.start(&workers, &sources);
                    unstarted.send_modify(|unstarted| *unstarted = unstarted.map(|it| it - 1));
                }
            });
            join_all(starts).await;
        };
        self.worker_tasks.spawn("start of workers", async move {
            tokio::select! {
                biased;
                () = stop => {}
                () = starts => {}
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube_client::Client;

    use super::*;
    use crate::ManagerOptions;

    #[tokio::test]
    async fn a_cache_is_in_a_group_once() {
        let config = kube_client::Config::new("http://localhost".parse().unwrap());
        let manager = Manager::new(Client::try_from(config).unwrap(), ManagerOptions::default());
        for _ in 0..3 {
            let _ = manager.lister::<ConfigMap>();
        }
        assert_eq!(manager.cache_group.lock().len(), 1);
    }
}
