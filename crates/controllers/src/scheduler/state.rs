//! [`SchedulerState`]: all that the scheduler knows, and how events and decisions change it. It does
//! no I/O.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::cluster_cache::{ClusterCache, RemovedPod};
use super::decision::{Decision, DecisionContext, Nomination};
use super::filter::volumes::{AssumedVolumes, VolumePlan};
use super::listers::Listers;
use super::node_info::{NodeObject, NodeWire};
use super::nominator::Nominator;
use super::pod_info::{ObservedPod, PodInfo};
use super::queue::{QueuedPod, SchedulingQueue};
use super::requeue::ClusterEvents;
use super::trait_interner::TraitInterner;
use keel::{Entropy, Timestamp};

/// See the [module documentation](self).
pub(crate) struct SchedulerState {
    pub cache: ClusterCache,
    pub queue: SchedulingQueue,
    pub nominator: Nominator,
    /// The pods that have a scheduling gate.
    gated: HashSet<Arc<str>>,
    assumed_volumes: AssumedVolumes,
    interner: TraitInterner,
    /// Since the last decision.
    pub events: ClusterEvents,
    listers: Listers,
    entropy: Entropy,
    /// Where the search for nodes goes on.
    next_start: usize,
    /// Set during a decision that takes long.
    pub is_deciding_long: Arc<AtomicBool>,
}

/// What the scheduling loop does next.
pub(crate) enum Step {
    /// Executes a decision.
    Execute { pod: QueuedPod, decision: Decision },
    /// Waits for an event, or until this time.
    Wait(Option<Timestamp>),
}

impl SchedulerState {
    /// An empty state.
    pub(crate) fn new(listers: Listers, entropy: Entropy) -> Self {
        Self {
            cache: ClusterCache::default(),
            queue: SchedulingQueue::default(),
            nominator: Nominator::default(),
            gated: HashSet::new(),
            assumed_volumes: AssumedVolumes::default(),
            interner: TraitInterner::default(),
            events: ClusterEvents::default(),
            listers,
            entropy,
            next_start: 0,
            is_deciding_long: Arc::default(),
        }
    }

