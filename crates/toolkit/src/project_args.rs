//! [`ProjectArgs`], [`BuildArgs`] and [`KindArgs`]: flags of several commands.

use std::path::PathBuf;

use anyhow::Result;

use crate::cargo::Cargo;
use crate::project::Project;

/// The project of a command.
#[derive(Debug, Clone, clap::Args)]
pub struct ProjectArgs {
    /// Folder of the project, or one in it
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub project: PathBuf,
}

impl ProjectArgs {
    pub(crate) fn find(&self) -> Result<Project> {
        Project::find(&self.project)
    }
}

/// The project of a command that builds it.
#[derive(Debug, Clone, clap::Args)]
pub struct BuildArgs {
    #[command(flatten)]
    #[allow(missing_docs, reason = "its help is that of its fields")]
    pub project: ProjectArgs,
    /// Folder for the output of cargo [default: target in the project]
    #[arg(long, value_name = "DIR", env = "CARGO_TARGET_DIR")]
    pub target_dir: Option<PathBuf>,
}

impl BuildArgs {
    pub(crate) fn find(&self) -> Result<(Project, Cargo)> {
        let project = self.project.find()?;
        let target_dir = self.target_dir.as_ref().map(std::path::absolute).transpose()?;
        let cargo = Cargo::new(&project.root, target_dir);
        Ok((project, cargo))
    }
}

/// A version of a kind.
#[derive(Debug, Clone, clap::Args)]
pub struct KindArgs {
    /// Group of the kind; without a dot, it is completed with the domain of the project
    #[arg(long)]
    pub group: String,
    /// Version, such as v1 or v1beta1
    // Not the flag of the program, which is also called --version.
    #[arg(long = "version", id = "kind_version", value_name = "VERSION")]
    pub version: String,
    /// Kind, in upper camel case
    #[arg(long)]
    pub kind: String,
}
