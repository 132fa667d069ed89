//! Certificates for certificate signing requests (PKCS#10): subject, public key and alternative names
//! are those of the request, everything else is that of a [`CertificateTemplate`].
//!
//! The certificate is encoded here and not by `rcgen`, which has at most one organization in a subject
//! and supports few types of keys: the bytes of the subject and of the key are copied.
//!
//! Upstream: pkg/controller/certificates/authority

use std::iter::once;

use base64::prelude::{BASE64_STANDARD, Engine};
use rcgen::{KeyPair, SigningKey};
use time::OffsetDateTime;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::{FromDer, X509Certificate, X509CertificationRequest};

use crate::chain::Element;
use keel::Timestamp;

/// The fields of a certificate that the request does not decide.
///
/// ```
/// use keel::Timestamp;
/// use tls::CertificateTemplate;
///
/// let template = CertificateTemplate {
///     serial: [1; 16],
///     usages: vec!["digital signature".to_owned(), "client auth".to_owned()],
///     not_before: Timestamp::from_seconds(1_900_000_000),
///     not_after: Timestamp::from_seconds(1_900_003_600),
/// };
/// # drop(template);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateTemplate {
    /// The serial number, which must be random.
    pub serial: [u8; 16],
    /// The usages of the key, by Kubernetes' names.
    pub usages: Vec<String>,
    /// The begin of the validity.
    pub not_before: Timestamp,
    /// The end of the validity.
    pub not_after: Timestamp,
}

/// The reason why a request is not signed.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The request has to be made again.
    #[error("unable to parse certificate request")]
    Malformed,
    /// The request has to be signed with its own key.
    #[error("unable to verify certificate request signature")]
    Signature,
    /// The request has a usage that no certificate can have.
    #[error("unrecognized usage values: {0:?}")]
    Usages(Vec<String>),
    /// Not expected: the authority cannot sign.
    #[error("failed to sign certificate")]
    Sign(#[source] Option<rcgen::Error>),
}

const SEQUENCE: u8 = 0x30;
pub(crate) const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
pub(crate) const OBJECT_IDENTIFIER: u8 = 0x06;

/// Signs a request in PEM with the key of the authority whose certificate is `authority`, in PEM.
pub(crate) fn sign(
    request: &[u8],
    template: &CertificateTemplate,
    authority: &str,
    key: &KeyPair,
) -> Result<String, RequestError> {
    let (_, pem) = parse_x509_pem(request).map_err(|_| RequestError::Malformed)?;
    let (_, request) =
        X509CertificationRequest::from_der(&pem.contents).map_err(|_| RequestError::Malformed)?;
    request.verify_signature().map_err(|_| RequestError::Signature)?;
    let (_, authority) =
        parse_x509_pem(authority.as_bytes()).map_err(|_| RequestError::Sign(None))?;
    let issuer = authority.parse_x509().map_err(|_| RequestError::Sign(None))?;
    // The authority has signed its own certificate with the same key, hence the same algorithm.
    let algorithm = signature_algorithm(&authority.contents).ok_or(RequestError::Sign(None))?;
    let to_be_signed = certificate_body(&request, template, &issuer, algorithm)?;
    let signature = key.sign(&to_be_signed).map_err(|error| RequestError::Sign(Some(error)))?;
    let certificate =
        sequence(&[&to_be_signed, algorithm, &element(BIT_STRING, &[&[0], &signature])]);
    Ok(to_pem("CERTIFICATE", &certificate))
}

/// The element `signatureAlgorithm` of a certificate.
fn signature_algorithm(certificate: &[u8]) -> Option<&[u8]> {
    let certificate = Element::read(certificate)?;
    let body = Element::read(certificate.content)?;
    Some(Element::read(body.rest)?.whole)
}

/// The part of a certificate that is signed.
fn certificate_body(
    request: &X509CertificationRequest<'_>,
    template: &CertificateTemplate,
    issuer: &X509Certificate<'_>,
    algorithm: &[u8],
) -> Result<Vec<u8>, RequestError> {
    let info = &request.certification_request_info;
    let version = element(0xa0, &[&element(0x02, &[&[2]])]);
    let validity = sequence(&[&time(template.not_before), &time(template.not_after)]);
    let extensions = extensions(request, template, issuer)?;
    Ok(sequence(&[
        &version,
        &serial_number(&template.serial),
        algorithm,
        issuer.subject().as_raw(),
        &validity,
        info.subject.as_raw(),
        info.subject_pki.raw,
        &element(0xa3, &[&sequence(&[&extensions])]),
    ]))
}

