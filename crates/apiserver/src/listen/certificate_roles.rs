//! [`CertificateRoles`]: whether a client certificate is that of a user, of an authenticating proxy, or
//! not accepted. The handshake has verified only that the client has its key.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;

use super::Error;
use super::tls_config::{TlsContent, TlsParameters};
use crate::auth::authentication::request_header::RequestHeaderSettings;
use crate::auth::authentication::{User, x509};
use crate::in_process::handler::Peer;
use tls::ClientVerifier;

/// See the [module documentation](self).
pub(super) struct CertificateRoles {
    users: Arc<ClientVerifier>,
    /// The authorities and the names of proxies, if there are any.
    proxies: Option<(Arc<ClientVerifier>, Arc<RequestHeaderSettings>)>,
}

impl CertificateRoles {
    /// The roles by this content.
    pub(super) fn new(content: &TlsContent, parameters: &TlsParameters) -> Result<Self, Error> {
        let proxies = match &parameters.request_header {
            Some(settings) => Some((super::verifier(&content.proxies)?, Arc::clone(settings))),
            None => None,
        };
        Ok(Self { users: super::verifier(&content.clients)?, proxies })
    }

    /// The sender on a connection with these certificates: the fields of `base`, and those that depend
    /// on the certificates.
    pub(super) fn peer(
        &self,
        certificates: &[CertificateDer<'_>],
        base: &Peer,
        now: UnixTime,
    ) -> Result<Peer, x509::Error> {
        let Some((certificate, intermediates)) = certificates.split_first() else {
            return Ok(base.clone());
        };
        let is_of = |verifier: &ClientVerifier| {
            verifier.verify_client_cert(certificate, intermediates, now).is_ok()
        };
        let is_user = is_of(&self.users);
        let proxies = self.proxies.as_ref().filter(|(verifier, _)| is_of(verifier));
        // Nothing is read from a certificate that is not accepted.
        let user = if is_user || proxies.is_some() { x509::user(certificate)? } else { None };
        let name = user.as_ref().map(|it| it.name.as_str());
        Ok(Peer {
            is_front_proxy: proxies.is_some_and(|(_, settings)| settings.allows(name)),
            has_foreign_certificate: !is_user,
            user: user.filter(|_| is_user).map(Arc::<User>::new),
            ..base.clone()
        })
    }
}
