//! `cargo xtask types`: writes `crates/types/tables/*.txt`, the table of the API's built-in types.
//!
//! Three sources are joined, since none has all the facts:
//!
//! | source | gives |
//! |---|---|
//! | crate k8s-pb, source text | messages, fields, protobuf tags, and the markers in the comments |
//! | crate k8s-openapi, source text | how Go spells each name in JSON, and what is required |
//! | `crates/types/tables/emit.txt` | what Go's encoder does with empty values, names of Go types |
//!
//! The two crates are never compiled: cargo downloads them and prints their paths.

mod facts;
mod messages;
mod schemas;
mod table;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use facts::Facts;
use schemas::Schemas;

/// The release whose API is described, as k8s-openapi names it.
const RELEASE: &str = "v1_35";

/// The file of facts about Go's encoder, written by hand.
const FACTS: &str = "emit.txt";

/// The enumerations that Kubernetes' Go types declare, which neither crate has.
const ENUMS: &str = "enums.txt";

/// The types of initializers, written by hand: Kubernetes removed them after 1.13, and the crates have
/// only recent releases.
const INITIALIZERS: &str = "initializers.txt";

/// Generates the table.
pub(crate) fn generate() -> anyhow::Result<()> {
    let folder = folder();
    let files = tables()?;
    for name in existing(&folder)? {
        if !files.contains_key(&name) {
            fs::remove_file(folder.join(&name)).with_context(|| format!("cannot remove {name}"))?;
        }
    }
    for (name, text) in &files {
        fs::write(folder.join(name), text).with_context(|| format!("cannot write {name}"))?;
    }
    Ok(())
}

/// Fails unless the committed table equals the generated one.
pub(crate) fn check() -> anyhow::Result<()> {
    let folder = folder();
    let files = tables()?;
    let names: Vec<&String> = files.keys().collect();
    ensure!(
        existing(&folder)?.iter().eq(names.iter().copied()),
        "crates/types/tables differs from the generated set of files; run cargo xtask types"
    );
    for (name, text) in &files {
        let committed = fs::read_to_string(folder.join(name))?;
        ensure!(&committed == text, "crates/types/tables/{name} is stale; run cargo xtask types");
    }
    Ok(())
}

/// The files of the table, by name.
fn tables() -> anyhow::Result<BTreeMap<String, String>> {
    let sources = Sources::locate()?;
    let facts = fs::read_to_string(folder().join(FACTS)).context("cannot read emit.txt")?;
    let messages = messages::read(&sources.protobuf)?;
    let schemas = Schemas::read(&sources.openapi.join(RELEASE))?;
    table::join(messages, &schemas, &Facts::parse(&facts)?)
}

/// The `src` folders of the two crates.
struct Sources {
    protobuf: PathBuf,
    openapi: PathBuf,
}

impl Sources {
    fn locate() -> anyhow::Result<Self> {
        let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["metadata", "--format-version=1", "--locked", "--features=types-sources"])
            .arg("--manifest-path")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
            .output()
            .context("cannot run cargo metadata")?;
        if !output.status.success() {
            bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        let metadata: Value = serde_json::from_slice(&output.stdout)?;
        Ok(Self {
            protobuf: source(&metadata, "k8s-pb")?,
            openapi: source(&metadata, "k8s-openapi")?,
        })
    }
}

fn source(metadata: &Value, name: &str) -> anyhow::Result<PathBuf> {
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let package = packages.iter().find(|package| package["name"] == name);
    let manifest = package.and_then(|package| package["manifest_path"].as_str());
    let manifest = manifest.with_context(|| format!("cargo metadata does not know {name}"))?;
    Ok(Path::new(manifest).with_file_name("src"))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("crates/types/tables")
}

/// The names of the existing generated files, sorted.
fn existing(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if ![FACTS, ENUMS, INITIALIZERS].contains(&name.as_str()) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// All Rust files below a folder, sorted by path.
fn rust_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("no folder {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The common form of a name in both crates: k8s-pb's `pod_i_ps` and the API's `podIPs` both fold to
/// `podips`.
fn fold(name: &str) -> String {
    name.trim_start_matches("r#")
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect()
}
