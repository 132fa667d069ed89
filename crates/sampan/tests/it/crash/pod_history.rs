//! [`PodHistory`]: the pods that existed together at each moment, from the events of a watch.
//!
//! Every plane promises of its pods:
//! - a pod that is not forced to end is removed only after its containers have ended, so that no
//!   other pod with its name runs at the same time;
//! - no two pods that run have the same IP.

use std::collections::{BTreeMap, BTreeSet};

use super::interrupted_plane::WatchEvent;
use machinery::Value;

/// See the [module documentation](self).
#[derive(Default)]
pub(super) struct PodHistory {
    /// The pods that exist, by namespace and name.
    pods: BTreeMap<(String, String), Value>,
    /// The uids of all pods that ever existed.
    pub created: BTreeSet<String>,
    /// The uids of all pods that ever ran.
    pub started: BTreeSet<String>,
    /// The uids of all pods that ever succeeded.
    pub succeeded: BTreeSet<String>,
}

impl PodHistory {
    /// Replays events, and calls `check` after each of them.
    pub(super) fn replay(
        &mut self,
        events: Vec<WatchEvent>,
        mut check: impl FnMut(&Self, &WatchEvent),
    ) {
        for event in events {
            if event.object["kind"] == "Pod" {
                self.apply(&event);
            }
            check(self, &event);
        }
    }

    fn apply(&mut self, event: &WatchEvent) {
        let pod = &event.object;
        let text = |pointer: &str| pod.pointer(pointer).unwrap().as_str().unwrap().to_owned();
        let key = (text("/metadata/namespace"), text("/metadata/name"));
        let uid = text("/metadata/uid");
        match event.event_type.as_str() {
            "DELETED" => {
                let last = self.pods.remove(&key).unwrap();
                assert_eq!(last["metadata"]["uid"], uid.as_str());
                assert!(!is_running(&last), "{key:?} was removed while it ran: {last}");
                return;
            }
            "ADDED" => assert!(self.created.insert(uid.clone()), "{key:?} was created twice"),
            _ => assert_eq!(self.pods[&key]["metadata"]["uid"], uid.as_str()),
        }
        if is_running(pod) {
            self.started.insert(uid.clone());
            let ip = &pod["status"]["podIP"];
            let has_same_ip = |other: &&Value| is_running(other) && other["status"]["podIP"] == *ip;
            let others = self.pods.iter().filter(|(other, _)| **other != key);
            let same = others.map(|(_, pod)| pod).find(has_same_ip);
            assert!(same.is_none(), "two pods have the IP {ip}: {pod} {}", same.unwrap());
        }
        if pod["status"]["phase"] == "Succeeded" {
            self.succeeded.insert(uid);
        }
        self.pods.insert(key, pod.clone());
    }

    /// The pods that exist and are not being deleted.
    pub(super) fn remaining(&self) -> impl Iterator<Item = &Value> {
        self.pods.values().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
    }

    /// The pod of this name in the namespace `default`.
    pub(super) fn pod(&self, name: &str) -> Option<&Value> {
        self.pods.get(&("default".to_owned(), name.to_owned()))
    }
}

fn is_running(pod: &Value) -> bool {
    let statuses = pod["status"]["containerStatuses"].as_array();
    statuses.into_iter().flatten().any(|status| status["state"]["running"].is_object())
}

/// Whether a pod has neither succeeded nor failed.
pub(super) fn is_active(pod: &Value) -> bool {
    pod["status"]["phase"] != "Succeeded" && pod["status"]["phase"] != "Failed"
}

/// Whether a pod has the condition `Ready`.
pub(super) fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}
