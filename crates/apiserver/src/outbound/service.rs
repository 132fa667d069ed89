//! [`ServiceReference`]: the service that a webhook or an aggregated server is behind.

use super::{Destination, Trust};
use machinery::Value;

/// Why a service cannot be called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ServiceError {
    /// There is no such service.
    #[error("service {0:?} not found")]
    ServiceNotFound(String),
    /// It does not listen there.
    #[error("no service port {port} found for service {service:?}")]
    PortNotFound {
        /// Its name.
        service: String,
        /// The port that was asked for.
        port: u16,
    },
    /// Nobody stands behind it.
    #[error("no endpoints available for service {0:?}")]
    NoEndpoints(String),
}

/// Finds the addresses of services.
pub(crate) trait ServiceResolver: Sync {
    /// The addresses of the endpoints that are ready, as `host:port`.
    fn addresses(&self, service: &ServiceReference) -> Result<Vec<String>, ServiceError>;
}

/// `service` in the configuration of a webhook, a conversion or an aggregated API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceReference {
    /// Of the service.
    pub namespace: String,
    /// Of the service.
    pub name: String,
    /// One of its ports.
    pub port: u16,
    /// Where its requests go, or "".
    pub path: String,
}

impl ServiceReference {
    /// From its manifest.
    pub(crate) fn from_value(value: &Value) -> Self {
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let port = value["port"].as_u64().and_then(|it| u16::try_from(it).ok()).unwrap_or(443);
        Self { namespace: text("namespace"), name: text("name"), port, path: text("path") }
    }

    /// The name that its certificate must have, and that its requests are addressed to.
    pub(crate) fn host(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }

    /// `https://name.namespace.svc:443`, to which a path is appended.
    pub(crate) fn origin(&self) -> String {
        format!("https://{}:{}", self.host(), self.port)
    }

    /// The addresses behind the service as of now.
    pub(crate) fn destination(
        &self,
        resolver: &dyn ServiceResolver,
        trust: Trust,
    ) -> Result<Destination, ServiceError> {
        let addresses = resolver.addresses(self)?;
        Ok(Destination { server_name: self.host(), addresses, trust, identity: None })
    }
}
