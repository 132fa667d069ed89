//! Addresses and ports that are handed out once: the cluster IPs and node ports of services.
//!
//! What is taken is read off the services that are stored, and what is claimed by requests under
//! way is remembered until they are done, so two services never get the same one. Nothing has to
//! be repaired after a crash: the services themselves are the record.
//!
//! A dry run is shown an address and ports, but is not given any ([`Allocations::rehearse`]).

mod dry_run;

use crate::context::Cx;
use dry_run::DryRunPorts;
use kinds::core::service::allocation as service;
use machinery::field_path::quote;
use machinery::{Faults, GroupKind, Object, Status};
use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use store::Revision;

/// See the [module documentation](self).
#[derive(Debug, Clone)]
pub(crate) struct Allocations {
    network: u32,
    size: u32,
    claimed: Arc<Mutex<Claimed>>,
}

#[derive(Debug, Default)]
struct Claimed {
    addresses: HashSet<String>,
    ports: HashSet<u16>,
    /// Where the last search ended, so that a released address is not handed out at once again.
    cursor: u32,
}

/// What a request under way has taken; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    claimed: Arc<Mutex<Claimed>>,
    addresses: Vec<String>,
    ports: Vec<u16>,
}

/// A service network that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not an IPv4 network from /8 to /30, such as 10.0.0.0/24")]
pub struct BadCidr(String);

impl Allocations {
    /// From a network such as `10.0.0.0/24`.
    pub(crate) fn new(cidr: &str) -> Result<Self, BadCidr> {
        let bad = || BadCidr(cidr.to_owned());
        let (address, bits) = cidr.split_once('/').ok_or_else(bad)?;
        let address: Ipv4Addr = address.parse().map_err(|_| bad())?;
        let bits: u32 = bits.parse().ok().filter(|it| (8..=30).contains(it)).ok_or_else(bad)?;
        let size = 1u32 << (32 - bits);
        let network = u32::from(address) & !(size - 1);
        Ok(Self { network, size, claimed: Arc::default() })
    }

    /// The first address, which is the API server's own.
    pub(crate) fn first_address(&self) -> String {
        Ipv4Addr::from(self.network + 1).to_string()
    }

    fn is_service(cx: &Cx) -> bool {
        cx.resource().group.is_empty() && cx.resource().plural == "services"
    }

    /// Gives a new or changed service what it wants and does not have.
    pub(crate) fn claim(
        &self,
        cx: &Cx,
        object: &mut Object,
        old: Option<&Object>,
    ) -> Result<Claim, Status> {
        let mut claim = self.empty_claim();
        if !Self::is_service(cx) {
            return Ok(claim);
        }
        let taken = taken(cx, old);
        let had = old.map(Taken::of).unwrap_or_default();
        let mut claimed = self.claimed.lock().expect("nothing panics while it claims");
        if service::wants_cluster_ip(object) {
            let address = self.free_address(object.name(), &taken, &mut claimed)?;
            service::set_cluster_ip(object, &address);
        }
        self.check(object, &taken, &claimed, &had)?;
        let wanted = Taken::of(object);
        for address in wanted.addresses.difference(&had.addresses) {
            claimed.addresses.insert(address.clone());
            claim.addresses.push(address.clone());
        }
        for port in wanted.ports.difference(&had.ports) {
            claimed.ports.insert(*port);
            claim.ports.push(*port);
        }
        let wanted = service::node_ports_wanted(object);
        let mut shared = SharedPorts::of(object, old);
        for (index, number) in wanted {
            let port = match shared.get(number) {
                Some(port) => port,
                None => free_port(cx, &taken, &claimed)?,
            };
            shared.insert(number, port);
            service::set_node_port(object, index, port);
            if claimed.ports.insert(port) {
                claim.ports.push(port);
            }
        }
        if service::wants_health_check_port(object) {
            let port = free_port(cx, &taken, &claimed)?;
            service::set_health_check_port(object, port);
            claimed.ports.insert(port);
            claim.ports.push(port);
        }
        Ok(claim)
    }

