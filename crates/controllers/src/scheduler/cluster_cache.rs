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

use super::constraints::Constraints;
use super::node_info::{NodeInfo, NodeObject, ZONE};
use super::pod_info::{PodInfo, PodTraits};
use super::selectors::Selector;
use super::trait_interner::Interned;

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
    with_affinity: AffinityGroups,
    with_anti_affinity: AffinityGroups,
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

/// The classes whose pods have the same constraints, so that each constraint is considered once.
#[derive(Debug)]
struct AffinityGroup {
    constraints: Interned<Constraints>,
    classes: HashSet<ClassKey>,
}

#[derive(Debug, Default)]
struct AffinityGroups {
    /// By the address of the constraints.
    groups: HashMap<usize, AffinityGroup>,
    /// The number of terms of all groups.
    terms: usize,
}

impl AffinityGroups {
    fn add(&mut self, key: ClassKey, constraints: &Interned<Constraints>) {
        let group = self.groups.entry(constraints.address()).or_insert_with(|| {
            self.terms += constraints.number_of_terms();
            AffinityGroup { constraints: constraints.clone(), classes: HashSet::new() }
        });
        group.classes.insert(key);
    }

    fn remove(&mut self, key: ClassKey, constraints: &Interned<Constraints>) {
        let address = constraints.address();
        let Some(group) = self.groups.get_mut(&address) else { return };
        group.classes.remove(&key);
        if group.classes.is_empty() {
            self.groups.remove(&address);
            self.terms -= constraints.number_of_terms();
        }
    }
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
        if let Some(old) = self.replace_pod(&info, node) {
            return Some(old);
        }
        let removed = self.remove_pod(&info.uid);
        self.place(info, node, false);
        removed
    }

    /// Replaces a pod that uses the same as before. Nothing is counted again: it may use many ports.
    fn replace_pod(&mut self, info: &Arc<PodInfo>, node: &str) -> Option<RemovedPod> {
        let placed = self.pods.get_mut(&info.uid)?;
        let known = &mut self.nodes[placed.node];
        let uses_the_same = Arc::ptr_eq(&placed.info.traits, &info.traits)
            && placed.info.is_deleting == info.is_deleting
            && known.name() == node;
        if !uses_the_same {
            return None;
        }
        known.replace_pod(info);
        placed.is_assumed = false;
        let old = std::mem::replace(&mut placed.info, Arc::clone(info));
        Some(RemovedPod { info: old, node: placed.node })
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
        if traits.constraints.number_of_terms() > 0 {
            self.with_affinity.add(key, &traits.constraints);
        }
        if !traits.constraints.anti_affinity.is_empty() {
            self.with_anti_affinity.add(key, &traits.constraints);
        }
    }

    fn remove_class(&mut self, key: ClassKey) {
        let Some(class) = self.classes.remove(&key) else { return };
        self.with_affinity.remove(key, &class.traits.constraints);
        self.with_anti_affinity.remove(key, &class.traits.constraints);
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

    /// The constraints that have terms of affinity or anti-affinity, with the classes of their pods.
    pub(crate) fn groups_with_affinity(
        &self,
    ) -> impl Iterator<Item = (&Constraints, impl Iterator<Item = &PodClass> + Clone)> {
        self.groups(&self.with_affinity)
    }

    /// The constraints that require anti-affinity, with the classes of their pods.
    pub(crate) fn groups_with_anti_affinity(
        &self,
    ) -> impl Iterator<Item = (&Constraints, impl Iterator<Item = &PodClass> + Clone)> {
        self.groups(&self.with_anti_affinity)
    }

    fn groups<'a>(
        &'a self,
        groups: &'a AffinityGroups,
    ) -> impl Iterator<Item = (&'a Constraints, impl Iterator<Item = &'a PodClass> + Clone)> {
        groups.groups.values().map(|group| {
            let classes = group.classes.iter().filter_map(|key| self.classes.get(key));
            (&*group.constraints, classes)
        })
    }

    /// The number of terms of the pods on nodes that a decision considers.
    pub(crate) fn number_of_terms(&self) -> usize {
        self.with_affinity.terms
    }

    /// The number of classes of pods.
    pub(crate) fn number_of_classes(&self) -> usize {
        self.classes.len()
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
    use serde_json::json;

    use super::super::testing::{node, observe, pod};
    use super::super::trait_interner::TraitInterner;
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
    fn a_confirmed_pod_is_replaced_by_its_present_state() {
        let mut cache = ClusterCache::default();
        let (id, _) = cache.set_node(node("a", "cpu=4"));
        let info = Arc::new(pod("p", "cpu=1"));
        cache.assume_pod(Arc::clone(&info), "a");
        let confirmed = Arc::new(PodInfo { priority: 7, ..PodInfo::clone(&info) });
        let old = cache.set_pod(Arc::clone(&confirmed), "a").unwrap();
        assert!(Arc::ptr_eq(&old.info, &info) && !cache.is_assumed("p"));
        assert_eq!(cache.node(id).pods.iter().map(|it| it.priority).collect::<Vec<_>>(), [7]);
        let deleting = Arc::new(PodInfo { is_deleting: true, ..PodInfo::clone(&info) });
        cache.set_pod(deleting, "a");
        let counts: Vec<_> = cache.classes().flat_map(|class| class.nodes.values()).collect();
        assert_eq!((counts[0].all, counts[0].active), (1, 0));
        cache.set_pod(info, "b");
        assert!(cache.node(id).pods.is_empty());
    }

    #[test]
    fn equal_constraints_are_considered_once_as_long_as_they_have_a_pod() {
        let mut interner = TraitInterner::default();
        let mut info = |name: &str| {
            let spec = json!({"affinity": {"podAntiAffinity":
                {"requiredDuringSchedulingIgnoredDuringExecution":
                    [{"topologyKey": "a"}, {"topologyKey": "b"}, {"topologyKey": "c"}]}}});
            let mut info = observe(name, &json!({"labels": {"pod-index": name}}), &spec);
            info.traits = interner.intern(info.traits);
            Arc::new(info)
        };
        let mut cache = ClusterCache::default();
        for name in ["0", "1", "2"] {
            cache.set_pod(info(name), "a");
        }
        let classes: Vec<_> =
            cache.groups_with_anti_affinity().map(|(_, classes)| classes.count()).collect();
        assert_eq!((classes, cache.number_of_terms()), (vec![3], 3));
        for name in ["0", "1"] {
            cache.remove_pod(name);
        }
        assert_eq!((cache.groups_with_affinity().count(), cache.number_of_terms()), (1, 3));
        cache.remove_pod("2");
        assert_eq!((cache.groups_with_affinity().count(), cache.number_of_terms()), (0, 0));
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
