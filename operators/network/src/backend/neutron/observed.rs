//! [`Observed`]: what Neutron has of one Network, and the plan that follows from it.

use std::collections::{BTreeMap, BTreeSet};

use super::Change;
use super::model::{Id, Network, Subnet};
use crate::backend::{BackendError, Desired, Mark, Plan};

/// See the [module documentation](self).
#[derive(Debug, Clone, Default)]
pub(super) struct Observed {
    /// The networks with the mark, the one to keep first.
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
    ) -> Result<Plan<Change>, BackendError> {
        let mut plan = Plan { changes: Vec::new(), ids: BTreeMap::new() };
        let kept = usize::from(desired.is_some());
        for surplus in self.networks.iter().skip(kept) {
            plan.changes.push(self.plan_deletion(mark, surplus)?);
        }
        let Some(desired) = desired else { return Ok(plan) };
        let Some(network) = self.networks.first() else {
            plan.changes.push(Change::CreateNetwork);
            return Ok(plan);
        };
        plan.ids.insert("network".to_owned(), network.id.to_string());
        if !network.labels.are_those_of(mark) || !network.admin_state_up {
            plan.changes.push(Change::UpdateNetwork(network.resource()));
        }
        if !network.labels.is_tagged(mark) {
            plan.changes.push(Change::Tag(network.resource()));
        }
        self.plan_subnet(mark, network, desired, &mut plan);
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
            .filter(|subnet| subnet.labels.have(mark))
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

    /// Deletes a network with its subnets, unless somebody else has added one.
    fn plan_deletion(&self, mark: &Mark, network: &Network) -> Result<Change, BackendError> {
        match self.subnets_of(network).find(|subnet| !subnet.labels.have(mark)) {
            None => Ok(Change::Delete(network.resource())),
            Some(subnet) => {
                let what = format!("network {} has subnet {}", network.id, subnet.id);
                Err(BackendError::Foreign(what))
            }
        }
    }
}
