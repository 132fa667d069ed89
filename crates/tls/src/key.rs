//! [`UnsupportedKey`]: a public key whose signatures rustls' provider cannot verify.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::{CertificateError, OtherError};
use x509_parser::prelude::X509Certificate;
use x509_parser::public_key::PublicKey;

use crate::chain::key_parts;

/// The reason why a certificate that Go accepts is refused. Use another type of key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this server cannot verify signatures of {algorithm} keys")]
pub struct UnsupportedKey {
    algorithm: String,
}

/// The smallest RSA key that *ring* accepts, in bits.
const MIN_RSA_BITS: usize = 2048;

/// Refuses a certificate whose key is not supported.
pub(crate) fn check(
    certificate: &X509Certificate<'_>,
    provider: &CryptoProvider,
) -> Result<(), CertificateError> {
    if is_supported(certificate, provider) {
        return Ok(());
    }
    let why = UnsupportedKey { algorithm: algorithm(certificate) };
    Err(CertificateError::Other(OtherError(Arc::new(why))))
}

fn is_supported(certificate: &X509Certificate<'_>, provider: &CryptoProvider) -> bool {
    let Some((algorithm, _)) = key_parts(certificate.public_key().raw) else { return false };
    let algorithms = provider.signature_verification_algorithms.all;
    let is_known = algorithms.iter().any(|it| it.public_key_alg_id().as_ref() == algorithm);
    is_known && rsa_bits(certificate).is_none_or(|bits| bits >= MIN_RSA_BITS)
}

fn rsa_bits(certificate: &X509Certificate<'_>) -> Option<usize> {
    match certificate.public_key().parsed() {
        Ok(PublicKey::RSA(key)) => Some(key.key_size()),
        _ => None,
    }
}

/// The name of the algorithm, or its object identifier.
fn algorithm(certificate: &X509Certificate<'_>) -> String {
    if let Some(bits) = rsa_bits(certificate) {
        return format!("RSA {bits}-bit");
    }
    let algorithm = &certificate.public_key().algorithm;
    let curve = algorithm.parameters.as_ref().and_then(|it| it.as_oid().ok());
    match curve.map(|it| it.to_id_string()).as_deref() {
        Some("1.3.132.0.35") => "ECDSA P-521".to_owned(),
        Some("1.3.132.0.33") => "ECDSA P-224".to_owned(),
        Some(curve) => format!("ECDSA (curve {curve})"),
        None => algorithm.algorithm.to_id_string(),
    }
}
