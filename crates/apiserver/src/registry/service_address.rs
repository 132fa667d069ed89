//! Addresses and ports that are handed out once: the cluster IPs and node ports of services.
//!
//! What is taken is read off the services that are stored ([`index`]), and what is claimed by
//! requests under way is remembered until they are done, so two services never get the same one.
//! Nothing has to be repaired after a crash: the services themselves are the record.
//!
//! A dry run is shown an address and ports, but is not given any ([`ServiceAddresses::begin`]).
//!
//! All requests for services share one lock. Invariants:
//! - what is stored and what is claimed are looked at under the lock together: a claim ends when its
//!   service can be read, and a request that looked at the services before that, and at the claims
//!   after it, would find it in neither;
//! - requests are validated and found before, and errors are written after the lock is held. The
//!   work under it is bounded by the number of node ports and of services that have changed, not by
//!   the size of a request.

mod dry_run;
mod index;
mod requests;
mod allocator_state;

use crate::cache::hooks::{BeginWrite, Reservation};
use crate::cache::watch_cache::ResourceCache;
use allocator_state::{AddressRequest, Allocated, AllocatorState, Network, Services};
use dry_run::DryRunPorts;
use keel::Entropy;
use kinds::core::service::allocation::{self as service, ClusterIpRequest};
use machinery::{ErrorList, Object, Status};
use requests::{PortRange, PortRequests, invalid};
use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard};

/// How often services that have changed are read without the lock.
const MAX_UNLOCKED_READS: usize = 8;

/// See the [module documentation](self).
#[derive(Debug, Clone)]
pub(crate) struct ServiceAllocator {
    network: Network,
    state: Arc<Mutex<AllocatorState>>,
}

/// What a request under way has taken; given back when it is dropped.
#[derive(Debug)]
struct Claim {
    state: Arc<Mutex<AllocatorState>>,
    addresses: Vec<Ipv4Addr>,
    ports: HashSet<u16>,
}

/// A service network that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not an IPv4 network from /8 to /30, such as 10.0.0.0/24")]
pub struct InvalidServiceCidr(String);

impl ServiceAllocator {
    /// From a network such as `10.0.0.0/24`.
    pub(crate) fn new(cidr: &str) -> Result<Self, InvalidServiceCidr> {
        let bad = || InvalidServiceCidr(cidr.to_owned());
        let (address, bits) = cidr.split_once('/').ok_or_else(bad)?;
        let address: Ipv4Addr = address.parse().map_err(|_| bad())?;
        let bits: u32 = bits.parse().ok().filter(|it| (8..=30).contains(it)).ok_or_else(bad)?;
        let size = 1u32 << (32 - bits);
        let first = u32::from(address) & !(size - 1);
        Ok(Self { network: Network { first, size }, state: Arc::default() })
    }

    /// The first address, which is the API server's own.
    pub(crate) fn first_address(&self) -> String {
        self.network.address(1).to_string()
    }

    /// Claims the addresses and ports that a new or changed service wants and does not have.
    fn allocate(
        &self,
        services: &Services<'_>,
        object: &mut Object,
        old: Option<&Object>,
    ) -> Result<Option<Claim>, Status> {
        let outside = |_: &str| "the provided network does not match the current range".to_owned();
        let address = self.address_request(object, old, outside)?;
        let requests = PortRequests::of(object, old, PortRange::Checked);
        if matches!(address, AddressRequest::Nothing) && requests.is_empty() {
            return Ok(None);
        }
        let allocated =
            self.lock_current(services.cache).allocate(self.network, services, &address, &requests);
        let allocated = allocated.map_err(|error| error.status(object))?;
        let Allocated { addresses, any, health, ports } = allocated;
        let claim = Claim { state: Arc::clone(&self.state), addresses, ports };
        if let (AddressRequest::Any, [address]) = (&address, claim.addresses.as_slice()) {
            service::set_cluster_ip(object, &address.to_string());
        }
        requests.assign(object, &any);
        if let Some(port) = health {
            service::set_health_check_port(object, port);
        }
        Ok(Some(claim))
    }

