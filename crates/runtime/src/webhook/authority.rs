//! The CA and the serving certificates of a webhook server.

use std::time::Duration;

use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::pem::Pem;
use x509_parser::prelude::X509Certificate;

use keel::Timestamp;
use tls::{Authority, BACKDATED, Certified, IssueError};

/// A new CA. Its name contains the time, which distinguishes it from its predecessor.
pub(crate) fn authority(now: Timestamp, lifetime: Duration) -> Result<Authority, IssueError> {
    Authority::new(&format!("sampan-webhook-ca-{}", now.seconds()), now, lifetime)
}

/// A certificate for a server with these names, which does not outlive its CA.
pub(crate) fn serving(
    authority: &Authority,
    names: &[String],
    now: Timestamp,
    lifetime: Duration,
) -> Result<Certified, IssueError> {
    let end =
        CertificateInfo::read(authority.certificate()).map_or(now + lifetime, |it| it.not_after);
    let common_name = names.first().map_or("webhook", String::as_str);
    authority.serving(common_name, names, now, lifetime.min(end.since(now)))
}

/// The certificates in a PEM, in normalized form; other blocks are left out.
pub(crate) fn certificates(pem: &str) -> Vec<String> {
    let end = "-----END CERTIFICATE-----";
    let parts = pem.split_inclusive(end).map(|it| format!("{}\n", it.trim()));
    parts.filter(|it| CertificateInfo::read(it).is_some()).collect()
}

/// The fields of a certificate that its renewal depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CertificateInfo {
    pub(crate) not_before: Timestamp,
    pub(crate) not_after: Timestamp,
    pub(crate) subject: String,
    pub(crate) issuer: String,
    /// DNS names and addresses, in order.
    pub(crate) names: Vec<String>,
    /// The subject key identifier.
    key_id: Option<Vec<u8>>,
    issuer_key_id: Option<Vec<u8>>,
}

impl CertificateInfo {
    /// The fields of the certificate, if the key belongs to it.
    pub(crate) fn of(certified: &Certified) -> Option<Self> {
        Self::read(&certified.certificate).filter(|_| certified.has_matching_key())
    }

    /// The fields of the first certificate in a PEM, if there is one.
    pub(crate) fn read(pem: &str) -> Option<Self> {
        let pem = Pem::iter_from_buffer(pem.as_bytes()).next()?.ok()?;
        let certificate = pem.parse_x509().ok()?;
        let validity = certificate.validity();
        let (key_id, issuer_key_id) = key_ids(&certificate);
        Some(Self {
            not_before: Timestamp::from_seconds(validity.not_before.timestamp()),
            not_after: Timestamp::from_seconds(validity.not_after.timestamp()),
            subject: certificate.subject().to_string(),
            issuer: certificate.issuer().to_string(),
            names: alternative_names(&certificate),
            key_id,
            issuer_key_id,
        })
    }

    /// The time at which it was issued.
    pub(crate) fn issued_at(&self) -> Timestamp {
        self.not_before + BACKDATED
    }

    /// Whether it was signed by this CA. The key is compared as well, since two CAs that were made
    /// within a second have the same name.
    pub(crate) fn is_signed_by(&self, authority: &Self) -> bool {
        let has_same_key = self.issuer_key_id.is_some() && self.issuer_key_id == authority.key_id;
        self.issuer == authority.subject && has_same_key
    }

    /// Whether a third or less of its lifetime is left, so that a successor is due.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        now >= self.due()
    }

    /// The time at which a successor is due.
    pub(crate) fn due(&self) -> Timestamp {
        self.not_before + self.not_after.since(self.not_before) * 2 / 3
    }
}

/// The identifiers of the certificate's own key and of the key that signed it.
fn key_ids(certificate: &X509Certificate<'_>) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let (mut own, mut issuer) = (None, None);
    for extension in certificate.extensions() {
        match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(id) => own = Some(id.0.to_vec()),
            ParsedExtension::AuthorityKeyIdentifier(id) => {
                issuer = id.key_identifier.as_ref().map(|id| id.0.to_vec());
            }
            _ => {}
        }
    }
    (own, issuer)
}

fn alternative_names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let mut names = Vec::new();
    let extension = certificate.subject_alternative_name().ok().flatten();
    for name in extension.map(|it| it.value.general_names.as_slice()).unwrap_or_default() {
        match name {
            GeneralName::DNSName(name) => names.push((*name).to_owned()),
            GeneralName::IPAddress(bytes) => names.extend(address(bytes)),
            _ => {}
        }
    }
    names
}

fn address(bytes: &[u8]) -> Option<String> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(std::net::Ipv4Addr::from(four).to_string());
    }
    <[u8; 16]>::try_from(bytes).ok().map(|it| std::net::Ipv6Addr::from(it).to_string())
}
