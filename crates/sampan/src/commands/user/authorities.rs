//! [`Authorities`]: whether the cluster accepts a certificate, by the authority that has signed it.
//!
//! A plane signs the certificates of users with its own authority and accepts those of the bundle that
//! clients trust. After a start with a new data directory, or when an old authority is no longer
//! trusted, certificates of the old authority remain in records and kubeconfigs. Only certificates
//! of planes are told apart: which authorities another cluster accepts is not known.

use base64::prelude::{BASE64_STANDARD, Engine};
use x509_parser::pem::Pem;
use x509_parser::prelude::ParsedExtension;

use crate::connection::Connection;
use crate::kubeconfig::{CertificateInfo, key_identifier};
use apiserver::certificates::is_issued_by_a_plane;
use client::json_requests::get;
use machinery::{Value, json};

/// The bundle that a plane publishes for pods.
const PUBLISHED: &str = "/api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt";

/// The authorities of a cluster.
pub(super) struct Authorities {
    /// The identifiers of their keys; none if they are not known.
    keys: Option<Vec<String>>,
}

impl Authorities {
    /// The authorities of a plane; unknown ones of another cluster.
    pub(super) async fn of(connection: &Connection) -> Self {
        let published = published(connection).await.as_deref().and_then(Self::of_plane);
        published.or_else(|| Self::in_kubeconfig(connection)).unwrap_or(Self { keys: None })
    }

    /// The authorities in the kubeconfig of the command, if they are those of a plane.
    pub(super) fn in_kubeconfig(connection: &Connection) -> Option<Self> {
        let data = connection.cluster["certificate-authority-data"].as_str()?;
        Self::of_plane(&String::from_utf8(BASE64_STANDARD.decode(data).ok()?).ok()?)
    }

    fn of_plane(bundle: &str) -> Option<Self> {
        is_issued_by_a_plane(bundle).then(|| Self::read(bundle))
    }

    /// The authorities in a bundle in PEM.
    pub(super) fn read(bundle: &str) -> Self {
        let blocks = Pem::iter_from_buffer(bundle.as_bytes()).filter_map(Result::ok);
        let keys = blocks.filter_map(|it| {
            let certificate = it.parse_x509().ok()?;
            certificate.iter_extensions().find_map(|it| match it.parsed_extension() {
                ParsedExtension::SubjectKeyIdentifier(id) => Some(key_identifier(id.0)),
                _ => None,
            })
        });
        Self { keys: Some(keys.collect()) }
    }

    /// Whether a certificate is accepted, as far as that is known.
    pub(super) fn accept(&self, certificate: &CertificateInfo) -> bool {
        match (&self.keys, &certificate.authority) {
            (Some(keys), Some(authority)) => keys.contains(authority),
            _ => true,
        }
    }

    /// The number of authorities that are known.
    fn len(&self) -> usize {
        self.keys.as_deref().unwrap_or_default().len()
    }

    /// Whether both have an authority in common.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let [own, others] = [&self.keys, &other.keys].map(|it| it.as_deref().unwrap_or_default());
        own.iter().any(|it| others.contains(it))
    }
}

/// The bundle that the cluster publishes, if it does and the user may read it.
async fn published(connection: &Connection) -> Option<String> {
    let found: Option<Value> = get(&connection.client, PUBLISHED).await.ok().flatten();
    found.and_then(|it| it["data"]["ca.crt"].as_str().map(str::to_owned))
}

/// The cluster's entry for a new kubeconfig. That of a plane has the authority of the certificate, and
/// as few others as are known to suffice: the kubeconfig of the command may be older than the last
/// rotation, and what the cluster publishes follows a moment later.
pub(super) async fn cluster_entry(connection: &Connection, issued: &CertificateInfo) -> Value {
    let mut cluster = connection.cluster.clone();
    let Some(own) = Authorities::in_kubeconfig(connection) else { return cluster };
    let Some(bundle) = published(connection).await else { return cluster };
    let published = Authorities::of_plane(&bundle).filter(|it| it.accept(issued));
    if published.is_some_and(|it| !own.accept(issued) || it.len() < own.len()) {
        cluster["certificate-authority-data"] = json!(BASE64_STANDARD.encode(bundle));
    }
    cluster
}

#[cfg(test)]
mod tests {
    use super::*;
    use apiserver::certificates::Authority;
    use keel::Clock;

    #[test]
    fn a_certificate_of_another_plane_is_not_accepted() {
        let now = Clock::system().now();
        let [own, other] = [(), ()].map(|()| Authority::new(now).unwrap());
        let [of_own, of_other] = [&own, &other].map(|it| {
            let certificate = it.client("jane", &[], now).unwrap().certificate;
            CertificateInfo::read(&certificate).unwrap()
        });
        let both = Authorities::read(&format!("{}{}", other.bundle(), own.bundle()));
        assert!(both.accept(&of_own) && both.accept(&of_other));
        let authorities = Authorities::read(own.bundle());
        assert!(authorities.accept(&of_own) && !authorities.accept(&of_other));
        let unknown = CertificateInfo { authority: None, ..of_other };
        assert!(authorities.accept(&unknown), "the authority is not one of a plane");
        assert!(Authorities { keys: None }.accept(&of_own), "the cluster is not a plane");
    }
}
