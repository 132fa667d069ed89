//! [`ClusterCache`]: all nodes with their pods, as the informers show them, and the pods that this
//! scheduler has bound and the informers do not show yet (assumed pods).
//!
//! Pods with the same traits on one node are one entry of [`PodClass::nodes`]. So the pods that a
//! selector selects are counted without visiting each pod.
//!
//! Invariants:
//! - a pod is on one node at most;
//! - `order` has exactly the nodes that exist;
//! - a class exists exactly as long as it has a pod.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::node_info::{NodeInfo, NodeObject, ZONE};
use super::pod_info::{PodInfo, PodTraits};
use super::selectors::Selector;

/// The index of a node in [`ClusterCache::nodes`].
pub(crate) type NodeId = usize;

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct ClusterCache {
    nodes: Vec<NodeInfo>,
    free: Vec<NodeId>,
    by_name: HashMap<Arc<str>, NodeId>,
    order: Vec<NodeId>,
    is_order_stale: bool,
    pods: HashMap<Arc<str>, PlacedPod>,
    classes: HashMap<ClassKey, PodClass>,
    classes_by_namespace: HashMap<String, HashSet<ClassKey>>,
    classes_with_affinity: HashSet<ClassKey>,
    classes_with_anti_affinity: HashSet<ClassKey>,
    /// The number of nodes that have an image, by name.
    image_nodes: HashMap<String, i64>,
    /// The labels of namespaces.
    pub namespaces: HashMap<String, BTreeMap<String, String>>,
    /// The selectors of services, by namespace and name.
    pub services: HashMap<String, BTreeMap<String, BTreeMap<String, String>>>,
}

/// The address of the shared traits.
type ClassKey = usize;

#[derive(Debug)]
struct PlacedPod {
    info: Arc<PodInfo>,
    node: NodeId,
    is_assumed: bool,
}

/// All pods on nodes that have the same traits.
#[derive(Debug)]
pub(crate) struct PodClass {
    pub traits: Arc<PodTraits>,
    pub nodes: HashMap<NodeId, PodCount>,
}

/// A number of pods.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PodCount {
    pub all: i64,
    /// Those that are not being deleted.
    pub active: i64,
}

/// What the removal of a pod has freed.
#[derive(Debug)]
pub(crate) struct RemovedPod {
    pub info: Arc<PodInfo>,
    pub node: NodeId,
}

fn class_key(traits: &Arc<PodTraits>) -> ClassKey {
    Arc::as_ptr(traits).addr()
}

impl ClusterCache {
    /// A node.
    pub(crate) fn node(&self, id: NodeId) -> &NodeInfo {
        &self.nodes[id]
    }

    /// The node with this name, if it exists.
    pub(crate) fn find_node(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(name).copied().filter(|id| self.nodes[*id].exists)
    }

    /// The bound of all node indices.
    pub(crate) fn node_bound(&self) -> usize {
        self.nodes.len()
    }

    /// The nodes that exist, alternating between zones, so that a sample has nodes of all zones.
    pub(crate) fn refresh_order(&mut self) {
        if !self.is_order_stale {
            return;
        }
        self.is_order_stale = false;
        let mut zones = BTreeMap::<&str, Vec<NodeId>>::new();
        for (name, id) in &self.by_name {
            let node = &self.nodes[*id];
            if node.exists {
                let zone = node.label(ZONE).map_or("", AsRef::as_ref);
                debug_assert_eq!(node.name(), &**name);
                zones.entry(zone).or_default().push(*id);
            }
        }
        let mut zones: Vec<_> = zones.into_values().collect();
        for zone in &mut zones {
            zone.sort_unstable_by(|a, b| {
                self.nodes[*b].object.name.cmp(&self.nodes[*a].object.name)
            });
        }
        self.order.clear();
        while !zones.is_empty() {
            self.order.extend(zones.iter_mut().filter_map(Vec::pop));
            zones.retain(|zone| !zone.is_empty());
        }
    }

    /// The nodes that exist, in the order of [`refresh_order`](Self::refresh_order).
    pub(crate) fn node_order(&self) -> &[NodeId] {
        &self.order
    }

    /// Adds or changes a node, and returns its previous object.
    pub(crate) fn set_node(&mut self, object: NodeObject) -> (NodeId, Option<Arc<NodeObject>>) {
        let id = self.node_id(&object.name);
        for image in object.images.keys() {
            *self.image_nodes.entry(image.clone()).or_default() += 1;
        }
        let node = &mut self.nodes[id];
        let had_same_zone = node.exists && node.label(ZONE) == object.labels.get(ZONE);
        let old = std::mem::replace(&mut node.object, Arc::new(object));
        let existed = std::mem::replace(&mut node.exists, true);
        self.is_order_stale |= !had_same_zone;
        if !existed {
            return (id, None);
        }
        self.forget_images(&old);
        (id, Some(old))
    }

