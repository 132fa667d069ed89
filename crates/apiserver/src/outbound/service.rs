//! [`ServiceReference`]: a reference to the Service of a webhook or an aggregated server.

use std::sync::Arc;

use super::Destination;
use machinery::Value;
use tls::Trust;

/// The reason why a service cannot be called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ServiceError {
    /// The service does not exist.
    #[error("service {0:?} not found")]
    ServiceNotFound(String),
    /// The service does not have this port.
    #[error("no service port {port} found for service {service:?}")]
    PortNotFound {
        /// The name of the service.
        service: String,
        /// The port of the reference.
        port: u16,
    },
    /// The service has no ready endpoints.
    #[error("no endpoints available for service {0:?}")]
    NoEndpoints(String),
    /// The ready endpoints of the service are pods on simulated nodes.
    #[error("the pods of service {0:?} are simulated: nothing answers at their addresses")]
    Simulated(String),
}

/// Finds the addresses of services.
pub(crate) trait ServiceResolver: Sync {
    /// The addresses of the endpoints that are ready, as `host:port`.
    fn addresses(&self, service: &ServiceReference) -> Result<Arc<[String]>, ServiceError>;
}

/// `service` in the configuration of a webhook, a conversion or an aggregated API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceReference {
    /// The namespace of the service.
    pub namespace: String,
    /// The name of the service.
    pub name: String,
    /// A port of the service.
    pub port: u16,
    /// The URL path of requests, or "".
    pub path: String,
}

impl ServiceReference {
    /// Reads it from JSON.
    pub(crate) fn from_value(value: &Value) -> Self {
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let port = value["port"].as_u64().and_then(|it| u16::try_from(it).ok()).unwrap_or(443);
        Self { namespace: text("namespace"), name: text("name"), port, path: text("path") }
    }

    /// The host name of requests, which the certificate must have.
    pub(crate) fn host(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }

    /// `https://name.namespace.svc:443`, to which a path is appended.
    pub(crate) fn origin(&self) -> String {
        format!("https://{}:{}", self.host(), self.port)
    }

    /// The destination with the current addresses of the service.
    pub(crate) fn destination(
        &self,
        resolver: &dyn ServiceResolver,
        trust: Trust,
    ) -> Result<Destination, ServiceError> {
        let addresses = resolver.addresses(self)?;
        let (server_name, port) = (self.host(), self.port);
        Ok(Destination { server_name, port, addresses, trust, identity: None })
    }
}
