//! `sampan add controller`: a controller for a kind that has none.

use anyhow::{Context, Result, bail};
use minijinja::context;

use crate::change_set::ChangeSet;
use crate::create_api::{add_controller, edit, print_changes, values};
use crate::marks::MarkedFile;
use crate::names;
use crate::output::Output;
use crate::project_args::ProjectArgs;

const EXAMPLES: &str = "Examples:
  sampan add controller --api-version=network.example.com/v1 --kind=Vpc";

/// Adds a controller to a kind that was made without one
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct AddControllerArgs {
    /// Group and version of the kind, such as network.example.com/v1
    #[arg(long, value_name = "GROUP/VERSION")]
    pub api_version: String,
    /// Kind, such as Vpc
    #[arg(long)]
    pub kind: String,
    /// Files that may be overwritten
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub force: Vec<String>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "its help is that of its fields")]
    pub project: ProjectArgs,
}

impl AddControllerArgs {
    /// Adds the controller.
    pub fn run(&self, output: &mut Output<'_>) -> Result<()> {
        let project = self.project.find()?;
        let (group, version) = self.api_version.split_once('/').with_context(|| {
            format!(
                "--api-version {:?}: it has no version; use GROUP/VERSION, such as {}/v1",
                self.api_version, project.domain
            )
        })?;
        let group = names::full_group(group, &project.domain)?;
        let kind = project.kind(&group, version, &self.kind)?;
        let stored = project.versions(&group, &self.kind).first().copied().unwrap_or(kind);
        let (module, file) = (stored.module(), format!("src/{}/controller.rs", stored.module()));
        let mut lib = MarkedFile::read(&project.root, "src/lib.rs")?;
        let mut kind_file = MarkedFile::read(&project.root, &format!("src/{module}.rs"))?;
        if project.root.join(&file).exists() && !self.force.contains(&file) {
            bail!(
                "{} has a controller, {file}, for all of its versions. Change it, or replace it with \
                 --force {file}",
                self.kind
            );
        }
        let namespaced = kind_file.has_line("namespaced,");
        let values = context! { namespaced, ..values(&project, stored) };
        let mut changes = ChangeSet::default();
        kind_file.insert(&format!("modules of {}", self.kind), "pub mod controller;");
        add_controller(&project, stored, &values, &mut lib, &mut changes)?;
        edit(&mut changes, kind_file)?;
        edit(&mut changes, lib)?;
        changes.commit(&project.root, &self.force)?;
        print_changes(&changes, output)?;
        output.note(&format!("next: edit `reconcile` in {file}; cargo test"));
        Ok(())
    }
}
