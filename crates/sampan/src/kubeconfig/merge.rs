//! [`merge_into`]: adds a cluster to a kubeconfig and leaves the rest of the file unchanged.
//!
//! The file is replaced atomically, by a rename, so that no reader sees a part of it. It keeps its
//! owner, and only the owner can read it, since it holds keys. A file is not changed if it does not
//! parse, or if entries of these names belong to a cluster that is not a plane, or to another plane
//! that is running.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use base64::prelude::{BASE64_STANDARD, Engine};
use tempfile::NamedTempFile;

use super::running::is_running;
use super::{Error, malformed, parse, text};
use apiserver::certificates::is_issued_by_a_plane;
use machinery::codec::yaml;
use machinery::{Map, Value, json};

/// A cluster, a user of it, and the context that names both.
#[derive(Clone)]
pub(crate) struct Entry {
    /// The cluster's name.
    pub cluster: String,
    /// The URL of its server.
    pub server: String,
    /// The certificate authority that verifies the server, in PEM.
    pub certificate_authority: String,
    /// The name in the server's certificate, if it is not the URL's host.
    pub tls_server_name: Option<String>,
    /// The user's name.
    pub user: String,
    /// The user's certificate, in PEM.
    pub client_certificate: String,
    /// The key of the user's certificate, in PEM.
    pub client_key: String,
    /// The context's name.
    pub context: String,
}

/// The result of merging an entry into a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Merged {
    /// The URL of the plane to which the names of the entry belonged before.
    pub previous_server: Option<String>,
    /// Whether the context of the entry is the current one.
    pub is_current: bool,
}

/// The prefix of the names of temporary files.
const TEMPORARY_PREFIX: &str = ".sampan-kubeconfig-";

/// The maximum number of symbolic links that are followed, which is also Linux' limit.
const MAX_LINKS: usize = 40;

/// Adds an entry, or replaces the entries of the same names. The context becomes the current one
/// only if the file has no current context.
pub(crate) fn merge_into(path: &Path, entry: &Entry) -> Result<Merged, Error> {
    rewrite(path, |document| {
        let previous_server = insert(path, document, entry)?;
        if text(document, "current-context").is_none() {
            document.insert("current-context".to_owned(), json!(entry.context));
        }
        let is_current = text(document, "current-context") == Some(&entry.context);
        Ok(Merged { previous_server, is_current })
    })
}

/// Changes a file, or creates it; it stays unchanged if `change` fails.
pub(super) fn rewrite<T>(
    path: &Path,
    change: impl FnOnce(&mut Map<String, Value>) -> Result<T, Error>,
) -> Result<T, Error> {
    let Opened { target, directory, mut document, lock: _lock } = open(path)?;
    let changed = change(&mut document)?;
    let text = yaml::encode(&Value::Object(document));
    replace(&directory, &target, &text).map_err(failed_at(&target))?;
    Ok(changed)
}

/// Fails as [`rewrite`] would, as far as that can be known, and changes nothing.
pub(super) fn check_rewrite(
    path: &Path,
    change: impl FnOnce(&mut Map<String, Value>) -> Result<(), Error>,
) -> Result<(), Error> {
    let Opened { target, directory, mut document, lock: _lock } = open(path)?;
    change(&mut document)?;
    temporary_file(&directory).map(drop).map_err(failed_at(&target))
}

/// A file that is to be replaced.
struct Opened {
    target: PathBuf,
    directory: PathBuf,
    document: Map<String, Value>,
    /// Held until the file is replaced.
    lock: Option<fs::File>,
}

fn open(path: &Path) -> Result<Opened, Error> {
    let target = follow_links(path).map_err(failed_at(path))?;
    let failed = failed_at(&target);
    let directory = match target.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    // The target of a link is not created: a disk that is not mounted may be missing.
    if target == path {
        create_private(&directory).map_err(&failed)?;
    }
    let lock = lock(&directory);
    if lock.is_some() {
        remove_temporary_files(&directory);
    }
    let document = match fs::read(&target) {
        Ok(bytes) => parse(path, &bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Map::new(),
        Err(source) => return Err(Error::ReadConfig { path: path.to_owned(), source }),
    };
    Ok(Opened { target, directory, document, lock })
}

fn failed_at(path: &Path) -> impl Fn(io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::Write { path: path.clone(), source }
}

/// The target of a path, which need not exist. A kubeconfig is often a symbolic link to a file
/// elsewhere: the file is replaced, not the link.
fn follow_links(path: &Path) -> io::Result<PathBuf> {
    let mut target = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&target) {
            Ok(next) => target = target.parent().unwrap_or(Path::new("")).join(next),
            // The path is not a link, or does not exist.
            Err(_) => return Ok(target),
        }
    }
    Err(io::Error::other("there are too many symbolic links"))
}

/// A new file with a mode that only the owner can read.
fn temporary_file(directory: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new().prefix(TEMPORARY_PREFIX).tempfile_in(directory)
}

/// Replaces the content of the file, or fails and leaves it unchanged.
fn replace(directory: &Path, target: &Path, text: &str) -> io::Result<()> {
    let mut file = temporary_file(directory)?;
    file.write_all(text.as_bytes())?;
    keep_owner(target, file.as_file())?;
    file.as_file().sync_all()?;
    file.persist(target)?;
    // The directory entry survives a crash, as the content does.
    keel::sync_parent_directory(target)
}

