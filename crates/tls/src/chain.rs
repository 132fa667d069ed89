//! The rules of one certificate, and the search for a chain from a certificate to a root.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{CertificateError, RootCertStore};
use x509_parser::prelude::{FromDer, X509Certificate, X509Version};

use crate::extensions::check_critical;
use crate::key;
use crate::roots::Roots;

/// The usage for which a certificate is presented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Usage {
    Server,
    Client,
}

/// The maximum number of signatures that are verified for one certificate, as in Go.
const MAX_SIGNATURES: usize = 100;

/// The maximum number of certificates between the end entity and the root.
const MAX_INTERMEDIATES: usize = 8;

/// Parses a certificate; `der` must not contain anything else.
pub(crate) fn parse<'a>(
    der: &'a CertificateDer<'_>,
) -> Result<X509Certificate<'a>, CertificateError> {
    match X509Certificate::from_der(der) {
        // The algorithm is encoded twice, once outside of the signed part; both must be the same.
        Ok(([], parsed)) if parsed.signature_algorithm == parsed.tbs_certificate.signature => {
            Ok(parsed)
        }
        _ => Err(CertificateError::BadEncoding),
    }
}

/// Checks the rules for an end entity that do not depend on its chain.
pub(crate) fn check_end_entity(
    certificate: &X509Certificate<'_>,
    now: UnixTime,
) -> Result<(), CertificateError> {
    check_critical(certificate)?;
    check_validity(certificate, now)
}

/// Checks that the time is within the certificate's validity.
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

/// Checks that a certificate with extended key usages has this one.
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

/// Whether a certificate may sign others. Versions before 3 have no basic constraints, so these may. A
/// certificate with a critical extension that is not processed may not.
// Upstream: crypto/x509 CheckSignatureFrom
pub(crate) fn may_sign(certificate: &X509Certificate<'_>) -> bool {
    let is_authority = match certificate.basic_constraints() {
        Ok(Some(constraints)) => constraints.value.ca,
        Ok(None) => certificate.version() != X509Version::V3,
        Err(_) => false,
    };
    let signs =
        certificate.key_usage().is_ok_and(|it| it.is_none_or(|it| it.value.key_cert_sign()));
    is_authority && signs && check_critical(certificate).is_ok()
}

/// A search for a chain from a certificate to a root.
///
/// The chain is found here, by the rules of Go. rustls then verifies the same chain too, unless the
/// end entity is an authority, which rustls always refuses. So this code never accepts a certificate
/// that rustls refuses, with two exceptions: a certificate that is itself a root, and the certificate
/// of an authority under issuers without name constraints.
pub(crate) struct ChainSearch<'a> {
    pub roots: &'a Roots,
    pub intermediates: &'a [CertificateDer<'a>],
    pub now: UnixTime,
    pub usage: Usage,
    pub provider: &'a Arc<CryptoProvider>,
}

/// A certificate with its encoding.
struct ChainLink<'a> {
    der: &'a CertificateDer<'a>,
    parsed: X509Certificate<'a>,
}

impl<'a> ChainLink<'a> {
    fn read(der: &'a CertificateDer<'a>) -> Option<Self> {
        parse(der).ok().map(|parsed| Self { der, parsed })
    }
}

