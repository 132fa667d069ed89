//! The rules of one certificate, and the search for a chain from a certificate to a root.

use crate::roots::Roots;
use rustls::CertificateError;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, UnixTime};
use std::cell::Cell;
use std::time::Duration;
use x509_parser::prelude::{FromDer, X509Certificate, X509Version};

/// What a certificate is shown for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Usage {
    Server,
    Client,
}

/// The number of signatures that are checked for one certificate.
const MAX_SIGNATURES: usize = 100;

/// The number of certificates between the first one and the root.
const MAX_INTERMEDIATES: usize = 8;

pub(crate) fn parse<'a>(
    der: &'a CertificateDer<'_>,
) -> Result<X509Certificate<'a>, CertificateError> {
    X509Certificate::from_der(der).map(|(_, it)| it).map_err(|_| CertificateError::BadEncoding)
}

/// Whether the time is within the certificate's validity.
pub(crate) fn check_validity(
    certificate: &X509Certificate<'_>,
    now: UnixTime,
) -> Result<(), CertificateError> {
    let validity = certificate.validity();
    let seconds = |it: i64| {
        UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(it).unwrap_or_default()))
    };
    let not_before = seconds(validity.not_before.timestamp());
    let not_after = seconds(validity.not_after.timestamp());
    if now < not_before {
        return Err(CertificateError::NotValidYetContext { time: now, not_before });
    }
    if now > not_after {
        return Err(CertificateError::ExpiredContext { time: now, not_after });
    }
    Ok(())
}

/// Whether a certificate that names its purposes names this one.
pub(crate) fn check_usage(
    certificate: &X509Certificate<'_>,
    usage: Usage,
) -> Result<(), CertificateError> {
    let named = certificate.extended_key_usage().map_err(|_| CertificateError::BadEncoding)?;
    let allows = named.is_none_or(|it| {
        it.value.any
            || match usage {
                Usage::Server => it.value.server_auth,
                Usage::Client => it.value.client_auth,
            }
    });
    if allows { Ok(()) } else { Err(CertificateError::InvalidPurpose) }
}

/// Whether it may sign others. Certificates before version 3 cannot say so.
// Upstream: crypto/x509 CheckSignatureFrom
pub(crate) fn may_sign(certificate: &X509Certificate<'_>) -> bool {
    let is_authority = match certificate.basic_constraints() {
        Ok(Some(constraints)) => constraints.value.ca,
        Ok(None) => certificate.version() != X509Version::V3,
        Err(_) => false,
    };
    let signs =
        certificate.key_usage().is_ok_and(|it| it.is_none_or(|it| it.value.key_cert_sign()));
    is_authority && signs
}

/// A search for a chain. rustls does the same, but not for a certificate of an authority.
pub(crate) struct Search<'a> {
    pub roots: &'a Roots,
    pub intermediates: &'a [CertificateDer<'a>],
    pub now: UnixTime,
    pub usage: Usage,
    pub algorithms: &'a WebPkiSupportedAlgorithms,
}

impl Search<'_> {
    /// Whether a chain of valid signatures leads from `end_entity` to one of the roots.
    pub(crate) fn leads_to_root(&self, end_entity: &CertificateDer<'_>) -> bool {
        let signatures = Cell::new(0);
        parse(end_entity).is_ok_and(|it| check_usage(&it, self.usage).is_ok())
            && self.climb(end_entity, 0, &signatures)
    }

    fn climb(&self, child: &CertificateDer<'_>, depth: usize, signatures: &Cell<usize>) -> bool {
        let is_issuer = |issuer: &CertificateDer<'_>| {
            signatures.get() < MAX_SIGNATURES && self.is_issuer(child, issuer, depth, signatures)
        };
        if self.roots.signers(self.now).any(is_issuer) {
            return true;
        }
        depth < MAX_INTERMEDIATES
            && self
                .intermediates
                .iter()
                .any(|it| it != child && is_issuer(it) && self.climb(it, depth + 1, signatures))
    }

    /// Whether `issuer` has signed `child`, below which there are `depth` other authorities, and was
    /// allowed to. Constraints on names are not understood here, so that such an issuer is refused.
    fn is_issuer(
        &self,
        child: &CertificateDer<'_>,
        issuer: &CertificateDer<'_>,
        depth: usize,
        signatures: &Cell<usize>,
    ) -> bool {
        let (Ok(below), Ok(above)) = (parse(child), parse(issuer)) else { return false };
        let longest = above.basic_constraints().ok().flatten();
        let longest = longest.and_then(|it| it.value.path_len_constraint);
        let is_allowed = below.issuer().as_raw() == above.subject().as_raw()
            && may_sign(&above)
            && check_validity(&above, self.now).is_ok()
            && check_usage(&above, self.usage).is_ok()
            && above.name_constraints().is_ok_and(|it| it.is_none())
            && longest.is_none_or(|it| depth <= usize::try_from(it).unwrap_or(usize::MAX));
        if !is_allowed {
            return false;
        }
        signatures.set(signatures.get() + 1);
        self.is_signed(child, above.public_key().raw)
    }

    fn is_signed(&self, certificate: &[u8], key: &[u8]) -> bool {
        let Some(signed) = Signed::read(certificate) else { return false };
        let Some((algorithm, key)) = key_parts(key) else { return false };
        self.algorithms.all.iter().any(|it| {
            it.signature_alg_id().as_ref() == signed.algorithm
                && it.public_key_alg_id().as_ref() == algorithm
                && it.verify_signature(key, signed.message, signed.signature).is_ok()
        })
    }
}

/// The parts of a certificate that a signature is about.
struct Signed<'a> {
    message: &'a [u8],
    algorithm: &'a [u8],
    signature: &'a [u8],
}

impl<'a> Signed<'a> {
    fn read(certificate: &'a [u8]) -> Option<Self> {
        let certificate = Element::read(certificate)?;
        let message = Element::read(certificate.content)?;
        let algorithm = Element::read(message.rest)?;
        let signature = Element::read(algorithm.rest)?;
        Some(Self {
            message: message.whole,
            algorithm: algorithm.content,
            signature: bits(&signature)?,
        })
    }
}

/// The algorithm of a public key, and the key.
fn key_parts(info: &[u8]) -> Option<(&[u8], &[u8])> {
    let info = Element::read(info)?;
    let algorithm = Element::read(info.content)?;
    let key = Element::read(algorithm.rest)?;
    Some((algorithm.content, bits(&key)?))
}

/// The bytes of a bit string without unused bits.
fn bits<'a>(element: &Element<'a>) -> Option<&'a [u8]> {
    element.content.strip_prefix(&[0])
}

/// One element of DER.
struct Element<'a> {
    whole: &'a [u8],
    content: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Element<'a> {
    fn read(der: &'a [u8]) -> Option<Self> {
        let first = usize::from(*der.get(1)?);
        let (begin, length) = match first.checked_sub(0x80) {
            None => (2, first),
            Some(count @ 1..=4) => {
                let bytes = der.get(2..2 + count)?;
                (2 + count, bytes.iter().fold(0, |sum, it| sum << 8 | usize::from(*it)))
            }
            Some(_) => return None,
        };
        let content = der.get(begin..)?.get(..length)?;
        let (whole, rest) = der.split_at(begin + length);
        Some(Self { whole, content, rest })
    }
}
