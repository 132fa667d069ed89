//! [`Kubeconfig`]: the files of a kubeconfig, and what they say together.
//!
//! The first file that has an entry counts. Paths in a file start at its directory.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use machinery::codec::yaml;
use machinery::{Map, Value, json};

use crate::error::Error;
use crate::global::GlobalArgs;

/// The lists of entries in a kubeconfig, and the field of an entry that has its content.
pub(crate) const LISTS: [(&str, &str); 3] =
    [("clusters", "cluster"), ("users", "user"), ("contexts", "context")];

/// The fields that are paths of files.
const PATHS: [&str; 4] = ["certificate-authority", "client-certificate", "client-key", "tokenFile"];

/// See the [module documentation](self).
pub(crate) struct Kubeconfig {
    /// The files that exist, and those that may be created.
    pub files: Vec<File>,
}

/// One file.
pub(crate) struct File {
    pub path: PathBuf,
    pub document: Value,
}

impl Kubeconfig {
    /// Reads `--kubeconfig`, or the files of `$KUBECONFIG`, or `~/.kube/config`.
    pub(crate) fn load(args: &GlobalArgs) -> Result<Self, Error> {
        if let Some(path) = &args.kubeconfig {
            if !path.exists() {
                let path = path.display();
                return Err(Error::message(format!("stat {path}: no such file or directory")));
            }
            return Ok(Self { files: vec![File::read(path)?] });
        }
        let paths = paths(env::var_os("KUBECONFIG"), env::var_os("HOME"));
        let files: Result<Vec<File>, Error> = paths.iter().map(|path| File::read(path)).collect();
        Ok(Self { files: files? })
    }

    /// The name of the current context; none if it is not set.
    pub(crate) fn current_context(&self) -> Option<&str> {
        let contexts = self.files.iter().map(|it| it.document["current-context"].as_str());
        contexts.flatten().find(|it| !it.is_empty())
    }

    /// The content of an entry, with absolute paths.
    pub(crate) fn entry(&self, list: &str, name: &str) -> Option<Value> {
        let field = field_of(list);
        self.files.iter().find_map(|file| {
            let entry = file.entries(list).iter().find(|it| it["name"] == name)?;
            let mut content = entry[field].clone();
            make_absolute(&mut content, file.path.parent().unwrap_or(Path::new("")));
            Some(content)
        })
    }

    /// The names of a list's entries, sorted, without repetition.
    pub(crate) fn names(&self, list: &str) -> Vec<String> {
        let entries = self.files.iter().flat_map(|file| file.entries(list));
        let mut names: Vec<String> =
            entries.filter_map(|it| it["name"].as_str().map(str::to_owned)).collect();
        names.sort();
        names.dedup();
        names
    }

    /// All files as one document.
    pub(crate) fn merged(&self) -> Value {
        let mut document = json!({"apiVersion": "v1", "kind": "Config", "preferences": {}});
        document["current-context"] = self.current_context().unwrap_or_default().into();
        for (list, field) in LISTS {
            let named = self.names(list).into_iter().filter_map(|name| {
                let content = self.entry(list, &name)?;
                Some(json!({"name": name, field: content}))
            });
            document[list] = named.collect();
        }
        document
    }

    /// The file that has an entry, or else the one that a new entry is written to.
    pub(crate) fn file_of(&mut self, list: &str, name: &str) -> &mut File {
        let has = |file: &File| file.entries(list).iter().any(|it| it["name"] == name);
        let index = self.files.iter().position(has);
        self.writable(index)
    }

    /// The file that has the current context, or else the one that it is written to.
    pub(crate) fn file_of_current_context(&mut self) -> &mut File {
        let has = |file: &File| {
            file.document["current-context"].as_str().is_some_and(|it| !it.is_empty())
        };
        let index = self.files.iter().position(has);
        self.writable(index)
    }

