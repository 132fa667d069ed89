//! [`Caches`]: the informers of a manager, and whether they have synced. Failures of lists and
//! watches are reported by the readiness check and in the log.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use informer::{InformerFactory, ReflectorStatus, Scope, SharedInformer};
use keel::{Clock, Tasks};

/// The time for which a resource may be absent before that is logged: the CRD is often installed by
/// the same command.
const ABSENCE_GRACE: Duration = Duration::from_secs(5);

/// See the [module documentation](self).
pub(super) struct Caches {
    pub(super) factory: Arc<InformerFactory>,
    /// The namespace of scopes that have none.
    namespace: Option<String>,
    clock: Clock,
    tasks: Tasks,
    /// The scopes of the running informers, whose failures are logged; `None` before the start.
    /// Locked before the factory.
    running: Mutex<Option<BTreeSet<String>>>,
}

impl Caches {
    /// The informers of `factory`, with the tasks `tasks`.
    pub(super) fn new(
        factory: InformerFactory,
        namespace: Option<String>,
        clock: &Clock,
        tasks: &Tasks,
    ) -> Self {
        let (factory, clock, tasks) = (Arc::new(factory), clock.clone(), tasks.clone());
        Self { factory, namespace, clock, tasks, running: Mutex::default() }
    }

    /// The informer of `scope`, which is started at once if the others are.
    pub(super) fn informer(&self, mut scope: Scope, is_namespaced: bool) -> SharedInformer {
        if is_namespaced && scope.selection.namespace.is_none() {
            scope.selection.namespace.clone_from(&self.namespace);
        }
        let informer = self.factory.informer(&scope);
        // Read after the informer was made: a concurrent start either finds the informer or is seen
        // here.
        let is_running = self.lock().is_some();
        if is_running {
            self.start();
        }
        informer
    }

    /// Starts all informers that do not run yet, and logs when one of them fails to list or watch,
    /// and when it succeeds again.
    pub(super) fn start(&self) {
        let mut running = self.lock();
        let running = running.get_or_insert_default();
        for (scope, informer) in self.factory.informers() {
            if !running.insert(scope.clone()) {
                continue;
            }
            let (status, stop) = (informer.reflector_status(), self.tasks.shutdown());
            let clock = self.clock.clone();
            self.tasks.spawn("failure log", async move {
                tokio::select! {
                    () = log_failures(&scope, status, &clock) => {}
                    () = stop => {}
                }
            });
        }
        self.factory.start();
    }

    fn lock(&self) -> MutexGuard<'_, Option<BTreeSet<String>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A check that fails with the informers that have not synced, and the reasons.
pub(super) fn all_complete(factory: &InformerFactory) -> Result<(), String> {
    let mut incomplete = Vec::new();
    for (scope, informer) in factory.informers() {
        if !informer.has_synced().get() {
            let status = informer.reflector_status();
            let error = status.borrow().last_error.clone();
            incomplete.push(format!("{scope}: {}", error.as_deref().unwrap_or("listing")));
        }
    }
    if incomplete.is_empty() { Ok(()) } else { Err(incomplete.join("; ")) }
}

async fn log_failures(scope: &str, mut status: watch::Receiver<ReflectorStatus>, clock: &Clock) {
    let mut logged = None;
    while status.changed().await.is_ok() {
        let ReflectorStatus { last_error: error, failing_since, is_absent, .. } =
            status.borrow_and_update().clone();
        // An absent resource is asked for every second, so that the status changes again.
        let is_expected =
            is_absent && failing_since.is_some_and(|since| clock.now() < since + ABSENCE_GRACE);
        if error == logged || (error.is_some() && is_expected) {
            continue;
        }
        if let Some(error) = &error {
            tracing::warn!(resource = scope, "cannot list or watch: {error}");
        } else {
            tracing::info!(resource = scope, "lists and watches again");
        }
        logged = error;
    }
}
