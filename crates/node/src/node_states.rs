//! [`NodeStates`]: the nodes that were seen since the start, and when their leases are renewed.
//!
//! A deleted node of the plane stays, so that it is not registered again. Those of users are forgotten.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use keel::Timestamp;

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct NodeStates {
    /// By name. Not locked while a request is sent.
    states: Mutex<HashMap<String, NodeState>>,
}

#[derive(Debug)]
struct NodeState {
    uid: String,
    next_renewal: Timestamp,
}

impl NodeStates {
    /// Records a node; returns whether it was not seen before. Its lease is renewed now, then.
    pub(crate) fn add(&self, name: &str, uid: &str, now: Timestamp) -> bool {
        let mut states = self.lock();
        if states.get(name).is_some_and(|state| state.uid == uid) {
            return false;
        }
        let state = NodeState { uid: uid.to_owned(), next_renewal: now };
        states.insert(name.to_owned(), state);
        true
    }

    /// Records that a node does not exist. Returns whether it is one of the plane that was not seen yet,
    /// and has to be registered.
    pub(crate) fn record_missing(&self, name: &str, is_own: bool) -> bool {
        let mut states = self.lock();
        if !is_own {
            states.remove(name);
        }
        is_own && !states.contains_key(name)
    }

    /// The time of the next renewal of a node's lease.
    pub(crate) fn next_renewal(&self, name: &str) -> Timestamp {
        self.lock().get(name).map(|state| state.next_renewal).unwrap_or_default()
    }

    /// Sets the time of the next renewal of the lease of a node that was not forgotten.
    pub(crate) fn set_next_renewal(&self, name: &str, at: Timestamp) {
        if let Some(state) = self.lock().get_mut(name) {
            state.next_renewal = at;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, NodeState>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_node_with_another_uid_is_new_and_its_lease_is_renewed_at_once() {
        let (states, start) = (NodeStates::default(), Timestamp::from_seconds(100));
        assert!(states.add("n", "1", start));
        states.set_next_renewal("n", start + Duration::from_secs(10));
        assert!(!states.add("n", "1", start));
        assert_eq!(states.next_renewal("n"), start + Duration::from_secs(10));
        assert!(states.add("n", "2", start));
        assert_eq!(states.next_renewal("n"), start);
    }

    #[test]
    fn a_deleted_node_of_a_user_is_forgotten_and_one_of_the_plane_is_not_registered_again() {
        let (states, now) = (NodeStates::default(), Timestamp::from_seconds(100));
        assert!(states.record_missing("own", true));
        for name in ["own", "other"] {
            assert!(states.add(name, "1", now));
            assert!(!states.record_missing(name, name == "own"));
            // The lease of a deleted node may just have been renewed.
            states.set_next_renewal(name, now);
        }
        assert_eq!(states.lock().keys().collect::<Vec<_>>(), ["own"]);
    }
}
