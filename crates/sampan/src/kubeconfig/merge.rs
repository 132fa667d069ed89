//! [`merge_into`]: one more cluster in a kubeconfig, with everything else in it left as it was.
//!
//! The file is replaced whole, by a rename, so that no reader ever sees half of it; only its owner
//! can read it, since it holds keys. A file that cannot be understood is left alone.

use super::{Error, malformed, parse, text};
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

/// Adds an entry, or renews those of the same names. Its context becomes the current one only
/// where there was none.
pub(crate) fn merge_into(path: &Path, entry: &Entry) -> Result<(), Error> {
    rewrite(path, |document| {
        put(path, document, entry)?;
        if text(document, "current-context").is_none() {
            document.insert("current-context".to_owned(), json!(entry.context));
        }
        Ok(())
    })
}

/// As [`merge_into`], and makes its context the current one.
#[allow(dead_code, reason = "for commands that are asked to switch to what they made")]
pub(crate) fn merge_and_switch(path: &Path, entry: &Entry) -> Result<(), Error> {
    rewrite(path, |document| {
        put(path, document, entry)?;
        document.insert("current-context".to_owned(), json!(entry.context));
        Ok(())
    })
}

fn rewrite(
    path: &Path,
    change: impl FnOnce(&mut Map<String, Value>) -> Result<(), Error>,
) -> Result<(), Error> {
    let failed = |source| Error::Write { path: path.to_owned(), source };
    // A link is often how people keep this file elsewhere: its target is what is replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let directory = match target.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    create_private(&directory).map_err(failed)?;
    let _lock = lock(&directory);
    let mut document = match fs::read(&target) {
        Ok(bytes) => parse(path, &bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Map::new(),
        Err(source) => return Err(Error::Read { path: path.to_owned(), source }),
    };
    change(&mut document)?;
    let text = yaml::encode(&Value::Object(document));
    replace(&directory, &target, &text).map_err(failed)
}

/// Puts the whole text in the place of the file, or fails and leaves the file as it was.
fn replace(directory: &Path, target: &Path, text: &str) -> io::Result<()> {
    // Readable by its owner only, from its beginning: that is how temporary files are made.
    let mut file = tempfile::Builder::new().prefix(".kubeconfig-").tempfile_in(directory)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(target)?;
    // The name of the file survives a crash, as its content does.
    keel::sync_directory(target)
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

fn put(path: &Path, document: &mut Map<String, Value>, entry: &Entry) -> Result<(), Error> {
    document.entry("apiVersion").or_insert(json!("v1"));
    document.entry("kind").or_insert(json!("Config"));
    *named(path, document, "clusters", "cluster", &entry.cluster)? = json!({
        "server": entry.server,
        "certificate-authority-data": BASE64_STANDARD.encode(&entry.certificate_authority),
    });
    *named(path, document, "users", "user", &entry.user)? = json!({
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
    Ok(())
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
