//! Entries of people in a kubeconfig: a context `NAME@CLUSTER`, and a user of the same name with a
//! client certificate.

use std::fmt;
use std::path::Path;

use base64::prelude::{BASE64_STANDARD, Engine};
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::ParsedExtension;

use super::merge::{check_header, check_rewrite, entry_mut, rewrite};
use super::{Error, parse, pem, text};
use apiserver::certificates::is_issued_by_a_plane;
use keel::Timestamp;
use machinery::{Map, Value, json};

/// The entry of a person.
pub(crate) struct PersonEntry<'a> {
    /// The user's name.
    pub name: &'a str,
    /// The name of the cluster in the kubeconfig.
    pub cluster_name: &'a str,
    /// The cluster's entry. A file that has one with the same server gets its certificate
    /// authorities.
    pub cluster: &'a Value,
    /// The certificate, in PEM.
    pub certificate: &'a str,
    /// The private key, in PEM.
    pub key: &'a str,
    /// The namespace of the context.
    pub namespace: Namespace<'a>,
    /// Whether the context becomes the current one.
    pub current: CurrentContext,
}

/// The namespace of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Namespace<'a> {
    /// That of an existing context; a new one has none.
    Unchanged,
    /// This one, unless an existing context has one.
    Default(&'a str),
    /// This one.
    Set(&'a str),
}

/// Which context is the current one after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CurrentContext {
    /// The same as before.
    Unchanged,
    /// The new one, if there was none.
    NewIfNone,
    /// The new one.
    New,
}

/// What [`add_person`] has made of a file.
pub(crate) struct AddedPerson {
    /// The name of the current context.
    pub current: Option<String>,
    /// The other contexts of the cluster, if its entry has got other certificate authorities.
    pub with_new_authority: Vec<String>,
}

/// The fields of a cluster's entry that say how its server is verified.
const TRUST: [&str; 4] = [
    "certificate-authority",
    "certificate-authority-data",
    "insecure-skip-tls-verify",
    "tls-server-name",
];

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
    /// The identifier of the key of the authority; none if that is not the authority of a plane.
    pub authority: Option<String>,
}

impl CertificateInfo {
    /// Reads a certificate in PEM.
    pub(crate) fn read(certificate: &str) -> Option<Self> {
        let is_of_a_plane = is_issued_by_a_plane(certificate);
        let (_, pem) = parse_x509_pem(certificate.as_bytes()).ok()?;
        let certificate = pem.parse_x509().ok()?;
        let subject = certificate.subject();
        let user = subject.iter_common_name().last()?.as_str().ok()?.to_owned();
        let groups = subject.iter_organization().filter_map(|it| it.as_str().ok());
        let ends = Timestamp::from_seconds(certificate.validity().not_after.timestamp());
        let serial = certificate.raw_serial_as_string();
        let authority = certificate.iter_extensions().find_map(|it| match it.parsed_extension() {
            ParsedExtension::AuthorityKeyIdentifier(it) => {
                it.key_identifier.as_ref().map(|it| key_identifier(it.0))
            }
            _ => None,
        });
        Some(Self {
            user,
            groups: groups.map(str::to_owned).collect(),
            ends,
            serial,
            authority: authority.filter(|_| is_of_a_plane),
        })
    }
}

/// The identifier of a key, as text.
pub(crate) fn key_identifier(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|it| format!("{it:02x}")).collect();
    bytes.join(":")
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
pub(crate) fn add_person(path: &Path, entry: &PersonEntry<'_>) -> Result<AddedPerson, Error> {
    rewrite(path, |document| {
        let has_new_authority = insert(path, document, entry)?;
        let with_new_authority =
            if has_new_authority { other_contexts(document, entry) } else { Vec::new() };
        let current = text(document, "current-context").map(str::to_owned);
        Ok(AddedPerson { current, with_new_authority })
    })
}

/// Fails as [`add_person`] would, and changes nothing. The entry needs no certificate yet.
pub(crate) fn check_person(path: &Path, entry: &PersonEntry<'_>) -> Result<(), Error> {
    check_rewrite(path, |document| insert(path, document, entry).map(drop))
}

/// Inserts the entries, and returns whether an existing cluster has got other authorities.
fn insert(
    path: &Path,
    document: &mut Map<String, Value>,
    entry: &PersonEntry<'_>,
) -> Result<bool, Error> {
    check_header(path, document)?;
    let mut has_new_authority = false;
    let cluster = entry_mut(path, document, "clusters", "cluster", entry.cluster_name)?;
    match cluster.as_object_mut() {
        None => *cluster = entry.cluster.clone(),
        Some(found) if found.get("server") != entry.cluster.get("server") => {
            let name = entry.cluster_name.to_owned();
            return Err(Error::OtherCluster { path: path.to_owned(), name });
        }
        Some(found) => has_new_authority = renew_trust(path, found, entry.cluster),
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
    let has_namespace = found["namespace"].as_str().is_some_and(|it| !it.is_empty());
    match entry.namespace {
        Namespace::Set(namespace) => found["namespace"] = json!(namespace),
        Namespace::Default(namespace) if !has_namespace => found["namespace"] = json!(namespace),
        Namespace::Default(_) | Namespace::Unchanged => {}
    }
    let becomes_current = match entry.current {
        CurrentContext::Unchanged => false,
        CurrentContext::NewIfNone => text(document, "current-context").is_none(),
        CurrentContext::New => true,
    };
    if becomes_current {
        document.insert("current-context".to_owned(), json!(context));
    }
    Ok(has_new_authority)
}

/// Gives the entry of a cluster the authorities that its server has now, and returns whether it had
/// others: those of a replaced authority, whose key may have leaked, or of an earlier cluster at the
/// same URL. A command that does not verify the server has none to give.
fn renew_trust(path: &Path, found: &mut Map<String, Value>, present: &Value) -> bool {
    let Some(present) = present.as_object() else { return false };
    let is_insecure = |entry: &Map<String, Value>| {
        entry.get("insecure-skip-tls-verify") == Some(&Value::Bool(true))
    };
    let trust = |entry: &Map<String, Value>| {
        let authorities = pem(path, entry, "certificate-authority").ok().flatten();
        let name = text(entry, "tls-server-name").map(str::to_owned);
        (is_insecure(entry), authorities, name)
    };
    if is_insecure(present) || trust(found) == trust(present) {
        return false;
    }
    for field in TRUST {
        found.remove(field);
        if let Some(value) = present.get(field) {
            found.insert(field.to_owned(), value.clone());
        }
    }
    true
}

/// The contexts of the cluster, without that of the person.
fn other_contexts(document: &Map<String, Value>, entry: &PersonEntry<'_>) -> Vec<String> {
    let own = context_name(entry.name, entry.cluster_name);
    let contexts = document.get("contexts").and_then(Value::as_array).into_iter().flatten();
    let of_cluster = contexts.filter(|it| it["context"]["cluster"] == *entry.cluster_name);
    let names = of_cluster.filter_map(|it| it["name"].as_str());
    names.filter(|it| *it != own).map(str::to_owned).collect()
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