    /// Removes a node. Its pods stay until they are removed as well.
    pub(crate) fn remove_node(&mut self, name: &str) -> bool {
        let Some(id) = self.find_node(name) else { return false };
        self.nodes[id].exists = false;
        self.is_order_stale = true;
        let object = Arc::clone(&self.nodes[id].object);
        self.forget_images(&object);
        self.drop_if_unused(id);
        true
    }

    fn forget_images(&mut self, object: &NodeObject) {
        for image in object.images.keys() {
            if let Some(count) = self.image_nodes.get_mut(image) {
                *count -= 1;
                if *count == 0 {
                    self.image_nodes.remove(image);
                }
            }
        }
    }

    /// The number of nodes that have an image.
    pub(crate) fn nodes_with_image(&self, image: &str) -> i64 {
        self.image_nodes.get(image).copied().unwrap_or_default()
    }

    fn node_id(&mut self, name: &str) -> NodeId {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        let node = NodeInfo::absent(name);
        let key = Arc::clone(&node.object.name);
        let id = if let Some(id) = self.free.pop() {
            self.nodes[id] = node;
            id
        } else {
            self.nodes.push(node);
            self.nodes.len() - 1
        };
        self.by_name.insert(key, id);
        id
    }

    fn drop_if_unused(&mut self, id: NodeId) {
        let node = &self.nodes[id];
        if !node.exists && node.pods.is_empty() {
            self.by_name.remove(&node.object.name);
            self.nodes[id] = NodeInfo::default();
            self.free.push(id);
        }
    }

    /// Adds a pod that is bound to a node, changes it, or confirms an assumed one. Returns the
    /// previous state.
    pub(crate) fn set_pod(&mut self, info: Arc<PodInfo>, node: &str) -> Option<RemovedPod> {
        let removed = self.remove_pod(&info.uid);
        self.place(info, node, false);
        removed
    }

    /// Counts a pod that is about to be bound.
    pub(crate) fn assume_pod(&mut self, info: Arc<PodInfo>, node: &str) {
        self.remove_pod(&info.uid);
        self.place(info, node, true);
    }

    /// Removes a pod whose binding has failed.
    pub(crate) fn forget_pod(&mut self, uid: &str) -> Option<RemovedPod> {
        if self.is_assumed(uid) { self.remove_pod(uid) } else { None }
    }

    /// Whether a pod is bound by this scheduler, and the informer does not show that yet.
    pub(crate) fn is_assumed(&self, uid: &str) -> bool {
        self.pods.get(uid).is_some_and(|pod| pod.is_assumed)
    }

    fn place(&mut self, info: Arc<PodInfo>, node: &str, is_assumed: bool) {
        let node = self.node_id(node);
        self.nodes[node].add_pod(Arc::clone(&info));
        let key = class_key(&info.traits);
        if !self.classes.contains_key(&key) {
            self.add_class(key, &info.traits);
        }
        let class = self.classes.get_mut(&key).expect("the class was added");
        let count = class.nodes.entry(node).or_default();
        count.all += 1;
        count.active += i64::from(!info.is_deleting);
        self.pods.insert(Arc::clone(&info.uid), PlacedPod { info, node, is_assumed });
    }

    /// Removes a pod from its node.
    pub(crate) fn remove_pod(&mut self, uid: &str) -> Option<RemovedPod> {
        let PlacedPod { info, node, .. } = self.pods.remove(uid)?;
        self.nodes[node].remove_pod(uid);
        let key = class_key(&info.traits);
        let class = self.classes.get_mut(&key).expect("a pod has a class");
        let count = class.nodes.get_mut(&node).expect("a class has the nodes of its pods");
        count.all -= 1;
        count.active -= i64::from(!info.is_deleting);
        if count.all == 0 {
            class.nodes.remove(&node);
        }
        if class.nodes.is_empty() {
            self.remove_class(key);
        }
        self.drop_if_unused(node);
        Some(RemovedPod { info, node })
    }

