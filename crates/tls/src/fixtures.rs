//! Certificates for tests.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::CertificateError;
use rustls::pki_types::{CertificateDer, UnixTime};
use std::time::Duration;

/// A certificate and its key.
pub(crate) struct Made {
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

/// The same for the certificate of an authority.
pub(crate) fn authority(name: &str) -> CertificateParams {
    let mut params = params(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

pub(crate) fn self_signed(params: CertificateParams) -> Made {
    let key = KeyPair::generate().unwrap();
    let made = params.self_signed(&key).unwrap();
    Made { der: made.der().clone(), pem: made.pem(), params, key }
}

pub(crate) fn signed(params: CertificateParams, by: &Made) -> Made {
    let key = KeyPair::generate().unwrap();
    let made = params.signed_by(&key, &Issuer::from_params(&by.params, &by.key)).unwrap();
    Made { der: made.der().clone(), pem: made.pem(), params, key }
}

/// A time in 2030.
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
