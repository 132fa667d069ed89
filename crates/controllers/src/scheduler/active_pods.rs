//! [`ActivePods`]: the pods that can be decided about now. Those of the highest priority leave first;
//! among them the namespaces take turns, and the pods of one namespace leave by arrival. So the pods of
//! one namespace delay each pod of another by one decision, however many they are.
//!
//! Invariants: a line has a pod, a level has a line, and `turns` has the turn of each line.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::queue::QueuedPod;

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct ActivePods {
    levels: BTreeMap<Reverse<i32>, Level>,
    len: usize,
    /// The number of turns that were given.
    last_turn: u64,
}

/// The pods of one priority.
#[derive(Debug, Default)]
struct Level {
    /// By namespace.
    lines: HashMap<Arc<str>, Line>,
    /// The namespaces, in the order of their next turns.
    turns: BTreeMap<u64, Arc<str>>,
}

/// The pods of one priority and namespace.
#[derive(Debug)]
struct Line {
    turn: u64,
    /// By arrival.
    pods: BTreeMap<u64, QueuedPod>,
}

/// Where an active pod is.
#[derive(Debug, Clone)]
pub(crate) struct ActiveKey {
    priority: Reverse<i32>,
    namespace: Arc<str>,
    arrival: u64,
}

impl ActivePods {
    /// Adds a pod. A namespace that had none takes the last turn.
    pub(crate) fn insert(&mut self, arrival: u64, pod: QueuedPod) -> ActiveKey {
        let priority = Reverse(pod.info.priority);
        let level = self.levels.entry(priority).or_default();
        let known = level.lines.get_key_value(pod.info.key.namespace());
        let namespace = match known {
            Some((namespace, _)) => Arc::clone(namespace),
            None => pod.info.key.namespace().into(),
        };
        let line = level.lines.entry(Arc::clone(&namespace)).or_insert_with(|| {
            self.last_turn += 1;
            level.turns.insert(self.last_turn, Arc::clone(&namespace));
            Line { turn: self.last_turn, pods: BTreeMap::new() }
        });
        if line.pods.insert(arrival, pod).is_none() {
            self.len += 1;
        }
        ActiveKey { priority, namespace, arrival }
    }

    /// The number of pods.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// A pod.
    pub(crate) fn get_mut(&mut self, key: &ActiveKey) -> Option<&mut QueuedPod> {
        let level = self.levels.get_mut(&key.priority)?;
        level.lines.get_mut(&key.namespace)?.pods.get_mut(&key.arrival)
    }

    /// Takes the next pod out. Its namespace takes the last turn.
    pub(crate) fn pop(&mut self) -> Option<QueuedPod> {
        let mut entry = self.levels.first_entry()?;
        let level = entry.get_mut();
        let (_, namespace) = level.turns.pop_first()?;
        let line = level.lines.get_mut(&namespace)?;
        let (_, pod) = line.pods.pop_first()?;
        self.len -= 1;
        if line.pods.is_empty() {
            level.lines.remove(&namespace);
        } else {
            self.last_turn += 1;
            line.turn = self.last_turn;
            level.turns.insert(line.turn, namespace);
        }
        if level.lines.is_empty() {
            entry.remove();
        }
        Some(pod)
    }

