//! Kubeconfig files: the address of a server and the credentials for it.
//!
//! [`resolve`] follows a context to its cluster and its user. [`merge_into`] adds a plane to a file
//! that also describes other clusters, so it replaces only entries of the same name.

mod merge;
mod people;
mod running;

#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{env, fmt, fs, io};

use base64::prelude::{BASE64_STANDARD, Engine};

use machinery::codec::{DecodeError, yaml};
use machinery::{Map, Value};

pub(crate) use merge::{Entry, Merged, merge_into};
pub(crate) use people::{
    AddedPerson, CertificateInfo, CurrentContext, Namespace, OutputError, PersonEntry,
    RemovedPerson, add_person, check_person, context_name, key_identifier, people, remove_person,
};

/// The address of a server and the credentials for it, with the content of all files.
pub(crate) struct Access {
    /// The URL of the server.
    pub server: String,
    /// The certificate authorities that verify the server, in PEM.
    pub certificate_authority: Option<Vec<u8>>,
    /// The name in the server's certificate, if it is not the URL's host.
    pub tls_server_name: Option<String>,
    /// Whether every certificate of the server is accepted.
    pub insecure: bool,
    /// The client certificate.
    pub identity: Option<Identity>,
    /// The bearer token.
    pub token: Option<String>,
    /// The default namespace of commands.
    #[allow(dead_code, reason = "part of a context; no command here uses it yet")]
    pub namespace: String,
}

/// A client certificate with its key, both in PEM.
pub(crate) struct Identity {
    /// The certificate, followed by its intermediate certificates.
    pub certificate: Vec<u8>,
    /// The private key of the certificate.
    pub key: Vec<u8>,
}

/// Why a kubeconfig cannot be read, resolved or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Name a file.
    #[error("there is no home directory: name a kubeconfig with --kubeconfig")]
    NoHome,
    /// Start a plane, or name another file.
    #[error(
        "there is no kubeconfig {path}: `sampan up` writes it, or name another one with --kubeconfig"
    )]
    Absent {
        /// The path of the file.
        path: PathBuf,
    },
    /// Name a file that can be read.
    #[error(
        "cannot read the kubeconfig {path}: check that it is a readable file, or name another one \
         with --kubeconfig"
    )]
    ReadConfig {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// Check that the file named in the kubeconfig exists and is readable.
    #[error("cannot read {path}, which the kubeconfig names")]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// Check the directory and its permissions.
    #[error("cannot write {path}; name another file with --kubeconfig")]
    Write {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// Correct the file, or use another.
    #[error("{path} is not valid YAML; correct it, or name another file with --kubeconfig")]
    Parse {
        /// The path of the file.
        path: PathBuf,
        /// The syntax error.
        #[source]
        source: DecodeError,
    },
    /// Correct the file, or use another.
    #[error("{path} is not a kubeconfig: {what}; correct it, or name another with --kubeconfig")]
    Malformed {
        /// The path of the file.
        path: PathBuf,
        /// The part of the file that is invalid.
        what: String,
    },
    /// Rename the entry, or use another file.
    #[error(
        "{path} has a {what} {name:?} that sampan did not write and does not replace: rename it, or \
         name another file with --kubeconfig"
    )]
    Taken {
        /// The path of the file.
        path: PathBuf,
        /// `cluster` or `user`.
        what: &'static str,
        /// The name of the entry.
        name: String,
    },
    /// Name another file.
    #[error("{path} has a cluster {name:?} with another server: name another file with --output")]
    OtherCluster {
        /// The path of the file.
        path: PathBuf,
        /// The name of the cluster.
        name: String,
    },
    /// Name another file.
    #[error(
        "the context {name:?} in {path} belongs to a plane that is running at {server}: name \
         another file for this plane, as in --kubeconfig ./kubeconfig"
    )]
    Running {
        /// The path of the file.
        path: PathBuf,
        /// The name of the context.
        name: String,
        /// The URL of the plane.
        server: String,
    },
    /// Name a context.
    #[error("{path} has no current context: name one with --context")]
    NoContext {
        /// The path of the file.
        path: PathBuf,
    },
    /// Name an entry that exists.
    #[error("{path} has no {what} {name:?}; it has: {known}")]
    Missing {
        /// The path of the file.
        path: PathBuf,
        /// `context`, `cluster` or `user`.
        what: &'static str,
        /// The name of the entry.
        name: String,
        /// The names of the existing entries.
        known: String,
    },
    /// Use a certificate or a token.
    #[error("user {user:?} of {path} authenticates by {method:?}, which is not supported")]
    Unsupported {
        /// The path of the file.
        path: PathBuf,
        /// The name of the user.
        user: String,
        /// The field of the authentication method.
        method: &'static str,
    },
}

/// The first file in `$KUBECONFIG`, or `~/.kube/config`.
pub(crate) fn default_path() -> Result<PathBuf, Error> {
    choose_path(env::var_os("KUBECONFIG").as_deref(), env::home_dir())
}

fn choose_path(variable: Option<&OsStr>, home: Option<PathBuf>) -> Result<PathBuf, Error> {
    let named =
        variable.into_iter().flat_map(env::split_paths).find(|it| !it.as_os_str().is_empty());
    named.or_else(|| home.map(|it| it.join(".kube/config"))).ok_or(Error::NoHome)
}