fn extensions(
    request: &X509CertificationRequest<'_>,
    template: &CertificateTemplate,
    issuer: &X509Certificate<'_>,
) -> Result<Vec<u8>, RequestError> {
    let Usages { key_usage, extended } = Usages::parse(&template.usages)?;
    let mut all = Vec::new();
    if key_usage != 0 {
        all.push(extension(&[0x55, 0x1d, 0x0f], Critical::Yes, &named_bits(key_usage)));
    }
    if !extended.is_empty() {
        let ids: Vec<Vec<u8>> =
            extended.iter().map(|id| element(OBJECT_IDENTIFIER, &[id])).collect();
        let ids: Vec<&[u8]> = ids.iter().map(Vec::as_slice).collect();
        all.push(extension(&[0x55, 0x1d, 0x25], Critical::No, &sequence(&ids)));
    }
    // Basic constraints: not an authority.
    all.push(extension(&[0x55, 0x1d, 0x13], Critical::Yes, &sequence(&[])));
    if let Some(id) = subject_key_identifier(issuer) {
        let value = sequence(&[&element(0x80, &[id])]);
        all.push(extension(&[0x55, 0x1d, 0x23], Critical::No, &value));
    }
    let names = alternative_names(request);
    if !names.is_empty() {
        let has_subject =
            request.certification_request_info.subject.iter_attributes().next().is_some();
        let critical = if has_subject { Critical::No } else { Critical::Yes };
        all.push(extension(&[0x55, 0x1d, 0x11], critical, &sequence(&[&names])));
    }
    Ok(all.concat())
}

fn subject_key_identifier<'a>(certificate: &'a X509Certificate<'_>) -> Option<&'a [u8]> {
    certificate.extensions().iter().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0),
        _ => None,
    })
}

/// The DNS names, email addresses, IP addresses and URIs of a request, in this order. Names of other
/// types are not copied, as in Go.
fn alternative_names(request: &X509CertificationRequest<'_>) -> Vec<u8> {
    let requested = request.requested_extensions().into_iter().flatten();
    let names: Vec<&GeneralName<'_>> = requested
        .filter_map(|extension| match extension {
            ParsedExtension::SubjectAlternativeName(names) => Some(&names.general_names),
            _ => None,
        })
        .flatten()
        .collect();
    let mut encoded = Vec::new();
    for tag in [0x82, 0x81, 0x87, 0x86] {
        for name in &names {
            let (found, value): (u8, &[u8]) = match name {
                GeneralName::DNSName(name) => (0x82, name.as_bytes()),
                GeneralName::RFC822Name(address) => (0x81, address.as_bytes()),
                GeneralName::IPAddress(address) => (0x87, address),
                GeneralName::URI(uri) => (0x86, uri.as_bytes()),
                _ => continue,
            };
            if found == tag {
                encoded.extend(element(tag, &[value]));
            }
        }
    }
    encoded
}

/// The usages of a certificate's key.
struct Usages {
    /// One bit for each key usage, numbered as in X.509.
    key_usage: u16,
    /// The object identifiers of the extended usages, sorted by [`EXTENDED_USAGES`].
    extended: Vec<&'static [u8]>,
}

const KEY_USAGES: &[(&str, u16)] = &[
    ("signing", 0),
    ("digital signature", 0),
    ("content commitment", 1),
    ("key encipherment", 2),
    ("data encipherment", 3),
    ("key agreement", 4),
    ("cert sign", 5),
    ("crl sign", 6),
    ("encipher only", 7),
    ("decipher only", 8),
];

const EXTENDED_USAGES: &[(&str, &[u8])] = &[
    ("any", &[0x55, 0x1d, 0x25, 0x00]),
    ("server auth", &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01]),
    ("client auth", &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02]),
    ("code signing", &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x03]),
    ("email protection", &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x04]),
    ("s/mime", &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x04]),
    ("ipsec end system", &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x05]),
    ("ipsec tunnel", &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x06]),
    ("ipsec user", &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x07]),
    ("timestamping", &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x08]),
    ("ocsp signing", &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x09]),
    ("microsoft sgc", &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x82, 0x37, 0x0a, 0x03, 0x03]),
    ("netscape sgc", &[0x60, 0x86, 0x48, 0x01, 0x86, 0xf8, 0x42, 0x04, 0x01]),
];

