//! [`Neutron`]: networks and subnets of OpenStack Neutron.
//!
//! A Network is a network with one subnet. Both have the [`Mark`] as a tag and as their description:
//! tags cannot be set at creation, so a network of an operator that ended before it set the tag is found
//! by its description; and a tag stays if somebody changes the description.
//!
//! | difference | change |
//! |---|---|
//! | no network | create it |
//! | two networks with the same mark, of operators that ended | delete the younger one |
//! | another gateway | update the subnet, with the address pools around the new one |
//! | another CIDR, which Neutron cannot change | delete the subnet, and create another one |
//! | no Network | delete the network; Neutron deletes its subnets |
//!
//! Updates and deletions have the header `If-Match: revision_number=N`, so that nothing is lost that
//! somebody changes between the plan and the change. The API is not trusted: responses have a time
//! limit and a size limit, filters are applied again, and identifiers are checked.

mod client;
mod model;
mod options;
mod session;

use std::collections::BTreeMap;
use std::fmt;

use ipnet::IpNet;
use serde_json::json;

use super::{Backend, BackendError, Desired, Mark, Owner, Plan};
use client::NeutronClient;
use model::{Id, Network, Subnet};
use runtime::Request;

pub use options::{NeutronOptions, OptionsError, Secret};

/// See the [module documentation](self).
#[derive(Debug)]
pub struct Neutron(NeutronClient);

/// A change in Neutron.
#[derive(Debug)]
pub enum Change {
    /// The network is missing.
    CreateNetwork,
    /// The name, the description or the state of a network differs.
    UpdateNetwork(Resource),
    /// The subnet is missing.
    CreateSubnet(Id, Desired),
    /// The gateway, the name or the description of a subnet differs.
    UpdateSubnet {
        /// The subnet.
        subnet: Resource,
        /// The gateway as it should be, with the pools, if it differs.
        desired: Option<Desired>,
    },
    /// A tag is missing.
    Tag(Resource),
    /// It should not exist.
    Delete(Resource),
}

/// A network or a subnet, as it was planned with.
#[derive(Debug)]
pub struct Resource {
    kind: &'static str,
    id: Id,
    revision: u64,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.id)
    }
}

impl Resource {
    fn path(&self) -> String {
        format!("/v2.0/{}s/{}", self.kind, self.id)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateNetwork => write!(f, "created network"),
            Self::UpdateNetwork(network) => write!(f, "corrected {network}"),
            Self::CreateSubnet(_, desired) => {
                write!(f, "created subnet {} with gateway {}", desired.cidr(), desired.gateway())
            }
            Self::UpdateSubnet { subnet, desired: Some(desired) } => {
                write!(f, "set the gateway of {subnet} to {}", desired.gateway())
            }
            Self::UpdateSubnet { subnet, desired: None } => write!(f, "corrected {subnet}"),
            Self::Tag(resource) => write!(f, "tagged {resource}"),
            Self::Delete(resource) => write!(f, "deleted {resource}"),
        }
    }
}

impl Neutron {
    /// A client of Neutron. The first request authenticates it.
    pub fn new(options: &NeutronOptions) -> Result<Self, OptionsError> {
        NeutronClient::new(options).map(Self)
    }

    /// The networks with this mark, the one to keep first.
    async fn networks(&self, mark: &Mark) -> Result<Vec<Network>, BackendError> {
        let mut found = BTreeMap::new();
        for field in ["tags", "description"] {
            for network in self.0.networks(&[(field, mark.as_str())]).await? {
                if network.labels.have(mark) {
                    found.insert(network.id.clone(), network);
                }
            }
        }
        let mut found: Vec<_> = found.into_values().collect();
        found.sort_by_key(|it| (!it.labels.is_tagged(mark), it.created_at.clone()));
        Ok(found)
    }

