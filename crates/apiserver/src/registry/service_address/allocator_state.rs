//! [`AllocatorState`]: the addresses and ports of stored services and of requests in progress,
//! under one lock.

use std::collections::HashSet;
use std::net::Ipv4Addr;

use super::index::AddressIndex;
use super::requests::{HealthRequest, PortError, PortRequest, PortRequests, invalid};
use crate::cache::watch_cache::ResourceCache;
use keel::Entropy;
use kinds::core::service::allocation as service;
use machinery::field_path::quote;
use machinery::{ErrorList, Object, Status};

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(super) struct AllocatorState {
    /// The addresses and ports of stored services.
    pub index: AddressIndex,
    /// The addresses of requests in progress.
    pub claimed_addresses: HashSet<Ipv4Addr>,
    /// The ports of requests in progress.
    pub claimed_ports: HashSet<u16>,
    /// The position among the allocatable addresses at which the next search begins. It follows the
    /// last allocated address, so that a released address is not reused immediately.
    pub cursor: u32,
}

/// The network of cluster IPs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Network {
    pub first: u32,
    pub size: u32,
}

/// The services that an allocation must not conflict with.
pub(super) struct Services<'a> {
    pub cache: &'a ResourceCache,
    /// The key of the service itself, if it is stored. Its own addresses are not conflicts.
    pub own_key: Option<String>,
    pub entropy: &'a Entropy,
}

/// The addresses that a service requests.
pub(super) enum AddressRequest {
    Nothing,
    Any,
    Named(Vec<Ipv4Addr>),
}

/// The addresses and ports that are allocated to a request.
pub(super) struct Allocated {
    pub addresses: Vec<Ipv4Addr>,
    /// The ports of the requests for any port, in their order.
    pub any: Vec<u16>,
    pub health: Option<u16>,
    /// All ports.
    pub ports: HashSet<u16>,
}

/// The reasons for which an allocation fails.
pub(super) enum AllocationError {
    AddressInUse(Ipv4Addr),
    AddressesExhausted,
    Port(PortError),
}

impl AllocatorState {
    /// Claims everything that a request needs, or nothing.
    pub(super) fn allocate(
        &mut self,
        network: Network,
        services: &Services<'_>,
        address: &AddressRequest,
        requests: &PortRequests,
    ) -> Result<Allocated, AllocationError> {
        let addresses = match address {
            AddressRequest::Nothing => Vec::new(),
            AddressRequest::Any => {
                vec![self.free_address(network).ok_or(AllocationError::AddressesExhausted)?]
            }
            AddressRequest::Named(named) => {
                let own_key = services.own_key.as_deref();
                let is_taken = |it: &&Ipv4Addr| {
                    self.claimed_addresses.contains(it) || self.index.has_address(**it, own_key)
                };
                if let Some(taken) = named.iter().find(is_taken) {
                    return Err(AllocationError::AddressInUse(*taken));
                }
                named.clone()
            }
        };
        if let Some(error) = self.port_in_use(services, requests).or(requests.error) {
            return Err(AllocationError::Port(error));
        }
        let mut ports = requests.named.clone();
        let mut pick = || {
            let port = self.free_port(services.entropy, &ports);
            let port = port.ok_or(AllocationError::Port(PortError::Exhausted))?;
            ports.insert(port);
            Ok(port)
        };
        let any_requests = requests.requests.iter().filter(|it| **it == PortRequest::Any);
        let any = any_requests.map(|_| pick()).collect::<Result<Vec<u16>, AllocationError>>()?;
        let wants_health = requests.health == Some(HealthRequest::Any);
        let health = if wants_health { Some(pick()?) } else { None };
        self.claimed_addresses.extend(&addresses);
        self.claimed_ports.extend(&ports);
        Ok(Allocated { addresses, any, health, ports })
    }

    /// The first requested port that is in use.
    pub(super) fn port_in_use(
        &self,
        services: &Services<'_>,
        requests: &PortRequests,
    ) -> Option<PortError> {
        let is_taken = |port: u16| {
            self.claimed_ports.contains(&port)
                || self.index.has_port(port, services.own_key.as_deref())
        };
        let in_use = requests.requests.iter().find_map(|request| match *request {
            PortRequest::Named { index, port } => {
                is_taken(port).then_some(PortError::InUse { index, port })
            }
            PortRequest::Any => None,
        });
        in_use.or_else(|| match requests.health? {
            HealthRequest::Named(port) => is_taken(port).then_some(PortError::HealthInUse(port)),
            HealthRequest::Any => None,
        })
    }

    fn free_address(&mut self, network: Network) -> Option<Ipv4Addr> {
        // Three addresses are not allocated: the network address, the first address, which belongs
        // to the server's own service, and the broadcast address.
        let count = network.size - 3;
        for step in 0..count {
            let offset = 2 + (self.cursor + step) % count;
            let address = network.address(offset);
            if !self.claimed_addresses.contains(&address) && !self.index.has_address(address, None)
            {
                // The position of this address is `offset - 2`.
                self.cursor = offset - 1;
                return Some(address);
            }
        }
        None
    }

    fn free_port(&self, entropy: &Entropy, already_picked: &HashSet<u16>) -> Option<u16> {
        let first = *service::NODE_PORTS.start();
        let range = u64::from(service::NODE_PORTS.end() - first) + 1;
        let from = entropy.below(range);
        let is_free = |port: &u16| {
            !already_picked.contains(port)
                && !self.claimed_ports.contains(port)
                && !self.index.has_port(*port, None)
        };
        let mut ports =
            (0..range).map(|step| first + u16::try_from((from + step) % range).unwrap_or(0));
        ports.find(is_free)
    }
}

impl Network {
    pub(super) fn address(self, offset: u32) -> Ipv4Addr {
        Ipv4Addr::from(self.first + offset)
    }

    /// Whether an address is a host address: the network address and the broadcast address are
    /// excluded.
    pub(super) fn contains(self, address: Ipv4Addr) -> bool {
        (1..self.size - 1).contains(&u32::from(address).wrapping_sub(self.first))
    }

    pub(super) fn bits(self) -> u32 {
        32 - self.size.trailing_zeros()
    }
}

impl AllocationError {
    pub(super) fn status(&self, object: &Object) -> Status {
        match self {
            Self::AddressInUse(address) => {
                let mut errors = ErrorList::new();
                let why = "provided IP is already allocated";
                service::refuse_cluster_ip(object, &address.to_string(), why, &mut errors);
                invalid(object, &errors)
            }
            Self::AddressesExhausted => {
                let name = quote(object.name());
                Status::internal(format!(
                    "failed to allocate a serviceIP for Service {name}: range is full"
                ))
            }
            Self::Port(error) => error.status(object),
        }
    }
}
