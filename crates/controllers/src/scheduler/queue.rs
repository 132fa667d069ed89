//! [`SchedulingQueue`]: the pods that wait for a node.
//!
//! ```text
//! add ─▶ active ─▶ pop ─▶ (decision) ─▶ bound
//!          ▲  ▲              │ fits nowhere     │ error
//!          │  └── backoff ◀──┼─ unschedulable   └─▶ error backoff ─▶ active, when the time is over
//!          └─────────────────┘ an event that may help, or five minutes
//! ```
//!
//! Pods leave by priority; within one priority [the namespaces take turns](super::active_pods), and the
//! pods of a namespace leave by arrival. While no pod is active, those in backoff are popped
//! early, as in Kubernetes since 1.33: an event has made them ready, so an attempt is worthwhile.
//! Pods whose binding failed wait for the whole backoff.
//!
//! Invariant: each pod is in exactly one of the four parts, which `places` names.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::active_pods::{ActiveKey, ActivePods};
use super::pod_info::PodInfo;
use super::rejection::Plugins;
use super::unschedulable_pods::UnschedulablePods;
use keel::Timestamp;

/// The backoff after the first attempt.
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
/// The longest backoff.
const MAX_BACKOFF: Duration = Duration::from_secs(10);
/// The time after which an unschedulable pod is tried again without an event.
const MAX_IN_UNSCHEDULABLE: Duration = Duration::from_mins(5);

/// A pod in the queue.
#[derive(Debug, Clone)]
pub(crate) struct QueuedPod {
    pub info: Arc<PodInfo>,
    /// The number of decisions about it.
    pub attempts: u32,
    /// The time of the last decision, or of its arrival.
    pub since: Timestamp,
    /// The plugins that have rejected it.
    pub rejected_by: Plugins,
}

impl QueuedPod {
    fn backoff_end(&self) -> Timestamp {
        if self.attempts == 0 {
            return self.since;
        }
        let factor = 1_u32.checked_shl(self.attempts - 1).unwrap_or(u32::MAX);
        let end = self.since + INITIAL_BACKOFF.saturating_mul(factor).min(MAX_BACKOFF);
        Timestamp::from_seconds(end.seconds())
    }
}

/// Backoffs end at whole seconds, so that priorities decide between pods that failed together.
type TimeKey = (Timestamp, Reverse<i32>, u64);

#[derive(Debug)]
enum Place {
    Active(ActiveKey),
    Backoff(TimeKey),
    ErrorBackoff(TimeKey),
    Unschedulable,
}

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct SchedulingQueue {
    active: ActivePods,
    backoff: BTreeMap<TimeKey, QueuedPod>,
    error_backoff: BTreeMap<TimeKey, QueuedPod>,
    unschedulable: UnschedulablePods,
    /// When each unschedulable pod is tried again at the latest.
    flush_times: BTreeSet<(Timestamp, Arc<str>)>,
    places: HashMap<Arc<str>, Place>,
    /// Unschedulable pods whose condition is being written, and whether they are to be tried again
    /// after that. An earlier attempt could bind the pod, and then the condition would be wrong.
    reported: HashMap<Arc<str>, bool>,
    arrivals: u64,
}

impl SchedulingQueue {
    /// Adds a pod, or replaces its state. An unschedulable pod is tried again if its traits have
    /// changed.
    pub(crate) fn add(&mut self, info: Arc<PodInfo>, now: Timestamp) {
        if matches!(self.places.get(&info.uid), Some(Place::Unschedulable)) {
            let uid = Arc::clone(&info.uid);
            if self.unschedulable.replace_info(info) {
                self.requeue(&uid, now);
            }
            return;
        }
        let Some(known) = self.ready_pod_mut(&info.uid) else {
            let rejected_by = Plugins::default();
            return self.activate(QueuedPod { info, attempts: 0, since: now, rejected_by });
        };
        let is_reordered = known.info.priority != info.priority;
        known.info = Arc::clone(&info);
        if is_reordered
            && matches!(self.places.get(&info.uid), Some(Place::Active(_)))
            && let Some(known) = self.remove(&info.uid)
        {
            self.activate(known);
        }
    }

    /// Removes a pod.
    pub(crate) fn remove(&mut self, uid: &str) -> Option<QueuedPod> {
        self.reported.remove(uid);
        match self.places.remove(uid)? {
            Place::Active(key) => self.active.remove(&key),
            Place::Backoff(key) => self.backoff.remove(&key),
            Place::ErrorBackoff(key) => self.error_backoff.remove(&key),
            Place::Unschedulable => {
                let pod = self.unschedulable.remove(uid)?;
                let flush_time = pod.since + MAX_IN_UNSCHEDULABLE;
                self.flush_times.remove(&(flush_time, Arc::clone(&pod.info.uid)));
                Some(pod)
            }
        }
    }

