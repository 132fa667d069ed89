//! [`merge_into`]: one more cluster in a kubeconfig, with everything else in it left as it was.
//!
//! The file is replaced whole, by a rename, so that no reader ever sees half of it; its owner stays
//! its owner, and nobody else can read it, since it holds keys. A file that cannot be understood is
//! left alone, and so is one in which entries of these names belong to another cluster than a plane,
//! or to another plane that is running.

use super::running::is_running;
use super::{Error, malformed, parse, text};
use apiserver::certificates::is_issued_by_a_plane;
use base64::prelude::{BASE64_STANDARD, Engine};
use machinery::codec::yaml;
use machinery::{Map, Value, json};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A cluster, somebody who may use it, and the context that names both.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The cluster's name.
    pub cluster: String,
    /// The URL of its server.
    pub server: String,
    /// The certificate that the server is trusted by, in PEM.
    pub certificate_authority: String,
    /// The user's name.
    pub user: String,
    /// The user's certificate, in PEM.
    pub client_certificate: String,
    /// Its key, in PEM.
    pub client_key: String,
    /// The context's name.
    pub context: String,
}

/// What a file had before an entry was merged into it, and has now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Merged {
    /// The URL of the plane that had the names of the entry before.
    pub before: Option<String>,
    /// Whether the context of the entry is the current one.
    pub is_current: bool,
}

/// The names of unfinished files begin with this.
const UNFINISHED: &str = ".sampan-kubeconfig-";

/// The number of symbolic links that are followed, which is also Linux' limit.
const MAX_LINKS: usize = 40;

/// Adds an entry, or renews those of the same names. Its context becomes the current one only where
/// there was none.
pub(crate) fn merge_into(path: &Path, entry: &Entry) -> Result<Merged, Error> {
    rewrite(path, |document| {
        let before = put(path, document, entry)?;
        if text(document, "current-context").is_none() {
            document.insert("current-context".to_owned(), json!(entry.context));
        }
        let is_current = text(document, "current-context") == Some(&entry.context);
        Ok(Merged { before, is_current })
    })
}

fn rewrite<T>(
    path: &Path,
    change: impl FnOnce(&mut Map<String, Value>) -> Result<T, Error>,
) -> Result<T, Error> {
    let target = follow_links(path).map_err(failed_at(path))?;
    let failed = failed_at(&target);
    let directory = match target.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    // Not for a link: the place that it leads to, such as a disk, may be absent for a while.
    if target == path {
        create_private(&directory).map_err(&failed)?;
    }
    let lock = lock(&directory);
    if lock.is_some() {
        remove_unfinished(&directory);
    }
    let mut document = match fs::read(&target) {
        Ok(bytes) => parse(path, &bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Map::new(),
        Err(source) => return Err(Error::ReadConfig { path: path.to_owned(), source }),
    };
    let changed = change(&mut document)?;
    let text = yaml::encode(&Value::Object(document));
    replace(&directory, &target, &text).map_err(&failed)?;
    Ok(changed)
}

fn failed_at(path: &Path) -> impl Fn(io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::Write { path: path.clone(), source }
}

/// The file that a path leads to, which need not exist. A link is often how people keep their
/// kubeconfig elsewhere: the file is what is replaced, not the link.
fn follow_links(path: &Path) -> io::Result<PathBuf> {
    let mut target = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&target) {
            Ok(next) => target = target.parent().unwrap_or(Path::new("")).join(next),
            // It is no link, or does not exist.
            Err(_) => return Ok(target),
        }
    }
    Err(io::Error::other("there are too many symbolic links"))
}

/// Puts the whole text in the place of the file, or fails and leaves the file as it was.
fn replace(directory: &Path, target: &Path, text: &str) -> io::Result<()> {
    // Readable by its owner only, from its beginning: that is how temporary files are made.
    let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(directory)?;
    file.write_all(text.as_bytes())?;
    keep_owner(target, file.as_file())?;
    file.as_file().sync_all()?;
    file.persist(target)?;
    // The name of the file survives a crash, as its content does.
    keel::sync_directory(target)
}

/// Gives the new file the owner of the one that it replaces: a plane that root starts with the home
/// directory of another user must not take that user's kubeconfig away.
#[cfg(unix)]
fn keep_owner(target: &Path, file: &fs::File) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, fchown};
    let Ok(old) = fs::metadata(target) else { return Ok(()) };
    let new = file.metadata()?;
    if old.uid() != new.uid() {
        fchown(file, Some(old.uid()), None)?;
    }
    if old.gid() != new.gid() {
        // Only root may choose a group of which it is no member; the group cannot read the file.
        let _ = fchown(file, None, Some(old.gid()));
    }
    Ok(())
}

#[cfg(not(unix))]
fn keep_owner(_target: &Path, _file: &fs::File) -> io::Result<()> {
    Ok(())
}

/// Removes what a process that was killed has left behind, as it holds a key. Only under the lock:
/// otherwise the file may be one that another process is about to rename.
fn remove_unfinished(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let is_unfinished = entry.file_name().to_string_lossy().starts_with(UNFINISHED);
        if is_unfinished && entry.file_type().is_ok_and(|it| it.is_file()) {
            // What cannot be removed is no reason not to start.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Two of us that start together must not undo each other's entry. The directory is what is
/// locked, as the file is a new one after each write; where that cannot be done, so be it.
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

/// Returns the URL that the cluster had before.
fn put(
    path: &Path,
    document: &mut Map<String, Value>,
    entry: &Entry,
) -> Result<Option<String>, Error> {
    for (field, expected) in [("apiVersion", "v1"), ("kind", "Config")] {
        let found = document.entry(field).or_insert(json!(expected));
        if *found != *expected {
            return Err(malformed(path, format!("its {field} is {found}, not {expected}")));
        }
    }
    let cluster = named(path, document, "clusters", "cluster", &entry.cluster)?;
    check_owner(path, "cluster", &entry.cluster, cluster, "certificate-authority-data")?;
    let before = cluster["server"].as_str().map(str::to_owned);
    if let Some(server) = before.as_deref().filter(|it| *it != entry.server)
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
    let user = named(path, document, "users", "user", &entry.user)?;
    check_owner(path, "user", &entry.user, user, "client-certificate-data")?;
    *user = json!({
        "client-certificate-data": BASE64_STANDARD.encode(&entry.client_certificate),
        "client-key-data": BASE64_STANDARD.encode(&entry.client_key),
    });
    // Field by field, so that the namespace that somebody chose for it survives.
    let context = named(path, document, "contexts", "context", &entry.context)?;
    if !context.is_object() {
        *context = json!({});
    }
    context["cluster"] = json!(entry.cluster);
    context["user"] = json!(entry.user);
    Ok(before)
}

/// Refuses an entry that no plane has written: it holds how to reach some other cluster, and perhaps
/// the only copy of a key.
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

/// What the entry of this name in a list says of its `what`; both are made where missing.
fn named<'a>(
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
