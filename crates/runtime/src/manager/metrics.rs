//! The metrics of a [`Manager`]: of its controllers, and of components beside them.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use super::{Manager, ManagerState};
use crate::leader_election::Leadership;
use crate::metrics::{ComponentQueue, DurationHistogram, ManagerMetrics};
use informer::WorkQueue;
use informer::work_queue::{QueueOptions, RateLimits};

/// The end of metrics in Prometheus' text format.
const EOF: &str = "# EOF\n";

/// What is shown beside the controllers.
#[derive(Default)]
pub(super) struct OtherMetrics {
    queues: Mutex<Vec<Arc<ComponentQueue>>>,
    sources: Mutex<Vec<Box<dyn Fn() -> String + Send + Sync>>>,
    /// The metrics of the operator.
    registry: Mutex<Registry>,
}

impl Manager {
    /// All metrics in Prometheus' text format, for a program that has an endpoint of its own.
    ///
    /// ```no_run
    /// # use runtime::Manager;
    /// /// Shows the metrics and the health of a manager on the port of a server in this process.
    /// fn show(server: &apiserver::Server, manager: &Manager) {
    ///     let (metrics, health, readiness) = (manager.clone(), manager.clone(), manager.clone());
    ///     server.add_metrics(move || metrics.metrics_text());
    ///     server.add_health_check("controllers", move || health.health().check());
    ///     server.add_readiness_check("controller-caches", move || readiness.readiness().check());
    /// }
    /// ```
    pub fn metrics_text(&self) -> String {
        self.state.metrics()
    }

    /// Adds a health check that fails while a reconcile takes longer than `limit`.
    ///
    /// ```no_run
    /// # fn example(manager: &runtime::Manager) {
    /// manager.check_reconciles(std::time::Duration::from_mins(30));
    /// # }
    /// ```
    pub fn check_reconciles(&self, limit: Duration) {
        // The manager has the check, which must not keep it alive.
        let manager = Arc::downgrade(&self.state);
        self.health().add("reconciles", move || {
            let Some(manager) = manager.upgrade() else { return Ok(()) };
            for control_loop in manager.loops() {
                let longest = control_loop.queue.metrics().longest_running;
                if longest > limit {
                    let (name, seconds) = (&control_loop.name, longest.as_secs());
                    return Err(format!("a reconcile of {name} has not ended for {seconds} s"));
                }
            }
            Ok(())
        });
    }

    /// Registers metrics of the operator, which are shown at `/metrics` with those of the manager.
    /// They are those of the crate `prometheus-client`, which this crate re-exports.
    ///
    /// ```no_run
    /// use runtime::{Manager, prometheus_client::metrics::counter::Counter};
    ///
    /// fn count_pages(manager: &Manager) -> Counter {
    ///     let pages = Counter::default();
    ///     manager.register_metrics(|registry| {
    ///         registry.register("site_pages", "The pages that were written", pages.clone());
    ///     });
    ///     pages // for the context: `cx.pages.inc()`; shown as site_pages_total
    /// }
    /// ```
    pub fn register_metrics(&self, register: impl FnOnce(&mut Registry)) {
        register(&mut lock(&self.state.other_metrics.registry));
    }

    /// Adds metrics of a component that is not a controller, in Prometheus' text format.
    ///
    /// ```no_run
    /// # fn example(manager: &runtime::Manager) {
    /// manager.add_metrics(|| "# TYPE boats gauge\nboats 7\n".to_owned());
    /// # }
    /// ```
    pub fn add_metrics(&self, source: impl Fn() -> String + Send + Sync + 'static) {
        lock(&self.state.other_metrics.sources).push(Box::new(source));
    }

    /// A queue whose metrics are shown with those of the controllers, for a component with workers of
    /// its own.
    ///
    /// ```no_run
    /// # async fn example(manager: &runtime::Manager) {
    /// use runtime::informer::work_queue::RateLimits;
    ///
    /// let queue = manager.queue::<String>("boat-collector", RateLimits::default());
    /// queue.add("boat".to_owned());
    /// # }
    /// ```
    pub fn queue<K>(&self, name: &str, limits: RateLimits) -> WorkQueue<K>
    where
        K: Clone + Eq + Hash + Send + 'static,
    {
        self.queue_with_groups(name, limits, |_| "")
    }

    /// A [queue](Self::queue) in which the [groups](WorkQueue::with_groups) of keys take turns.
    pub fn queue_with_groups<K>(
        &self,
        name: &str,
        limits: RateLimits,
        group_of: fn(&K) -> &str,
    ) -> WorkQueue<K>
    where
        K: Clone + Eq + Hash + Send + 'static,
    {
        let (latency, work_duration) = (DurationHistogram::default(), DurationHistogram::default());
        let options = QueueOptions {
            limits,
            latency: Arc::new(latency.clone()),
            work_duration: Arc::new(work_duration.clone()),
            ..QueueOptions::default()
        };
        let (clock, entropy) = (&self.state.options.clock, &self.state.options.entropy);
        let queue = WorkQueue::with_groups(&options, clock, entropy, group_of);
        let measured = queue.clone();
        lock(&self.state.other_metrics.queues).push(Arc::new(ComponentQueue {
            name: name.to_owned(),
            metrics: Box::new(move || measured.metrics()),
            latency,
            work_duration,
        }));
        queue
    }
}

impl ManagerState {
    /// All metrics in Prometheus' text format.
    pub(crate) fn metrics(&self) -> String {
        let mut dropped = BTreeMap::<String, u64>::new();
        for (who, count) in &*lock(&self.drop_counts) {
            *dropped.entry(who.clone()).or_default() += count.load(Relaxed);
        }
        let metrics = ManagerMetrics {
            loops: self.loops(),
            queues: lock(&self.other_metrics.queues).clone(),
            leads: self.leads(),
            informers: self.caches.factory.informers(),
            dropped_events: Vec::from_iter(dropped),
            requests: self.requests.clone(),
            reviews: lock(&self.review_metrics).clone(),
        };
        let mut text = metrics.encode();
        let end = text.strip_suffix(EOF).map_or(text.len(), str::len);
        text.truncate(end);
        text.extend(lock(&self.other_metrics.sources).iter().map(|source| source()));
        // It ends with the end of all metrics.
        encode(&mut text, &lock(&self.other_metrics.registry)).expect("a string takes every write");
        text
    }

    /// The lease, and whether this process holds it.
    fn leads(&self) -> Option<(String, bool)> {
        let lease = self.options.leader_election.as_ref()?.lease.clone();
        let leadership = lock(&self.leadership);
        let leads = leadership.as_ref().is_some_and(|it| *it.borrow() == Leadership::Leading);
        Some((lease, leads))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
