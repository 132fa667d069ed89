//! [`Observed`]: what Neutron has of one Network, and the plan that follows from it.

use std::collections::BTreeSet;

use super::Change;
use super::model::{Id, Listed, Network, Subnet};
use crate::backend::{BackendError, Desired, Ids, Mark, Plan};

/// See the [module documentation](self).
#[derive(Debug, Clone, Default)]
pub(super) struct Observed {
    /// The networks of the operator's project with the mark, in the order in which they are kept if
    /// none of them is known.
    pub(super) networks: Vec<Network>,
    /// All subnets of these networks, also those of others.
    pub(super) subnets: Vec<Subnet>,
}

impl Observed {
    /// Those of the networks that have the mark, without their subnets.
    pub(super) fn of_mark(mark: &Mark, networks: impl IntoIterator<Item = Network>) -> Self {
        let mut seen = BTreeSet::<Id>::new();
        let mut networks: Vec<_> = networks
            .into_iter()
            .filter(|network| network.labels.have(mark) && seen.insert(network.id.clone()))
            .collect();
        networks.sort_by_key(|network| {
            (!network.labels.is_tagged(mark), network.created_at.clone(), network.id.clone())
        });
        Self { networks, subnets: Vec::new() }
    }

    /// The changes that lead to the desired state.
    pub(super) fn plan(
        &self,
        mark: &Mark,
        desired: Option<&Desired>,
        known: &Ids,
    ) -> Result<Plan<Change>, BackendError> {
        let mut plan = Plan { changes: Vec::new(), ids: Ids::new() };
        let Some(desired) = desired else {
            plan.changes = self.plan_deletions(mark, &self.networks)?;
            return Ok(plan);
        };
        let known = known.get("network").map(String::as_str);
        let known = self.networks.iter().find(|network| known == Some(network.id.as_str()));
        let Some(kept) = known.or(self.networks.first()) else {
            plan.changes.push(Change::CreateNetwork);
            return Ok(plan);
        };
        plan.ids.insert("network".to_owned(), kept.id.to_string());
        if !kept.labels.are_those_of(mark) || !kept.admin_state_up {
            plan.changes.push(Change::UpdateNetwork(kept.resource()));
        }
        if !kept.labels.is_tagged(mark) {
            plan.changes.push(Change::Tag(kept.resource()));
        }
        self.plan_subnet(mark, kept, desired, &mut plan);
        // The others are what is left if the kept one cannot be made as desired.
        if plan.changes.is_empty() {
            let surplus = self.networks.iter().filter(|network| network.id != kept.id);
            plan.changes = self.plan_deletions(mark, surplus)?;
        }
        Ok(plan)
    }

    fn subnets_of(&self, network: &Network) -> impl Iterator<Item = &Subnet> {
        self.subnets.iter().filter(|subnet| subnet.network_id == network.id)
    }

    /// The changes that bring a subnet of the network to its desired state.
    fn plan_subnet(
        &self,
        mark: &Mark,
        network: &Network,
        desired: &Desired,
        plan: &mut Plan<Change>,
    ) {
        let (kept, others): (Vec<_>, Vec<_>) = self
            .subnets_of(network)
            .filter(|subnet| is_ours(mark, network, subnet))
            .partition(|subnet| subnet.cidr.parse() == Ok(desired.cidr()));
        plan.changes.extend(others.into_iter().map(|subnet| Change::Delete(subnet.resource())));
        let Some(subnet) = kept.into_iter().next() else {
            plan.changes.push(Change::CreateSubnet(network.id.clone(), *desired));
            return;
        };
        plan.ids.insert("subnet".to_owned(), subnet.id.to_string());
        let gateway = subnet.gateway_ip.as_deref().and_then(|address| address.parse().ok());
        let has_gateway = gateway == Some(desired.gateway());
        if !has_gateway || !subnet.labels.are_those_of(mark) {
            let desired = (!has_gateway).then_some(*desired);
            plan.changes.push(Change::UpdateSubnet { subnet: subnet.resource(), desired });
        }
        if !subnet.labels.is_tagged(mark) {
            plan.changes.push(Change::Tag(subnet.resource()));
        }
    }

    /// Deletes networks with their subnets, unless somebody else has added one.
    fn plan_deletions<'a>(
        &self,
        mark: &Mark,
        networks: impl IntoIterator<Item = &'a Network>,
    ) -> Result<Vec<Change>, BackendError> {
        let deletion = |network: &Network| match self
            .subnets_of(network)
            .find(|subnet| !is_ours(mark, network, subnet))
        {
            None => Ok(Change::Delete(network.resource())),
            Some(subnet) => {
                let what = format!("network {} has subnet {}", network.id, subnet.id);
                Err(BackendError::Foreign(what))
            }
        };
        networks.into_iter().map(deletion).collect()
    }
}

/// Whether this operator has made the subnet of its network.
fn is_ours(mark: &Mark, network: &Network, subnet: &Subnet) -> bool {
    subnet.labels.have(mark) && subnet.project() == network.project()
}
