//! `sampan generate`: Rust types for the kinds of CRDs that exist.
//!
//! ```text
//! input ─▶ definition ─▶ kind_model ─▶ source_file
//!          (the CRD)      type_tree: structs and enums      their names, documentation and attributes
//!                         rust_type and schema_diff: what the derived schema lacks
//! ```
//!
//! The schema that is derived from the types accepts the same objects as that of the CRD: where the type
//! of a field says less or more, an attribute says the rest.

mod error;
mod definition;
mod input;
mod words;
mod literal;
mod canonical;
mod schema_check;
mod rust_type;
mod schema_diff;
mod variants;
mod type_tree;
mod type_names;
mod kind_model;
mod documentation;
mod attribute_layout;
mod attributes;
mod resource_arguments;
mod source_file;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::change_set::ChangeSet;
use crate::cluster::ClusterArgs;
use crate::output::Output;
use definition::{DefinedVersion, Definition};
use error::GenerateError;
use source_file::{SourceFile, long_module_name, module_name};

const EXAMPLES: &str = "Examples:
  sampan generate certificates.yaml > src/certificate.rs
  sampan generate --crd certificates.cert-manager.io --output src/certificate.rs
  sampan generate crds/*.yaml --output src/cert_manager
  kubectl get crd -o yaml | sampan generate - --output src/kinds";

/// Generates Rust types for a CRD that exists
///
/// The types have the fields, defaults and rules of the CRD, and make the same CRD. They need the crate
/// `sampan-runtime` and, for fields of any form, `serde_json`. What they cannot express is reported.
#[derive(Debug, clap::Args)]
#[command(disable_version_flag = true, after_help = EXAMPLES)]
pub struct GenerateArgs {
    /// Files with CRDs as YAML or JSON; - is the standard input
    #[arg(value_name = "FILE", required_unless_present = "crds")]
    pub files: Vec<PathBuf>,
    /// CRDs of the cluster, such as certificates.cert-manager.io
    #[arg(long = "crd", value_name = "NAME", value_delimiter = ',')]
    pub crds: Vec<String>,
    /// Version of the kinds [default: all in a folder, else the one in which objects are stored]
    #[arg(long)]
    pub version: Option<String>,
    /// Folder with a file for each version, or a file (*.rs) for one
    #[arg(short, long, value_name = "DIR|FILE")]
    pub output: Option<PathBuf>,
    /// Use the type `Condition` of k8s-openapi, as `runtime::conditions` does. It drops fractions of
    /// seconds
    #[arg(long)]
    pub k8s_conditions: bool,
    /// Overwrite files
    #[arg(long, requires = "output")]
    pub force: bool,
    #[command(flatten)]
    #[allow(missing_docs, reason = "its help is that of its fields")]
    pub cluster: ClusterArgs,
}

impl GenerateArgs {
    /// Prints or writes the types.
    pub async fn run(&self, input: &mut dyn Read, output: &mut Output<'_>) -> Result<()> {
        let definitions = self.definitions(input).await?;
        let folder = self.output.as_ref().filter(|path| !is_file(path));
        let mut chosen = Vec::new();
        for definition in &definitions {
            let versions = self.versions(definition, folder.is_some(), output)?;
            chosen.extend(versions.into_iter().map(|version| (definition, version)));
        }
        let mut files: BTreeMap<String, (String, SourceFile)> = BTreeMap::new();
        for (definition, version) in &chosen {
            let source = SourceFile::new(definition, version, self.k8s_conditions)?;
            let from = format!("{}/{}", definition.name, version.name);
            for warning in &source.warnings {
                output.note(&format!("warning: {from}: {warning}"));
            }
            let file = format!("{}.rs", module(definition, version, &chosen));
            if let Some((first, _)) = files.insert(file.clone(), (from.clone(), source)) {
                return Err(GenerateError::SameFile { first, second: from, file }.into());
            }
        }
        match (&self.output, folder) {
            (_, Some(folder)) => self.write(folder, files, output),
            (Some(file), None) => {
                let (parent, name) = split(file);
                let source = only(files)?;
                let files = BTreeMap::from([(name, (String::new(), source))]);
                self.write(parent, files, output)
            }
            (None, None) => output.bytes(only(files)?.text.as_bytes()),
        }
    }

    async fn definitions(&self, standard_input: &mut dyn Read) -> Result<Vec<Definition>> {
        let mut definitions = Vec::new();
        for file in &self.files {
            let is_input = file.as_os_str() == "-";
            definitions.extend(if is_input {
                input::read_input(standard_input)?
            } else {
                input::read_file(file)?
            });
        }
        if !self.crds.is_empty() {
            let cluster = self.cluster.connect().await?;
            for name in &self.crds {
                definitions.push(input::read_cluster(&cluster, name).await?);
            }
        }
        Ok(definitions)
    }

    /// The versions of a kind that are generated.
    fn versions<'a>(
        &self,
        definition: &'a Definition,
        all: bool,
        output: &mut Output<'_>,
    ) -> Result<Vec<&'a DefinedVersion>, GenerateError> {
        if let Some(name) = &self.version {
            return Ok(vec![definition.version(name)?]);
        }
        if all {
            return Ok(definition.versions.iter().collect());
        }
        let stored = definition.stored_version();
        if let Some(stored) = stored.filter(|_| definition.versions.len() > 1) {
            output.note(&format!(
                "{} has several versions, and these are the types of {}: --version names another, and \
                 --output DIR makes all",
                definition.name, stored.name
            ));
        }
        Ok(stored.into_iter().collect())
    }

    /// Writes all files or none.
    fn write(
        &self,
        folder: &Path,
        files: BTreeMap<String, (String, SourceFile)>,
        output: &mut Output<'_>,
    ) -> Result<()> {
        let exists = |name: &&String| folder.join(name).symlink_metadata().is_ok();
        let present: Vec<String> = files.keys().filter(exists).cloned().collect();
        if !present.is_empty() && !self.force {
            let paths = present.iter().map(|name| folder.join(name).display().to_string());
            let files = paths.collect::<Vec<_>>().join(", ");
            return Err(GenerateError::Exists { files }.into());
        }
        let mut changes = ChangeSet::default();
        let mut modules = Vec::new();
        for (name, (_, source)) in files {
            modules.push(format!("pub mod {};", name.trim_end_matches(".rs")));
            changes.create(&name, source.text);
        }
        changes.commit(folder, &present)?;
        for name in changes.created() {
            output.line(&format!("created {}", folder.join(name).display()))?;
        }
        output.note(&format!("declare what you use in the module above: {}", modules.join(" ")));
        Ok(())
    }
}

/// The name of the module of a version, which has the group if another one has it otherwise.
fn module(
    definition: &Definition,
    version: &DefinedVersion,
    chosen: &[(&Definition, &DefinedVersion)],
) -> String {
    let name = module_name(definition, version);
    let is_shared = chosen.iter().any(|(other, other_version)| {
        other.group != definition.group && module_name(other, other_version) == name
    });
    if is_shared { long_module_name(definition, version) } else { name }
}

/// The only file.
fn only(files: BTreeMap<String, (String, SourceFile)>) -> Result<SourceFile, GenerateError> {
    let names = files.values().map(|(from, _)| from.clone()).collect();
    let mut sources = files.into_values();
    match (sources.next(), sources.next()) {
        (Some((_, source)), None) => Ok(source),
        _ => Err(GenerateError::SeveralFiles { files: names }),
    }
}

fn is_file(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "rs")
}

/// The folder of a file, and its name.
fn split(file: &Path) -> (&Path, String) {
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let parent = file.parent().filter(|it| !it.as_os_str().is_empty());
    (parent.unwrap_or(Path::new(".")), name)
}
