//! [`Webhooks`]: the webhooks of a manager, which every replica serves.

use std::net::SocketAddr;

use kube_client::Client;

use super::{ManagerError, ManagerOptions};
use crate::webhook::{
    CertificateOptions, Certificates, InjectionTarget, ServerProbe, WebhookServer,
};
use keel::Tasks;

/// See the [module documentation](self).
pub(super) struct Webhooks {
    pub(super) server: WebhookServer,
    pub(super) certificates: CertificateOptions,
    pub(super) targets: Vec<InjectionTarget>,
    pub(super) probe: ServerProbe,
}

impl Webhooks {
    /// Serves the webhooks until `tasks` end, and returns the address.
    pub(super) async fn start(
        self,
        client: Client,
        options: &ManagerOptions,
        tasks: &Tasks,
    ) -> Result<SocketAddr, ManagerError> {
        let ManagerOptions { clock, entropy, .. } = options;
        let certificates = Certificates::start(client, self.certificates, clock, entropy, tasks);
        let certificates = certificates.await.map_err(ManagerError::Certificates)?;
        let address = self.server.listens_on();
        let served = self.server.start(&certificates.serving(), clock, tasks).await;
        let served = served.map_err(|source| ManagerError::Endpoint { address, source })?;
        self.probe.start(served, clock, tasks);
        // The configurations are updated after the server listens.
        for target in self.targets {
            certificates.inject(target);
        }
        Ok(served)
    }
}
