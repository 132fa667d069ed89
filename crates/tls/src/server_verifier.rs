//! [`ServerVerifier`]: verifies the certificates of servers.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, OtherError, SignatureScheme};

use crate::chain::{self, ChainSearch, Usage};
use crate::{NameMismatch, Roots, key, name};

/// See the [module documentation](self).
#[derive(Debug)]
pub struct ServerVerifier {
    roots: Roots,
    provider: Arc<CryptoProvider>,
}

impl ServerVerifier {
    /// A verifier that accepts certificates that are a root or have a chain to one.
    pub fn new(roots: Roots, provider: Arc<CryptoProvider>) -> Self {
        Self { roots, provider }
    }
}

impl ServerCertVerifier for ServerVerifier {
    // Upstream: crypto/x509 Certificate.Verify, which reports errors in the same order.
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let leaf = chain::parse(end_entity)?;
        chain::check_end_entity(&leaf, now)?;
        if !name::matches(&leaf, server) {
            let mismatch = OtherError(Arc::new(NameMismatch::new(&leaf, server)));
            return Err(CertificateError::Other(mismatch).into());
        }
        let (roots, provider) = (&self.roots, &self.provider);
        ChainSearch { roots, intermediates, now, usage: Usage::Server, provider }
            .verify(end_entity)?;
        key::check(&leaf, &self.provider)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let mut schemes = self.provider.signature_verification_algorithms.supported_schemes();
        // A server that has only a P-521 key would otherwise end the handshake without a reason. Its
        // certificate is refused with a reason instead.
        if !schemes.contains(&SignatureScheme::ECDSA_NISTP521_SHA512) {
            schemes.push(SignatureScheme::ECDSA_NISTP521_SHA512);
        }
        schemes
    }
}

#[cfg(test)]
mod tests;
