//! The TLS settings of a configuration. Certificates of servers are verified as in Go's client,
//! which differs from rustls (see the crate `tls`).

use std::sync::Arc;

use kube_client::Config;
use kube_client::client::ConfigExt;
use rustls::ClientConfig;

use tls::{Roots, ServerVerifier};

/// The TLS settings of a client with the CA certificates and the client certificate of `config`.
pub(crate) fn tls_config(config: &Config) -> Result<ClientConfig, kube_client::Error> {
    let mut settings = config.rustls_client_config()?;
    if let Some(roots) = config.root_cert.as_ref().filter(|_| !config.accept_invalid_certs) {
        let roots = Roots::new(roots.iter().map(|it| it.clone().into()));
        let provider = Arc::clone(settings.crypto_provider());
        let verifier = Arc::new(ServerVerifier::new(roots, provider));
        settings.dangerous().set_certificate_verifier(verifier);
    }
    Ok(settings)
}
