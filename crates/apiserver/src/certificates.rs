//! The certificates that a plane issues itself: an authority at its first start, a serving
//! certificate at every start, and client certificates of members of `system:masters`.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use keel::{Entropy, Timestamp, create_private_directory, restrict_access, write_private};
use tls::{CertificateTemplate, Certified, IssueError, LoadError, RequestError};

const DAY: Duration = Duration::from_hours(24);

/// The lifetime of an authority, which is longer than that of a data directory.
const AUTHORITY_LIFETIME: Duration = DAY.saturating_mul(3650);

/// The lifetime of other certificates. Serving certificates are issued at each start, client
/// certificates on request.
const LEAF_LIFETIME: Duration = DAY.saturating_mul(366);

/// The time before its creation from which a certificate for a request is valid.
const BACKDATE: Duration = Duration::from_mins(5);

/// A lifetime that is not shortened by [`BACKDATE`].
const SHORT_LIFETIME: Duration = Duration::from_hours(8);

/// The common name of every plane's authority.
const AUTHORITY_NAME: &str = "sampan-ca";

/// The authority of one plane.
#[derive(Debug)]
pub struct Authority(tls::Authority);

/// The reason why the certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Restore the file, or delete both files of the authority.
    #[error(
        "cannot use the certificate authority: {} {detail}; restore it from a backup, or delete ca.crt and ca.key there: a new authority is created then, and clients need a new kubeconfig",
        path.display()
    )]
    Authority {
        /// The path of the file.
        path: PathBuf,
        /// The defect of the file.
        detail: String,
    },
    /// Check the directory and its permissions.
    #[error("cannot read or write {path}")]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Not expected.
    #[error("cannot issue a certificate")]
    Issue(#[from] IssueError),
    /// Correct the certificate signing request.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Replace the authority.
    #[error("the signer has expired")]
    Expired,
}

impl Authority {
    /// A new authority, which is not stored.
    pub fn new(now: Timestamp) -> Result<Self, Error> {
        Ok(Self(tls::Authority::new(AUTHORITY_NAME, now, AUTHORITY_LIFETIME)?))
    }

    /// The authority in `directory`, which is created at the first start. Each file is
    /// written atomically, the key first: a key without a certificate has not been used yet.
    pub fn open(directory: &Path, now: Timestamp) -> Result<Self, Error> {
        let certificate_path = directory.join("ca.crt");
        let key_path = directory.join("ca.key");
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::File { path, source }
        };
        create_private_directory(directory).map_err(failed(directory))?;
        let (certificate, key) = match (read(&certificate_path)?, read(&key_path)?) {
            (Some(certificate), Some(key)) => (certificate, key),
            (Some(_), None) => return Err(unusable(&key_path, "is missing")),
            (None, _) => {
                let authority = Self::new(now)?;
                let Certified { certificate, key } = authority.0.to_pem();
                write_private(&key_path, key.as_bytes()).map_err(failed(&key_path))?;
                let written = write_private(&certificate_path, certificate.as_bytes());
                written.map_err(failed(&certificate_path))?;
                return Ok(authority);
            }
        };
        let stored = Certified { certificate, key };
        let loaded = tls::Authority::from_pem(&stored).map_err(|error| match error {
            LoadError::Key(error) => unusable(&key_path, &describe_damage(&stored.key, &error)),
            LoadError::Certificate(error) => {
                let damage = error.map_or("no certificate".to_owned(), |it| it.to_string());
                unusable(&certificate_path, &describe_damage(&stored.certificate, &damage))
            }
            LoadError::Mismatch => {
                unusable(&certificate_path, "does not belong to the key in ca.key")
            }
        })?;
        Ok(Self(loaded))
    }

    /// The authority's certificate, which clients trust, in PEM.
    pub fn certificate(&self) -> &str {
        self.0.certificate()
    }

    /// A serving certificate for these host names and addresses.
    pub fn serving(
        &self,
        names: &[&str],
        addresses: &[IpAddr],
        now: Timestamp,
    ) -> Result<Certified, Error> {
        let mut all: Vec<String> = names.iter().map(|it| (*it).to_owned()).collect();
        all.extend(addresses.iter().map(ToString::to_string));
        let mut seen = HashSet::new();
        all.retain(|it| seen.insert(it.clone()));
        Ok(self.0.serving("kube-apiserver", &all, now, LEAF_LIFETIME)?)
    }

    /// A client certificate for a user in these groups.
    pub fn client(&self, user: &str, groups: &[&str], now: Timestamp) -> Result<Certified, Error> {
        Ok(self.0.client(user, groups, now, LEAF_LIFETIME)?)
    }

    /// A certificate for a certificate signing request in PEM, with these usages.
    ///
    /// Upstream: pkg/controller/certificates/authority, `PermissiveSigningPolicy`
    pub fn sign_request(
        &self,
        request: &[u8],
        usages: &[String],
        lifetime: Duration,
        now: Timestamp,
        entropy: &Entropy,
    ) -> Result<String, Error> {
        let mut serial = [0; 16];
        entropy.fill(&mut serial);
        // The end of a short lifetime is exact.
        let end =
            if lifetime < SHORT_LIFETIME { now + lifetime } else { now + lifetime - BACKDATE };
        let last = self.0.not_after().unwrap_or(end);
        if now >= last {
            return Err(Error::Expired);
        }
        let usages = usages.to_vec();
        let template = CertificateTemplate {
            serial,
            usages,
            not_before: now - BACKDATE,
            not_after: end.min(last),
        };
        Ok(self.0.sign_request(request, &template)?)
    }
}

