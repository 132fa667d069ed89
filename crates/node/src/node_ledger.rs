//! [`NodeLedger`]: what the pods take that each node has accepted.
//!
//! The totals are kept up to date by the changes of pods, so that a decision does not depend on the
//! number of pods. A pod that has ended may still be counted for a moment; therefore the pods of a node
//! are looked at again before a pod is refused. The cache of pods shows that end before it shows a pod
//! that the scheduler has bound because of it, since both come from one watch.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;

use crate::pod_resources::{self, Amounts};
use crate::pod_view::PodView;
use runtime::ObjectKey;
use runtime::informer::Indexer;

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct NodeLedger(Mutex<State>);

/// A resource of which a node has not enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Insufficient {
    /// The name of the resource.
    pub resource: String,
    requested: i64,
    used: i64,
    capacity: i64,
}

#[derive(Debug, Default)]
struct State {
    node_of: HashMap<ObjectKey, Arc<str>>,
    nodes: HashMap<Arc<str>, Accepted>,
    /// The amounts of the last pod: those of the next one are often the same.
    last: Arc<Amounts>,
}

/// The pods that a node has accepted, and what they take together.
#[derive(Debug, Default)]
struct Accepted {
    pods: HashMap<ObjectKey, Entry>,
    total: Amounts,
}

#[derive(Debug)]
struct Entry {
    uid: Box<str>,
    amounts: Arc<Amounts>,
}

impl Insufficient {
    /// The sentence of the kubelet.
    pub(crate) fn message(&self) -> String {
        let Self { resource, requested, used, capacity } = self;
        format!(
            "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
        )
    }
}

impl NodeLedger {
    /// Records a pod that was accepted, with what it has now.
    pub(crate) fn record(&self, key: &ObjectKey, pod: &PodView) {
        self.lock().put(key, pod, pod_resources::allocated(pod));
    }

    /// Forgets a pod that has ended or was deleted.
    pub(crate) fn release(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }

    /// Accepts a pod, or other amounts for a pod that was accepted, if its node has them.
    pub(crate) fn accept(
        &self,
        key: &ObjectKey,
        pod: &PodView,
        allocatable: &Amounts,
        pods: &Indexer,
    ) -> Result<(), Insufficient> {
        let (node, wanted) = (pod.spec.node_name.as_str(), pod_resources::requested(pod));
        let mut state = self.lock();
        if state.insufficient(key, node, &wanted, allocatable).is_some() {
            state.remove_ended(node, pods);
            if let Some(insufficient) = state.insufficient(key, node, &wanted, allocatable) {
                return Err(insufficient);
            }
        }
        state.put(key, pod, wanted);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Accepted {
    /// What the pods but one take.
    fn others(&self, key: &ObjectKey) -> Cow<'_, Amounts> {
        let Some(own) = self.pods.get(key) else { return Cow::Borrowed(&self.total) };
        if self.total.is_saturated() {
            let others = self.pods.iter().filter(|(other, _)| *other != key);
            return Cow::Owned(total_of(others.map(|(_, entry)| entry)));
        }
        let mut others = self.total.clone();
        others.subtract(&own.amounts);
        Cow::Owned(others)
    }
}

fn total_of<'a>(pods: impl Iterator<Item = &'a Entry>) -> Amounts {
    let mut total = Amounts::default();
    pods.for_each(|entry| total.add(&entry.amounts));
    total
}

impl State {
    fn put(&mut self, key: &ObjectKey, pod: &PodView, amounts: Amounts) {
        let (uid, node) = (pod.metadata.uid.as_str(), pod.spec.node_name.as_str());
        if let Some(known) = self.nodes.get(node).and_then(|it| it.pods.get(key))
            && *known.uid == *uid
            && *known.amounts == amounts
        {
            return;
        }
        self.remove(key);
        if *self.last != amounts {
            self.last = Arc::new(amounts);
        }
        let known = self.nodes.get_key_value(node).map(|(name, _)| Arc::clone(name));
        let node = known.unwrap_or_else(|| node.into());
        self.node_of.insert(key.clone(), Arc::clone(&node));
        let accepted = self.nodes.entry(node).or_default();
        accepted.total.add(&self.last);
        let entry = Entry { uid: uid.into(), amounts: Arc::clone(&self.last) };
        accepted.pods.insert(key.clone(), entry);
    }

    fn remove(&mut self, key: &ObjectKey) {
        let Some(node) = self.node_of.remove(key) else { return };
        let Some(accepted) = self.nodes.get_mut(&node) else { return };
        if let Some(entry) = accepted.pods.remove(key) {
            if accepted.total.is_saturated() {
                accepted.total = total_of(accepted.pods.values());
            } else {
                accepted.total.subtract(&entry.amounts);
            }
        }
        if accepted.pods.is_empty() {
            self.nodes.remove(&node);
        }
    }