/// Resolves the current context of the file, or the named context.
pub(crate) fn resolve(path: &Path, context: Option<&str>) -> Result<Access, Error> {
    let bytes = fs::read(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::Absent { path: path.to_owned() },
        _ => Error::ReadConfig { path: path.to_owned(), source },
    })?;
    let file = File { path, document: parse(path, &bytes)? };
    let name = context
        .or_else(|| text(&file.document, "current-context"))
        .ok_or_else(|| Error::NoContext { path: path.to_owned() })?;
    let context = file.entry("contexts", "context", name)?;
    let cluster_name = text(context, "cluster")
        .ok_or_else(|| malformed(path, format!("context {name:?} names no cluster")))?;
    let cluster = file.entry("clusters", "cluster", cluster_name)?;
    let server = text(cluster, "server")
        .ok_or_else(|| malformed(path, format!("cluster {cluster_name:?} names no server")))?;
    let anonymous = Map::new();
    let (user_name, user) = match text(context, "user") {
        Some(name) => (name, file.entry("users", "user", name)?),
        None => ("", &anonymous),
    };
    file.check_method(user_name, user)?;
    Ok(Access {
        server: server.to_owned(),
        certificate_authority: pem(path, cluster, "certificate-authority")?,
        tls_server_name: text(cluster, "tls-server-name").map(str::to_owned),
        insecure: cluster.get("insecure-skip-tls-verify") == Some(&Value::Bool(true)),
        identity: file.identity(user_name, user)?,
        token: file.token(user)?,
        namespace: text(context, "namespace").unwrap_or("default").to_owned(),
    })
}

/// A parsed file; relative paths in it start at its directory.
struct File<'a> {
    path: &'a Path,
    document: Map<String, Value>,
}

impl File<'_> {
    /// The field `what` of an entry in a list such as `clusters`.
    fn entry(
        &self,
        list: &str,
        what: &'static str,
        name: &str,
    ) -> Result<&Map<String, Value>, Error> {
        let entries = self.document.get(list).and_then(Value::as_array);
        let entries = entries.map(Vec::as_slice).unwrap_or_default();
        let found = entries.iter().find(|it| it["name"] == name);
        found.and_then(|it| it[what].as_object()).ok_or_else(|| {
            let known: Vec<&str> = entries.iter().filter_map(|it| it["name"].as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Error::Missing { path: self.path.to_owned(), what, name: name.to_owned(), known }
        })
    }

    fn identity(&self, user: &str, map: &Map<String, Value>) -> Result<Option<Identity>, Error> {
        match (pem(self.path, map, "client-certificate")?, pem(self.path, map, "client-key")?) {
            (Some(certificate), Some(key)) => Ok(Some(Identity { certificate, key })),
            (None, None) => Ok(None),
            _ => Err(malformed(
                self.path,
                format!("user {user:?} has a client certificate without its key, or a key alone"),
            )),
        }
    }

    /// The token of a user. `tokenFile` takes precedence over `token`, as in kubectl: the file can be
    /// renewed.
    fn token(&self, user: &Map<String, Value>) -> Result<Option<String>, Error> {
        let Some(path) = text(user, "tokenFile") else {
            return Ok(text(user, "token").map(str::to_owned));
        };
        let token = String::from_utf8(read_relative(self.path, path)?)
            .map_err(|_| malformed(self.path, format!("{path} holds no token")))?;
        Ok(Some(token.trim().to_owned()))
    }

    fn check_method(&self, user: &str, map: &Map<String, Value>) -> Result<(), Error> {
        let methods = ["exec", "auth-provider", "username"];
        match methods.into_iter().find(|it| map.get(*it).is_some_and(|it| !it.is_null())) {
            Some(method) => Err(Error::Unsupported {
                path: self.path.to_owned(),
                user: user.to_owned(),
                method,
            }),
            None => Ok(()),
        }
    }
}

/// The value of a field in the file at `path`, which is base64 in the field `FIELD-data`, or the path
/// of another file.
fn pem(path: &Path, map: &Map<String, Value>, field: &str) -> Result<Option<Vec<u8>>, Error> {
    let data = format!("{field}-data");
    if let Some(encoded) = text(map, &data) {
        let decoded = BASE64_STANDARD.decode(encoded);
        let decoded = decoded.map_err(|_| malformed(path, format!("{data} is not base64")))?;
        return Ok(Some(decoded));
    }
    text(map, field).map(|named| read_relative(path, named)).transpose()
}

/// Reads a file that the file at `path` names.
fn read_relative(path: &Path, named: &str) -> Result<Vec<u8>, Error> {
    let path = path.parent().unwrap_or(Path::new("")).join(named);
    fs::read(&path).map_err(|source| Error::Read { path, source })
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Map<String, Value>, Error> {
    let decoded =
        yaml::decode(bytes).map_err(|source| Error::Parse { path: path.to_owned(), source })?;
    match decoded.value {
        Value::Object(map) => Ok(map),
        Value::Null => Ok(Map::new()),
        _ => Err(malformed(path, "it is not a map".to_owned())),
    }
}

fn malformed(path: &Path, what: String) -> Error {
    Error::Malformed { path: path.to_owned(), what }
}

/// The value of a string field; none if it is absent or empty.
fn text<'a>(map: &'a Map<String, Value>, field: &str) -> Option<&'a str> {
    map.get(field).and_then(Value::as_str).filter(|it| !it.is_empty())
}

impl fmt::Debug for Access {
    /// Omits the credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("server", &self.server).finish_non_exhaustive()
    }
}