    /// Takes a pod out of the order.
    pub(crate) fn remove(&mut self, key: &ActiveKey) -> Option<QueuedPod> {
        let level = self.levels.get_mut(&key.priority)?;
        let line = level.lines.get_mut(&key.namespace)?;
        let pod = line.pods.remove(&key.arrival)?;
        self.len -= 1;
        if line.pods.is_empty() {
            level.turns.remove(&line.turn);
            level.lines.remove(&key.namespace);
        }
        if level.lines.is_empty() {
            self.levels.remove(&key.priority);
        }
        Some(pod)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use serde_json::json;

    use super::super::pod_info::PodInfo;
    use super::super::rejection::Plugins;
    use super::super::testing::observe;
    use super::*;
    use keel::{Entropy, Timestamp};

    fn queued(name: &str, namespace: &str, priority: i32) -> QueuedPod {
        let info = observe(name, &json!({"namespace": namespace}), &json!({}));
        let info = Arc::new(PodInfo { priority, ..info });
        let since = Timestamp::from_seconds(0);
        QueuedPod { info, attempts: 0, since, rejected_by: Plugins::default() }
    }

    /// Adds pods such as `a1`, in the namespace of their first letter, and shows the order in which
    /// they leave. A priority may follow, as in `b2:9`.
    fn order(pods: &str) -> String {
        let mut active = ActivePods::default();
        for (arrival, text) in (0..).zip(pods.split_whitespace()) {
            let (name, priority) = text.split_once(':').unwrap_or((text, "0"));
            active.insert(arrival, queued(name, &name[..1], priority.parse().unwrap()));
        }
        let names = std::iter::from_fn(|| active.pop());
        let names: Vec<_> = names.map(|pod| pod.info.key.name().to_owned()).collect();
        assert!(active.len() == 0 && active.levels.is_empty());
        names.join(" ")
    }

    #[test]
    fn namespaces_take_turns() {
        assert_eq!(order("a1 a2 a3 a4 b1 b2 c1"), "a1 b1 c1 a2 b2 a3 a4");
    }

    #[test]
    fn a_higher_priority_leaves_first_whatever_its_namespace() {
        assert_eq!(order("a1 b1 a2:9 a3:9 a4:9 b2:9 c1:-1"), "a2 b2 a3 a4 a1 b1 c1");
    }

    #[test]
    fn one_decision_is_between_a_pod_and_ten_thousand_of_another_namespace() {
        let mut active = ActivePods::default();
        for arrival in 0..10_000 {
            active.insert(arrival, queued("many", "many", 0));
        }
        active.pop();
        active.insert(10_000, queued("one", "one", 0));
        let names = [(); 2].map(|()| active.pop().unwrap().info.key.name().to_owned());
        assert_eq!(names, ["many", "one"]);
    }

    /// The same, with a list of namespaces and lists of pods.
    #[derive(Default)]
    struct Model(BTreeMap<Reverse<i32>, VecDeque<(String, VecDeque<u64>)>>);

    impl Model {
        fn insert(&mut self, priority: i32, namespace: &str, arrival: u64) {
            let lines = self.0.entry(Reverse(priority)).or_default();
            match lines.iter_mut().find(|(known, _)| known == namespace) {
                Some((_, line)) => line.push_back(arrival),
                None => lines.push_back((namespace.to_owned(), [arrival].into())),
            }
        }

        fn remove(&mut self, arrival: u64) {
            for lines in self.0.values_mut() {
                for (_, line) in lines.iter_mut() {
                    line.retain(|known| *known != arrival);
                }
                lines.retain(|(_, line)| !line.is_empty());
            }
            self.0.retain(|_, lines| !lines.is_empty());
        }

        fn pop(&mut self) -> Option<u64> {
            let lines = self.0.values_mut().next()?;
            let arrival = lines.front()?.1.front().copied()?;
            lines.rotate_left(1);
            self.remove(arrival);
            Some(arrival)
        }
    }

    #[test]
    fn random_scripts_have_the_order_of_a_naive_queue() {
        let seed = 7;
        let (entropy, mut active, mut model) =
            (Entropy::seeded(seed), ActivePods::default(), Model::default());
        let mut keys = Vec::new();
        for arrival in 0..5_000_u64 {
            match entropy.below(5) {
                0..=2 => {
                    let namespace =
                        ["a", "b", "c", "d"][usize::try_from(entropy.below(4)).unwrap()];
                    let priority = i32::try_from(entropy.below(2)).unwrap();
                    let pod = queued(&arrival.to_string(), namespace, priority);
                    keys.push(active.insert(arrival, pod));
                    model.insert(priority, namespace, arrival);
                }
                3 => {
                    let popped = active.pop().map(|pod| pod.info.key.name().to_owned());
                    assert_eq!(popped, model.pop().map(|it| it.to_string()), "seed {seed}");
                }
                _ if keys.is_empty() => {}
                _ => {
                    let count = u64::try_from(keys.len()).unwrap();
                    let key = keys.swap_remove(usize::try_from(entropy.below(count)).unwrap());
                    active.remove(&key);
                    model.remove(key.arrival);
                }
            }
        }
        while let Some(arrival) = model.pop() {
            assert_eq!(active.pop().unwrap().info.key.name(), arrival.to_string(), "seed {seed}");
        }
        assert!(active.pop().is_none());
    }
}
