//! The node ports that a dry run is shown.

use super::requests::{HealthRequest, PortRequest, PortRequests};

/// The ports of the answer to a dry run, whether or not they are free.
pub(super) struct DryRunPorts {
    /// Those of the requests for any port.
    pub any: Vec<u16>,
    /// That for health checks, if the service asks for any.
    pub health: Option<u16>,
}

impl DryRunPorts {
    /// Each port follows the highest one before it. Upstream: `portallocator/operation.go`
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

fn next(highest: Option<u16>) -> u16 {
    highest.unwrap_or(32_768).saturating_add(1)
}
