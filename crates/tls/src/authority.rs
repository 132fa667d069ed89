//! [`Authority`]: a certificate authority that issues server and client certificates.

use std::fmt;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData,
};
use time::OffsetDateTime;
use x509_parser::pem::parse_x509_pem;

use crate::client_request::ClientRequest;
use crate::request_signing::{self, CertificateTemplate, RequestError};
use keel::Timestamp;

/// The time before its creation from which a certificate is valid, for peers whose clock is behind.
pub const BACKDATED: Duration = Duration::from_hours(1);

/// A certificate and its key, both in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Certified {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

impl Certified {
    /// Whether the key belongs to the certificate.
    pub fn has_matching_key(&self) -> bool {
        let key = KeyPair::from_pem(&self.key).ok();
        let key = key.map(|it| it.subject_public_key_info());
        key.is_some() && key == public_key(&self.certificate)
    }
}

impl fmt::Debug for Certified {
    /// Omits the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certified").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// See the [module documentation](self).
///
/// ```
/// use keel::Clock;
/// use std::time::Duration;
/// use tls::Authority;
///
/// let now = Clock::system().now();
/// let authority = Authority::new("my-ca", now, Duration::from_hours(240)).unwrap();
/// let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
/// let server = authority.serving("server", &names, now, Duration::from_hours(24)).unwrap();
/// assert!(server.has_matching_key());
/// ```
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

/// An authority that cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Restore the key.
    #[error("the key does not parse")]
    Key(#[source] rcgen::Error),
    /// Restore the certificate.
    #[error("the certificate does not parse")]
    Certificate(#[source] Option<rcgen::Error>),
    /// Restore the certificate or the key.
    #[error("the certificate does not belong to the key")]
    Mismatch,
}

impl Authority {
    /// A new authority, whose certificate has this common name.
    pub fn new(
        common_name: &str,
        now: Timestamp,
        lifetime: Duration,
    ) -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = authority_params(common_name)?;
        set_validity(&mut params, now, lifetime);
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), certificate })
    }

    /// The authority with an existing certificate and key.
    pub fn from_pem(authority: &Certified) -> Result<Self, LoadError> {
        let certificate = &authority.certificate;
        let key = KeyPair::from_pem(&authority.key).map_err(LoadError::Key)?;
        match public_key(certificate) {
            None => return Err(LoadError::Certificate(None)),
            Some(found) if found != key.subject_public_key_info() => {
                return Err(LoadError::Mismatch);
            }
            Some(_) => {}
        }
        let issuer = Issuer::from_ca_cert_pem(certificate, key)
            .map_err(|error| LoadError::Certificate(Some(error)))?;
        Ok(Self { issuer, certificate: certificate.clone() })
    }

    /// The certificate, which peers trust, in PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// The certificate and the key.
    pub fn to_pem(&self) -> Certified {
        let key = self.issuer.key().serialize_pem();
        Certified { certificate: self.certificate.clone(), key }
    }

    /// Issues a certificate for a server with these host names and addresses.
    pub fn serving(
        &self,
        common_name: &str,
        names: &[String],
        now: Timestamp,
        lifetime: Duration,
    ) -> Result<Certified, rcgen::Error> {
        let mut params = CertificateParams::new(names.to_vec())?;
        params.distinguished_name = distinguished_name(common_name);
        set_validity(&mut params, now, lifetime);
        let key = KeyPair::generate()?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Certified { certificate, key: key.serialize_pem() })
    }

    /// Issues a client certificate for a user in these groups.
    pub fn client(
        &self,
        user: &str,
        groups: &[&str],
        now: Timestamp,
        lifetime: Duration,
    ) -> Result<Certified, RequestError> {
        let made = ClientRequest::new(user, groups).map_err(|it| RequestError::Sign(Some(it)))?;
        let mut serial = [0; 16];
        let random = rustls::crypto::ring::default_provider().secure_random;
        random.fill(&mut serial).map_err(|_| RequestError::Sign(None))?;
        let template = CertificateTemplate {
            serial,
            usages: vec!["digital signature".to_owned(), "client auth".to_owned()],
            not_before: now - BACKDATED,
            not_after: now + lifetime,
        };
        let certificate = self.sign_request(made.request.as_bytes(), &template)?;
        Ok(Certified { certificate, key: made.key })
    }

    /// Issues a certificate for a certificate signing request in PEM.
    pub fn sign_request(
        &self,
        request: &[u8],
        template: &CertificateTemplate,
    ) -> Result<String, RequestError> {
        request_signing::sign(request, template, &self.certificate, self.issuer.key())
    }

    /// A certificate for the name and the key of `successor`, an authority as well, by which those who
    /// trust only this authority accept the certificates of its successor. It ends with the
    /// certificate of this authority.
    pub fn cross_sign(&self, successor: &Self, now: Timestamp) -> Result<String, rcgen::Error> {
        let mut params = authority_params(&common_name(&successor.certificate))?;
        params.use_authority_key_identifier_extension = true;
        let ends = [self.not_after(), successor.not_after()];
        params.not_before = date(now - BACKDATED);
        params.not_after = date(ends.into_iter().flatten().min().unwrap_or(now));
        Ok(params.signed_by(successor.issuer.key(), &self.issuer)?.pem())
    }

    /// The end of the validity of the authority's certificate.
    pub fn not_after(&self) -> Option<Timestamp> {
        let (_, pem) = parse_x509_pem(self.certificate.as_bytes()).ok()?;
        let not_after = pem.parse_x509().ok()?.validity().not_after;
        Some(Timestamp::from_seconds(not_after.timestamp()))
    }
}