    /// The next pod to decide about.
    pub(crate) fn pop(&mut self, now: Timestamp) -> Option<QueuedPod> {
        self.move_due(now);
        let mut pod = self.active.pop().or_else(|| self.backoff.pop_first().map(|(_, pod)| pod))?;
        self.places.remove(&pod.info.uid);
        pod.attempts += 1;
        pod.since = now;
        Some(pod)
    }

    /// Moves pods whose time is over.
    fn move_due(&mut self, now: Timestamp) {
        while let Some(entry) = self.backoff.first_entry().filter(|entry| entry.key().0 <= now) {
            let pod = entry.remove();
            self.activate(pod);
        }
        while let Some(entry) = self.error_backoff.first_entry().filter(|it| it.key().0 <= now) {
            let pod = entry.remove();
            self.activate(pod);
        }
        while self.flush_times.first().is_some_and(|(time, _)| *time <= now) {
            if let Some((_, uid)) = self.flush_times.pop_first() {
                self.requeue(&uid, now);
            }
        }
    }

    /// The time at which [`pop`](Self::pop) may return a pod although none was added.
    pub(crate) fn next_time(&self) -> Option<Timestamp> {
        let error = self.error_backoff.first_key_value().map(|((time, ..), _)| *time);
        let flush = self.flush_times.first().map(|(time, _)| *time);
        error.into_iter().chain(flush).min()
    }

    /// Returns a pod that fits on no node. It stays until [`end_report`](Self::end_report).
    pub(crate) fn add_unschedulable(&mut self, pod: QueuedPod) {
        let uid = Arc::clone(&pod.info.uid);
        self.reported.insert(Arc::clone(&uid), false);
        self.flush_times.insert((pod.since + MAX_IN_UNSCHEDULABLE, Arc::clone(&uid)));
        self.places.insert(uid, Place::Unschedulable);
        self.unschedulable.insert(pod);
    }

    /// The condition of an unschedulable pod was written.
    pub(crate) fn end_report(&mut self, uid: &str, now: Timestamp) {
        if self.reported.remove(uid) == Some(true) {
            self.requeue(uid, now);
        }
    }

    /// Returns a pod after an error that has nothing to do with its fit.
    pub(crate) fn add_after_error(&mut self, mut pod: QueuedPod, now: Timestamp) {
        pod.since = now;
        pod.rejected_by = Plugins::default();
        let key = (pod.backoff_end(), Reverse(pod.info.priority), self.arrival());
        self.places.insert(Arc::clone(&pod.info.uid), Place::ErrorBackoff(key));
        self.error_backoff.insert(key, pod);
    }

    /// The number of pods that are active, in backoff, and unschedulable.
    pub(crate) fn counts(&self) -> [usize; 3] {
        let backoff = self.backoff.len() + self.error_backoff.len();
        [self.active.len(), backoff, self.unschedulable.len()]
    }

    /// The pods that fit on no node.
    pub(crate) fn unschedulable(&self) -> &UnschedulablePods {
        &self.unschedulable
    }

    /// Whether a pod fits on no node.
    pub(crate) fn has_unschedulable(&self) -> bool {
        self.unschedulable.len() > 0
    }

    /// Tries an unschedulable pod again, after its backoff.
    pub(crate) fn requeue(&mut self, uid: &str, now: Timestamp) {
        if !matches!(self.places.get(uid), Some(Place::Unschedulable)) {
            return;
        }
        if let Some(is_due) = self.reported.get_mut(uid) {
            *is_due = true;
            return;
        }
        let Some(pod) = self.remove(uid) else { return };
        let end = pod.backoff_end();
        if end <= now {
            return self.activate(pod);
        }
        let key = (end, Reverse(pod.info.priority), self.arrival());
        self.places.insert(Arc::clone(&pod.info.uid), Place::Backoff(key));
        self.backoff.insert(key, pod);
    }

    fn activate(&mut self, pod: QueuedPod) {
        let (uid, arrival) = (Arc::clone(&pod.info.uid), self.arrival());
        let key = self.active.insert(arrival, pod);
        self.places.insert(uid, Place::Active(key));
    }

    fn arrival(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
    }

