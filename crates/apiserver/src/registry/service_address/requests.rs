//! [`PortRequests`]: the node ports that a service requests and does not have, computed before the
//! lock is taken.
//!
//! ```text
//! spec.ports of a new service       requests           gets
//! 80/TCP                            Any                the first free port
//! 80/UDP                            (shared)           the same port
//! 81/TCP  nodePort: 30081           Named 30081
//! ```

use std::collections::{HashMap, HashSet};

use kinds::core::service::allocation as service;
use machinery::{ErrorList, GroupKind, Object, Status};

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(super) struct PortRequests {
    /// The requests in the order of `spec.ports`.
    pub requests: Vec<PortRequest>,
    /// The request for a health check port, which comes after all others.
    pub health: Option<HealthRequest>,
    /// The error of the service if no request fails.
    pub error: Option<PortError>,
    /// All ports that are requested by number.
    pub named: HashSet<u16>,
    /// The node ports of the service's ports, by index.
    assignments: Vec<(usize, PortSource)>,
}

/// A request for one node port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PortRequest {
    /// Any free port.
    Any,
    /// The port that `spec.ports[index]` names.
    Named { index: usize, port: u16 },
}

/// The request for the health check port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HealthRequest {
    /// Any free port.
    Any,
    /// The named port.
    Named(u16),
}

/// The reasons for which a node port cannot be allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PortError {
    /// Another service, or another port of this one, uses it.
    InUse { index: usize, port: u16 },
    /// The port is outside of the node port range.
    OutsideRange { index: usize, port: i64 },
    /// All ports are in use.
    Exhausted,
    /// The health check port is in use.
    HealthInUse(u16),
    /// The health check port is outside of the node port range.
    HealthOutsideRange(i64),
}

/// Whether ports must be in the node port range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PortRange {
    Checked,
    Unchecked,
}

#[derive(Debug, Clone, Copy)]
enum PortSource {
    Named(u16),
    /// The port of the request for any port with this index.
    Any(usize),
}

impl PortRequests {
    /// The requests of a new or changed service. They end at the first request that fails
    /// independent of other services, so their number is bounded by the size of the checked range.
    pub(super) fn of(object: &Object, old: Option<&Object>, range: PortRange) -> Self {
        let mut requests = Self::default();
        let held = HeldPorts::of(old);
        let added = match old {
            None => requests.add_new(object, range),
            Some(_) => requests.add_changed(object, &held, range),
        };
        if let Err(error) = added.and_then(|()| requests.add_health(object, &held, range)) {
            requests.error = Some(error);
        }
        requests
    }

