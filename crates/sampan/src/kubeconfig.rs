//! Kubeconfig files: which server to speak to, and as whom.
//!
//! [`resolve`] follows a context to its cluster and its user. [`merge_into`] adds a plane of ours
//! to a file that people share with all their other clusters, so it replaces nothing but entries
//! of the same name.

mod merge;
mod running;

#[cfg(test)]
mod tests;

pub(crate) use merge::{Entry, Merged, merge_into};

use base64::prelude::{BASE64_STANDARD, Engine};
use machinery::codec::{DecodeError, yaml};
use machinery::{Map, Value};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{env, fmt, fs, io};

/// How to reach a server, with all files read.
pub(crate) struct Access {
    /// Its URL.
    pub server: String,
    /// The certificates that it is trusted by, in PEM.
    pub certificate_authority: Option<Vec<u8>>,
    /// What the server's certificate says, where that is not the URL's host.
    pub tls_server_name: Option<String>,
    /// Whether any certificate will do.
    pub insecure: bool,
    /// Who we are, by certificate.
    pub identity: Option<Identity>,
    /// Who we are, by bearer token.
    pub token: Option<String>,
    /// Where commands work that are not told otherwise.
    #[allow(dead_code, reason = "a context says it; the commands here so far have their own")]
    pub namespace: String,
}

/// A client certificate with its key, both in PEM.
pub(crate) struct Identity {
    /// The certificate, and those that lead from it to its authority.
    pub certificate: Vec<u8>,
    /// Its private key.
    pub key: Vec<u8>,
}

/// Why a kubeconfig is of no use.
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
        /// Of the file.
        path: PathBuf,
    },
    /// Name a file that can be read.
    #[error(
        "cannot read the kubeconfig {path}: check that it is a file that you may read, or name \
         another one with --kubeconfig"
    )]
    ReadConfig {
        /// Of the file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Check that the file that a kubeconfig names is there, and its permissions.
    #[error("cannot read {path}, which the kubeconfig names")]
    Read {
        /// Of the file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Check the directory and its permissions.
    #[error("cannot write {path}; name another file with --kubeconfig")]
    Write {
        /// Of the file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Correct the file, or use another.
    #[error("{path} is not valid YAML; correct it, or name another file with --kubeconfig")]
    Parse {
        /// Of the file.
        path: PathBuf,
        /// Where it goes wrong.
        #[source]
        source: DecodeError,
    },
    /// Correct the file, or use another.
    #[error("{path} is not a kubeconfig: {what}; correct it, or name another with --kubeconfig")]
    Malformed {
        /// Of the file.
        path: PathBuf,
        /// What is not as it should be.
        what: String,
    },
    /// Rename the entry, or use another file.
    #[error(
        "{path} has a {what} {name:?} that `sampan up` did not write, and does not replace: rename \
         it there, or name another file with --kubeconfig"
    )]
    Taken {
        /// Of the file.
        path: PathBuf,
        /// `cluster` or `user`.
        what: &'static str,
        /// The name of the entry.
        name: String,
    },
    /// Name another file.
    #[error(
        "the context {name:?} in {path} is that of a plane that is running at {server}: name another \
         file for this plane, as in --kubeconfig ./kubeconfig"
    )]
    Running {
        /// Of the file.
        path: PathBuf,
        /// The name of the context.
        name: String,
        /// The URL of the plane.
        server: String,
    },
    /// Name a context.
    #[error("{path} has no current context: name one with --context")]
    NoContext {
        /// Of the file.
        path: PathBuf,
    },
    /// Name one that is there.
    #[error("{path} has no {what} {name:?}; it has: {known}")]
    Missing {
        /// Of the file.
        path: PathBuf,
        /// `context`, `cluster` or `user`.
        what: &'static str,
        /// What was looked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// Use a certificate or a token.
    #[error("user {user:?} of {path} logs in by {method:?}, which is not supported")]
    Unsupported {
        /// Of the file.
        path: PathBuf,
        /// Who.
        user: String,
        /// The field that says so.
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

/// How the file's current context, or the one named, reaches its server.
pub(crate) fn resolve(path: &Path, context: Option<&str>) -> Result<Access, Error> {
    let bytes = fs::read(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::Absent { path: path.to_owned() },
        _ => Error::ReadConfig { path: path.to_owned(), source },
    })?;
    let file = File { path, document: parse(path, &bytes)? };
    let name = context
        .or_else(|| text(&file.document, "current-context"))
        .ok_or_else(|| Error::NoContext { path: path.to_owned() })?;
    let context = file.named("contexts", "context", name)?;
    let cluster_name = text(context, "cluster")
        .ok_or_else(|| malformed(path, format!("context {name:?} names no cluster")))?;
    let cluster = file.named("clusters", "cluster", cluster_name)?;
    let server = text(cluster, "server")
        .ok_or_else(|| malformed(path, format!("cluster {cluster_name:?} names no server")))?;
    let nobody = Map::new();
    let (user_name, user) = match text(context, "user") {
        Some(name) => (name, file.named("users", "user", name)?),
        None => ("", &nobody),
    };
    file.check_method(user_name, user)?;
    Ok(Access {
        server: server.to_owned(),
        certificate_authority: file.pem(cluster, "certificate-authority")?,
        tls_server_name: text(cluster, "tls-server-name").map(str::to_owned),
        insecure: cluster.get("insecure-skip-tls-verify") == Some(&Value::Bool(true)),
        identity: file.identity(user_name, user)?,
        token: file.token(user)?,
        namespace: text(context, "namespace").unwrap_or("default").to_owned(),
    })
}

/// A file that was read; relative paths in it start at its directory.
struct File<'a> {
    path: &'a Path,
    document: Map<String, Value>,
}