/// Gives the new file the owner of the file that it replaces: if root starts a plane with the home
/// directory of another user, that user keeps access to the kubeconfig.
#[cfg(unix)]
fn keep_owner(target: &Path, file: &fs::File) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, fchown};
    let Ok(old) = fs::metadata(target) else { return Ok(()) };
    let new = file.metadata()?;
    if old.uid() != new.uid() {
        fchown(file, Some(old.uid()), None)?;
    }
    if old.gid() != new.gid() {
        // Only root can choose a group of which it is not a member. An error is ignored because the
        // group cannot read the file.
        let _ = fchown(file, None, Some(old.gid()));
    }
    Ok(())
}

#[cfg(not(unix))]
fn keep_owner(_target: &Path, _file: &fs::File) -> io::Result<()> {
    Ok(())
}

/// Removes temporary files of processes that were killed, since they hold a key. The lock is
/// required: without it, another process may be about to rename the file.
fn remove_temporary_files(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let is_temporary = entry.file_name().to_string_lossy().starts_with(TEMPORARY_PREFIX);
        if is_temporary && entry.file_type().is_ok_and(|it| it.is_file()) {
            // A file that cannot be removed does not prevent the start.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Locks the directory, so that two processes that start at once do not undo each other's entry.
/// The file itself cannot be locked, since each write replaces it. On file systems without locks,
/// the merge continues without one.
fn lock(directory: &Path) -> Option<fs::File> {
    let handle = fs::File::open(directory).ok()?;
    handle.lock().ok()?;
    Some(handle)
}

fn create_private(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// Inserts the entry and returns the previous URL of the cluster.
fn insert(
    path: &Path,
    document: &mut Map<String, Value>,
    entry: &Entry,
) -> Result<Option<String>, Error> {
    check_header(path, document)?;
    let cluster = entry_mut(path, document, "clusters", "cluster", &entry.cluster)?;
    check_owner(path, "cluster", &entry.cluster, cluster, "certificate-authority-data")?;
    let previous_server = cluster["server"].as_str().map(str::to_owned);
    if let Some(server) = previous_server.as_deref().filter(|it| *it != entry.server)
        && let Some(authority) = certificate(cluster, "certificate-authority-data")
        && is_running(server, authority.as_bytes())
    {
        let (name, server) = (entry.context.clone(), server.to_owned());
        return Err(Error::Running { path: path.to_owned(), name, server });
    }
    *cluster = json!({
        "server": entry.server,
        "certificate-authority-data": BASE64_STANDARD.encode(&entry.certificate_authority),
    });
    if let Some(name) = &entry.tls_server_name {
        cluster["tls-server-name"] = json!(name);
    }
    let user = entry_mut(path, document, "users", "user", &entry.user)?;
    check_owner(path, "user", &entry.user, user, "client-certificate-data")?;
    *user = json!({
        "client-certificate-data": BASE64_STANDARD.encode(&entry.client_certificate),
        "client-key-data": BASE64_STANDARD.encode(&entry.client_key),
    });
    // Fields are set one by one, so that a namespace set by the user is preserved.
    let context = entry_mut(path, document, "contexts", "context", &entry.context)?;
    if !context.is_object() {
        *context = json!({});
    }
    context["cluster"] = json!(entry.cluster);
    context["user"] = json!(entry.user);
    Ok(previous_server)
}

/// Checks that a file is a kubeconfig, and makes an empty one of an empty file.
pub(super) fn check_header(path: &Path, document: &mut Map<String, Value>) -> Result<(), Error> {
    for (field, expected) in [("apiVersion", "v1"), ("kind", "Config")] {
        let found = document.entry(field).or_insert(json!(expected));
        if *found != *expected {
            return Err(malformed(path, format!("its {field} is {found}, not {expected}")));
        }
    }
    Ok(())
}

/// Rejects an entry that no plane has written: it describes another cluster, and may hold the only
/// copy of a key.
fn check_owner(
    path: &Path,
    what: &'static str,
    name: &str,
    entry: &Value,
    field: &str,
) -> Result<(), Error> {
    if entry.as_object().is_none_or(Map::is_empty) {
        return Ok(());
    }
    if certificate(entry, field).is_some_and(|it| is_issued_by_a_plane(&it)) {
        return Ok(());
    }
    Err(Error::Taken { path: path.to_owned(), what, name: name.to_owned() })
}

/// The certificate in a field, in PEM.
fn certificate(entry: &Value, field: &str) -> Option<String> {
    let decoded = BASE64_STANDARD.decode(entry[field].as_str()?).ok()?;
    String::from_utf8(decoded).ok()
}

/// The field `what` of an entry in a list; the list, the entry and the field are created if missing.
pub(super) fn entry_mut<'a>(
    path: &Path,
    document: &'a mut Map<String, Value>,
    list: &str,
    what: &str,
    name: &str,
) -> Result<&'a mut Value, Error> {
    let entries = document.entry(list).or_insert(Value::Null);
    if entries.is_null() {
        *entries = json!([]);
    }
    let Value::Array(entries) = entries else {
        return Err(malformed(path, format!("{list} is not a list")));
    };
    if entries.iter().any(|it| !it.is_object()) {
        return Err(malformed(path, format!("{list} has an entry that is not a map")));
    }
    let found = entries.iter().position(|it| it["name"] == name);
    let index = found.unwrap_or_else(|| {
        entries.push(json!({ "name": name }));
        entries.len() - 1
    });
    Ok(&mut entries[index][what])
}
