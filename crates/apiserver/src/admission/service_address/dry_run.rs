//! The node ports that a dry run is shown.

use super::{ALLOCATED, SharedPorts, refused_health_port};
use kinds::core::service::allocation as service;
use machinery::{Faults, Object, Status};
use std::collections::HashSet;

/// The node ports of a dry run. Upstream: `portallocator/operation.go`.
pub(super) struct DryRunPorts {
    /// Those of other services, and of requests under way.
    pub taken: HashSet<u16>,
    /// Those that the service has.
    pub had: HashSet<u16>,
    /// Those that the service asks for or is shown.
    pub given: Vec<u16>,
}

impl DryRunPorts {
    pub(super) fn give_node_ports(
        &mut self,
        object: &mut Object,
        mut shared: SharedPorts,
        faults: &mut Faults,
    ) {
        let mut wanted = service::node_ports_wanted(object).into_iter().peekable();
        for (index, port) in service::node_ports_by_index(object) {
            if let Some((_, number)) = wanted.next_if(|(wanted, _)| *wanted == index) {
                let port = shared.get(number).unwrap_or_else(|| self.next());
                shared.insert(number, port);
                service::set_node_port(object, index, port);
            } else if !self.accept(port) {
                service::refuse_node_port(object, i64::from(port), ALLOCATED, faults);
            }
        }
    }

    pub(super) fn give_health_check_port(&mut self, object: &mut Object) -> Result<(), Status> {
        if service::wants_health_check_port(object) {
            let port = self.next();
            service::set_health_check_port(object, port);
            return Ok(());
        }
        let Some(port) = service::health_check_port(object) else { return Ok(()) };
        // Validation refuses a number that is no port.
        let Ok(number) = u16::try_from(port) else { return Ok(()) };
        if self.accept(number) { Ok(()) } else { Err(refused_health_port(port, ALLOCATED)) }
    }

    /// Whether the service can have a port that it asks for.
    fn accept(&mut self, port: u16) -> bool {
        if port == 0 || self.had.contains(&port) {
            return true;
        }
        self.given.push(port);
        !self.taken.contains(&port)
    }

    /// A port for the answer, whether or not it is free.
    fn next(&mut self) -> u16 {
        let last = self.given.iter().max().copied().unwrap_or(32_768);
        let port = last.saturating_add(1);
        self.given.push(port);
        port
    }
}
