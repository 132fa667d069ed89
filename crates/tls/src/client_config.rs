//! [`client_config`]: the rustls settings of a client.

use std::fmt;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::{InsecureVerifier, Roots, ServerVerifier};

/// How the certificate of a server is verified.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Trust {
    /// Against the root certificates of the operating system.
    System,
    /// Against these certificate authorities, in PEM.
    CaBundle(Arc<str>),
    /// Not at all.
    Insecure,
}

/// A client certificate and its key, in PEM.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The certificate chain.
    pub certificate: Arc<str>,
    /// The private key.
    pub key: Arc<str>,
}

impl fmt::Debug for Identity {
    /// Omits the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// TLS settings that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The bundle contains no certificate.
    #[error("unable to load root certificates: unable to parse bytes as PEM block")]
    CaBundle,
    /// The host is not a valid server name.
    #[error("{0:?} is not a valid server name")]
    Name(String),
    /// The client certificate or its key is not valid.
    #[error("cannot use the client certificate")]
    Identity(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The settings of a client that verifies servers by `trust` and presents `identity`, without ALPN.
pub fn client_config(
    trust: &Trust,
    identity: Option<&Identity>,
) -> Result<ClientConfig, ConfigError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(|error| ConfigError::Identity(Box::new(error)))?;
    let verifier: Arc<dyn ServerCertVerifier> = match trust {
        Trust::Insecure => Arc::new(InsecureVerifier::new(provider)),
        Trust::System => Arc::new(ServerVerifier::new(system_roots(), provider)),
        Trust::CaBundle(bundle) => {
            let roots = Roots::from_pem(bundle.as_bytes());
            if roots.is_empty() {
                return Err(ConfigError::CaBundle);
            }
            Arc::new(ServerVerifier::new(roots, provider))
        }
    };
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let Some(identity) = identity else { return Ok(builder.with_no_client_auth()) };
    let invalid = |error: rustls::pki_types::pem::Error| ConfigError::Identity(Box::new(error));
    let chain = CertificateDer::pem_slice_iter(identity.certificate.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(invalid)?;
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).map_err(invalid)?;
    builder
        .with_client_auth_cert(chain, key)
        .map_err(|error| ConfigError::Identity(Box::new(error)))
}

fn system_roots() -> Roots {
    Roots::new(rustls_native_certs::load_native_certs().certs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_omits_the_key() {
        let identity = Identity { certificate: "CERTIFICATE".into(), key: "SECRET".into() };
        let text = format!("{identity:?}");
        assert!(text.contains("CERTIFICATE") && !text.contains("SECRET"), "{text}");
    }
}