impl fmt::Debug for Authority {
    /// Omits the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authority")
    }
}

/// The public key of a certificate in PEM, in DER.
fn public_key(certificate: &str) -> Option<Vec<u8>> {
    let (_, pem) = parse_x509_pem(certificate.as_bytes()).ok()?;
    let certificate = pem.parse_x509().ok()?;
    Some(certificate.public_key().raw.to_vec())
}

/// The common name of a certificate in PEM; empty if it has none.
fn common_name(certificate: &str) -> String {
    let read = || {
        let (_, pem) = parse_x509_pem(certificate.as_bytes()).ok()?;
        let certificate = pem.parse_x509().ok()?;
        let name = certificate.subject().iter_common_name().next()?;
        name.as_str().ok().map(str::to_owned)
    };
    read().unwrap_or_default()
}

/// The parameters of an authority's certificate, without its validity.
fn authority_params(common_name: &str) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = distinguished_name(common_name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
    ];
    Ok(params)
}

fn distinguished_name(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    name
}

fn set_validity(params: &mut CertificateParams, now: Timestamp, lifetime: Duration) {
    params.not_before = date(now - BACKDATED);
    params.not_after = date(now + lifetime);
}

fn date(time: Timestamp) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(time.seconds()).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::client::danger::ServerCertVerifier;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

    use super::*;
    use crate::{Roots, ServerVerifier};

    const NOW: Timestamp = Timestamp::from_seconds(1_900_000_000);
    const DAY: Duration = Duration::from_hours(24);

    #[test]
    fn a_loaded_authority_issues_certificates_within_their_lifetime() {
        let authority = Authority::new("ca", NOW, 10 * DAY).unwrap();
        let loaded = Authority::from_pem(&authority.to_pem()).unwrap();
        assert_eq!(loaded.certificate(), authority.certificate());
        let issued = loaded.serving("server", &["a.example".to_owned()], NOW, DAY).unwrap();
        assert!(issued.has_matching_key());
        let (_, pem) = parse_x509_pem(issued.certificate.as_bytes()).unwrap();
        let validity = pem.parse_x509().unwrap().validity().clone();
        assert_eq!(validity.not_before.timestamp(), NOW.seconds() - 3600);
        assert_eq!(validity.not_after.timestamp(), NOW.seconds() + 24 * 3600);
    }

    #[test]
    fn a_client_certificate_has_all_groups() {
        let authority = Authority::new("ca", NOW, 10 * DAY).unwrap();
        let issued = authority.client("jane", &["dev", "ops"], NOW, DAY).unwrap();
        assert!(issued.has_matching_key());
        let (_, pem) = parse_x509_pem(issued.certificate.as_bytes()).unwrap();
        let certificate = pem.parse_x509().unwrap();
        assert_eq!(certificate.subject().to_string(), "O=dev, O=ops, CN=jane");
        assert!(certificate.extended_key_usage().unwrap().unwrap().value.client_auth);
        assert_eq!(certificate.validity().not_before.timestamp(), NOW.seconds() - 3600);
        assert_eq!(certificate.validity().not_after.timestamp(), NOW.seconds() + 24 * 3600);
    }

    #[test]
    fn a_client_of_the_old_authority_accepts_a_server_of_its_successor() {
        let old = Authority::new("ca", NOW, 2 * DAY).unwrap();
        let new = Authority::new("ca", NOW, 10 * DAY).unwrap();
        let server = new.serving("server", &["a.example".to_owned()], NOW, DAY).unwrap();
        let cross_signed = old.cross_sign(&new, NOW).unwrap();
        let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let accepts = |root: &Authority, intermediates: &[CertificateDer<'_>], after: Duration| {
            let roots = Roots::from_pem(root.certificate().as_bytes());
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let name = ServerName::try_from("a.example").unwrap();
            let now = u64::try_from((NOW + after).seconds()).unwrap();
            let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
            let verifier = ServerVerifier::new(roots, provider);
            let end = der(&server.certificate);
            verifier.verify_server_cert(&end, intermediates, &name, &[], now).is_ok()
        };
        let chain = [der(&cross_signed)];
        assert!(accepts(&old, &chain, Duration::ZERO) && accepts(&new, &chain, Duration::ZERO));
        assert!(!accepts(&old, &[], Duration::ZERO), "without the cross-signed certificate");
        let (_, pem) = parse_x509_pem(cross_signed.as_bytes()).unwrap();
        let end = pem.parse_x509().unwrap().validity().not_after.timestamp();
        assert_eq!(end, (NOW + 2 * DAY).seconds(), "it ends with the old authority");
    }

    #[test]
    fn debug_output_omits_the_key() {
        let certified = Authority::new("ca", NOW, DAY).unwrap().to_pem();
        let text = format!("{certified:?}");
        assert!(text.contains("CERTIFICATE") && !text.contains("PRIVATE"), "{text}");
    }

    #[test]
    fn the_error_of_an_authority_names_the_damaged_part() {
        let valid = Authority::new("ca", NOW, DAY).unwrap().to_pem();
        let other = Authority::new("ca", NOW, DAY).unwrap().to_pem();
        let rubbish = || "rubbish".to_owned();
        let load = |certificate: &str, key: String| {
            Authority::from_pem(&Certified { certificate: certificate.to_owned(), key })
        };
        assert!(matches!(load(&valid.certificate, rubbish()), Err(LoadError::Key(_))));
        assert!(matches!(load("", valid.key.clone()), Err(LoadError::Certificate(_))));
        assert!(matches!(load(&valid.certificate, other.key), Err(LoadError::Mismatch)));
    }
}
