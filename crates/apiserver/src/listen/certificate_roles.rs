//! [`CertificateRoles`]: whether a client certificate is that of a user or of an authenticating proxy.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;

use super::Error;
use crate::auth::authentication::request_header::RequestHeaderSettings;
use crate::auth::authentication::{User, x509};
use crate::in_process::handler::Peer;
use tls::ClientVerifier;

/// See the [module documentation](self). The handshake accepts the certificates of both, so each is
/// verified again with the authorities of its role.
pub(crate) struct CertificateRoles {
    users: Arc<ClientVerifier>,
    proxies: Arc<ClientVerifier>,
    settings: Arc<RequestHeaderSettings>,
}

impl CertificateRoles {
    /// The roles by these settings. `authorities` has those of users, in PEM.
    pub(crate) fn new(
        authorities: &str,
        settings: &Arc<RequestHeaderSettings>,
    ) -> Result<Self, Error> {
        Ok(Self {
            users: super::verifier(authorities)?,
            proxies: super::verifier(settings.authorities.bundle())?,
            settings: Arc::clone(settings),
        })
    }
}

/// The sender on a connection with these certificates. Without roles, they are those of a user.
pub(super) fn peer(
    certificates: Option<&[CertificateDer<'_>]>,
    roles: Option<&CertificateRoles>,
) -> Result<Peer, x509::Error> {
    let Some((certificate, intermediates)) = certificates.and_then(<[_]>::split_first) else {
        return Ok(Peer::default());
    };
    let user = x509::user(certificate)?;
    let Some(roles) = roles else { return Ok(of_user(user)) };
    let now = UnixTime::now();
    let is_of = |verifier: &ClientVerifier| {
        verifier.verify_client_cert(certificate, intermediates, now).is_ok()
    };
    let name = user.as_ref().map(|it| it.name.as_str());
    let is_front_proxy = is_of(&roles.proxies) && roles.settings.allows(name);
    let is_user = is_of(&roles.users);
    Ok(Peer {
        is_front_proxy,
        has_foreign_certificate: !is_user,
        ..of_user(user.filter(|_| is_user))
    })
}

fn of_user(user: Option<User>) -> Peer {
    Peer { user: user.map(Arc::new), ..Peer::default() }
}