    fn empty_claim(&self) -> Claim {
        Claim { claimed: Arc::clone(&self.claimed), addresses: Vec::new(), ports: Vec::new() }
    }

    /// Sets what a new or changed service would get, without looking for what is free: the address
    /// is that of the network, and node ports follow the last one. Claims nothing.
    ///
    /// Upstream: `ipallocator.go` and `portallocator/operation.go`, with `dryRun`. An address that
    /// is taken and a node port outside of the range pass there as well.
    pub(crate) fn rehearse(
        &self,
        cx: &Cx,
        object: &mut Object,
        old: Option<&Object>,
    ) -> Result<Claim, Status> {
        if !Self::is_service(cx) {
            return Ok(self.empty_claim());
        }
        let had = old.map(Taken::of).unwrap_or_default();
        let mut faults = Faults::new();
        let is_new = |address: &&String| !had.addresses.contains(*address);
        for address in service::cluster_ips(object).iter().filter(is_new) {
            if self.is_outside(address) {
                let range = format!("{}/{}", Ipv4Addr::from(self.network), self.bits());
                let why = format!(
                    "the provided IP ({address}) is not in the valid range. The range of valid IPs is {range}"
                );
                service::refuse_cluster_ip(object, address, &why, &mut faults);
            }
        }
        if service::wants_cluster_ip(object) {
            service::set_cluster_ip(object, &Ipv4Addr::from(self.network).to_string());
        }
        let mut taken = taken(cx, old).ports;
        let claimed = self.claimed.lock().expect("nothing panics while it claims");
        taken.extend(&claimed.ports);
        drop(claimed);
        let mut ports = DryRunPorts { taken, had: had.ports, given: vec![] };
        ports.give_node_ports(object, SharedPorts::of(object, old), &mut faults);
        if !faults.is_empty() {
            return Err(Status::invalid(&GroupKind::new("", "Service"), object.name(), &faults));
        }
        ports.give_health_check_port(object)?;
        Ok(self.empty_claim())
    }

    /// Whether an IPv4 address is not one of the network's hosts: neither the address of the network
    /// nor that of all its members is in the range.
    fn is_outside(&self, address: &str) -> bool {
        address.parse::<Ipv4Addr>().is_ok_and(|it| {
            let offset = u32::from(it).wrapping_sub(self.network);
            !(1..self.size - 1).contains(&offset)
        })
    }

    fn bits(&self) -> u32 {
        32 - self.size.trailing_zeros()
    }

    fn free_address(
        &self,
        name: &str,
        taken: &Taken,
        claimed: &mut Claimed,
    ) -> Result<String, Status> {
        // The first is the server's own, the last is the network's broadcast address.
        for step in 0..self.size - 3 {
            let offset = 2 + (claimed.cursor + step) % (self.size - 3);
            let address = Ipv4Addr::from(self.network + offset).to_string();
            if !taken.addresses.contains(&address) && !claimed.addresses.contains(&address) {
                claimed.cursor = offset - 1;
                return Ok(address);
            }
        }
        let name = quote(name);
        let why = format!("failed to allocate a serviceIP for Service {name}: range is full");
        Err(Status::internal(why))
    }

    /// Refuses what was asked for by name and is not to be had.
    fn check(
        &self,
        object: &Object,
        taken: &Taken,
        claimed: &Claimed,
        had: &Taken,
    ) -> Result<(), Status> {
        let mut faults = Faults::new();
        let is_new = |address: &&String| !had.addresses.contains(*address);
        for address in service::cluster_ips(object).iter().filter(is_new) {
            if self.is_outside(address) {
                let why = "the provided network does not match the current range";
                service::refuse_cluster_ip(object, address, why, &mut faults);
            } else if taken.addresses.contains(address) || claimed.addresses.contains(address) {
                let why = "provided IP is already allocated";
                service::refuse_cluster_ip(object, address, why, &mut faults);
            }
        }
        let ports: Vec<u16> = had.ports.iter().copied().collect();
        service::check_node_port_range(object, &ports, &mut faults);
        let health = service::health_check_port(object);
        for port in service::node_ports(object) {
            if health == Some(i64::from(port)) {
                continue;
            }
            let is_claimed = claimed.ports.contains(&port) && !had.ports.contains(&port);
            if is_claimed || taken.ports.contains(&port) {
                service::refuse_node_port(object, i64::from(port), ALLOCATED, &mut faults);
            }
        }
        if !faults.is_empty() {
            return Err(Status::invalid(&GroupKind::new("", "Service"), object.name(), &faults));
        }
        health.map_or(Ok(()), |port| check_health_port(port, taken, claimed, had))
    }
}