    /// The changes that bring a subnet of the network to its desired state.
    async fn plan_subnet(
        &self,
        mark: &Mark,
        network: &Network,
        desired: &Desired,
        plan: &mut Plan<Change>,
    ) -> Result<(), BackendError> {
        let subnets = self.0.subnets(&network.id).await?;
        let (kept, others): (Vec<_>, Vec<_>) = subnets
            .into_iter()
            .filter(|subnet| subnet.labels.have(mark))
            .partition(|subnet| subnet.cidr.parse() == Ok(desired.cidr()));
        plan.changes.extend(others.into_iter().map(|subnet| Change::Delete(subnet.resource())));
        let Some(subnet) = kept.into_iter().next() else {
            plan.changes.push(Change::CreateSubnet(network.id.clone(), *desired));
            return Ok(());
        };
        plan.ids.insert("subnet".to_owned(), subnet.id.to_string());
        let gateway = subnet.gateway_ip.as_deref().and_then(|it| it.parse().ok());
        let has_gateway = gateway == Some(desired.gateway());
        if !has_gateway || !subnet.labels.are_those_of(mark) {
            let desired = (!has_gateway).then_some(*desired);
            plan.changes.push(Change::UpdateSubnet { subnet: subnet.resource(), desired });
        }
        if !subnet.labels.is_tagged(mark) {
            plan.changes.push(Change::Tag(subnet.resource()));
        }
        Ok(())
    }

    /// Deletes a network with its subnets, unless somebody else has added one.
    async fn plan_deletion(&self, mark: &Mark, network: &Network) -> Result<Change, BackendError> {
        let subnets = self.0.subnets(&network.id).await?;
        match subnets.iter().find(|subnet| !subnet.labels.have(mark)) {
            None => Ok(Change::Delete(network.resource())),
            Some(subnet) => {
                let what = format!("network {} has subnet {}", network.id, subnet.id);
                Err(BackendError::Foreign(what))
            }
        }
    }
}

impl Backend for Neutron {
    type Change = Change;

    async fn plan(
        &self,
        mark: &Mark,
        desired: Option<&Desired>,
    ) -> Result<Plan<Change>, BackendError> {
        let mut plan = Plan { changes: Vec::new(), ids: BTreeMap::new() };
        let networks = self.networks(mark).await?;
        let kept = usize::from(desired.is_some());
        for surplus in networks.iter().skip(kept) {
            plan.changes.push(self.plan_deletion(mark, surplus).await?);
        }
        let Some(desired) = desired else { return Ok(plan) };
        let Some(network) = networks.first() else {
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
        self.plan_subnet(mark, network, desired, &mut plan).await?;
        Ok(plan)
    }

    async fn make(&self, mark: &Mark, change: &Change) -> Result<(), BackendError> {
        let name = mark.key().to_string();
        match change {
            Change::CreateNetwork => {
                let body = json!({"network": {"name": name, "description": mark.as_str()}});
                self.0.create("/v2.0/networks", &body).await
            }
            Change::UpdateNetwork(network) => {
                let body = json!({"network": {
                    "name": name, "description": mark.as_str(), "admin_state_up": true,
                }});
                self.0.update(&network.path(), network.revision, &body).await
            }
            Change::CreateSubnet(network, desired) => {
                let ip_version = if matches!(desired.cidr(), IpNet::V4(_)) { 4 } else { 6 };
                let body = json!({"subnet": {
                    "name": name, "description": mark.as_str(), "network_id": network,
                    "ip_version": ip_version, "cidr": desired.cidr().to_string(),
                    "gateway_ip": desired.gateway(),
                }});
                self.0.create("/v2.0/subnets", &body).await
            }
            Change::UpdateSubnet { subnet, desired } => {
                let mut body = json!({"name": name, "description": mark.as_str()});
                if let Some(desired) = desired {
                    // Neutron compares the gateway with the pools of the same request.
                    let pools = desired.pools().into_iter();
                    let pools = pools.map(|(start, end)| json!({"start": start, "end": end}));
                    body["gateway_ip"] = json!(desired.gateway());
                    body["allocation_pools"] = pools.collect();
                }
                self.0.update(&subnet.path(), subnet.revision, &json!({"subnet": body})).await
            }
            Change::Tag(resource) => self.0.tag(&resource.path(), mark.as_str()).await,
            Change::Delete(resource) => self.0.delete(&resource.path(), resource.revision).await,
        }
    }

    async fn keys(&self, owner: &Owner) -> Result<Vec<Request>, BackendError> {
        let networks = self.0.networks(&[]).await?;
        let marks = networks.iter().flat_map(|network| network.labels.texts());
        let mut keys: Vec<_> = marks.filter_map(|mark| owner.key_of(mark)).collect();
        keys.sort();
        keys.dedup();
        Ok(keys)
    }
}

impl Network {
    fn resource(&self) -> Resource {
        Resource { kind: "network", id: self.id.clone(), revision: self.revision_number }
    }
}

impl Subnet {
    fn resource(&self) -> Resource {
        Resource { kind: "subnet", id: self.id.clone(), revision: self.revision_number }
    }
}