    /// Whether the service requests no ports.
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.health.is_none() && self.error.is_none()
    }

    /// Sets the node ports of the service. `any` are the ports of the requests for any port.
    pub(super) fn assign(&self, object: &mut Object, any: &[u16]) {
        for (index, source) in &self.assignments {
            let port = match source {
                PortSource::Named(port) => Some(*port),
                PortSource::Any(number) => any.get(*number).copied(),
            };
            if let Some(port) = port {
                service::set_node_port(object, *index, port);
            }
        }
    }

    /// Ports with the same number share a node port. Upstream: `alloc.go` `initNodePorts`.
    fn add_new(&mut self, object: &Object, range: PortRange) -> Result<(), PortError> {
        let shared = service::shared_node_ports(object);
        let wants_node_ports = service::wants_node_ports(object);
        let mut sources: HashMap<i64, PortSource> = HashMap::new();
        let mut count = 0;
        for (index, (number, requested)) in service::service_ports(object).enumerate() {
            if requested == 0 && !wants_node_ports {
                continue;
            }
            let source = match sources.get(&number) {
                Some(PortSource::Named(port)) if i64::from(*port) == requested => continue,
                Some(source) if requested == 0 => Some(*source),
                Some(_) => self.add_named(index, requested, range)?,
                None => match shared.get(&number).copied() {
                    Some(named) => self.add_named(index, named, range)?,
                    None => Some(self.add_any(&mut count, range)?),
                },
            };
            let Some(source) = source else { continue };
            sources.entry(number).or_insert(source);
            if requested == 0 {
                self.assignments.push((index, source));
            }
        }
        Ok(())
    }

    /// Each port has its own node port. Upstream: `alloc.go` `updateNodePorts`.
    fn add_changed(
        &mut self,
        object: &Object,
        held: &HeldPorts,
        range: PortRange,
    ) -> Result<(), PortError> {
        let wants_node_ports = service::wants_node_ports(object);
        let mut count = 0;
        for (index, (_, requested)) in service::service_ports(object).enumerate() {
            let port = u16::try_from(requested).unwrap_or(0);
            if requested == 0 && wants_node_ports {
                let source = self.add_any(&mut count, range)?;
                self.assignments.push((index, source));
            } else if port != 0 && held.health == Some(port) {
                return Err(PortError::InUse { index, port });
            } else if requested != 0 && !held.ports.contains(&port) && !self.named.contains(&port) {
                self.add_named(index, requested, range)?;
            }
        }
        Ok(())
    }

    fn add_any(&mut self, count: &mut usize, range: PortRange) -> Result<PortSource, PortError> {
        if range == PortRange::Checked && *count == service::NODE_PORTS.len() {
            return Err(PortError::Exhausted);
        }
        self.requests.push(PortRequest::Any);
        *count += 1;
        Ok(PortSource::Any(*count - 1))
    }

    /// Returns None for a number that is not a port, which only an unchecked range accepts.
    fn add_named(
        &mut self,
        index: usize,
        requested: i64,
        range: PortRange,
    ) -> Result<Option<PortSource>, PortError> {
        let port = u16::try_from(requested).ok();
        let is_inside = port.is_some_and(|port| service::NODE_PORTS.contains(&port));
        if range == PortRange::Checked && !is_inside {
            return Err(PortError::OutsideRange { index, port: requested });
        }
        let Some(port) = port else { return Ok(None) };
        if !self.named.insert(port) {
            return Err(PortError::InUse { index, port });
        }
        self.requests.push(PortRequest::Named { index, port });
        Ok(Some(PortSource::Named(port)))
    }

    /// Upstream: `alloc.go` `allocHealthCheckNodePort`.
    fn add_health(
        &mut self,
        object: &Object,
        held: &HeldPorts,
        range: PortRange,
    ) -> Result<(), PortError> {
        if service::wants_health_check_port(object) {
            self.health = Some(HealthRequest::Any);
            return Ok(());
        }
        let Some(requested) = service::health_check_port(object) else { return Ok(()) };
        let port = u16::try_from(requested).ok();
        if port.is_some() && port == held.health {
            return Ok(());
        }
        let is_inside = port.is_some_and(|port| service::NODE_PORTS.contains(&port));
        if range == PortRange::Checked && !is_inside {
            return Err(PortError::HealthOutsideRange(requested));
        }
        // Validation rejects a number that is not a port.
        let Some(port) = port else { return Ok(()) };
        if held.ports.contains(&port) || !self.named.insert(port) {
            return Err(PortError::HealthInUse(port));
        }
        self.health = Some(HealthRequest::Named(port));
        Ok(())
    }
}

impl PortError {
    /// Upstream: the error of a health check port is not a field error.
    pub(super) fn status(self, object: &Object) -> Status {
        let (index, port, why) = match self {
            Self::Exhausted => {
                return Status::internal("failed to allocate a nodePort: range is full");
            }
            Self::HealthInUse(port) => return health_port_error(i64::from(port), ALLOCATED),
            Self::HealthOutsideRange(port) => {
                return health_port_error(port, &service::outside_of_range());
            }
            Self::InUse { index, port } => (index, i64::from(port), ALLOCATED.to_owned()),
            Self::OutsideRange { index, port } => (index, port, service::outside_of_range()),
        };
        let mut errors = ErrorList::new();
        service::refuse_node_port(index, port, &why, &mut errors);
        invalid(object, &errors)
    }
}

/// The Status 422 for an invalid service.
pub(super) fn invalid(object: &Object, errors: &ErrorList) -> Status {
    Status::invalid(&GroupKind::new("", "Service"), object.name(), errors)
}

const ALLOCATED: &str = "provided port is already allocated";

fn health_port_error(port: i64, why: &str) -> Status {
    let why = format!("failed to allocate requested HealthCheck NodePort {port}: {why}");
    Status::internal(why)
}

/// The node ports of the stored service.
#[derive(Debug, Default)]
struct HeldPorts {
    ports: HashSet<u16>,
    health: Option<u16>,
}

impl HeldPorts {
    fn of(old: Option<&Object>) -> Self {
        let Some(old) = old else { return Self::default() };
        let ports = service::service_ports(old).filter_map(|(_, port)| u16::try_from(port).ok());
        let health = service::health_check_port(old).and_then(|port| u16::try_from(port).ok());
        Self { ports: ports.filter(|port| *port != 0).collect(), health }
    }
}
