//! [`CertificateRoles`]: whether a client certificate is that of a user or of an authenticating proxy.

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

/// Whether a certificate has been verified by the authorities of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verified {
    /// By all of them: the handshake accepts the certificates of users and of proxies.
    InHandshake,
    /// Not by the present ones.
    NotYet,
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
        verified: Verified,
        base: &Peer,
        now: UnixTime,
    ) -> Result<Peer, x509::Error> {
        let Some((certificate, intermediates)) = certificates.split_first() else {
            return Ok(base.clone());
        };
        let user = x509::user(certificate)?;
        let is_of = |verifier: &ClientVerifier| {
            verifier.verify_client_cert(certificate, intermediates, now).is_ok()
        };
        let name = user.as_ref().map(|it| it.name.as_str());
        let is_front_proxy = self
            .proxies
            .as_ref()
            .is_some_and(|(verifier, settings)| is_of(verifier) && settings.allows(name));
        let is_user =
            (verified == Verified::InHandshake && self.proxies.is_none()) || is_of(&self.users);
        Ok(Peer {
            is_front_proxy,
            has_foreign_certificate: !is_user,
            user: user.filter(|_| is_user).map(Arc::<User>::new),
            ..base.clone()
        })
    }
}
