//! [`ClientRequest`]: a new private key, and the request for a certificate with it.

use std::fmt;

use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData, SigningKey};

use crate::request_signing::{BIT_STRING, OBJECT_IDENTIFIER, element, sequence, to_pem};

/// The object identifier of signatures by ECDSA with SHA-256.
const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
/// The object identifier of a common name.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// The object identifier of an organization.
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
const UTF8_STRING: u8 = 0x0c;
const SET: u8 = 0x31;
/// The attributes of a request.
const ATTRIBUTES: u8 = 0xa0;
/// The version of all requests.
const VERSION: &[u8] = &[0x02, 0x01, 0x00];

/// A private key and a request for a client certificate, both in PEM.
///
/// ```
/// use tls::ClientRequest;
///
/// let made = ClientRequest::new("jane", &["developers"]).unwrap();
/// assert!(made.request.starts_with("-----BEGIN CERTIFICATE REQUEST-----"));
/// ```
pub struct ClientRequest {
    /// The private key, which is not part of the request.
    pub key: String,
    /// The request, in PKCS #10.
    pub request: String,
}

impl ClientRequest {
    /// A new key, and a request for a certificate of a user in these groups.
    pub fn new(user: &str, groups: &[&str]) -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let subject = subject(user, groups);
        let public_key = key.subject_public_key_info();
        let info = sequence(&[VERSION, &subject, &public_key, &element(ATTRIBUTES, &[])]);
        let algorithm = sequence(&[&element(OBJECT_IDENTIFIER, &[ECDSA_WITH_SHA256])]);
        let signature = element(BIT_STRING, &[&[0], &key.sign(&info)?]);
        let request = to_pem("CERTIFICATE REQUEST", &sequence(&[&info, &algorithm, &signature]));
        Ok(Self { key: key.serialize_pem(), request })
    }
}

/// The name of a subject: the groups are its organizations, the user is its common name. rcgen's names
/// have one organization at most.
fn subject(user: &str, groups: &[&str]) -> Vec<u8> {
    let part = |id: &[u8], value: &str| {
        let id = element(OBJECT_IDENTIFIER, &[id]);
        let value = element(UTF8_STRING, &[value.as_bytes()]);
        element(SET, &[&sequence(&[&id, &value])])
    };
    let mut parts: Vec<Vec<u8>> = groups.iter().map(|it| part(ORGANIZATION, it)).collect();
    parts.push(part(COMMON_NAME, user));
    sequence(&[&parts.concat()])
}

impl fmt::Debug for ClientRequest {
    /// Omits the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientRequest").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Authority, CertificateTemplate, Certified};
    use keel::Timestamp;

    #[test]
    fn an_authority_signs_a_request_for_the_key_that_was_made() {
        let now = Timestamp::from_seconds(1_900_000_000);
        let end = now + Duration::from_hours(1);
        let authority = Authority::new("ca", now, Duration::from_hours(24)).unwrap();
        let made = ClientRequest::new("jane", &["developers", "testers"]).unwrap();
        let template = CertificateTemplate {
            serial: [1; 16],
            usages: vec!["client auth".to_owned()],
            not_before: now,
            not_after: end,
        };
        let certificate = authority.sign_request(made.request.as_bytes(), &template).unwrap();
        let (_, pem) = x509_parser::pem::parse_x509_pem(certificate.as_bytes()).unwrap();
        let subject = pem.parse_x509().unwrap().subject().to_string();
        assert_eq!(subject, "O=developers, O=testers, CN=jane");
        assert!(!format!("{made:?}").contains("PRIVATE"));
        assert!(Certified { certificate, key: made.key }.has_matching_key());
    }
}
