//! The handlers of informers, which keep the [`SchedulerState`] up to date.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, Service,
};
use k8s_openapi::api::storage::v1::StorageClass;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, watch};

use super::metrics::SchedulerMetrics;
use super::pod_info::ObservedPod;
use super::pod_wire::PodWire;
use super::state::SchedulerState;
use keel::Clock;
use runtime::Manager;
use runtime::informer::{EventHandler, HandlerOptions, HasSynced, Item, SharedInformer};

/// The state, and what wakes the scheduling loop.
pub(crate) struct SharedState {
    /// Locked for one event or one decision.
    state: Mutex<SchedulerState>,
    /// Set during a decision that takes long. Who waits for it lets other tasks use another thread.
    is_deciding_long: Arc<AtomicBool>,
    /// Notified after each event that may lead to a decision.
    pub wake: Notify,
    /// Counts the changes of claims and volumes.
    pub volume_changes: watch::Sender<u64>,
    pub metrics: SchedulerMetrics,
    pub clock: Clock,
}

impl SharedState {
    pub(crate) fn new(state: SchedulerState, clock: &Clock) -> Self {
        Self {
            is_deciding_long: Arc::clone(&state.is_deciding_long),
            state: Mutex::new(state),
            wake: Notify::new(),
            volume_changes: watch::Sender::new(0),
            metrics: SchedulerMetrics::default(),
            clock: clock.clone(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, SchedulerState> {
        let lock = || self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_deciding_long.load(Ordering::Relaxed) { keel::blocking(lock) } else { lock() }
    }
}

/// Adds the handlers, and returns whether each has seen all objects.
pub(crate) fn add_handlers(manager: &Manager, shared: &Arc<SharedState>) -> Vec<HasSynced> {
    let add = |informer: SharedInformer, observe: Observe| {
        let name = format!("scheduler-{observe:?}").to_lowercase();
        let options = HandlerOptions { name, queue_capacity: 16_384, ..HandlerOptions::default() };
        let handler = Handler { shared: Arc::clone(shared), observe };
        informer.add_handler(Arc::new(handler), &options).synced
    };
    vec![
        add(manager.informer::<Node>(), Observe::Nodes),
        add(manager.informer::<Pod>(), Observe::Pods),
        add(manager.informer::<Namespace>(), Observe::Namespaces),
        add(manager.informer::<Service>(), Observe::Services),
        add(manager.informer::<PersistentVolumeClaim>(), Observe::Volumes),
        add(manager.informer::<PersistentVolume>(), Observe::Volumes),
        add(manager.informer::<StorageClass>(), Observe::Volumes),
    ]
}

/// The kind whose objects a handler observes.
#[derive(Debug, Clone, Copy)]
enum Observe {
    Nodes,
    Pods,
    Namespaces,
    Services,
    Volumes,
}

struct Handler {
    shared: Arc<SharedState>,
    observe: Observe,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ServiceWire {
    spec: ServiceSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ServiceSpec {
    selector: BTreeMap<String, String>,
}

impl Handler {
    fn set(&self, item: &Item) {
        let now = self.shared.clock.now();
        match self.observe {
            Observe::Nodes => {
                if let Some(wire) = decode(item) {
                    self.shared.lock().set_node(wire);
                }
            }
            Observe::Pods => {
                if let Some(wire) = decode::<PodWire>(item) {
                    // A large pod is read before the state is locked.
                    let pod = ObservedPod::of(item, wire);
                    self.shared.lock().set_pod(pod, now);
                }
            }
            Observe::Namespaces => {
                let labels = item.labels();
                let mut state = self.shared.lock();
                let old = state.cache.namespaces.insert(item.name().to_owned(), labels.clone());
                state.events.are_namespaces_changed |= old.is_some_and(|old| old != labels);
            }
            Observe::Services => {
                let selector = decode::<ServiceWire>(item).unwrap_or_default().spec.selector;
                let mut state = self.shared.lock();
                let services = &mut state.cache.services;
                // A service without a selector selects no pods.
                if selector.is_empty() {
                    remove_service(services, item);
                } else {
                    let of_namespace = services.entry(item.namespace().to_owned()).or_default();
                    of_namespace.insert(item.name().to_owned(), selector);
                }
            }
            Observe::Volumes => self.volumes_changed(),
        }
        self.shared.wake.notify_one();
    }

    fn remove(&self, item: &Item) {
        match self.observe {
            Observe::Nodes => self.shared.lock().remove_node(item.name()),
            Observe::Pods => self.shared.lock().remove_pod(item.uid()),
            Observe::Namespaces => drop(self.shared.lock().cache.namespaces.remove(item.name())),
            Observe::Services => remove_service(&mut self.shared.lock().cache.services, item),
            Observe::Volumes => self.volumes_changed(),
        }
        self.shared.wake.notify_one();
    }

    fn volumes_changed(&self) {
        self.shared.lock().events.are_volumes_changed = true;
        self.shared.volume_changes.send_modify(|count| *count += 1);
    }
}

type Services = std::collections::HashMap<String, BTreeMap<String, BTreeMap<String, String>>>;

fn remove_service(services: &mut Services, item: &Item) {
    if let Some(of_namespace) = services.get_mut(item.namespace()) {
        of_namespace.remove(item.name());
        if of_namespace.is_empty() {
            services.remove(item.namespace());
        }
    }
}

fn decode<T: DeserializeOwned>(item: &Item) -> Option<T> {
    let decoded = item.decode();
    if let Err(error) = &decoded {
        tracing::warn!(object = %item.key(), %error, "the scheduler cannot read an object");
    }
    decoded.ok()
}

impl EventHandler for Handler {
    fn on_add(&self, item: &Item, _: bool) {
        self.set(item);
    }

    fn on_update(&self, old: &Item, new: &Item) {
        // A deletion and a creation under the same name may be merged into one change.
        if old.uid() != new.uid() {
            self.remove(old);
        }
        self.set(new);
    }

    fn on_delete(&self, item: &Item, _: bool) {
        self.remove(item);
    }
}