    /// This file, or else the last one that exists, or the first one.
    fn writable(&mut self, index: Option<usize>) -> &mut File {
        let existing = self.files.iter().rposition(|it| it.path.exists());
        let index = index.or(existing).unwrap_or(0);
        if self.files.is_empty() {
            self.files.push(File { path: PathBuf::from("config"), document: json!({}) });
        }
        &mut self.files[index]
    }
}

impl File {
    fn read(path: &Path) -> Result<Self, Error> {
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                let path = path.display();
                return Err(Error::message(format!("error loading config file {path:?}: {error}")));
            }
        };
        let decoded = yaml::decode(&text).map_err(|error| {
            let path = path.display();
            Error::message(format!("error loading config file \"{path}\": {error}"))
        })?;
        let document = match decoded.value {
            Value::Null => Value::Object(Map::new()),
            document => document,
        };
        Ok(Self { path: path.to_owned(), document })
    }

    fn entries(&self, list: &str) -> &[Value] {
        self.document[list].as_array().map_or(&[], Vec::as_slice)
    }

    /// The content of an entry, which is created if it does not exist; whether it is new.
    pub(crate) fn entry_mut(&mut self, list: &str, name: &str) -> (&mut Value, bool) {
        let field = field_of(list);
        if !self.document[list].is_array() {
            self.document[list] = json!([]);
        }
        let entries = self.document[list].as_array_mut().expect("it was made a list above");
        let found = entries.iter().position(|it| it["name"] == name);
        let index = found.unwrap_or_else(|| {
            entries.push(json!({"name": name, field: {}}));
            entries.len() - 1
        });
        (&mut entries[index][field], found.is_none())
    }

    /// Removes an entry; whether it existed.
    pub(crate) fn remove(&mut self, list: &str, name: &str) -> bool {
        let Some(entries) = self.document[list].as_array_mut() else { return false };
        let before = entries.len();
        entries.retain(|it| it["name"] != name);
        entries.len() < before
    }

    /// Writes the file in place of the old one, readable by the user alone.
    pub(crate) fn write(&self) -> Result<(), Error> {
        let failed = |error: std::io::Error| {
            Error::message(format!("cannot write {}: {error}", self.path.display()))
        };
        let mut document = self.document.clone();
        for (key, value) in [("apiVersion", "v1"), ("kind", "Config")] {
            if document[key].is_null() {
                document[key] = value.into();
            }
        }
        let folder = self.path.parent().filter(|it| !it.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(failed)?;
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        std::io::Write::write_all(&mut file, yaml::encode(&document).as_bytes()).map_err(failed)?;
        file.persist(&self.path).map_err(|error| failed(error.error))?;
        Ok(())
    }
}

/// The field of an entry that has its content.
fn field_of(list: &str) -> &'static str {
    LISTS.iter().find(|it| it.0 == list).map_or("", |it| it.1)
}

/// The paths of the files, in the order in which they count.
fn paths(variable: Option<OsString>, home: Option<OsString>) -> Vec<PathBuf> {
    let named = variable.filter(|it| !it.is_empty());
    match (named, home) {
        (Some(named), _) => {
            env::split_paths(&named).filter(|it| !it.as_os_str().is_empty()).collect()
        }
        (None, Some(home)) => vec![PathBuf::from(home).join(".kube").join("config")],
        (None, None) => Vec::new(),
    }
}

fn make_absolute(content: &mut Value, folder: &Path) {
    for field in PATHS {
        if let Some(path) = content[field].as_str().filter(|it| !it.is_empty()) {
            content[field] = folder.join(path).display().to_string().into();
        }
    }
    if let Some(map) = content.as_object_mut() {
        map.retain(|_, value| !value.is_null());
    }
    // A command without a slash is searched in the path.
    if let Some(command) = content["exec"]["command"].as_str().filter(|it| it.contains('/')) {
        content["exec"]["command"] = folder.join(command).display().to_string().into();
    }
    if content["exec"].is_null()
        && let Some(map) = content.as_object_mut()
    {
        map.remove("exec");
    }
}
