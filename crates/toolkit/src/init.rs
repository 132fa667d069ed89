//! `sampan init`: a new project, without kinds.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use minijinja::context;

use crate::change_set::ChangeSet;
use crate::names;
use crate::output::Output;
use crate::project::MANIFEST;
use crate::source::SourceArgs;
use crate::templates::{self, render};

const EXAMPLES: &str = "Examples:
  mkdir operator-demo && cd operator-demo
  sampan init --domain mock.com --repo github.com/example/operator-demo
  sampan init vpc-operator --domain example.com --repo github.com/example-inc/vpc-operator";

/// Makes the project of an operator
///
/// The project is a Rust crate with a program, a library and tests that pass at once. `sampan create
/// api` adds kinds to it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct InitArgs {
    /// Folder of the project, which is made if necessary
    #[arg(value_name = "DIR", default_value = ".")]
    pub directory: PathBuf,
    /// Domain of the groups: `--group apps` of another command is then apps.DOMAIN
    #[arg(long)]
    pub domain: String,
    /// Repository of the project, such as github.com/example/operator-demo
    #[arg(long)]
    pub repo: Option<String>,
    /// Name of the project [default: the last part of the repository, or the name of the folder]
    #[arg(long, visible_alias = "project-name")]
    pub name: Option<String>,
    /// Files that may be overwritten
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub force: Vec<String>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "its help is that of its fields")]
    pub source: SourceArgs,
}

impl InitArgs {
    /// Makes the project.
    pub fn run(&self, output: &mut Output<'_>) -> Result<()> {
        let name = self.project_name()?;
        names::check_project(&name)?;
        names::check_domain(&self.domain)?;
        let changes = self.changes(&name)?;
        changes.commit(&self.directory, &self.force)?;
        for path in changes.created() {
            output.line(&format!("created {}", self.directory.join(path).display()))?;
        }
        let change_folder = if self.directory == Path::new(".") {
            String::new()
        } else {
            format!("cd {} && ", self.directory.display())
        };
        output.note(&format!(
            "next: {change_folder}sampan create api --group GROUP --version v1 --kind KIND"
        ));
        Ok(())
    }

    /// The name of the argument, of the repository or of the folder.
    fn project_name(&self) -> Result<String> {
        if let Some(name) = &self.name {
            return Ok(name.clone());
        }
        let from_repo = self.repo.as_deref().and_then(last_part);
        if let Some(name) = from_repo {
            return Ok(name.to_owned());
        }
        let folder = std::path::absolute(&self.directory)?;
        let name = folder.file_name().and_then(|it| it.to_str());
        Ok(name
            .context("the folder has no name that a project can have: add --name NAME")?
            .to_owned())
    }

    fn changes(&self, name: &str) -> Result<ChangeSet> {
        let source = self.source.source()?;
        let values = context! {
            name, domain => self.domain,
            crate => names::crate_name(name),
            repo => self.repo.as_deref().unwrap_or_default().replace(['"', '\\', '\n'], ""),
            source_comment => source.comment,
            source_runtime => source.keys[0],
            source_testenv => source.keys[1],
        };
        let mut changes = ChangeSet::default();
        for (path, template) in [
            (MANIFEST, templates::CARGO),
            ("README.md", templates::README),
            (".gitignore", templates::GITIGNORE),
            ("rustfmt.toml", templates::RUSTFMT),
            ("src/main.rs", templates::MAIN),
            ("src/lib.rs", templates::LIB),
            ("tests/it/main.rs", templates::TESTS),
        ] {
            changes.create(path, render(template, &values)?);
        }
        Ok(changes)
    }
}

/// The last part of a repository, without the version that a Go module has at its end.
fn last_part(repo: &str) -> Option<&str> {
    let is_version = |part: &str| {
        part.strip_prefix('v').is_some_and(|rest| rest.chars().all(|it| it.is_ascii_digit()))
    };
    let mut parts = repo.trim_end_matches(".git").split('/').filter(|part| !part.is_empty());
    parts.rfind(|part| !is_version(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_that_of_the_repository() {
        assert_eq!(last_part("github.com/zhhnzw/operator-demo/v1"), Some("operator-demo"));
        assert_eq!(last_part("github.com/example/a.git"), Some("a"));
        assert_eq!(last_part("a/"), Some("a"));
        assert_eq!(last_part(""), None);
    }
}
