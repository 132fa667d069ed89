//! [`Zone`]: the nodes of a failure domain that wait for their `NoExecute` taint, and the rate at which
//! they get it.

use std::collections::VecDeque;
use std::time::Duration;

use keel::Timestamp;

/// The time between two taints in a zone whose nodes are mostly ready.
const NORMAL_INTERVAL: Duration = Duration::from_secs(10);
/// The time between two taints in a large zone whose nodes are mostly not ready.
const SLOW_INTERVAL: Duration = Duration::from_secs(100);
/// The nodes of a zone that is not small.
const LARGE_ZONE: usize = 50;

/// The state of a zone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum ZoneState {
    /// The zone was not checked yet.
    #[default]
    Initial,
    /// Most nodes are ready.
    Normal,
    /// More than two nodes, and 55 % of all, are not ready.
    PartialDisruption,
    /// No node is ready.
    FullDisruption,
}

impl ZoneState {
    /// The state of a zone with these numbers of nodes.
    pub(super) fn of(ready: usize, not_ready: usize) -> Self {
        if ready == 0 && not_ready > 0 {
            return Self::FullDisruption;
        }
        // At least 55 %.
        if not_ready > 2 && not_ready * 100 >= 55 * (ready + not_ready) {
            return Self::PartialDisruption;
        }
        Self::Normal
    }
}

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(super) struct Zone {
    /// The state after the last pass.
    pub state: ZoneState,
    /// The time between two taints; `None` if no node gets one.
    interval: Option<Duration>,
    /// The time of the next taint.
    next: Timestamp,
    waiting: VecDeque<String>,
}

impl Zone {
    /// Sets the rate for a state of the zone.
    pub(super) fn set_state(&mut self, state: ZoneState, size: usize) {
        self.state = state;
        self.interval = match state {
            ZoneState::PartialDisruption if size > LARGE_ZONE => Some(SLOW_INTERVAL),
            ZoneState::PartialDisruption => None,
            ZoneState::Initial | ZoneState::Normal | ZoneState::FullDisruption => {
                Some(NORMAL_INTERVAL)
            }
        };
    }

    /// Stops all taints, since no node of the plane is ready.
    pub(super) fn stop(&mut self) {
        self.state = ZoneState::FullDisruption;
        self.interval = None;
    }

    /// Adds a node that waits for its taint.
    pub(super) fn add(&mut self, node: &str) {
        if !self.waiting.iter().any(|waiting| waiting == node) {
            self.waiting.push_back(node.to_owned());
        }
    }

    /// Removes a node that is ready again.
    pub(super) fn remove(&mut self, node: &str) {
        self.waiting.retain(|waiting| waiting != node);
    }

    /// The next node, if the rate allows a taint now.
    pub(super) fn next(&mut self, now: Timestamp) -> Option<String> {
        let interval = self.interval?;
        if now < self.next {
            return None;
        }
        let node = self.waiting.pop_front()?;
        self.next = now + interval;
        Some(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_depends_on_the_share_of_nodes_that_are_not_ready() {
        assert_eq!(ZoneState::of(0, 1), ZoneState::FullDisruption);
        assert_eq!(ZoneState::of(1, 2), ZoneState::Normal);
        assert_eq!(ZoneState::of(2, 3), ZoneState::PartialDisruption);
        assert_eq!(ZoneState::of(3, 3), ZoneState::Normal);
        assert_eq!(ZoneState::of(0, 0), ZoneState::Normal);
    }

    #[test]
    fn a_node_is_tainted_every_ten_seconds_unless_the_zone_is_disrupted() {
        let at = Timestamp::from_seconds;
        let mut zone = Zone::default();
        zone.set_state(ZoneState::Normal, 3);
        zone.add("a");
        zone.add("b");
        zone.add("b");
        assert_eq!(zone.next(at(5)).as_deref(), Some("a"));
        assert_eq!(zone.next(at(14)), None);
        zone.set_state(ZoneState::PartialDisruption, 3);
        assert_eq!(zone.next(at(15)), None);
        zone.set_state(ZoneState::PartialDisruption, 51);
        assert_eq!(zone.next(at(15)).as_deref(), Some("b"));
        assert_eq!(zone.next(at(115)), None);
    }
}
