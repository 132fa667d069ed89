//! The certificates that a plane issues itself: an authority at its first start, a serving
//! certificate at every start, and client certificates of members of `system:masters`.

pub mod authority_files;
pub mod tls_settings;

use std::collections::HashSet;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use authority_files::AuthorityFiles;
use keel::{Entropy, Timestamp};
use tls::{CertificateTemplate, Certified, IssueError, RequestError};

const DAY: Duration = Duration::from_hours(24);

/// The lifetime of an authority, which is longer than that of a data directory.
const AUTHORITY_LIFETIME: Duration = DAY.saturating_mul(3650);

/// The lifetime of other certificates. Serving certificates are issued at each start, client
/// certificates on request.
pub(crate) const LEAF_LIFETIME: Duration = DAY.saturating_mul(366);

/// The time before its creation from which a certificate for a request is valid.
const BACKDATE: Duration = Duration::from_mins(5);

/// A lifetime that is not shortened by [`BACKDATE`].
const SHORT_LIFETIME: Duration = Duration::from_hours(8);

/// The host name for which a plane presents its own certificate, also if another one is configured. The
/// name is that of kube-apiserver.
pub const LOOPBACK_NAME: &str = "apiserver-loopback-client";

/// The common name of every plane's authority.
const AUTHORITY_NAME: &str = "sampan-ca";

/// The authority of one plane.
#[derive(Debug)]
pub struct Authority {
    signing: tls::Authority,
    /// The certificates that clients trust, in PEM: that of this authority, and those of its
    /// predecessors.
    bundle: String,
    /// The certificates of this authority that its predecessors have signed, in PEM. A client that
    /// trusts only a predecessor accepts the certificates of this authority by them.
    cross_signed: String,
}

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
        let signing = tls::Authority::new(AUTHORITY_NAME, now, AUTHORITY_LIFETIME)?;
        let bundle = signing.certificate().to_owned();
        Ok(Self { signing, bundle, cross_signed: String::new() })
    }

    /// The authority in `directory`, which is created at the first start.
    pub fn open(directory: &Path, now: Timestamp) -> Result<Self, Error> {
        Ok(AuthorityFiles::new(directory).open(now)?.authority)
    }

    /// The authority's certificate, which clients trust, in PEM.
    pub fn certificate(&self) -> &str {
        self.signing.certificate()
    }

    /// The certificates of the authority and of its predecessors, which clients trust, in PEM.
    pub fn bundle(&self) -> &str {
        &self.bundle
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
        let mut certified = self.signing.serving("kube-apiserver", &all, now, LEAF_LIFETIME)?;
        certified.certificate.push_str(&self.cross_signed);
        Ok(certified)
    }

    /// A client certificate for a user in these groups.
    pub fn client(&self, user: &str, groups: &[&str], now: Timestamp) -> Result<Certified, Error> {
        Ok(self.signing.client(user, groups, now, LEAF_LIFETIME)?)
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
        let last = self.signing.not_after().unwrap_or(end);
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
        Ok(self.signing.sign_request(request, &template)?)
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
}
