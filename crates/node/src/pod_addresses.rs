//! [`PodAddresses`]: the addresses of the pods of all simulated nodes, from one network: 10.128.0.0/9.
//!
//! Invariant: two pods that exist never have the same address.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use runtime::ObjectKey;

const FIRST: u32 = 0x0a80_0001;
const COUNT: u32 = (1 << 23) - 2;

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct PodAddresses(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    by_pod: HashMap<ObjectKey, u32>,
    used: HashSet<u32>,
    /// The index of the next address to try.
    next: u32,
}

impl PodAddresses {
    /// Records the address of a pod that exists.
    pub(crate) fn record(&self, pod: &ObjectKey, address: &str) {
        let Ok(address) = address.parse::<Ipv4Addr>() else { return };
        let address = u32::from(address);
        let mut state = self.lock();
        if state.by_pod.get(pod) != Some(&address) && state.used.insert(address) {
            if let Some(former) = state.by_pod.insert(pod.clone(), address) {
                state.used.remove(&former);
            }
            // After a restart, new pods do not get the addresses of pods that ended recently.
            state.next = state.next.max(address.saturating_sub(FIRST).saturating_add(1) % COUNT);
        }
    }

    /// The address of a pod; a new one if it has none.
    pub(crate) fn assign(&self, pod: &ObjectKey) -> String {
        let mut state = self.lock();
        if let Some(address) = state.by_pod.get(pod) {
            return Ipv4Addr::from(*address).to_string();
        }
        let address = state.free_address();
        state.by_pod.insert(pod.clone(), address);
        Ipv4Addr::from(address).to_string()
    }

    /// Frees the address of a pod that was deleted.
    pub(crate) fn release(&self, pod: &ObjectKey) {
        let mut state = self.lock();
        if let Some(address) = state.by_pod.remove(pod) {
            state.used.remove(&address);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The next address that no pod has. There are more addresses than pods that fit into memory.
    fn free_address(&mut self) -> u32 {
        loop {
            let address = FIRST + self.next;
            self.next = (self.next + 1) % COUNT;
            if self.used.insert(address) {
                return address;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_unique_and_reused_only_after_the_others() {
        let addresses = PodAddresses::default();
        let pod = |name: &str| ObjectKey::new("n", name);
        addresses.record(&pod("old"), "10.128.0.2");
        assert_eq!(addresses.assign(&pod("a")), "10.128.0.3");
        assert_eq!(addresses.assign(&pod("a")), "10.128.0.3");
        addresses.release(&pod("a"));
        assert_eq!(addresses.assign(&pod("b")), "10.128.0.4");
        assert_eq!(addresses.assign(&pod("old")), "10.128.0.2");
    }
}