    /// Removes the pods of a node that the cache shows as ended or deleted.
    fn remove_ended(&mut self, node: &str, pods: &Indexer) {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Phased {
            status: Status,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Status {
            phase: String,
        }
        let Some(accepted) = self.nodes.get(node) else { return };
        let has_ended = |(key, entry): &(&ObjectKey, &Entry)| {
            pods.get(key).filter(|item| item.uid() == &*entry.uid).is_none_or(|item| {
                let pod: Phased = item.decode().unwrap_or_default();
                matches!(pod.status.phase.as_str(), "Succeeded" | "Failed")
            })
        };
        let ended = accepted.pods.iter().filter(has_ended);
        let ended: Vec<ObjectKey> = ended.map(|(key, _)| key.clone()).collect();
        for key in ended {
            self.remove(&key);
        }
    }

    /// The first resource of which a node has not enough for a pod besides the others. Resources that
    /// the node does not name are not counted.
    fn insufficient(
        &self,
        key: &ObjectKey,
        node: &str,
        wanted: &Amounts,
        allocatable: &Amounts,
    ) -> Option<Insufficient> {
        const FIRST: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
        let accepted = self.nodes.get(node);
        let own = accepted.and_then(|it| it.pods.get(key));
        let others = accepted.map(|accepted| accepted.others(key)).unwrap_or_default();
        let count = accepted.map_or(0, |it| it.pods.len()) - usize::from(own.is_some());
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let check =
            |resource: &str, requested: i64, used: i64| {
                let capacity = allocatable.get(resource)?;
                let resource = resource.to_owned();
                (requested > 0 && requested > capacity.saturating_sub(used))
                    .then_some(Insufficient { resource, requested, used, capacity })
            };
        let rest = wanted.names().filter(|name| !FIRST.contains(name));
        check("pods", 1, count).or_else(|| {
            FIRST.into_iter().chain(rest).find_map(|name| {
                check(name, wanted.get(name)?, others.get(name).unwrap_or_default())
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use runtime::informer::Item;

    fn pod(name: &str, uid: &str, cpu: &str, phase: &str) -> (ObjectKey, PodView, Item) {
        let json = json!({
            "metadata": {"namespace": "n", "name": name, "uid": uid},
            "spec": {"nodeName": "node", "containers": [
                {"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
            "status": {"phase": phase},
        });
        let item = Item::parse(json.to_string()).unwrap();
        (ObjectKey::new("n", name), item.decode().unwrap(), item)
    }

    fn allocatable(cpu: &str, pods: &str) -> Amounts {
        let list =
            [("cpu", cpu), ("pods", pods)].map(|(name, it)| (name.to_owned(), it.to_owned()));
        Amounts::of(&list.into())
    }

    #[test]
    fn a_pod_is_accepted_if_the_node_has_what_it_wants() {
        let (ledger, pods, node) = (NodeLedger::default(), Indexer::new(), allocatable("2", "2"));
        let accept = |name: &str, cpu: &str| {
            let (key, pod, item) = pod(name, name, cpu, "Running");
            pods.insert(item);
            let accepted = ledger.accept(&key, &pod, &node, &pods);
            accepted.map_err(|insufficient| insufficient.message())
        };
        assert_eq!(accept("a", "1500m"), Ok(()));
        let expect =
            "Node didn't have enough resource: cpu, requested: 600, used: 1500, capacity: 2000";
        assert_eq!(accept("b", "600m"), Err(expect.to_owned()));
        assert_eq!(accept("b", "500m"), Ok(()));
        let expect = "Node didn't have enough resource: pods, requested: 1, used: 2, capacity: 2";
        assert_eq!(accept("c", "0"), Err(expect.to_owned()));
        assert_eq!(accept("a", "1"), Ok(()), "less than before");
        assert_eq!(accept("b", "1"), Ok(()), "which leaves more for others");
        ledger.release(&ObjectKey::new("n", "b"));
        assert_eq!(accept("c", "1"), Ok(()));
    }

    #[test]
    fn pods_that_have_ended_are_not_counted_although_no_event_was_seen() {
        let (ledger, pods, node) = (NodeLedger::default(), Indexer::new(), allocatable("1", "9"));
        let (a, b) = (pod("a", "1", "1", "Running"), pod("b", "2", "1", ""));
        for (key, pod, item) in [&a, &b] {
            pods.insert(item.clone());
            let is_accepted = ledger.accept(key, pod, &node, &pods).is_ok();
            assert_eq!(is_accepted, key.name() == "a");
        }
        pods.insert(pod("a", "1", "1", "Succeeded").2);
        assert_eq!(ledger.accept(&b.0, &b.1, &node, &pods), Ok(()));
        // Another pod of the same name.
        pods.insert(pod("b", "3", "1", "").2);
        assert_eq!(ledger.accept(&a.0, &a.1, &node, &pods), Ok(()));
    }

    #[test]
    fn after_a_pod_beyond_the_range_the_others_still_count() {
        let (ledger, pods, node) = (NodeLedger::default(), Indexer::new(), allocatable("2", "9"));
        let huge = "9223372036854775";
        for (name, cpu) in [("a", "1500m"), ("b", huge), ("c", huge)] {
            let (key, pod, item) = pod(name, name, cpu, "Running");
            pods.insert(item);
            ledger.record(&key, &pod);
        }
        let (key, new, _) = pod("d", "d", "1", "");
        assert!(ledger.accept(&key, &new, &node, &pods).is_err());
        ledger.release(&ObjectKey::new("n", "b"));
        ledger.release(&ObjectKey::new("n", "c"));
        let refused = ledger.accept(&key, &new, &node, &pods).map_err(|it| it.message());
        let expect =
            "Node didn't have enough resource: cpu, requested: 1000, used: 1500, capacity: 2000";
        assert_eq!(refused, Err(expect.to_owned()));
    }

    #[test]
    fn a_resource_that_the_node_does_not_name_is_not_counted() {
        let (ledger, pods) = (NodeLedger::default(), Indexer::new());
        let (key, pod, _) = pod("a", "1", "1k", "");
        assert_eq!(ledger.accept(&key, &pod, &Amounts::default(), &pods), Ok(()));
    }
}
