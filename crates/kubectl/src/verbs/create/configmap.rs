//! `create configmap`, and the data of files, literals and environment files.

use std::fs;
use std::path::Path;

use base64::prelude::{BASE64_STANDARD, Engine};

use super::{GeneratorArgs, key_value};
use crate::error::Error;
use crate::io::Io;
use crate::session::Session;
use machinery::{Map, Value, json, names};

/// Create a ConfigMap from files, folders or literals
#[derive(Debug, clap::Args)]
pub(super) struct ConfigMapArgs {
    /// Name of the ConfigMap
    name: String,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    common: GeneratorArgs,
}

/// Where data comes from.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_field_names, reason = "the names of flags")]
pub(super) struct DataArgs {
    /// KEY=VALUE; repeat it for more
    #[arg(long, value_name = "KEY=VALUE")]
    from_literal: Vec<String>,
    /// File, whose name is the key unless another one is given, or a folder of files
    #[arg(long, value_name = "[KEY=]PATH")]
    from_file: Vec<String>,
    /// File with lines KEY=VALUE
    #[arg(long, value_name = "PATH", conflicts_with_all = ["from_literal", "from_file"])]
    from_env_file: Vec<String>,
}

impl ConfigMapArgs {
    pub(super) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        let (mut data, mut binary_data) = (Map::new(), Map::new());
        for (key, bytes) in self.data.read()? {
            if data.contains_key(&key) || binary_data.contains_key(&key) {
                return Err(exists(&key, "ConfigMap"));
            }
            match String::from_utf8(bytes) {
                Ok(text) => data.insert(key, text.into()),
                Err(error) => {
                    binary_data.insert(key, BASE64_STANDARD.encode(error.as_bytes()).into())
                }
            };
        }
        let mut object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": self.name}});
        for (field, map) in [("data", data), ("binaryData", binary_data)] {
            if !map.is_empty() {
                object[field] = Value::Object(map);
            }
        }
        self.common.create(session, io, object, "failed to create configmap: ").await
    }
}

/// The error of a key that is given twice.
pub(super) fn exists(key: &str, kind: &str) -> Error {
    Error::message(format!(
        "cannot add key {key:?}, another key by that name already exists in Data for {kind}"
    ))
}

impl DataArgs {
    /// All keys with their content.
    pub(super) fn read(&self) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let mut data = Vec::new();
        for source in &self.from_file {
            match source.split_once('=') {
                Some((key, path)) => data.push((key.to_owned(), read(path)?)),
                None => read_path(source, &mut data)?,
            }
        }
        for pair in &self.from_literal {
            let (key, value) = key_value(pair, "literal")?;
            data.push((key.to_owned(), value.as_bytes().to_vec()));
        }
        for path in &self.from_env_file {
            read_environment(path, &mut data)?;
        }
        for (key, _) in &data {
            let problems = names::config_map_key(key);
            if !problems.is_empty() {
                return Err(Error::message(format!(
                    "{key:?} is not a valid key name: {}",
                    problems.join(";")
                )));
            }
        }
        Ok(data)
    }
}

fn read(path: &str) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|error| {
        let error = match error.kind() {
            std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
            _ => error.to_string(),
        };
        Error::message(format!("error reading {path}: {error}"))
    })
}

/// A file, or the files of a folder, by their names.
fn read_path(path: &str, data: &mut Vec<(String, Vec<u8>)>) -> Result<(), Error> {
    let file = Path::new(path);
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if !file.is_dir() {
        data.push((name(file), read(path)?));
        return Ok(());
    }
    let entries = fs::read_dir(file);
    let entries = entries
        .map_err(|error| Error::message(format!("error listing files in {path}: {error}")))?;
    let mut paths: Vec<_> = entries.filter_map(Result::ok).map(|it| it.path()).collect();
    paths.sort();
    for path in paths.into_iter().filter(|it| it.is_file()) {
        let key = name(&path);
        if names::config_map_key(&key).is_empty() {
            data.push((key, read(&path.display().to_string())?));
        }
    }
    Ok(())
}

/// Lines `KEY=VALUE`; a line with a key alone takes the value from the environment.
fn read_environment(path: &str, data: &mut Vec<(String, Vec<u8>)>) -> Result<(), Error> {
    let text = String::from_utf8(read(path)?)
        .map_err(|_| Error::message(format!("env file {path} contains invalid utf8 bytes")))?;
    for line in text.lines() {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match line.split_once('=') {
            Some((key, value)) => data.push((key.to_owned(), value.as_bytes().to_vec())),
            None => {
                if let Ok(value) = std::env::var(line) {
                    data.push((line.to_owned(), value.into_bytes()));
                }
            }
        }
    }
    Ok(())
}