    fn add_class(&mut self, key: ClassKey, traits: &Arc<PodTraits>) {
        let class = PodClass { traits: Arc::clone(traits), nodes: HashMap::new() };
        self.classes.insert(key, class);
        if let Some(known) = self.classes_by_namespace.get_mut(&traits.namespace) {
            known.insert(key);
        } else {
            self.classes_by_namespace.insert(traits.namespace.clone(), HashSet::from([key]));
        }
        if traits.has_affinity() {
            self.classes_with_affinity.insert(key);
        }
        if !traits.anti_affinity.is_empty() {
            self.classes_with_anti_affinity.insert(key);
        }
    }

    fn remove_class(&mut self, key: ClassKey) {
        let Some(class) = self.classes.remove(&key) else { return };
        self.classes_with_affinity.remove(&key);
        self.classes_with_anti_affinity.remove(&key);
        if let Some(known) = self.classes_by_namespace.get_mut(&class.traits.namespace) {
            known.remove(&key);
            if known.is_empty() {
                self.classes_by_namespace.remove(&class.traits.namespace);
            }
        }
    }

    /// All classes of pods.
    pub(crate) fn classes(&self) -> impl Iterator<Item = &PodClass> {
        self.classes.values()
    }

    /// The classes of pods in one namespace.
    pub(crate) fn classes_in(&self, namespace: &str) -> impl Iterator<Item = &PodClass> {
        let keys = self.classes_by_namespace.get(namespace).into_iter().flatten();
        keys.filter_map(|key| self.classes.get(key))
    }

    /// The classes whose pods have terms of affinity or anti-affinity.
    pub(crate) fn classes_with_affinity(&self) -> impl Iterator<Item = &PodClass> {
        self.classes_with_affinity.iter().filter_map(|key| self.classes.get(key))
    }

    /// The classes whose pods require anti-affinity.
    pub(crate) fn classes_with_anti_affinity(&self) -> impl Iterator<Item = &PodClass> {
        self.classes_with_anti_affinity.iter().filter_map(|key| self.classes.get(key))
    }

    /// The labels of a namespace.
    pub(crate) fn namespace_labels(&self, name: &str) -> &BTreeMap<String, String> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        self.namespaces.get(name).unwrap_or(&NONE)
    }

    /// The number of pods on each node, by index, that are not being deleted and that all selectors
    /// select.
    pub(crate) fn count_selected(&self, namespace: &str, selectors: &[Selector]) -> Vec<i64> {
        let mut counts = vec![0; self.nodes.len()];
        for class in self.classes_in(namespace) {
            if selectors.iter().all(|selector| selector.matches(&class.traits.labels)) {
                for (node, count) in &class.nodes {
                    counts[*node] += count.active;
                }
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{node, pod};
    use super::*;

    #[test]
    fn an_assumed_pod_counts_until_it_is_confirmed_or_forgotten() {
        let mut cache = ClusterCache::default();
        let (id, _) = cache.set_node(node("a", "cpu=4"));
        let info = Arc::new(pod("p", "cpu=1"));
        cache.assume_pod(Arc::clone(&info), "a");
        assert_eq!(cache.node(id).requested.milli_cpu, 1000);
        cache.set_pod(Arc::clone(&info), "a");
        assert!(cache.forget_pod("p").is_none(), "a confirmed pod is not forgotten");
        assert_eq!(cache.node(id).requested.milli_cpu, 1000);
        cache.assume_pod(info, "a");
        assert!(cache.forget_pod("p").is_some());
        assert_eq!(cache.node(id).requested.milli_cpu, 0);
        assert_eq!(cache.classes().count(), 0);
    }

    #[test]
    fn pods_of_a_removed_node_keep_its_place_until_they_are_removed() {
        let mut cache = ClusterCache::default();
        cache.set_pod(Arc::new(pod("p", "")), "late");
        cache.refresh_order();
        assert!(cache.node_order().is_empty());
        let (id, old) = cache.set_node(node("late", ""));
        assert!(old.is_none());
        assert_eq!(cache.node(id).pods.len(), 1);
        assert!(cache.remove_node("late"));
        cache.remove_pod("p");
        let (reused, _) = cache.set_node(node("other", ""));
        assert_eq!(reused, id);
    }

    #[test]
    fn nodes_alternate_between_zones() {
        let mut cache = ClusterCache::default();
        for (name, zone) in [("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b")] {
            let mut object = node(name, "");
            object.labels.insert(ZONE.to_owned(), zone.into());
            cache.set_node(object);
        }
        cache.refresh_order();
        let names: Vec<_> = cache.node_order().iter().map(|id| cache.node(*id).name()).collect();
        assert_eq!(names, ["a1", "b1", "a2", "a3"]);
    }
}
