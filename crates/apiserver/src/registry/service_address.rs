//! The allocation of cluster IPs and node ports to services.
//!
//! The addresses of stored services are read from the services themselves ([`index`]). The
//! addresses that requests in progress claim are kept until the requests end, so two services never
//! get the same address. No repair is needed after a crash, because there is no separate allocation
//! record. While a stored service cannot be decrypted, its addresses are not known, and no service gets
//! one.
//!
//! A dry run gets an address and ports in its response and claims none ([`ServiceAddresses::begin`]).
//!
//! All requests for services share one lock. Invariants:
//! - the stored and the claimed addresses are read together, under the lock. A claim ends when its
//!   service can be read; a request that read the services before that, and the claims after it,
//!   would find the address in neither;
//! - a request is parsed and validated before the lock is taken, and errors are formatted after it
//!   is released. The work under the lock is bounded by the number of node ports and of changed
//!   services, not by the size of a request.

mod dry_run;
mod index;
mod requests;
mod allocator_state;

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cache::watch_cache::ResourceCache;
use crate::storage::hooks::{BeginWrite, Reservation};
use allocator_state::{AddressRequest, Allocated, AllocatorState, Network, Services};
use dry_run::DryRunPorts;
use keel::Entropy;
use kinds::core::service::allocation::{self as service, ClusterIpRequest};
use machinery::{ErrorList, Object, Status};
use requests::{PortRange, PortRequests, invalid};

/// The maximum number of times that changed services are parsed without the lock.
const MAX_UNLOCKED_PARSES: usize = 8;

/// See the [module documentation](self).
#[derive(Debug, Clone)]
pub(crate) struct ServiceAllocator {
    network: Network,
    state: Arc<Mutex<AllocatorState>>,
}

/// The addresses and ports of a request in progress; released when it is dropped.
#[derive(Debug)]
struct Claim {
    state: Arc<Mutex<AllocatorState>>,
    addresses: Vec<Ipv4Addr>,
    ports: HashSet<u16>,
}

/// The CIDR of the service network is invalid.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not an IPv4 network from /8 to /30, such as 10.0.0.0/24")]
pub struct InvalidServiceCidr(String);

impl ServiceAllocator {
    /// An allocator for a network such as `10.0.0.0/24`.
    pub(crate) fn new(cidr: &str) -> Result<Self, InvalidServiceCidr> {
        let bad = || InvalidServiceCidr(cidr.to_owned());
        let (address, bits) = cidr.split_once('/').ok_or_else(bad)?;
        let address: Ipv4Addr = address.parse().map_err(|_| bad())?;
        let bits: u32 = bits.parse().ok().filter(|it| (8..=30).contains(it)).ok_or_else(bad)?;
        let size = 1u32 << (32 - bits);
        let first = u32::from(address) & !(size - 1);
        Ok(Self { network: Network { first, size }, state: Arc::default() })
    }

    /// The first address of the network, which belongs to the API server's own service.
    pub(crate) fn first_address(&self) -> String {
        self.network.address(1).to_string()
    }

    /// The network, as in `10.0.0.0/24`.
    pub(crate) fn network(&self) -> String {
        let Network { first, size } = self.network;
        format!("{}/{}", Ipv4Addr::from(first), size.leading_zeros() + 1)
    }

    /// Claims the addresses and ports that a new or changed service requests and does not have.
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
        let mut state = self.lock_current(services.cache);
        state.index.check_complete()?;
        let allocated = state.allocate(self.network, services, &address, &requests);
        drop(state);
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

    /// Sets the address and ports that the response to a dry run has. They are not free ones: the
    /// address is that of the network, and node ports are numbered consecutively. Claims nothing.
    ///
    /// Upstream: `ipallocator.go` and `portallocator/operation.go`, with `dryRun`. They also accept
    /// an address that is in use and a node port outside of the range.
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
        // Other services have no ports outside of the range.
        let requests_in_range =
            requests.named.iter().any(|port| service::NODE_PORTS.contains(port));
        let mut in_use = None;
        if requests_in_range {
            let state = self.lock_current(services.cache);
            state.index.check_complete()?;
            in_use = state.port_in_use(services, &requests);
        }
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

    /// The addresses that a service requests, or an error if they are invalid independent of other
    /// services.
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the state with its index brought up to date. Changed services are parsed without the
    /// lock; under continuous writes, the last ones are parsed with it.
    fn lock_current(&self, cache: &ResourceCache) -> MutexGuard<'_, AllocatorState> {
        for _ in 0..MAX_UNLOCKED_PARSES {
            let mut state = self.lock();
            let unparsed = state.index.catch_up(cache);
            if unparsed.is_empty() {
                return state;
            }
            drop(state);
            index::parse_all(&unparsed);
        }
        let mut state = self.lock();
        index::parse_all(&state.index.catch_up(cache));
        state.index.count_parsed();
        state
    }
}

/// The `begin_write` hook of the Service resource: allocates addresses and ports before a service
/// is stored.
pub(crate) struct ServiceAddresses {
    pub allocator: ServiceAllocator,
    /// The stored services.
    pub services: Arc<ResourceCache>,
    /// The key prefix of services.
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
        let own_key = old.map(|it| format!("{}/{}/{}", self.prefix, it.namespace(), it.name()));
        let services = Services { cache: &self.services, own_key, entropy: &self.entropy };
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
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for address in &self.addresses {
            state.claimed_addresses.remove(address);
        }
        for port in &self.ports {
            state.claimed_ports.remove(port);
        }
    }
}

#[cfg(test)]
mod tests;