impl File<'_> {
    /// What the entry of this name in a list such as `clusters` says of its `what`.
    fn named(
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

    /// A field given in place, as base64 with `-data` after its name, or by the path of a file.
    fn pem(&self, map: &Map<String, Value>, field: &str) -> Result<Option<Vec<u8>>, Error> {
        let data = format!("{field}-data");
        if let Some(encoded) = text(map, &data) {
            let decoded = BASE64_STANDARD.decode(encoded);
            let decoded =
                decoded.map_err(|_| malformed(self.path, format!("{data} is not base64")))?;
            return Ok(Some(decoded));
        }
        text(map, field).map(|path| self.read_beside(path)).transpose()
    }

    fn identity(&self, user: &str, map: &Map<String, Value>) -> Result<Option<Identity>, Error> {
        match (self.pem(map, "client-certificate")?, self.pem(map, "client-key")?) {
            (Some(certificate), Some(key)) => Ok(Some(Identity { certificate, key })),
            (None, None) => Ok(None),
            _ => Err(malformed(
                self.path,
                format!("user {user:?} has a client certificate without its key, or a key alone"),
            )),
        }
    }

    /// The file counts where both are given, as for kubectl: it is the one that gets renewed.
    fn token(&self, user: &Map<String, Value>) -> Result<Option<String>, Error> {
        let Some(path) = text(user, "tokenFile") else {
            return Ok(text(user, "token").map(str::to_owned));
        };
        let token = String::from_utf8(self.read_beside(path)?)
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

    fn read_beside(&self, path: &str) -> Result<Vec<u8>, Error> {
        let path = self.path.parent().unwrap_or(Path::new("")).join(path);
        fs::read(&path).map_err(|source| Error::Read { path, source })
    }
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

/// A text that is there and not empty.
fn text<'a>(map: &'a Map<String, Value>, field: &str) -> Option<&'a str> {
    map.get(field).and_then(Value::as_str).filter(|it| !it.is_empty())
}

impl fmt::Debug for Access {
    /// Without what is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("server", &self.server).finish_non_exhaustive()
    }
}
