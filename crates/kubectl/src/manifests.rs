//! Manifests: the objects in files, folders and the standard input.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::io::Io;
use machinery::codec::yaml;
use machinery::{Value, json};

/// What the names of manifests in a folder end with.
const EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];

/// The files of a verb.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(mut_args(crate::flags::with_bool_values))]
pub(crate) struct FileArgs {
    /// File or folder with manifests, or - for standard input; repeat it for more
    #[arg(long = "filename", short = 'f', value_name = "FILE", value_delimiter = ',')]
    pub filenames: Vec<String>,
    /// Read the folders in a folder as well
    #[arg(long, short = 'R')]
    pub recursive: bool,
}

/// An object of a manifest.
#[derive(Debug, Clone)]
pub(crate) struct Manifest {
    /// The file, or `STDIN`.
    pub source: String,
    pub object: Value,
}

impl FileArgs {
    /// Whether no file is named.
    pub(crate) fn is_empty(&self) -> bool {
        self.filenames.is_empty()
    }

    /// Whether the files are a single one, so that a single object is not printed as a list.
    pub(crate) fn is_one_file(&self) -> bool {
        matches!(self.filenames.as_slice(), [one] if one != "-" && Path::new(one).is_file())
    }

    /// Reads all objects. The items of lists are objects of their own.
    pub(crate) fn read(&self, io: &mut Io) -> Result<Vec<Manifest>, Error> {
        let mut manifests = Vec::new();
        for name in &self.filenames {
            if name.starts_with("http://") || name.starts_with("https://") {
                return Err(Error::message(format!(
                    "{name}: manifests are not downloaded; fetch it with another program and pipe it \
                     to `-f -`"
                )));
            }
            if name == "-" {
                let bytes = io.read_input()?;
                add(&mut manifests, "STDIN", &bytes)?;
                continue;
            }
            for path in self.files(name)? {
                let shown = path.display().to_string();
                let read = fs::read(&path);
                let bytes = read
                    .map_err(|error| Error::message(format!("error reading {shown:?}: {error}")))?;
                add(&mut manifests, &shown, &bytes)?;
            }
        }
        Ok(manifests)
    }

    /// The files that a name stands for.
    fn files(&self, name: &str) -> Result<Vec<PathBuf>, Error> {
        let path = Path::new(name);
        if path.is_file() {
            return Ok(vec![path.to_owned()]);
        }
        if !path.exists() {
            return Err(Error::message(format!("the path {name:?} does not exist")));
        }
        let mut files = Vec::new();
        self.walk(path, &mut files)?;
        if files.is_empty() {
            return Err(Error::message(format!(
                "error reading [{name}]: recognized file extensions are [.json .yaml .yml]"
            )));
        }
        Ok(files)
    }

    fn walk(&self, folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Error> {
        let unreadable =
            |error| Error::message(format!("error reading {:?}: {error}", folder.display()));
        let entries: Result<Vec<_>, _> = fs::read_dir(folder).map_err(unreadable)?.collect();
        let mut paths: Vec<PathBuf> =
            entries.map_err(unreadable)?.into_iter().map(|it| it.path()).collect();
        paths.sort();
        for path in paths {
            if path.is_dir() {
                if self.recursive {
                    self.walk(&path, files)?;
                }
                continue;
            }
            let extension = path.extension().and_then(|it| it.to_str()).unwrap_or_default();
            if EXTENSIONS.contains(&extension) {
                files.push(path);
            }
        }
        Ok(())
    }
}

/// Adds the objects of one file.
fn add(manifests: &mut Vec<Manifest>, source: &str, bytes: &[u8]) -> Result<(), Error> {
    let unreadable = |error: &dyn std::fmt::Display| {
        Error::message(format!("error parsing {source}: error converting YAML to JSON: {error}"))
    };
    let text = std::str::from_utf8(bytes).map_err(|error| unreadable(&error))?;
    for document in yaml::documents(text).map_err(|error| unreadable(&error))? {
        add_object(manifests, source, document.value)?;
    }
    Ok(())
}

fn add_object(manifests: &mut Vec<Manifest>, source: &str, mut object: Value) -> Result<(), Error> {
    let Some(map) = object.as_object_mut() else {
        return Err(Error::message(format!(
            "error validating {source:?}: error validating data: invalid object to validate; if you \
             choose to ignore these errors, turn validation off with --validate=false"
        )));
    };
    if map.get("kind").and_then(Value::as_str).is_none_or(str::is_empty) {
        return Err(unset(source, "kind", &object));
    }
    if map.get("apiVersion").and_then(Value::as_str).is_none_or(str::is_empty) {
        return Err(unset(source, "apiVersion", &object));
    }
    let is_list = map["kind"].as_str().is_some_and(|it| it.ends_with("List"));
    if let Some(Value::Array(items)) = map.get_mut("items").filter(|_| is_list) {
        for item in std::mem::take(items) {
            add_object(manifests, source, item)?;
        }
        return Ok(());
    }
    manifests.push(Manifest { source: source.to_owned(), object });
    Ok(())
}

fn unset(source: &str, field: &str, object: &Value) -> Error {
    let is_both = object["kind"].is_null() && object["apiVersion"].is_null();
    let what = if is_both {
        "[apiVersion not set, kind not set]".to_owned()
    } else {
        format!("{field} not set")
    };
    Error::message(format!(
        "error validating {source:?}: error validating data: {what}; if you choose to ignore these \
         errors, turn validation off with --validate=false"
    ))
}

/// A list of objects, as kubectl prints them together.
pub(crate) fn list_of(items: &[Value]) -> Value {
    json!({"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}})
}
