//! The certificates that a plane makes for itself: an authority at its first start, a serving
//! certificate at every start, client certificates for those who may do everything.

use keel::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use std::fs;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use time::OffsetDateTime;

const DAY: i64 = 24 * 60 * 60;

/// An authority lives longer than anybody will keep a data directory.
const AUTHORITY_DAYS: i64 = 3650;

/// Serving certificates are made anew at each start, client certificates by whoever asks.
const LEAF_DAYS: i64 = 366;

/// The authority of one plane.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

/// A certificate and its key, both in PEM.
#[derive(Debug, Clone)]
pub struct Certified {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

/// Why there are no certificates.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Look at the file; deleting both files makes a new authority, which no client knows yet.
    #[error("cannot use the certificate authority in {path}")]
    Authority {
        /// Of the file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: rcgen::Error,
    },
    /// Check the directory and its permissions.
    #[error("cannot read or write {path}")]
    File {
        /// Of the file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Not expected.
    #[error("cannot make a certificate")]
    Make(#[from] rcgen::Error),
}

impl Authority {
    /// A new one, which only this process knows.
    pub fn new(now: Timestamp) -> Result<Self, Error> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name = name("sampan-ca", &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
        ];
        valid(&mut params, now, AUTHORITY_DAYS);
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), certificate })
    }

    /// The one in `directory`, made at the first start.
    pub fn open(directory: &Path, now: Timestamp) -> Result<Self, Error> {
        let certificate_path = directory.join("ca.crt");
        let key_path = directory.join("ca.key");
        if !certificate_path.exists() || !key_path.exists() {
            let made = Self::new(now)?;
            fs::create_dir_all(directory)
                .map_err(|source| Error::File { path: directory.to_owned(), source })?;
            let written = write_private(&key_path, made.issuer.key().serialize_pem().as_bytes());
            written.map_err(|source| Error::File { path: key_path, source })?;
            let written = write_private(&certificate_path, made.certificate.as_bytes());
            written.map_err(|source| Error::File { path: certificate_path, source })?;
            return Ok(made);
        }
        let certificate = read(&certificate_path)?;
        let key = KeyPair::from_pem(&read(&key_path)?)
            .map_err(|source| Error::Authority { path: key_path, source })?;
        let issuer = Issuer::from_ca_cert_pem(&certificate, key)
            .map_err(|source| Error::Authority { path: certificate_path, source })?;
        Ok(Self { issuer, certificate })
    }

    /// The authority's certificate, in PEM: what clients trust.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// A certificate for a server that is known by these names and addresses.
    pub fn serving(
        &self,
        names: &[&str],
        addresses: &[IpAddr],
        now: Timestamp,
    ) -> Result<Certified, Error> {
        let mut all: Vec<String> = names.iter().map(|it| (*it).to_owned()).collect();
        all.extend(addresses.iter().map(ToString::to_string));
        let mut params = CertificateParams::new(all)?;
        params.distinguished_name = name("kube-apiserver", &[]);
        self.sign(params, ExtendedKeyUsagePurpose::ServerAuth, now)
    }

    /// A certificate for a user in these groups.
    pub fn client(&self, user: &str, groups: &[&str], now: Timestamp) -> Result<Certified, Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name = name(user, groups);
        self.sign(params, ExtendedKeyUsagePurpose::ClientAuth, now)
    }

    fn sign(
        &self,
        mut params: CertificateParams,
        usage: ExtendedKeyUsagePurpose,
        now: Timestamp,
    ) -> Result<Certified, Error> {
        let key = KeyPair::generate()?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        valid(&mut params, now, LEAF_DAYS);
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Certified { certificate, key: key.serialize_pem() })
    }
}

impl std::fmt::Debug for Authority {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authority")
    }
}

fn name(common: &str, organizations: &[&str]) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    for organization in organizations {
        name.push(DnType::OrganizationName, *organization);
    }
    name.push(DnType::CommonName, common);
    name
}

/// From an hour ago, for clients whose clock is behind.
fn valid(params: &mut CertificateParams, now: Timestamp, days: i64) {
    let at = |seconds: i64| {
        OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH)
    };
    params.not_before = at(now.seconds() - 3600);
    params.not_after = at(now.seconds() + days * DAY);
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|source| Error::File { path: path.to_owned(), source })
}

/// Writes a file that only its owner can read.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel::Clock;

    #[test]
    fn an_authority_is_made_once_and_then_kept() {
        let directory = tempfile::tempdir().unwrap();
        let now = Clock::system().now();
        let first = Authority::open(directory.path(), now).unwrap();
        let second = Authority::open(directory.path(), now).unwrap();
        assert_eq!(first.certificate(), second.certificate());
        let client = second.client("alice", &["system:masters"], now).unwrap();
        let (_, pem) = x509_parser::pem::parse_x509_pem(client.certificate.as_bytes()).unwrap();
        let user = crate::authentication::x509::user(&pem.contents).unwrap().unwrap();
        assert_eq!((user.name.as_str(), user.groups[0].as_str()), ("alice", "system:masters"));
    }

    #[test]
    fn a_broken_authority_is_an_error_that_names_the_file() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("ca.crt"), "rubbish").unwrap();
        fs::write(directory.path().join("ca.key"), "rubbish").unwrap();
        let error = Authority::open(directory.path(), Clock::system().now()).unwrap_err();
        assert!(error.to_string().contains("ca.key"), "{error}");
    }
}
