//! [`Sender`]: the sender of the requests on one connection.
//!
//! A connection outlives handshakes with newer certificates. The client certificate is therefore
//! verified again when the authorities have changed, and it is no longer accepted after its end.
//!
//! Upstream: `authentication/request/x509`, which verifies the certificate at each request.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use rustls::pki_types::CertificateDer;

use super::ListenerState;
use super::certificate_roles::Verified;
use super::tls_config::{TlsConfig, unix_time};
use crate::auth::authentication::x509;
use crate::auth::metrics::ClientCertificateMetrics;
use crate::in_process::InProcessClient;
use crate::in_process::handler::{Handler, Peer};
use keel::{Clock, Timestamp};

/// See the [module documentation](self).
pub(super) struct Sender {
    client: InProcessClient,
    certificate: Option<PeerCertificate>,
}

/// The client certificate of a connection.
struct PeerCertificate {
    chain: Vec<CertificateDer<'static>>,
    not_after: Timestamp,
    /// The client, and the configuration that has verified it; None after the end of the certificate.
    verified: Mutex<(Option<Arc<TlsConfig>>, InProcessClient)>,
    base: Peer,
    handler: Arc<dyn Handler>,
    current: Arc<ArcSwap<TlsConfig>>,
    metrics: Arc<ClientCertificateMetrics>,
    clock: Clock,
}

impl Sender {
    /// The sender with these certificates, which `tls` has accepted.
    pub(super) fn new(
        certificates: Option<&[CertificateDer<'_>]>,
        base: Peer,
        tls: Arc<TlsConfig>,
        listener_state: &ListenerState,
    ) -> Result<Self, x509::Error> {
        let handler = &listener_state.handler;
        let Some(chain) = certificates.filter(|it| !it.is_empty()) else {
            let client = InProcessClient::for_peer(Arc::clone(handler), base);
            return Ok(Self { client, certificate: None });
        };
        let now = unix_time(&listener_state.clock);
        let peer = tls.roles.peer(chain, Verified::InHandshake, &base, now)?;
        let client = InProcessClient::for_peer(Arc::clone(handler), peer);
        let certificate = PeerCertificate {
            chain: chain.iter().map(|it| it.clone().into_owned()).collect(),
            not_after: x509::not_after(&chain[0])?,
            verified: Mutex::new((Some(tls), client.clone())),
            base,
            handler: Arc::clone(handler),
            current: Arc::clone(&listener_state.tls),
            metrics: Arc::clone(&listener_state.client_certificates),
            clock: listener_state.clock.clone(),
        };
        Ok(Self { client, certificate: Some(certificate) })
    }

    /// The client with which the next request is answered.
    pub(super) fn client(&self) -> InProcessClient {
        match &self.certificate {
            None => self.client.clone(),
            Some(certificate) => certificate.client(),
        }
    }
}

impl PeerCertificate {
    fn client(&self) -> InProcessClient {
        let now = self.clock.now();
        self.metrics.observe(self.not_after, now);
        let current = self.current.load();
        let mut verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        let is_valid = now <= self.not_after;
        let is_current = match &verified.0 {
            Some(config) => is_valid && Arc::ptr_eq(config, &current),
            None => !is_valid,
        };
        if !is_current {
            let now = unix_time(&self.clock);
            let peer = current.roles.peer(&self.chain, Verified::NotYet, &self.base, now);
            let refused = || Peer { has_foreign_certificate: true, ..self.base.clone() };
            let peer = peer.unwrap_or_else(|_| refused());
            let client = InProcessClient::for_peer(Arc::clone(&self.handler), peer);
            *verified = (is_valid.then(|| Arc::clone(&current)), client);
        }
        verified.1.clone()
    }
}
