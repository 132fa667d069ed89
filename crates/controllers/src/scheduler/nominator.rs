//! [`Nominator`]: the pods for which other pods were preempted, by node. Until they are bound, pods
//! of lower priority do not get their place.

use std::collections::HashMap;
use std::sync::Arc;

use super::pod_info::PodInfo;

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct Nominator {
    by_node: HashMap<Arc<str>, Vec<Arc<PodInfo>>>,
    node_of: HashMap<Arc<str>, Arc<str>>,
}

impl Nominator {
    /// Nominates a node for a pod, instead of an earlier one.
    pub(crate) fn nominate(&mut self, pod: &Arc<PodInfo>, node: &Arc<str>) {
        self.remove(&pod.uid);
        self.node_of.insert(Arc::clone(&pod.uid), Arc::clone(node));
        self.by_node.entry(Arc::clone(node)).or_default().push(Arc::clone(pod));
    }

    /// Removes the nomination of a pod.
    pub(crate) fn remove(&mut self, uid: &str) {
        let Some(node) = self.node_of.remove(uid) else { return };
        if let Some(pods) = self.by_node.get_mut(&node) {
            pods.retain(|pod| *pod.uid != *uid);
            if pods.is_empty() {
                self.by_node.remove(&node);
            }
        }
    }

    /// The node that is nominated for a pod.
    pub(crate) fn node_of(&self, uid: &str) -> Option<&Arc<str>> {
        self.node_of.get(uid)
    }

    /// The pods for which a node is nominated.
    pub(crate) fn pods_of(&self, node: &str) -> &[Arc<PodInfo>] {
        self.by_node.get(node).map_or(&[], Vec::as_slice)
    }

    /// Replaces the state of a pod, which keeps its nomination.
    pub(crate) fn update(&mut self, pod: &Arc<PodInfo>) {
        let Some(node) = self.node_of.get(&pod.uid) else { return };
        for known in self.by_node.get_mut(node).into_iter().flatten() {
            if known.uid == pod.uid {
                *known = Arc::clone(pod);
            }
        }
    }
}