impl Usages {
    fn parse(names: &[String]) -> Result<Self, RequestError> {
        let is_known = |name: &&String| {
            let name = name.as_str();
            KEY_USAGES.iter().any(|(known, _)| *known == name)
                || EXTENDED_USAGES.iter().any(|(known, _)| *known == name)
        };
        let unknown: Vec<String> = names.iter().filter(|name| !is_known(name)).cloned().collect();
        if !unknown.is_empty() {
            return Err(RequestError::Usages(unknown));
        }
        let has = |known: &str| names.iter().any(|name| name == known);
        let key_usages = KEY_USAGES.iter().filter(|(known, _)| has(known));
        let extended_usages = EXTENDED_USAGES.iter().filter(|(known, _)| has(known));
        let mut extended: Vec<&'static [u8]> = extended_usages.map(|(_, id)| *id).collect();
        // Two names have the same identifier.
        extended.dedup();
        Ok(Self { key_usage: key_usages.fold(0, |bits, (_, bit)| bits | 1 << bit), extended })
    }
}

/// A bit string with named bits: bit 0 is the highest bit of the first byte, and zeros at the end are
/// not encoded.
fn named_bits(bits: u16) -> Vec<u8> {
    let reversed = bits.reverse_bits();
    let unused = reversed.trailing_zeros();
    let bytes = reversed.to_be_bytes();
    let length = if unused >= 8 { 1 } else { 2 };
    let unused = u8::try_from(unused % 8).expect("a remainder of 8 fits a byte");
    element(BIT_STRING, &[&[unused], &bytes[..length]])
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Critical {
    Yes,
    No,
}

fn extension(id: &[u8], critical: Critical, value: &[u8]) -> Vec<u8> {
    let id = element(OBJECT_IDENTIFIER, &[id]);
    let critical: &[u8] = if critical == Critical::Yes { &[0x01, 0x01, 0xff] } else { &[] };
    sequence(&[&id, critical, &element(OCTET_STRING, &[value])])
}

/// A positive integer.
fn serial_number(serial: &[u8; 16]) -> Vec<u8> {
    let zeros = serial.iter().take_while(|byte| **byte == 0).count().min(15);
    let digits = &serial[zeros..];
    // A highest bit that is set would be the sign.
    let sign: &[u8] = if digits[0] & 0x80 == 0 { &[] } else { &[0] };
    element(0x02, &[sign, digits])
}

/// A time: with two digits of the year until 2049, and with four digits later.
fn time(time: Timestamp) -> Vec<u8> {
    let time =
        OffsetDateTime::from_unix_timestamp(time.seconds()).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (tag, year) = match time.year() {
        year @ 1950..=2049 => (0x17, format!("{:02}", year % 100)),
        year => (0x18, format!("{year:04}")),
    };
    let text = format!(
        "{year}{:02}{:02}{:02}{:02}{:02}Z",
        u8::from(time.month()),
        time.day(),
        time.hour(),
        time.minute(),
        time.second()
    );
    element(tag, &[text.as_bytes()])
}

/// A sequence of elements of DER.
pub(crate) fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    element(SEQUENCE, parts)
}

/// An element of DER with the concatenated parts as its content.
pub(crate) fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut encoded = vec![tag];
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => encoded.push(short),
        _ => {
            let bytes = length.to_be_bytes();
            let digits: Vec<u8> = bytes.into_iter().skip_while(|byte| *byte == 0).collect();
            let count = u8::try_from(digits.len()).expect("a length has at most 8 bytes");
            encoded.extend(once(0x80 | count).chain(digits));
        }
    }
    encoded.extend(parts.concat());
    encoded
}

