//! [`Neutron`]: networks and subnets of OpenStack Neutron.
//!
//! A Network is a network with one subnet. Both have the [`Mark`] as a tag and as their description:
//! tags cannot be set at creation, so a network of an operator that ended before it set the tag is found
//! by its description; and a tag stays if somebody changes the description.
//!
//! | difference | change |
//! |---|---|
//! | no network | create it |
//! | two networks with the same mark, of operators that ended | delete one, when the other is as desired |
//! | another gateway | update the subnet, with the address pools around the new one |
//! | another CIDR, which Neutron cannot change | delete the subnet, and create another one |
//! | no Network | delete the network; Neutron deletes its subnets |
//!
//! Only objects of the operator's own project are listed and changed, whatever marks others have: a
//! network that another project shares appears in every list. Of several networks with the same mark,
//! the one in the status of the Network is kept, or else the oldest. Without Keystone, there are no
//! projects.
//!
//! Updates and deletions have the header `If-Match: revision_number=N`, so that nothing is lost that
//! somebody changes between the plan and the change. The API is not trusted: responses have a time
//! limit and a size limit, filters are applied again, and identifiers are checked.
//!
//! A resync lists all networks and all subnets once. A Network for which the [`Listing`] has what is
//! desired costs no request.

mod client;
mod http_client;
mod listing;
mod model;
mod observed;
mod options;
mod session;

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;
use serde_json::json;

use super::{Backend, BackendError, ClusterName, Desired, Ids, Mark, Plan};
use client::NeutronClient;
use listing::Listing;
use model::{Id, Network, Subnet};
use observed::Observed;
use runtime::Request;

pub use options::{NeutronOptions, OptionsError, Secret};

/// See the [module documentation](self).
#[derive(Debug)]
pub struct Neutron {
    client: NeutronClient,
    /// Not locked during a request.
    listing: Mutex<Listing>,
}

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
        Ok(Self { client: NeutronClient::new(options)?, listing: Mutex::default() })
    }

    /// What exists of one Network.
    async fn observe(&self, mark: &Mark) -> Result<Observed, BackendError> {
        let mut networks = Vec::new();
        for field in ["tags", "description"] {
            networks.extend(self.client.list_own::<Network>(&[(field, mark.as_str())]).await?);
        }
        let mut observed = Observed::of_mark(mark, networks);
        for network in &observed.networks {
            // Those of other projects too, which are not deleted with the network.
            let filter = ("network_id", network.id.as_str());
            let subnets = self.client.list::<Subnet>(&[filter]).await?.into_iter();
            observed.subnets.extend(subnets.filter(|subnet| subnet.network_id == network.id));
        }
        Ok(observed)
    }

    fn listing(&self) -> MutexGuard<'_, Listing> {
        self.listing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn send(&self, mark: &Mark, change: &Change) -> Result<(), BackendError> {
        let name = mark.key().to_string();
        match change {
            Change::CreateNetwork => {
                let body = json!({"network": {"name": name, "description": mark.as_str()}});
                self.client.create("/v2.0/networks", &body).await
            }
            Change::UpdateNetwork(network) => {
                let body = json!({"network": {
                    "name": name, "description": mark.as_str(), "admin_state_up": true,
                }});
                self.client.update(&network.path(), network.revision, &body).await
            }
            Change::CreateSubnet(network, desired) => {
                let ip_version = if matches!(desired.cidr(), IpNet::V4(_)) { 4 } else { 6 };
                let body = json!({"subnet": {
                    "name": name, "description": mark.as_str(), "network_id": network,
                    "ip_version": ip_version, "cidr": desired.cidr().to_string(),
                    "gateway_ip": desired.gateway(),
                }});
                self.client.create("/v2.0/subnets", &body).await
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
                self.client.update(&subnet.path(), subnet.revision, &json!({"subnet": body})).await
            }
            Change::Tag(resource) => self.client.tag(&resource.path(), mark.as_str()).await,
            Change::Delete(resource) => {
                self.client.delete(&resource.path(), resource.revision).await
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
        known: &Ids,
    ) -> Result<Plan<Change>, BackendError> {
        // What was listed may be outdated: it shows that there is nothing to do, and nothing else.
        let listed = self.listing().take(mark);
        if let (Some(listed), Some(desired)) = (listed, desired)
            && let Ok(plan) = listed.plan(mark, Some(desired), known)
            && plan.changes.is_empty()
        {
            return Ok(plan);
        }
        self.observe(mark).await?.plan(mark, desired, known)
    }

    async fn make(&self, mark: &Mark, change: &Change) -> Result<(), BackendError> {
        // Before, since this call may be dropped; afterwards, since a list may have begun meanwhile.
        self.listing().forget(mark);
        let sent = self.send(mark, change).await;
        self.listing().forget(mark);
        sent
    }

    async fn keys(&self, cluster: &ClusterName) -> Result<Vec<Request>, BackendError> {
        self.listing().begin();
        let networks = self.client.list_own::<Network>(&[]).await?;
        let subnets = self.client.list_own::<Subnet>(&[]).await?;
        Ok(self.listing().complete(cluster, &networks, &subnets))
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
