//! [`ClientVerifier`]: verifies the certificates of clients.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, SignatureScheme};

use crate::Roots;
use crate::chain::{self, ChainSearch, Usage};

/// See the [module documentation](self). The verifier of rustls that it wraps decides whether a
/// certificate is requested, and checks the signatures of the handshake.
#[derive(Debug)]
pub struct ClientVerifier {
    inner: Arc<dyn ClientCertVerifier>,
    roots: Roots,
    provider: Arc<CryptoProvider>,
}

impl ClientVerifier {
    /// A verifier for `roots`; `inner` must have the same roots.
    pub fn new(
        inner: Arc<dyn ClientCertVerifier>,
        roots: Roots,
        provider: Arc<CryptoProvider>,
    ) -> Self {
        Self { inner, roots, provider }
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.inner.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.inner.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        chain::check_end_entity(&chain::parse(end_entity)?, now)?;
        let (roots, provider) = (&self.roots, &self.provider);
        ChainSearch { roots, intermediates, now, usage: Usage::Client, provider }
            .verify(end_entity)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