    /// A pod that is active or in a backoff.
    fn ready_pod_mut(&mut self, uid: &str) -> Option<&mut QueuedPod> {
        match self.places.get(uid)? {
            Place::Active(key) => self.active.get_mut(key),
            Place::Backoff(key) => self.backoff.get_mut(key),
            Place::ErrorBackoff(key) => self.error_backoff.get_mut(key),
            Place::Unschedulable => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{observe, pod, prioritized};
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(seconds)
    }

    fn pop(queue: &mut SchedulingQueue, seconds: i64) -> Option<String> {
        queue.pop(at(seconds)).map(|pod| pod.info.key.name().to_owned())
    }

    fn add_unschedulable(queue: &mut SchedulingQueue, pod: QueuedPod) {
        let (uid, now) = (Arc::clone(&pod.info.uid), pod.since);
        queue.add_unschedulable(pod);
        queue.end_report(&uid, now);
    }

    #[test]
    fn a_pod_is_tried_again_after_its_condition_was_written() {
        let mut queue = SchedulingQueue::default();
        queue.add(Arc::new(pod("p", "")), at(0));
        let popped = queue.pop(at(0)).unwrap();
        queue.add_unschedulable(popped);
        queue.requeue("p", at(1));
        assert_eq!(pop(&mut queue, 400), None);
        queue.end_report("p", at(400));
        assert_eq!(pop(&mut queue, 400), Some("p".to_owned()));
    }

    #[test]
    fn pods_leave_by_priority_and_then_by_arrival() {
        let mut queue = SchedulingQueue::default();
        for (name, priority) in [("low", 0), ("first", 9), ("second", 9)] {
            queue.add(Arc::new(prioritized(name, priority, "")), at(0));
        }
        let order: Vec<_> = std::iter::from_fn(|| pop(&mut queue, 0)).collect();
        assert_eq!(order, ["first", "second", "low"]);
    }

    #[test]
    fn the_pods_of_one_namespace_do_not_keep_those_of_others_waiting() {
        let mut queue = SchedulingQueue::default();
        let pod = |name: &str, namespace: &str| {
            Arc::new(observe(name, &json!({"namespace": namespace}), &json!({})))
        };
        for index in 0..50_000 {
            queue.add(pod(&format!("many-{index}"), "attacker"), at(0));
        }
        for name in ["one", "two"] {
            queue.add(pod(name, "other"), at(0));
        }
        let order: Vec<_> = (0..5).filter_map(|_| pop(&mut queue, 0)).collect();
        assert_eq!(order, ["many-0", "one", "many-1", "two", "many-2"]);
    }

    #[test]
    fn an_unschedulable_pod_waits_for_an_event_or_five_minutes() {
        let mut queue = SchedulingQueue::default();
        queue.add(Arc::new(pod("p", "")), at(0));
        let popped = queue.pop(at(0)).unwrap();
        add_unschedulable(&mut queue, popped);
        assert_eq!(pop(&mut queue, 299), None);
        assert_eq!(queue.next_time(), Some(at(300)));
        assert_eq!(pop(&mut queue, 300), Some("p".to_owned()));
    }

    #[test]
    fn a_failed_pod_waits_longer_each_time() {
        let mut queue = SchedulingQueue::default();
        queue.add(Arc::new(pod("p", "")), at(0));
        let mut now = 0;
        for delay in [1, 2, 4, 8, 10, 10] {
            let popped = queue.pop(at(now)).unwrap();
            queue.add_after_error(popped, at(now));
            assert_eq!(queue.next_time(), Some(at(now + delay)));
            assert_eq!(pop(&mut queue, now + delay - 1), None);
            now += delay;
        }
    }

    #[test]
    fn active_pods_leave_before_those_in_backoff() {
        let mut queue = SchedulingQueue::default();
        queue.add(Arc::new(prioritized("waiting", 9, "")), at(0));
        let popped = queue.pop(at(0)).unwrap();
        add_unschedulable(&mut queue, popped);
        queue.requeue("waiting", at(0));
        queue.add(Arc::new(pod("new", "")), at(0));
        assert_eq!(pop(&mut queue, 0), Some("new".to_owned()));
        assert_eq!(pop(&mut queue, 0), Some("waiting".to_owned()));
    }

    #[test]
    fn a_pod_with_other_traits_is_tried_again() {
        let mut queue = SchedulingQueue::default();
        let info = Arc::new(pod("p", "cpu=9"));
        queue.add(Arc::clone(&info), at(0));
        let popped = queue.pop(at(0)).unwrap();
        add_unschedulable(&mut queue, popped);
        queue.add(info, at(2));
        assert_eq!(pop(&mut queue, 2), None);
        queue.add(Arc::new(pod("p", "cpu=1")), at(2));
        assert_eq!(pop(&mut queue, 2), Some("p".to_owned()));
    }

    #[test]
    fn a_removed_pod_does_not_leave() {
        let mut queue = SchedulingQueue::default();
        queue.add(Arc::new(pod("p", "")), at(0));
        assert!(queue.remove("p").is_some());
        assert_eq!(pop(&mut queue, 0), None);
        assert!(queue.remove("p").is_none());
    }
}
