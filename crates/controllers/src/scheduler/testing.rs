//! Nodes, pods and clusters for the unit tests of the scheduler.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::cluster_cache::ClusterCache;
use super::filter::CycleState;
use super::filter::volumes::AssumedVolumes;
use super::listers::Listers;
use super::node_info::NodeObject;
use super::pod_info::{ObservedPod, PodInfo};
use super::resources::{ResourceList, Resources};
use crate::taints::Taint;
use runtime::informer::Item;

fn list(text: &str) -> ResourceList {
    let pairs = text.split_whitespace().filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, amount)| (name.to_owned(), amount.to_owned())).collect()
}

/// A node with allocatable resources such as `cpu=4 pods=2`; 110 pods by default.
pub(crate) fn node(name: &str, resources: &str) -> NodeObject {
    let resources = list(resources);
    let pods = resources.get("pods").map_or(110, |pods| pods.parse().unwrap());
    NodeObject {
        name: name.into(),
        allocatable: Resources::parse(&resources),
        allowed_pods: pods,
        ..NodeObject::default()
    }
}

/// A taint such as `key=value:NoSchedule`.
pub(crate) fn taint(text: &str) -> Taint {
    let (name, effect) = text.split_once(':').unwrap();
    let (key, value) = name.split_once('=').unwrap_or((name, ""));
    Taint { value: value.to_owned(), ..Taint::new(key, effect, None) }
}

/// A pod with one container that requests resources such as `cpu=1`.
pub(crate) fn pod(name: &str, requests: &str) -> PodInfo {
    observe(name, &json!({}), &json!({"containers": [{"resources": {"requests": list(requests)}}]}))
}

/// The pod `p` with this spec.
pub(crate) fn pod_json(spec: &str) -> PodInfo {
    observe("p", &json!({}), &serde_json::from_str(spec).unwrap())
}

/// The pod `p` with labels.
pub(crate) fn labeled(labels: &str, spec: &str) -> PodInfo {
    let labels: Value = serde_json::from_str(labels).unwrap();
    observe("p", &json!({"labels": labels}), &serde_json::from_str(spec).unwrap())
}

/// A pod with this priority.
pub(crate) fn prioritized(name: &str, priority: i32, requests: &str) -> PodInfo {
    PodInfo { priority, ..pod(name, requests) }
}

/// A pod; `meta` may have `namespace` and `labels`.
pub(crate) fn observe(name: &str, meta: &Value, spec: &Value) -> PodInfo {
    let namespace = meta["namespace"].as_str().unwrap_or("default");
    let json = json!({
        "metadata": {"namespace": namespace, "name": name, "uid": name,
            "labels": meta.get("labels").cloned().unwrap_or_else(|| json!({})),
            "ownerReferences": meta.get("owners").cloned().unwrap_or_else(|| json!([]))},
        "spec": spec,
    });
    let item = Item::parse(json.to_string().into_bytes()).unwrap();
    ObservedPod::of(&item, item.decode().unwrap()).info
}

/// A cluster of nodes such as `a zone=1 taint=k:NoSchedule; b`, each with 4 cpus and 8 Gi, and pods:
/// name, metadata with `spec`, node.
pub(crate) fn cluster(nodes: &str, pods: &[(&str, &str, &str)]) -> ClusterCache {
    let mut cache = ClusterCache::default();
    for text in nodes.split(';') {
        let mut words = text.split_whitespace();
        let mut object = node(words.next().unwrap(), "cpu=4 memory=8Gi");
        for word in words {
            match word.split_once('=').unwrap() {
                ("taint", text) => object.taints.push(taint(text)),
                (key, value) => object.labels.insert(key.to_owned(), value.into()),
            }
        }
        cache.set_node(object);
    }
    for (name, meta, node) in pods {
        let meta: Value = serde_json::from_str(meta).unwrap();
        let spec = meta.get("spec").cloned().unwrap_or_else(|| json!({}));
        cache.set_pod(Arc::new(observe(name, &meta, &spec)), node);
    }
    cache.namespaces.insert("default".to_owned(), BTreeMap::new());
    cache.refresh_order();
    cache
}

/// For each node, in the order of names, `fits` or the reason of its rejection, with `!` if it is
/// unresolvable; `all: ` before a reason that rejects all nodes.
pub(crate) fn reasons(cache: &ClusterCache, pod: &PodInfo) -> Vec<String> {
    reasons_with(cache, &Listers::empty(), pod)
}

/// The same, with other objects.
pub(crate) fn reasons_with(cache: &ClusterCache, listers: &Listers, pod: &PodInfo) -> Vec<String> {
    let mut nodes: Vec<_> = cache.node_order().iter().map(|id| cache.node(*id)).collect();
    nodes.sort_by_key(|node| node.name().to_owned());
    let state = match CycleState::prepare(cache, listers, &AssumedVolumes::default(), pod) {
        Ok(state) => state,
        Err(rejection) => return vec![format!("all: {}", rejection.reason); nodes.len()],
    };
    let reason = |node| match state.filter(pod, node) {
        Ok(()) => "fits".to_owned(),
        Err(it) => format!("{}{}", if it.is_unresolvable { "!" } else { "" }, it.reason),
    };
    nodes.into_iter().map(reason).collect()
}
