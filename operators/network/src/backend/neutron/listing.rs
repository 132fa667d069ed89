//! [`Listing`]: what a resync has listed, for one plan of each Network.
//!
//! ```text
//! begin ─▶ list networks and subnets ─▶ complete ─▶ take a, take b, …
//!                    make b ─▶ forget b: it is listed as it was before, or after
//! ```

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Network, Subnet};
use super::observed::Observed;
use crate::backend::{ClusterName, Mark};
use runtime::Request;

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(super) struct Listing {
    found: BTreeMap<Request, Observed>,
    /// The Networks that were changed since a list began which is not complete yet.
    changed: Option<BTreeSet<Request>>,
}

impl Listing {
    /// A list begins.
    pub(super) fn begin(&mut self) {
        *self = Self { found: BTreeMap::new(), changed: Some(BTreeSet::new()) };
    }

    /// The lists are complete; returns the Networks in them.
    pub(super) fn complete(
        &mut self,
        cluster: &ClusterName,
        networks: &[Network],
        subnets: &[Subnet],
    ) -> Vec<Request> {
        let mut subnets_by_network = BTreeMap::<_, Vec<_>>::new();
        for subnet in subnets {
            subnets_by_network.entry(&subnet.network_id).or_default().push(subnet);
        }
        let mut networks_by_key = BTreeMap::<_, Vec<_>>::new();
        for network in networks {
            for key in network.labels.texts().filter_map(|text| cluster.key_of(text)) {
                networks_by_key.entry(key).or_default().push(network);
            }
        }
        let keys = networks_by_key.keys().cloned().collect();
        let changed = self.changed.take().unwrap_or_default();
        for (key, networks) in networks_by_key {
            let Ok(mark) = Mark::new(cluster, &key) else { continue };
            if changed.contains(&key) {
                continue;
            }
            let mut observed = Observed::of_mark(&mark, networks.into_iter().cloned());
            for network in &observed.networks {
                let subnets = subnets_by_network.get(&network.id).into_iter().flatten().copied();
                observed.subnets.extend(subnets.cloned());
            }
            self.found.insert(key, observed);
        }
        keys
    }

    /// What was listed of a Network, once.
    pub(super) fn take(&mut self, mark: &Mark) -> Option<Observed> {
        self.found.remove(mark.key())
    }

    /// A Network was changed.
    pub(super) fn forget(&mut self, mark: &Mark) {
        self.found.remove(mark.key());
        if let Some(changed) = &mut self.changed {
            changed.insert(mark.key().clone());
        }
    }
}