impl ChainSearch<'_> {
    /// Verifies that `end_entity` is a root or has a chain to a root. The caller has checked the
    /// certificate itself with [`check_end_entity`].
    pub(crate) fn verify(&self, end_entity: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        let leaf = ChainLink { der: end_entity, parsed: parse(end_entity)? };
        if self.roots.contains(end_entity) {
            return Ok(check_usage(&leaf.parsed, self.usage)?);
        }
        let candidates: Vec<_> = self.intermediates.iter().filter_map(ChainLink::read).collect();
        // Only roots may have a version without basic constraints.
        let candidates: Vec<_> = candidates.iter().filter(|link| link.parsed.is_ca()).collect();
        self.extend(&mut vec![&leaf], &candidates, &Cell::new(0))
    }

    /// Extends `path`, which begins with the end entity, to a root.
    fn extend<'p>(
        &self,
        path: &mut Vec<&'p ChainLink<'p>>,
        candidates: &[&'p ChainLink<'p>],
        signatures: &Cell<usize>,
    ) -> Result<(), rustls::Error> {
        let mut refusal = CertificateError::UnknownIssuer.into();
        let Some(child) = path.last().copied() else { return Err(refusal) };
        for root in self.roots.signers(child.parsed.issuer().as_raw(), self.now) {
            let Some(root) = ChainLink::read(root) else { continue };
            match self.is_issuer(&root, path, signatures) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(unsupported) => {
                    refusal = unsupported.into();
                    continue;
                }
            }
            signatures.set(signatures.get() + path.len());
            match self.check_path(path, &root) {
                Ok(()) => return Ok(()),
                Err(error) => refusal = error,
            }
        }
        if path.len() > MAX_INTERMEDIATES {
            return Err(refusal);
        }
        for candidate in candidates {
            let is_used = path.iter().any(|link| link.der == candidate.der);
            if is_used {
                continue;
            }
            match self.is_issuer(candidate, path, signatures) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(unsupported) => {
                    refusal = unsupported.into();
                    continue;
                }
            }
            path.push(candidate);
            let result = self.extend(path, candidates, signatures);
            path.pop();
            match result {
                Ok(()) => return Ok(()),
                Err(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {}
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }

    /// Whether `issuer` has signed the last certificate of `path` and was allowed to. Fails if its key
    /// is not supported.
    fn is_issuer(
        &self,
        issuer: &ChainLink<'_>,
        path: &[&ChainLink<'_>],
        signatures: &Cell<usize>,
    ) -> Result<bool, CertificateError> {
        let Some((child, below)) = path.split_last() else { return Ok(false) };
        let constraints = issuer.parsed.basic_constraints().ok().flatten();
        let max_path_len = constraints.and_then(|it| it.value.path_len_constraint);
        let is_allowed = child.parsed.issuer().as_raw() == issuer.parsed.subject().as_raw()
            && may_sign(&issuer.parsed)
            && check_validity(&issuer.parsed, self.now).is_ok()
            && max_path_len
                .is_none_or(|it| below.len() <= usize::try_from(it).unwrap_or(usize::MAX))
            && signatures.get() < MAX_SIGNATURES;
        if !is_allowed {
            return Ok(false);
        }
        key::check(&issuer.parsed, self.provider)?;
        signatures.set(signatures.get() + 1);
        Ok(self.is_signed(child.der, issuer.parsed.public_key().raw))
    }

    fn is_signed(&self, certificate: &[u8], key: &[u8]) -> bool {
        let Some(signed) = SignedParts::read(certificate) else { return false };
        let Some((algorithm, key)) = key_parts(key) else { return false };
        self.provider.signature_verification_algorithms.all.iter().any(|it| {
            it.signature_alg_id().as_ref() == signed.algorithm
                && it.public_key_alg_id().as_ref() == algorithm
                && it.verify_signature(key, signed.message, signed.signature).is_ok()
        })
    }

    /// The checks that need the whole chain: usages and name constraints.
    fn check_path(
        &self,
        path: &[&ChainLink<'_>],
        root: &ChainLink<'_>,
    ) -> Result<(), rustls::Error> {
        for link in path.iter().copied().chain([root]) {
            check_usage(&link.parsed, self.usage)?;
        }
        let Some((leaf, issuers)) = path.split_first() else {
            return Err(CertificateError::UnknownIssuer.into());
        };
        if !leaf.parsed.is_ca() {
            return self.check_with_rustls(leaf, issuers, root);
        }
        // Only rustls checks name constraints, and it does not accept an authority as end entity.
        let has_no_name_constraints = |link: &ChainLink<'_>| {
            link.parsed.name_constraints().is_ok_and(|found| found.is_none())
        };
        if issuers.iter().copied().chain([root]).all(has_no_name_constraints) {
            Ok(())
        } else {
            Err(CertificateError::UnknownIssuer.into())
        }
    }

    fn check_with_rustls(
        &self,
        leaf: &ChainLink<'_>,
        issuers: &[&ChainLink<'_>],
        root: &ChainLink<'_>,
    ) -> Result<(), rustls::Error> {
        let mut store = RootCertStore::empty();
        store.add(root.der.clone().into_owned())?;
        let issuers: Vec<_> = issuers.iter().map(|link| link.der.clone()).collect();
        match self.usage {
            Usage::Server => {
                let algorithms = self.provider.signature_verification_algorithms.all;
                let leaf = ParsedCertificate::try_from(leaf.der)?;
                verify_server_cert_signed_by_trust_anchor(
                    &leaf, &store, &issuers, self.now, algorithms,
                )
            }
            Usage::Client => {
                let provider = Arc::clone(self.provider);
                WebPkiClientVerifier::builder_with_provider(Arc::new(store), provider)
                    .build()
                    .map_err(|error| rustls::Error::General(error.to_string()))?
                    .verify_client_cert(leaf.der, &issuers, self.now)
                    .map(|_| ())
            }
        }
    }
}

/// The parts of a certificate that are needed to verify its signature.
struct SignedParts<'a> {
    message: &'a [u8],
    algorithm: &'a [u8],
    signature: &'a [u8],
}

impl<'a> SignedParts<'a> {
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
pub(crate) fn key_parts(info: &[u8]) -> Option<(&[u8], &[u8])> {
    let info = Element::read(info)?;
    let algorithm = Element::read(info.content)?;
    let key = Element::read(algorithm.rest)?;
    Some((algorithm.content, bits(&key)?))
}

/// The bytes of a bit string without unused bits.
fn bits<'a>(element: &Element<'a>) -> Option<&'a [u8]> {
    element.content.strip_prefix(&[0])
}

/// One element of DER: tag, length and content.
pub(crate) struct Element<'a> {
    /// The element with its tag and length.
    pub whole: &'a [u8],
    pub content: &'a [u8],
    /// The bytes after the element.
    pub rest: &'a [u8],
}

impl<'a> Element<'a> {
    /// Reads the element at the start of `der`.
    pub(crate) fn read(der: &'a [u8]) -> Option<Self> {
        // A length below 0x80 is one byte; otherwise the first byte is 0x80 plus the number of
        // bytes of the length.
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
