//! [`UnschedulablePods`]: the pods that fit on no node.
//!
//! Pods with the same traits that the same plugins have rejected are a class: an event helps all of them
//! or none, so a decision considers the classes and not each pod.
//!
//! Invariant: a class has pods, and each pod is in the class of its traits and plugins.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::pod_info::PodInfo;
use super::queue::QueuedPod;

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct UnschedulablePods {
    pods: HashMap<Arc<str>, QueuedPod>,
    classes: HashMap<ClassKey, HashSet<Arc<str>>>,
}

/// The address of the traits, which the pods keep alive, and the plugins.
type ClassKey = (usize, u16);

fn class_of(pod: &QueuedPod) -> ClassKey {
    (Arc::as_ptr(&pod.info.traits).addr(), pod.rejected_by.bits())
}

impl UnschedulablePods {
    /// Adds a pod.
    pub(crate) fn insert(&mut self, pod: QueuedPod) {
        let uid = Arc::clone(&pod.info.uid);
        self.classes.entry(class_of(&pod)).or_default().insert(Arc::clone(&uid));
        self.pods.insert(uid, pod);
    }

    /// Removes a pod.
    pub(crate) fn remove(&mut self, uid: &str) -> Option<QueuedPod> {
        let pod = self.pods.remove(uid)?;
        let key = class_of(&pod);
        if let Some(class) = self.classes.get_mut(&key) {
            class.remove(uid);
            if class.is_empty() {
                self.classes.remove(&key);
            }
        }
        Some(pod)
    }

    /// Replaces the state of a pod; returns whether its traits have changed.
    pub(crate) fn replace_info(&mut self, info: Arc<PodInfo>) -> bool {
        let Some(pod) = self.remove(&info.uid) else { return false };
        let is_changed = !Arc::ptr_eq(&pod.info.traits, &info.traits);
        self.insert(QueuedPod { info, ..pod });
        is_changed
    }

    /// The number of pods.
    pub(crate) fn len(&self) -> usize {
        self.pods.len()
    }

    /// The uids of each class, with one of its pods.
    pub(crate) fn classes(&self) -> impl Iterator<Item = (&QueuedPod, &HashSet<Arc<str>>)> {
        self.classes.values().filter_map(|uids| Some((self.pods.get(uids.iter().next()?)?, uids)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::rejection::{Plugin, Plugins};
    use super::super::testing::pod;
    use super::*;
    use keel::Timestamp;

    /// The sizes of the classes, in order.
    fn sizes(pods: &UnschedulablePods) -> Vec<usize> {
        let mut sizes: Vec<usize> = pods.classes().map(|(_, uids)| uids.len()).collect();
        sizes.sort_unstable();
        sizes
    }

    #[test]
    fn the_pods_of_a_class_are_considered_once() {
        let first = pod("first", "cpu=9");
        let of_template = |name: &str, plugin: Plugin| {
            let mut rejected_by = Plugins::default();
            rejected_by.insert(plugin);
            let info = PodInfo { traits: Arc::clone(&first.traits), ..pod(name, "cpu=9") };
            let since = Timestamp::from_seconds(0);
            QueuedPod { info: Arc::new(info), attempts: 1, since, rejected_by }
        };
        let mut pods = UnschedulablePods::default();
        for number in 0..1_000 {
            pods.insert(of_template(&format!("p{number}"), Plugin::NodeResourcesFit));
        }
        pods.insert(of_template("other", Plugin::NodePorts));
        assert_eq!(sizes(&pods), [1, 1_000]);
        assert!(pods.replace_info(Arc::new(pod("p0", "cpu=8"))), "it has other traits");
        assert!(!pods.replace_info(of_template("p1", Plugin::NodePorts).info));
        assert_eq!(sizes(&pods), [1, 1, 999]);
        for number in 0..1_000 {
            assert!(pods.remove(&format!("p{number}")).is_some());
        }
        assert_eq!((sizes(&pods), pods.len()), (vec![1], 1));
    }
}