    /// Sets what a new or changed service would get, without looking for what is free: the address
    /// is that of the network, and node ports follow the last one. Claims nothing.
    ///
    /// Upstream: `ipallocator.go` and `portallocator/operation.go`, with `dryRun`. An address that
    /// is taken and a node port outside of the range pass there as well.
    fn allocate_dry_run(
        &self,
        services: &Services<'_>,
        object: &mut Object,
        old: Option<&Object>,
    ) -> Result<(), Status> {
        let range = format!("{}/{}", self.network.address(0), self.network.bits());
        let outside = |address: &str| {
            format!(
                "the provided IP ({address}) is not in the valid range. The range of valid IPs is {range}"
            )
        };
        let address = self.address_request(object, old, outside)?;
        if matches!(address, AddressRequest::Any) {
            service::set_cluster_ip(object, &self.network.address(0).to_string());
        }
        let requests = PortRequests::of(object, old, PortRange::Unchecked);
        // Other services hold no ports outside of the range.
        let asks_inside = requests.named.iter().any(|port| service::NODE_PORTS.contains(port));
        let in_use = asks_inside.then(|| self.lock_current(services.cache));
        let in_use = in_use.and_then(|state| state.port_in_use(services, &requests));
        if let Some(error) = in_use.or(requests.error) {
            return Err(error.status(object));
        }
        let ports = DryRunPorts::of(&requests);
        requests.assign(object, &ports.any);
        if let Some(port) = ports.health {
            service::set_health_check_port(object, port);
        }
        Ok(())
    }

    /// The addresses that a service asks for, or why they cannot be had, whatever is free.
    fn address_request(
        &self,
        object: &Object,
        old: Option<&Object>,
        outside: impl Fn(&str) -> String,
    ) -> Result<AddressRequest, Status> {
        let request = service::cluster_ip_request(object, old);
        let named = match request.map_err(|errors| invalid(object, &errors))? {
            ClusterIpRequest::Nothing => return Ok(AddressRequest::Nothing),
            ClusterIpRequest::Any => return Ok(AddressRequest::Any),
            ClusterIpRequest::Named(named) => named,
        };
        let mut addresses = Vec::new();
        for text in &named {
            let address = text.parse().ok().filter(|it| self.network.contains(*it));
            let Some(address) = address else {
                let mut errors = ErrorList::new();
                service::refuse_cluster_ip(object, text, &outside(text), &mut errors);
                return Err(invalid(object, &errors));
            };
            addresses.push(address);
        }
        Ok(AddressRequest::Named(addresses))
    }

    fn lock(&self) -> MutexGuard<'_, AllocatorState> {
        self.state.lock().expect("nothing panics while it claims")
    }

    /// Locks the state with its index brought up to date. The services that have changed are read
    /// without the lock; the last few, if others write all the time, with it.
    fn lock_current(&self, cache: &ResourceCache) -> MutexGuard<'_, AllocatorState> {
        for _ in 0..MAX_UNLOCKED_READS {
            let mut state = self.lock();
            let unread = state.index.catch_up(cache);
            if unread.is_empty() {
                return state;
            }
            drop(state);
            index::read_all(&unread);
        }
        let mut state = self.lock();
        index::read_all(&state.index.catch_up(cache));
        state.index.count_read();
        state
    }
}

/// The hook of the Service resource: allocates what a service needs before it is stored.
pub(crate) struct ServiceAddresses {
    pub allocator: ServiceAllocator,
    /// The stored services.
    pub services: Arc<ResourceCache>,
    /// The prefix of their keys.
    pub prefix: String,
    pub entropy: Entropy,
}

impl BeginWrite for ServiceAddresses {
    fn begin(
        &self,
        object: &mut Object,
        old: Option<&Object>,
        dry_run: bool,
    ) -> Result<Reservation, Status> {
        let own = old.map(|it| format!("{}/{}/{}", self.prefix, it.namespace(), it.name()));
        let services = Services { cache: &self.services, own, entropy: &self.entropy };
        if dry_run {
            self.allocator.allocate_dry_run(&services, object, old)?;
            return Ok(Reservation::default());
        }
        let claim = self.allocator.allocate(&services, object, old)?;
        Ok(claim.map(Reservation::new).unwrap_or_default())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut state = self.state.lock().expect("nothing panics while it claims");
        for address in &self.addresses {
            state.addresses.remove(address);
        }
        for port in &self.ports {
            state.ports.remove(port);
        }
    }
}

#[cfg(test)]
mod tests;
