//! [`Roots`]: the certificates that are trusted as they are.

use crate::chain::{self, Usage};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{CertificateError, RootCertStore};
use std::sync::{Arc, Mutex, PoisonError};
use x509_parser::prelude::{FromDer, X509Certificate};

/// See the [module documentation](self).
#[derive(Debug)]
pub struct Roots {
    certificates: Vec<Root>,
    /// The authorities among them that are valid now, for the roots that they were made from.
    anchors: Mutex<(Vec<bool>, Arc<RootCertStore>)>,
}

#[derive(Debug)]
struct Root {
    der: CertificateDer<'static>,
    /// Whether it may sign other certificates.
    signs: bool,
    not_before: i64,
    not_after: i64,
}

impl Roots {
    /// Takes the certificates that can be read and leaves out the others.
    pub fn new(certificates: impl IntoIterator<Item = CertificateDer<'static>>) -> Self {
        let certificates = certificates.into_iter().filter_map(Root::read).collect();
        let anchors = Mutex::new((Vec::new(), Arc::new(RootCertStore::empty())));
        Self { certificates, anchors }
    }

    /// From a bundle in PEM. What is between the certificates does not matter.
    pub fn from_pem(bundle: &[u8]) -> Self {
        Self::new(CertificateDer::pem_slice_iter(bundle).flatten())
    }

    /// Whether there is no certificate.
    pub fn is_empty(&self) -> bool {
        self.certificates.is_empty()
    }

    /// Whether this very certificate is one of them.
    pub(crate) fn contains(&self, certificate: &CertificateDer<'_>) -> bool {
        self.certificates.iter().any(|it| it.der == *certificate)
    }

    /// Those that may sign other certificates at this time.
    pub(crate) fn signers(&self, now: UnixTime) -> impl Iterator<Item = &CertificateDer<'static>> {
        self.certificates.iter().filter(move |it| it.signs_at(now)).map(|it| &it.der)
    }

    /// The same for rustls, which does not look at this itself.
    pub(crate) fn anchors(&self, now: UnixTime) -> Arc<RootCertStore> {
        let valid: Vec<bool> = self.certificates.iter().map(|it| it.signs_at(now)).collect();
        let mut anchors = self.anchors.lock().unwrap_or_else(PoisonError::into_inner);
        if anchors.0 != valid {
            let mut store = RootCertStore::empty();
            store.add_parsable_certificates(self.signers(now).cloned());
            *anchors = (valid, Arc::new(store));
        }
        Arc::clone(&anchors.1)
    }

    /// Decides about a certificate that rustls has refused.
    pub(crate) fn reconsider(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
        usage: Usage,
        algorithms: &WebPkiSupportedAlgorithms,
        refusal: rustls::Error,
    ) -> Result<(), rustls::Error> {
        let leaf = chain::parse(end_entity)?;
        chain::check_validity(&leaf, now)?;
        if self.contains(end_entity) {
            return Ok(chain::check_usage(&leaf, usage)?);
        }
        // An authority's certificate is the one that rustls refuses for what it is.
        if !leaf.is_ca() {
            return Err(refusal);
        }
        let search = chain::Search { roots: self, intermediates, now, usage, algorithms };
        if search.leads_to_root(end_entity) {
            Ok(())
        } else {
            Err(CertificateError::UnknownIssuer.into())
        }
    }
}

impl Root {
    fn read(der: CertificateDer<'static>) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(&der).ok()?;
        let signs = chain::may_sign(&parsed);
        let validity = parsed.validity();
        let (not_before, not_after) =
            (validity.not_before.timestamp(), validity.not_after.timestamp());
        Some(Self { der, signs, not_before, not_after })
    }

    fn signs_at(&self, now: UnixTime) -> bool {
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        self.signs && (self.not_before..=self.not_after).contains(&now)
    }
}
