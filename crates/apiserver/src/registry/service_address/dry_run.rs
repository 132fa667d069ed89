//! The node ports in the response to a dry run.

use super::requests::{HealthRequest, PortRequest, PortRequests};

/// The node ports in the response to a dry run. They need not be free.
pub(super) struct DryRunPorts {
    /// The ports of the requests for any port.
    pub any: Vec<u16>,
    /// The port for health checks, if the service requests any port for them.
    pub health: Option<u16>,
}

impl DryRunPorts {
    /// Each port is the highest one before it plus one. Upstream: `portallocator/operation.go`
    /// `AllocateNext`.
    pub(super) fn of(requests: &PortRequests) -> Self {
        let mut highest: Option<u16> = None;
        let mut any = Vec::new();
        for request in &requests.requests {
            let port = match request {
                PortRequest::Any => next(highest),
                PortRequest::Named { port, .. } => *port,
            };
            if *request == PortRequest::Any {
                any.push(port);
            }
            highest = highest.max(Some(port));
        }
        let wants_health = requests.health == Some(HealthRequest::Any);
        Self { any, health: wants_health.then(|| next(highest)) }
    }
}

/// The port after the highest one so far. Upstream: the first port of a dry run is 32769.
fn next(highest: Option<u16>) -> u16 {
    highest.unwrap_or(32_768).saturating_add(1)
}