/// Whether a certificate in PEM was issued by the authority of some plane, or is such an authority.
/// It distinguishes the entries of planes in a kubeconfig from others; it does not verify a signature.
pub fn is_issued_by_a_plane(certificate: &str) -> bool {
    let Ok((_, pem)) = x509_parser::pem::parse_x509_pem(certificate.as_bytes()) else {
        return false;
    };
    pem.parse_x509().is_ok_and(|it| {
        it.issuer()
            .iter_common_name()
            .any(|name| name.as_str().is_ok_and(|it| it == AUTHORITY_NAME))
    })
}

/// Reads a file and restricts access to its owner; None if it does not exist.
fn read(path: &Path) -> Result<Option<String>, Error> {
    let content = match restrict_access(path).and_then(|()| fs::read(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|source| Error::File { path: path.to_owned(), source })?,
    };
    match String::from_utf8(content) {
        Ok(text) => Ok(Some(text)),
        Err(_) => Err(unusable(path, "is damaged")),
    }
}

fn unusable(path: &Path, detail: &str) -> Error {
    Error::Authority { path: path.to_owned(), detail: detail.to_owned() }
}

/// The defect of a file that cannot be parsed. Earlier versions left an empty file behind when the
/// disk was full.
fn describe_damage(content: &str, error: &dyn std::fmt::Display) -> String {
    if content.is_empty() { "is empty".to_owned() } else { format!("is damaged ({error})") }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;
    use keel::Clock;

    #[test]
    fn an_authority_is_created_once_and_reused() {
        let directory = tempfile::tempdir().unwrap();
        let now = Clock::system().now();
        let first = Authority::open(directory.path(), now).unwrap();
        let second = Authority::open(directory.path(), now).unwrap();
        assert_eq!(first.certificate(), second.certificate());
        let client = second.client("alice", &["system:masters"], now).unwrap();
        let (_, pem) = x509_parser::pem::parse_x509_pem(client.certificate.as_bytes()).unwrap();
        let user = crate::auth::authentication::x509::user(&pem.contents).unwrap().unwrap();
        assert_eq!((user.name.as_str(), user.groups[0].as_str()), ("alice", "system:masters"));
    }

    #[test]
    fn certificates_of_planes_are_distinguished_from_others() {
        let now = Clock::system().now();
        let authority = Authority::new(now).unwrap();
        let client = authority.client("alice", &[], now).unwrap();
        assert!(is_issued_by_a_plane(authority.certificate()));
        assert!(is_issued_by_a_plane(&client.certificate));
        let other = CertificateParams::new(vec!["other".to_owned()]).unwrap();
        let other = other.self_signed(&KeyPair::generate().unwrap()).unwrap();
        assert!(!is_issued_by_a_plane(&other.pem()));
        assert!(!is_issued_by_a_plane("CERT"));
    }

    /// Makes an authority, has `change` change its directory, and opens it again.
    fn reopen(change: impl FnOnce(&Path)) -> Result<String, String> {
        let directory = tempfile::tempdir().unwrap();
        let now = Clock::system().now();
        Authority::open(directory.path(), now).unwrap();
        change(directory.path());
        match Authority::open(directory.path(), now) {
            Ok(authority) => Ok(authority.certificate().to_owned()),
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("delete ca.crt and ca.key"), "{text}");
                Err(text)
            }
        }
    }

    #[test]
    fn a_crash_between_the_key_and_the_certificate_leaves_a_plane_that_starts() {
        reopen(|directory| fs::remove_file(directory.join("ca.crt")).unwrap()).unwrap();
    }

    #[test]
    fn a_damaged_authority_is_an_error_with_the_file_and_the_remedy() {
        for (name, content, detail) in [
            ("ca.key", "", "ca.key is empty"),
            ("ca.crt", "", "ca.crt is empty"),
            ("ca.key", "rubbish", "ca.key is damaged"),
            ("ca.crt", "rubbish", "ca.crt is damaged"),
        ] {
            let error = reopen(|directory| fs::write(directory.join(name), content).unwrap());
            assert!(error.clone().unwrap_err().contains(detail), "{error:?}");
        }
        let error = reopen(|directory| fs::remove_file(directory.join("ca.key")).unwrap());
        assert!(error.clone().unwrap_err().contains("ca.key is missing"), "{error:?}");
    }

    #[test]
    fn a_key_and_a_certificate_that_do_not_belong_together_are_refused() {
        let error = reopen(|directory| {
            let other = KeyPair::generate().unwrap().serialize_pem();
            fs::write(directory.join("ca.key"), other).unwrap();
        });
        assert!(error.clone().unwrap_err().contains("does not belong"), "{error:?}");
    }

    #[cfg(unix)]
    #[test]
    fn the_access_of_other_users_to_keys_is_removed() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let keys = directory.path().join("pki");
        let now = Clock::system().now();
        Authority::open(&keys, now).unwrap();
        for (path, mode) in [(keys.clone(), 0o755), (keys.join("ca.key"), 0o644)] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        Authority::open(&keys, now).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&keys), mode(&keys.join("ca.key"))), (0o700, 0o600));
    }
}
