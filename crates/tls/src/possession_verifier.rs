//! [`PossessionVerifier`]: requests certificates of clients, and verifies only that they have the keys.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, SignatureScheme};

use crate::{ClientVerifier, chain};

/// The maximum size of certificates that are accepted without verification. A server keeps them with
/// the connection and for the resumption of its session, before it knows the client.
const MAX_UNVERIFIED: usize = 16 << 10;

/// See the [module documentation](self). A handshake with a certificate that is expired or of an
/// unknown authority succeeds: the server must verify the certificate with the [`ClientVerifier`]
/// before it uses anything in it, also after the resumption of a session.
#[derive(Debug)]
pub struct PossessionVerifier(Arc<ClientVerifier>);

impl PossessionVerifier {
    /// Requests the certificates that `verifier` accepts.
    pub fn new(verifier: Arc<ClientVerifier>) -> Self {
        Self(verifier)
    }
}

impl ClientCertVerifier for PossessionVerifier {
    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    /// Accepts what can be read and is not too long.
    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let size = end_entity.len() + intermediates.iter().map(|it| it.len()).sum::<usize>();
        if size > MAX_UNVERIFIED {
            return self.0.verify_client_cert(end_entity, intermediates, now);
        }
        chain::parse(end_entity)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use rustls::RootCertStore;
    use rustls::server::WebPkiClientVerifier;

    use super::*;
    use crate::Roots;
    use crate::fixtures::{TestCertificate, authority, now, params, self_signed, signed};

    /// Whether a handshake with these certificates goes on, if `root` is an authority.
    fn accepts(root: &TestCertificate, chain: &[CertificateDer<'_>]) -> bool {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut store = RootCertStore::empty();
        store.add(root.der.clone()).unwrap();
        let inner =
            WebPkiClientVerifier::builder_with_provider(Arc::new(store), Arc::clone(&provider))
                .build()
                .unwrap();
        let roots = Roots::new(vec![root.der.clone()]);
        let verifier = Arc::new(ClientVerifier::new(inner, roots, provider));
        PossessionVerifier::new(verifier).verify_client_cert(&chain[0], &chain[1..], now()).is_ok()
    }

    #[test]
    fn a_long_chain_must_be_valid_and_a_short_one_only_readable() {
        let root = self_signed(authority("root"));
        let valid = signed(params("a"), &root).der;
        let foreign = self_signed(params("a")).der;
        assert!(accepts(&root, slice::from_ref(&valid)));
        assert!(accepts(&root, slice::from_ref(&foreign)));
        assert!(!accepts(&root, &[CertificateDer::from(vec![0x30, 0])]));
        let chain = |first: CertificateDer<'static>| {
            let rest = std::iter::repeat_n(root.der.clone(), MAX_UNVERIFIED / root.der.len());
            std::iter::once(first).chain(rest).collect::<Vec<_>>()
        };
        assert!(accepts(&root, &chain(valid)));
        assert!(!accepts(&root, &chain(foreign)));
    }
}
