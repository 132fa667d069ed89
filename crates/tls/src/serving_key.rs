//! [`serving_key`]: a certificate and its key, ready to be presented in a handshake.

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::Certified;

/// The reason why a certificate and a key cannot be presented.
#[derive(Debug, thiserror::Error)]
pub enum ServingKeyError {
    /// Name a file that contains a certificate.
    #[error("there is no certificate in PEM")]
    NoCertificate,
    /// Restore the certificate.
    #[error("the certificate is not valid PEM")]
    Certificate(#[source] pem::Error),
    /// Restore the key.
    #[error("there is no private key in PEM")]
    NoKey(#[source] pem::Error),
    /// Use a key that belongs to the certificate, of a supported type.
    #[error("the private key cannot be used with the certificate")]
    Key(#[source] rustls::Error),
}

/// The chain and the key in PEM. The key must belong to the first certificate.
pub fn serving_key(certified: &Certified) -> Result<CertifiedKey, ServingKeyError> {
    let chain = CertificateDer::pem_slice_iter(certified.certificate.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(ServingKeyError::Certificate)?;
    if chain.is_empty() {
        return Err(ServingKeyError::NoCertificate);
    }
    let key =
        PrivateKeyDer::from_pem_slice(certified.key.as_bytes()).map_err(ServingKeyError::NoKey)?;
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(ServingKeyError::Key)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Authority;
    use keel::Timestamp;

    fn certified() -> Certified {
        let (now, day) = (Timestamp::from_seconds(1_900_000_000), Duration::from_hours(24));
        let authority = Authority::new("ca", now, day).unwrap();
        authority.serving("server", &["a.example".to_owned()], now, day).unwrap()
    }

    #[test]
    fn a_key_of_another_certificate_is_refused() {
        let (one, other) = (certified(), certified());
        assert_eq!(serving_key(&one).unwrap().cert.len(), 1);
        let mixed = Certified { key: other.key, ..one.clone() };
        assert!(matches!(serving_key(&mixed), Err(ServingKeyError::Key(_))));
        let half = one.certificate[..one.certificate.len() / 2].to_owned();
        assert!(serving_key(&Certified { certificate: half, ..one.clone() }).is_err());
        let empty = Certified { certificate: String::new(), ..one.clone() };
        assert!(matches!(serving_key(&empty), Err(ServingKeyError::NoCertificate)));
        let keyless = Certified { key: String::new(), ..one };
        assert!(matches!(serving_key(&keyless), Err(ServingKeyError::NoKey(_))));
    }
}
