//! Entries of people in a kubeconfig: a context `NAME@CLUSTER`, and a user of the same name with a
//! client certificate.

use std::fmt;
use std::path::Path;

use base64::prelude::{BASE64_STANDARD, Engine};
use x509_parser::pem::parse_x509_pem;

use super::merge::{check_header, check_rewrite, entry_mut, rewrite};
use super::{Error, parse, text};
use keel::Timestamp;
use machinery::{Map, Value, json};

/// The entry of a person.
pub(crate) struct PersonEntry<'a> {
    /// The user's name.
    pub name: &'a str,
    /// The name of the cluster in the kubeconfig.
    pub cluster_name: &'a str,
    /// The cluster's entry, for a file that does not have it.
    pub cluster: &'a Value,
    /// The certificate, in PEM.
    pub certificate: &'a str,
    /// The private key, in PEM.
    pub key: &'a str,
    /// The namespace of the context; that of an existing context is kept if there is none.
    pub namespace: Option<&'a str>,
    /// Whether the context becomes the current one.
    pub is_current: bool,
}

/// What a certificate says. Certificates are ordered by their ends.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CertificateInfo {
    /// The end of its validity.
    pub ends: Timestamp,
    /// The organizations.
    pub groups: Vec<String>,
    /// The common name.
    pub user: String,
    /// The serial number, in hexadecimal: it tells two certificates apart that end in one second.
    pub serial: String,
}

impl CertificateInfo {
    /// Reads a certificate in PEM.
    pub(crate) fn read(certificate: &str) -> Option<Self> {
        let (_, pem) = parse_x509_pem(certificate.as_bytes()).ok()?;
        let certificate = pem.parse_x509().ok()?;
        let subject = certificate.subject();
        let user = subject.iter_common_name().last()?.as_str().ok()?.to_owned();
        let groups = subject.iter_organization().filter_map(|it| it.as_str().ok());
        let ends = Timestamp::from_seconds(certificate.validity().not_after.timestamp());
        let serial = certificate.raw_serial_as_string();
        Some(Self { user, groups: groups.map(str::to_owned).collect(), ends, serial })
    }
}

/// The error of a file of `--output`: its remedy names that flag.
#[derive(Debug)]
pub(crate) struct OutputError(pub Error);

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_string().replace("--kubeconfig", "--output"))
    }
}

impl std::error::Error for OutputError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// The name of the context and of the user's entry.
pub(crate) fn context_name(name: &str, cluster: &str) -> String {
    format!("{name}@{cluster}")
}

/// Adds or replaces the entries of a person. A user entry of this name that has no certificate of the
/// person is not replaced.
pub(crate) fn add_person(path: &Path, entry: &PersonEntry<'_>) -> Result<(), Error> {
    rewrite(path, |document| insert(path, document, entry))
}

/// Fails as [`add_person`] would, and changes nothing. The entry needs no certificate yet.
pub(crate) fn check_person(path: &Path, entry: &PersonEntry<'_>) -> Result<(), Error> {
    check_rewrite(path, |document| insert(path, document, entry))
}

fn insert(
    path: &Path,
    document: &mut Map<String, Value>,
    entry: &PersonEntry<'_>,
) -> Result<(), Error> {
    check_header(path, document)?;
    let cluster = entry_mut(path, document, "clusters", "cluster", entry.cluster_name)?;
    if !cluster.is_object() {
        *cluster = entry.cluster.clone();
    } else if cluster["server"] != entry.cluster["server"] {
        let name = entry.cluster_name.to_owned();
        return Err(Error::OtherCluster { path: path.to_owned(), name });
    }
    let context = context_name(entry.name, entry.cluster_name);
    let user = entry_mut(path, document, "users", "user", &context)?;
    let is_taken = user.as_object().is_some_and(|it| !it.is_empty())
        && certificate(user).is_none_or(|it| it.user != entry.name);
    if is_taken {
        return Err(Error::Taken { path: path.to_owned(), what: "user", name: context });
    }
    *user = json!({
        "client-certificate-data": BASE64_STANDARD.encode(entry.certificate),
        "client-key-data": BASE64_STANDARD.encode(entry.key),
    });
    let found = entry_mut(path, document, "contexts", "context", &context)?;
    if !found.is_object() {
        *found = json!({});
    }
    found["cluster"] = json!(entry.cluster_name);
    found["user"] = json!(context);
    if let Some(namespace) = entry.namespace {
        found["namespace"] = json!(namespace);
    }
    if entry.is_current {
        document.insert("current-context".to_owned(), json!(context));
    }
    Ok(())
}

/// The people of a cluster who have a context in a kubeconfig.
pub(crate) fn people(path: &Path, cluster: &str) -> Result<Vec<CertificateInfo>, Error> {
    let bytes = std::fs::read(path)
        .map_err(|source| Error::ReadConfig { path: path.to_owned(), source })?;
    let document = parse(path, &bytes)?;
    let users = document.get("users").and_then(Value::as_array).into_iter().flatten();
    let of_cluster = users.filter_map(|it| {
        let found = certificate(&it["user"])?;
        (it["name"] == *context_name(&found.user, cluster)).then_some(found)
    });
    Ok(of_cluster.collect())
}

/// What [`remove_person`] has removed.
pub(crate) struct RemovedPerson {
    /// Whether the file had a context or a user of this name.
    pub was_there: bool,
    /// Whether the context was the current one: then the file has none now.
    pub was_current: bool,
}

/// Removes the context and the user entry of a person.
pub(crate) fn remove_person(
    path: &Path,
    name: &str,
    cluster: &str,
) -> Result<RemovedPerson, Error> {
    let context = context_name(name, cluster);
    // Does not rewrite a file that stays as it is.
    if !people(path, cluster)?.iter().any(|it| it.user == name) {
        return Ok(RemovedPerson { was_there: false, was_current: false });
    }
    rewrite(path, |document| {
        let was_current = text(document, "current-context") == Some(&context);
        if was_current {
            document.remove("current-context");
        }
        for list in ["contexts", "users"] {
            if let Some(Value::Array(entries)) = document.get_mut(list) {
                entries.retain(|it| it["name"] != *context);
            }
        }
        Ok(RemovedPerson { was_there: true, was_current })
    })
}

/// The certificate of a user entry.
fn certificate(user: &Value) -> Option<CertificateInfo> {
    let data = user["client-certificate-data"].as_str()?;
    let decoded = String::from_utf8(BASE64_STANDARD.decode(data).ok()?).ok()?;
    CertificateInfo::read(&decoded)
}
