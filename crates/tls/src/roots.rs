//! [`Roots`]: the certificates that are trusted without a chain.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};

use crate::chain;

/// See the [module documentation](self).
#[derive(Debug)]
pub struct Roots {
    certificates: Vec<Root>,
}

#[derive(Debug)]
struct Root {
    der: CertificateDer<'static>,
    subject: Vec<u8>,
    /// Whether it may sign other certificates.
    may_sign: bool,
    not_before: i64,
    not_after: i64,
}

impl Roots {
    /// Takes the certificates that can be parsed and ignores the others.
    pub fn new(certificates: impl IntoIterator<Item = CertificateDer<'static>>) -> Self {
        let certificates = certificates.into_iter().filter_map(Root::read).collect();
        Self { certificates }
    }

    /// Reads a bundle in PEM. Text between the certificates is ignored.
    pub fn from_pem(bundle: &[u8]) -> Self {
        Self::new(CertificateDer::pem_slice_iter(bundle).flatten())
    }

    /// Whether there is no certificate.
    pub fn is_empty(&self) -> bool {
        self.certificates.is_empty()
    }

    /// Whether this certificate is one of the roots.
    pub(crate) fn contains(&self, certificate: &CertificateDer<'_>) -> bool {
        self.certificates.iter().any(|it| it.der == *certificate)
    }

    /// The roots with this subject that may sign other certificates at this time.
    pub(crate) fn signers(
        &self,
        subject: &[u8],
        now: UnixTime,
    ) -> impl Iterator<Item = &CertificateDer<'static>> {
        let signers =
            self.certificates.iter().filter(move |it| it.subject == subject && it.signs_at(now));
        signers.map(|it| &it.der)
    }
}

impl Root {
    fn read(der: CertificateDer<'static>) -> Option<Self> {
        let parsed = chain::parse(&der).ok()?;
        let may_sign = chain::may_sign(&parsed);
        let validity = parsed.validity();
        let (not_before, not_after) =
            (validity.not_before.timestamp(), validity.not_after.timestamp());
        let subject = parsed.subject().as_raw().to_vec();
        Some(Self { der, subject, may_sign, not_before, not_after })
    }

    fn signs_at(&self, now: UnixTime) -> bool {
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        self.may_sign && (self.not_before..=self.not_after).contains(&now)
    }
}