/// Upstream: registry/core/service/storage/alloc.go; it is no fault of a field.
fn check_health_port(
    port: i64,
    taken: &Taken,
    claimed: &Claimed,
    had: &Taken,
) -> Result<(), Status> {
    let number = u16::try_from(port).unwrap_or(0);
    if had.ports.contains(&number) {
        return Ok(());
    }
    let why = if !service::NODE_PORTS.contains(&number) {
        service::outside_of_range()
    } else if taken.ports.contains(&number) || claimed.ports.contains(&number) {
        ALLOCATED.to_owned()
    } else {
        return Ok(());
    };
    Err(refused_health_port(port, &why))
}

/// The error for a port that somebody else has.
const ALLOCATED: &str = "provided port is already allocated";

fn refused_health_port(port: i64, why: &str) -> Status {
    let why = format!("failed to allocate requested HealthCheck NodePort {port}: {why}");
    Status::internal(why)
}

/// The node ports of a new service by the number of its port: TCP and UDP share one. Those of a
/// changed service do not. Upstream: `alloc.go`, `initNodePorts` and `updateNodePorts`.
struct SharedPorts(Option<HashMap<i64, u16>>);

impl SharedPorts {
    fn of(object: &Object, old: Option<&Object>) -> Self {
        Self(old.is_none().then(|| service::shared_node_ports(object)))
    }

    fn get(&self, number: i64) -> Option<u16> {
        self.0.as_ref()?.get(&number).copied()
    }

    fn insert(&mut self, number: i64, port: u16) {
        if let Some(shared) = &mut self.0 {
            shared.insert(number, port);
        }
    }
}

impl Claim {
    /// Gives the claim up once the stored service, which is the record from then on, can be read.
    pub(crate) async fn settle(self, cx: &Cx, revision: Revision) {
        if !self.is_empty() {
            cx.plane.cache.reach(revision).await;
        }
    }

    fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.ports.is_empty()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claimed = self.claimed.lock().expect("nothing panics while it claims");
        for address in &self.addresses {
            claimed.addresses.remove(address);
        }
        for port in &self.ports {
            claimed.ports.remove(port);
        }
    }
}

#[derive(Default)]
struct Taken {
    addresses: HashSet<String>,
    ports: HashSet<u16>,
}

impl Taken {
    /// What one service has or asks for.
    fn of(service: &Object) -> Self {
        let mut taken = Self::default();
        taken.add(service);
        taken
    }

    fn add(&mut self, service: &Object) {
        self.addresses.extend(service::cluster_ips(service));
        self.ports.extend(service::node_ports(service));
    }
}

/// What all stored services but one have.
fn taken(cx: &Cx, but: Option<&Object>) -> Taken {
    let mut taken = Taken::default();
    for entry in cx.served.cache.snapshot().entries.values() {
        let same =
            but.is_some_and(|it| it.name() == entry.name() && it.namespace() == entry.namespace());
        if !same {
            taken.add(&entry.object_as_stored());
        }
    }
    taken
}

fn free_port(cx: &Cx, taken: &Taken, claimed: &Claimed) -> Result<u16, Status> {
    let first = *service::NODE_PORTS.start();
    let range = u64::from(service::NODE_PORTS.end() - first) + 1;
    let from = cx.plane.entropy.below(range);
    (0..range)
        .map(|step| first + u16::try_from((from + step) % range).unwrap_or(0))
        .find(|port| !taken.ports.contains(port) && !claimed.ports.contains(port))
        .ok_or_else(|| Status::internal("failed to allocate a nodePort: range is full"))
}