/// A block of PEM with a label, as in `CERTIFICATE`.
pub(crate) fn to_pem(label: &str, content: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(content);
    let mut pem = format!("-----BEGIN {label}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, others) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = others;
    }
    pem + &format!("-----END {label}-----\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{CertificateParams, DnType, PublicKeyData, SanType};

    use super::*;
    use crate::Authority;

    const NOW: Timestamp = Timestamp::from_seconds(1_900_000_000);

    fn request(key: &KeyPair) -> String {
        let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        params.subject_alt_names.push(SanType::IpAddress([10, 0, 0, 1].into()));
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
        params.distinguished_name.push(DnType::CommonName, "system:node:n");
        params.serialize_request(key).unwrap().pem().unwrap()
    }

    fn template(usages: &[&str]) -> CertificateTemplate {
        CertificateTemplate {
            serial: [0x80; 16],
            usages: usages.iter().map(|usage| (*usage).to_owned()).collect(),
            not_before: NOW,
            not_after: NOW + Duration::from_hours(24),
        }
    }

    #[test]
    fn a_certificate_has_the_subject_the_names_and_the_key_of_its_request() {
        let authority = Authority::new("ca", NOW, Duration::from_hours(240)).unwrap();
        let key = KeyPair::generate().unwrap();
        let usages = ["digital signature", "key encipherment", "server auth", "client auth"];
        let pem = authority.sign_request(request(&key).as_bytes(), &template(&usages)).unwrap();
        let (_, pem) = parse_x509_pem(pem.as_bytes()).unwrap();
        let certificate = pem.parse_x509().unwrap();
        assert_eq!(certificate.subject().to_string(), "O=system:nodes, CN=system:node:n");
        assert_eq!(certificate.issuer().to_string(), "CN=ca");
        assert_eq!(certificate.public_key().raw, key.subject_public_key_info());
        assert_eq!(certificate.raw_serial(), [&[0][..], &[0x80; 16]].concat());
        let usage = certificate.key_usage().unwrap().unwrap().value;
        assert!(usage.digital_signature() && usage.key_encipherment() && !usage.crl_sign());
        let usage = certificate.extended_key_usage().unwrap().unwrap().value;
        assert!(usage.server_auth && usage.client_auth && !usage.code_signing);
        assert!(!certificate.is_ca());
        let names = certificate.subject_alternative_name().unwrap().unwrap().value;
        let expected = [GeneralName::DNSName("a.example"), GeneralName::IPAddress(&[10, 0, 0, 1])];
        assert_eq!(names.general_names, expected);
        assert_eq!(certificate.validity().not_after.timestamp(), NOW.seconds() + 24 * 3600);
        let (_, ca) = parse_x509_pem(authority.certificate().as_bytes()).unwrap();
        let ca = ca.parse_x509().unwrap();
        certificate.verify_signature(Some(ca.public_key())).unwrap();
    }

    #[test]
    fn a_request_with_a_wrong_signature_is_refused() {
        let authority = Authority::new("ca", NOW, Duration::from_hours(240)).unwrap();
        let pem = request(&KeyPair::generate().unwrap());
        let (_, mut parsed) = parse_x509_pem(pem.as_bytes()).unwrap();
        let last = parsed.contents.len() - 1;
        parsed.contents[last] ^= 1;
        let forged = to_pem("CERTIFICATE REQUEST", &parsed.contents);
        let signed = authority.sign_request(forged.as_bytes(), &template(&["client auth"]));
        assert!(matches!(signed, Err(RequestError::Signature)), "{signed:?}");
        let signed = authority.sign_request(b"nonsense", &template(&["client auth"]));
        assert!(matches!(signed, Err(RequestError::Malformed)), "{signed:?}");
    }

    #[test]
    fn an_unknown_usage_is_refused() {
        let authority = Authority::new("ca", NOW, Duration::from_hours(240)).unwrap();
        let pem = request(&KeyPair::generate().unwrap());
        let signed = authority.sign_request(pem.as_bytes(), &template(&["client auth", "tea"]));
        assert_eq!(signed.unwrap_err().to_string(), r#"unrecognized usage values: ["tea"]"#);
    }

    #[test]
    fn bits_are_encoded_without_zeros_at_the_end() {
        assert_eq!(named_bits(0b1), [3, 2, 7, 0x80]);
        assert_eq!(named_bits(0b101), [3, 2, 5, 0xa0]);
        assert_eq!(named_bits(0b1_0000_0001), [3, 3, 7, 0x80, 0x80]);
    }
}
