//! [`Project`]: the folder of an operator, and the settings in its `Cargo.toml`.
//!
//! ```toml
//! [package.metadata.sampan]
//! domain = "mock.com"
//! repo = "github.com/example/operator-demo"
//! kinds = [
//!     { group = "zhhnzw.mock.com", version = "v1", kind = "CustomPod", plural = "custompods" },
//! ]
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Value};

use crate::names;

/// The path of the settings.
pub(crate) const MANIFEST: &str = "Cargo.toml";

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Project {
    /// The folder.
    pub(crate) root: PathBuf,
    /// The name of the crate, and of what is derived from it.
    pub(crate) name: String,
    /// The version of the crate.
    pub(crate) version: String,
    /// The domain of groups without a dot.
    pub(crate) domain: String,
    /// Each version of each kind, the stored version of a kind first.
    pub(crate) kinds: Vec<KindVersion>,
    manifest: DocumentMut,
}

/// A version of a kind.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct KindVersion {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
}

impl Project {
    /// The project in this folder, or in the nearest one above it.
    pub(crate) fn find(folder: &Path) -> Result<Self> {
        let absolute = std::path::absolute(folder)?;
        let is_project = |it: &&Path| it.join(MANIFEST).is_file();
        let Some(root) = absolute.ancestors().find(is_project) else {
            bail!(
                "{} is not in a project: there is no {MANIFEST}. Make a project with `sampan init \
                 --domain DOMAIN --repo REPO`, or use another folder with --project",
                absolute.display()
            );
        };
        Self::read(root)
    }

    fn read(root: &Path) -> Result<Self> {
        let path = root.join(MANIFEST);
        let shown = path.display();
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {shown}"))?;
        let manifest: DocumentMut =
            text.parse().map_err(|error| anyhow!("{shown} is not valid: {error}"))?;
        let package = &manifest["package"];
        let name = package.get("name").and_then(Item::as_str);
        let name = name.with_context(|| format!("{shown} has no `package.name`"))?.to_owned();
        let version = package.get("version").and_then(Item::as_str).unwrap_or("0.0.0").to_owned();
        let Some(settings) = package.get("metadata").and_then(|it| it.get("sampan")) else {
            bail!(
                "{shown} is no project of `sampan`: it has no [package.metadata.sampan]. Make a new \
                 project with `sampan init` in another folder"
            );
        };
        let domain = settings.get("domain").and_then(Item::as_str);
        let domain = domain
            .with_context(|| format!("{shown}: [package.metadata.sampan] has no text `domain`"))?
            .to_owned();
        let kinds = settings.get("kinds").and_then(Item::as_array);
        let kinds = kinds
            .with_context(|| format!("{shown}: [package.metadata.sampan] has no list `kinds`"))?;
        let kinds = kinds.iter().map(KindVersion::read).collect::<Option<Vec<_>>>();
        let kinds = kinds.with_context(|| {
            format!(
                "{shown}: an entry of `package.metadata.sampan.kinds` is not like {{ group = \
                 \"example.com\", version = \"v1\", kind = \"Site\", plural = \"sites\" }}"
            )
        })?;
        Ok(Self { root: root.to_owned(), name, version, domain, kinds, manifest })
    }

    /// A text of the crate's package, such as its `description`.
    pub(crate) fn package_text(&self, key: &str) -> Option<&str> {
        self.manifest["package"].get(key).and_then(Item::as_str)
    }

    /// The name of the crate in Rust code.
    pub(crate) fn crate_name(&self) -> String {
        names::crate_name(&self.name)
    }

    /// The namespace of the operator in a cluster, unless the user chooses another.
    pub(crate) fn namespace(&self) -> String {
        format!("{}-system", self.name)
    }

    /// The versions of a kind, the stored one first.
    pub(crate) fn versions(&self, group: &str, kind: &str) -> Vec<&KindVersion> {
        self.kinds.iter().filter(|it| it.group == group && it.kind == kind).collect()
    }

    /// The version of a kind that a command names.
    pub(crate) fn kind(&self, group: &str, version: &str, kind: &str) -> Result<&KindVersion> {
        let found = self.versions(group, kind).into_iter().find(|it| it.version == version);
        found.with_context(|| {
            let known = match self.kinds.as_slice() {
                [] => "it has no kinds".to_owned(),
                kinds => {
                    let names = kinds
                        .iter()
                        .map(|it| format!("{} of {}/{}", it.kind, it.group, it.version));
                    format!("it has {}", names.collect::<Vec<_>>().join(", "))
                }
            };
            format!(
                "the project has no kind {kind} of {group}/{version}; {known}. Add it with `sampan \
                 create api --group {group} --version {version} --kind {kind}`"
            )
        })
    }

    /// The content of `Cargo.toml` with another kind.
    pub(crate) fn manifest_with(&self, kind: &KindVersion) -> Result<String> {
        let mut manifest = self.manifest.clone();
        let kinds = manifest["package"]["metadata"]["sampan"]["kinds"].as_array_mut();
        let kinds = kinds.context("package.metadata.sampan.kinds is not a list")?;
        kinds.push_formatted(kind.write());
        format_array(kinds);
        Ok(manifest.to_string())
    }
}

/// One entry a line.
fn format_array(array: &mut Array) {
    for entry in array.iter_mut() {
        entry.decor_mut().set_prefix("\n    ");
        entry.decor_mut().set_suffix("");
    }
    array.set_trailing("\n");
    array.set_trailing_comma(true);
}

impl KindVersion {
    /// The name of the kind's module.
    pub(crate) fn module(&self) -> String {
        names::module_name(&self.kind)
    }

    fn read(entry: &Value) -> Option<Self> {
        let table = entry.as_inline_table()?;
        let text = |key: &str| table.get(key)?.as_str().map(str::to_owned);
        Some(Self {
            group: text("group")?,
            version: text("version")?,
            kind: text("kind")?,
            plural: text("plural")?,
        })
    }

    fn write(&self) -> Value {
        let mut table = InlineTable::new();
        table.insert("group", self.group.as_str().into());
        table.insert("version", self.version.as_str().into());
        table.insert("kind", self.kind.as_str().into());
        table.insert("plural", self.plural.as_str().into());
        Value::InlineTable(table)
    }
}