    /// The number of pods that wait, by the part of the queue.
    pub(crate) fn pending(&self) -> [(&'static str, usize); 4] {
        let [active, backoff, unschedulable] = self.queue.counts();
        [
            ("active", active),
            ("backoff", backoff),
            ("unschedulable", unschedulable),
            ("gated", self.gated.len()),
        ]
    }

    /// Shares the traits of a pod that is kept.
    fn interned(&mut self, info: PodInfo) -> Arc<PodInfo> {
        let traits = self.interner.intern(info.traits);
        Arc::new(PodInfo { traits, ..info })
    }

    /// The state of a pod in the cache of the informer.
    pub(crate) fn set_pod(&mut self, pod: ObservedPod, now: Timestamp) {
        let ObservedPod { info, node, is_finished, is_ours, is_gated } = pod;
        if is_finished {
            return self.remove_pod(&info.uid);
        }
        self.gated.remove(&info.uid);
        if !node.is_empty() {
            self.queue.remove(&info.uid);
            self.nominator.remove(&info.uid);
            let info = self.interned(info);
            return self.set_bound_pod(&info, &node);
        }
        if is_ours && is_gated && !info.is_deleting {
            self.gated.insert(Arc::clone(&info.uid));
        }
        if !is_ours || is_gated || info.is_deleting {
            self.queue.remove(&info.uid);
            self.nominator.remove(&info.uid);
            return;
        }
        // The binding is under way.
        if self.cache.is_assumed(&info.uid) {
            return;
        }
        let info = self.interned(info);
        match &info.nominated_node {
            Some(node) if self.nominator.node_of(&info.uid).is_none() => {
                self.nominator.nominate(&info, node);
            }
            _ => self.nominator.update(&info),
        }
        self.queue.add(info, now);
    }

    fn set_bound_pod(&mut self, info: &Arc<PodInfo>, node: &str) {
        let was_assumed = self.cache.is_assumed(&info.uid);
        let old = self.cache.set_pod(Arc::clone(info), node);
        if !self.queue.has_unschedulable() {
            return;
        }
        let Some(RemovedPod { info: old, node }) = old else {
            return self.events.add_assigned(&info.traits);
        };
        if was_assumed {
            self.events.add_assigned(&info.traits);
        } else if !Arc::ptr_eq(&old.traits, &info.traits) || old.is_deleting != info.is_deleting {
            self.events.add_assigned(&info.traits);
            self.events.add_removed(&old.traits, node);
        }
    }

    /// A pod was deleted or has ended.
    pub(crate) fn remove_pod(&mut self, uid: &str) {
        self.gated.remove(uid);
        self.queue.remove(uid);
        self.nominator.remove(uid);
        if let Some(RemovedPod { info, node }) = self.cache.remove_pod(uid)
            && self.queue.has_unschedulable()
        {
            self.events.add_removed(&info.traits, node);
        }
    }

    /// The state of a node in the cache of the informer.
    pub(crate) fn set_node(&mut self, wire: NodeWire) {
        let object = NodeObject::from(wire);
        let (id, old) = self.cache.set_node(object);
        let object = &self.cache.node(id).object;
        // Other changes, such as heartbeats, help no pod.
        let is_changed = old.is_none_or(|old| {
            let is_same = |it: &NodeObject| {
                (&it.labels, &it.taints, it.is_unschedulable)
                    == (&object.labels, &object.taints, object.is_unschedulable)
                    && (&it.allocatable, it.allowed_pods)
                        == (&object.allocatable, object.allowed_pods)
            };
            !is_same(&old)
        });
        if is_changed && self.queue.has_unschedulable() {
            self.events.changed_nodes.insert(id);
        }
    }

    /// A node was deleted.
    pub(crate) fn remove_node(&mut self, name: &str) {
        if self.cache.remove_node(name) {
            self.events.is_node_removed = true;
        }
    }

    /// Decides about the next pod. A pod that is to be bound is assumed to be on its node.
    pub(crate) fn step(&mut self, now: Timestamp) -> Step {
        let events = std::mem::take(&mut self.events);
        for uid in events.helped_pods(&self.cache, &self.queue) {
            self.queue.requeue(&uid, now);
        }
        let Some(mut pod) = self.queue.pop(now) else {
            return Step::Wait(self.queue.next_time());
        };
        self.cache.refresh_order();
        let is_long = self.context().is_long(&pod.info);
        let decision = if is_long {
            self.is_deciding_long.store(true, Ordering::Relaxed);
            let decision = keel::blocking(|| self.decide(&mut pod));
            self.is_deciding_long.store(false, Ordering::Relaxed);
            decision
        } else {
            self.decide(&mut pod)
        };
        Step::Execute { pod, decision }
    }

    fn context(&self) -> DecisionContext<'_> {
        DecisionContext {
            cache: &self.cache,
            listers: &self.listers,
            nominator: &self.nominator,
            assumed: &self.assumed_volumes,
            entropy: &self.entropy,
        }
    }

    /// Decides about a pod, and counts the result as if it were executed.
    fn decide(&mut self, pod: &mut QueuedPod) -> Decision {
        let mut next_start = self.next_start;
        let decision = self.context().decide(&pod.info, &mut next_start);
        self.next_start = next_start;
        match &decision {
            Decision::Bind { node, volumes } => {
                self.cache.assume_pod(Arc::clone(&pod.info), node);
                self.assumed_volumes.assume(volumes, node);
                self.nominator.remove(&pod.info.uid);
            }
            Decision::Unschedulable { plugins, nomination, .. } => {
                match nomination {
                    Nomination::Keep => {}
                    Nomination::Clear => self.nominator.remove(&pod.info.uid),
                    Nomination::Preempt { node, .. } => self.nominator.nominate(&pod.info, node),
                }
                pod.rejected_by = *plugins;
                self.queue.add_unschedulable(pod.clone());
            }
        }
        decision
    }

    /// The volumes of a pod are bound, or will not be.
    pub(crate) fn forget_volumes(&mut self, plan: &VolumePlan) {
        self.assumed_volumes.forget(plan);
    }

    /// The binding of a pod has failed. `present` is its present state, unless it was deleted.
    pub(crate) fn forget_pod(
        &mut self,
        pod: &QueuedPod,
        present: Option<ObservedPod>,
        now: Timestamp,
    ) {
        if let Some(RemovedPod { info, node }) = self.cache.forget_pod(&pod.info.uid)
            && self.queue.has_unschedulable()
        {
            self.events.add_removed(&info.traits, node);
        }
        let Some(present) = present else { return };
        let is_waiting = present.node.is_empty()
            && !present.is_finished
            && !present.is_gated
            && !present.info.is_deleting
            && present.info.uid == pod.info.uid;
        if is_waiting {
            let info = self.interned(present.info);
            self.queue.add_after_error(QueuedPod { info, ..pod.clone() }, now);
        }
    }
}
