//! [`Sender`]: the sender of the requests on one connection.
//!
//! The client certificate is verified for the first request of a connection, which may have resumed an
//! older session. A connection outlives handshakes with newer certificates: the client certificate is
//! verified again when the authorities have changed, and when its validity begins or ends.
//!
//! Upstream: `authentication/request/x509`, which verifies the certificate at each request.

use std::cmp::Ordering;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use rustls::pki_types::CertificateDer;

use super::ListenerState;
use super::tls_config::{TlsConfig, unix_time};
use crate::auth::authentication::x509;
use crate::auth::metrics::TlsMetrics;
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
    validity: RangeInclusive<Timestamp>,
    verified: Mutex<Verified>,
    base: Peer,
    handler: Arc<dyn Handler>,
    current: Arc<ArcSwap<TlsConfig>>,
    metrics: Arc<TlsMetrics>,
    clock: Clock,
}

/// The result of a verification.
struct Verified {
    /// The configuration by which the certificate was verified.
    by: Arc<TlsConfig>,
    /// Whether the time of the verification was before, in or after the validity.
    at: Ordering,
    client: InProcessClient,
}

impl Sender {
    /// The sender with these certificates, with which a handshake by `tls` has succeeded.
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
        let now = listener_state.clock.now();
        let validity = x509::validity(&chain[0])?;
        let peer = tls.roles.peer(chain, &base, unix_time(now))?;
        let client = InProcessClient::for_peer(Arc::clone(handler), peer);
        let verified = Verified { by: tls, at: position(now, &validity), client: client.clone() };
        let certificate = PeerCertificate {
            chain: chain.iter().map(|it| it.clone().into_owned()).collect(),
            validity,
            verified: Mutex::new(verified),
            base,
            handler: Arc::clone(handler),
            current: Arc::clone(&listener_state.tls),
            metrics: Arc::clone(&listener_state.tls_metrics),
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
        self.metrics.observe_certificate(*self.validity.end(), now);
        let current = self.current.load();
        let at = position(now, &self.validity);
        let mut verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if verified.at != at || !Arc::ptr_eq(&verified.by, &current) {
            let peer = current.roles.peer(&self.chain, &self.base, unix_time(now));
            let refused = || Peer { has_foreign_certificate: true, ..self.base.clone() };
            let peer = peer.unwrap_or_else(|_| refused());
            let client = InProcessClient::for_peer(Arc::clone(&self.handler), peer);
            *verified = Verified { by: Arc::clone(&current), at, client };
        }
        verified.client.clone()
    }
}

/// Whether a time is before (Less), in (Equal) or after the validity of a certificate, in seconds as
/// verifiers count.
fn position(now: Timestamp, validity: &RangeInclusive<Timestamp>) -> Ordering {
    if now.seconds() < validity.start().seconds() {
        Ordering::Less
    } else if now.seconds() > validity.end().seconds() {
        Ordering::Greater
    } else {
        Ordering::Equal
    }
}
