//! Certificates for tests.

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DnType, IsCa, Issuer, KeyPair,
    SigningKey, date_time_ymd,
};
use rustls::CertificateError;
use rustls::pki_types::{CertificateDer, UnixTime};

use crate::chain::Element;

/// A certificate and its key.
pub(crate) struct TestCertificate {
    pub der: CertificateDer<'static>,
    pub pem: String,
    pub params: CertificateParams,
    pub key: KeyPair,
}

/// The parameters of a certificate with one name, valid from 2020 to 2040.
pub(crate) fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2040, 1, 1);
    params
}

/// The parameters of the certificate of an authority, valid from 2020 to 2040.
pub(crate) fn authority(name: &str) -> CertificateParams {
    let mut params = params(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

pub(crate) fn self_signed(params: CertificateParams) -> TestCertificate {
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    TestCertificate { der: certificate.der().clone(), pem: certificate.pem(), params, key }
}

pub(crate) fn signed(params: CertificateParams, by: &TestCertificate) -> TestCertificate {
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &Issuer::from_params(&by.params, &by.key)).unwrap();
    TestCertificate { der: certificate.der().clone(), pem: certificate.pem(), params, key }
}

/// An extension that no verifier processes.
pub(crate) fn unknown_extension(is_critical: bool) -> CustomExtension {
    let oid = [1, 3, 6, 1, 4, 1, 99999, 1];
    let mut extension = CustomExtension::from_oid_content(&oid, vec![5, 0]);
    extension.set_criticality(is_critical);
    extension
}

/// Signs `certificate` again as a certificate of version 1, which has no extensions.
pub(crate) fn version_1(certificate: TestCertificate, by: &TestCertificate) -> TestCertificate {
    // Only the version and the extensions have context-specific tags.
    resigned(certificate, by, |_, field| if field[0] & 0xc0 == 0 { field.to_vec() } else { vec![] })
}

/// The tags of DER.
const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;

/// The index of the field `signature` of a `TBSCertificate`, after `version` and `serialNumber`.
const SIGNATURE: usize = 2;

/// Signs `certificate` again with a field `signature` in its `TBSCertificate` that differs from
/// `signatureAlgorithm`.
pub(crate) fn mismatched_algorithms(
    certificate: TestCertificate,
    by: &TestCertificate,
) -> TestCertificate {
    // The object identifier of ecdsa-with-SHA384.
    let other = element(SEQUENCE, &[6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 3]);
    resigned(
        certificate,
        by,
        |index, field| if index == SIGNATURE { other.clone() } else { field.to_vec() },
    )
}

/// Appends a byte to the encoding.
pub(crate) fn trailing_byte(certificate: TestCertificate) -> TestCertificate {
    TestCertificate { der: CertificateDer::from([&*certificate.der, &[0]].concat()), ..certificate }
}

/// Signs `certificate` again after `replace` was applied to the index and the encoding of each field
/// of its `TBSCertificate`.
fn resigned(
    certificate: TestCertificate,
    by: &TestCertificate,
    replace: impl Fn(usize, &[u8]) -> Vec<u8>,
) -> TestCertificate {
    let outer = Element::read(&certificate.der).unwrap();
    let message = Element::read(outer.content).unwrap();
    let algorithm = Element::read(message.rest).unwrap();
    let mut fields = Vec::new();
    let mut rest = message.content;
    for index in 0.. {
        let Some(field) = Element::read(rest) else { break };
        fields.extend(replace(index, field.whole));
        rest = field.rest;
    }
    let message = element(SEQUENCE, &fields);
    // A bit string begins with the number of its unused bits.
    let mut signature = vec![0];
    signature.extend(by.key.sign(&message).unwrap());
    let parts = [&message, algorithm.whole, &element(BIT_STRING, &signature)].concat();
    let der = CertificateDer::from(element(SEQUENCE, &parts));
    TestCertificate { der, ..certificate }
}

fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
    let length = match (high, low) {
        (0, 0..=0x7f) => vec![low],
        (0, _) => vec![0x81, low],
        _ => vec![0x82, high, low],
    };
    [&[tag], length.as_slice(), content].concat()
}

/// The first of January 2030.
pub(crate) fn now() -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_hours(21_915 * 24))
}

/// A verifier's decision, with the name of the error only.
pub(crate) fn decision<T>(decision: Result<T, rustls::Error>) -> Result<(), String> {
    match decision {
        Ok(_) => Ok(()),
        Err(rustls::Error::InvalidCertificate(CertificateError::Other(why))) => {
            Err(why.0.to_string())
        }
        Err(rustls::Error::InvalidCertificate(why)) => {
            let why = format!("{why:?}");
            Err(why.split([' ', '{']).next().unwrap_or_default().to_owned())
        }
        Err(other) => Err(other.to_string()),
    }
}
