//! `sampan create webhook`: the webhooks of a kind.

use std::path::Path;

use anyhow::{Result, bail};
use minijinja::context;

use crate::change_set::ChangeSet;
use crate::create_api::{add_conversion, edit, print_changes, values};
use crate::marks::MarkedFile;
use crate::names;
use crate::output::Output;
use crate::project::{KindVersion, Project};
use crate::project_args::{KindArgs, ProjectArgs};
use crate::templates::{self, render};

const EXAMPLES: &str = "Examples:
  sampan create webhook --group zhhnzw --version v1 --kind CustomPod --defaulting
  sampan create webhook --group zhhnzw --version v1 --kind CustomPod --programmatic-validation
  sampan create webhook --group zhhnzw --version v1 --kind CustomPod --conversion";

/// Adds webhooks to a kind of the project
///
/// Each is a function in a file of its own. Its certificate is made and renewed by the operator, and
/// `sampan manifests` has its configuration and its Service.
#[derive(Debug, clap::Args)]
// --version is that of the kind.
#[command(after_help = EXAMPLES, disable_version_flag = true)]
pub struct CreateWebhookArgs {
    #[command(flatten)]
    #[allow(missing_docs, reason = "its help is that of its fields")]
    pub kind: KindArgs,
    /// A webhook that sets defaults
    #[arg(long)]
    pub defaulting: bool,
    /// A webhook that refuses objects that are not valid
    #[arg(long)]
    pub programmatic_validation: bool,
    /// A webhook that converts between the versions of the kind
    #[arg(long)]
    pub conversion: bool,
    /// Files that may be overwritten
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub force: Vec<String>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "its help is that of its fields")]
    pub project: ProjectArgs,
}

impl CreateWebhookArgs {
    /// Adds the webhooks.
    pub fn run(&self, output: &mut Output<'_>) -> Result<()> {
        if !(self.defaulting || self.programmatic_validation || self.conversion) {
            bail!("which webhook? add --defaulting, --programmatic-validation or --conversion");
        }
        let project = self.project.find()?;
        let group = names::full_group(&self.kind.group, &project.domain)?;
        let kind = project.kind(&group, &self.kind.version, &self.kind.kind)?;
        let changes = self.changes(&project, kind)?;
        changes.commit(&project.root, &self.force)?;
        print_changes(&changes, output)?;
        let files = changes.created().collect::<Vec<_>>().join(" and ");
        output.note(&format!("next: edit {files}; cargo test"));
        Ok(())
    }

    fn changes(&self, project: &Project, kind: &KindVersion) -> Result<ChangeSet> {
        let module = kind.module();
        let is_stored = project.versions(&kind.group, &kind.kind).first() == Some(&kind);
        let path = if is_stored { String::new() } else { format!("{}::", kind.version) };
        let values = context! { path, ..values(project, kind) };
        let mut changes = ChangeSet::default();
        let mut kind_file = MarkedFile::read(&project.root, &format!("src/{module}.rs"))?;
        let mut lib = MarkedFile::read(&project.root, "src/lib.rs")?;
        for (is_wanted, name, template, call) in [
            (self.defaulting, "defaulting", templates::DEFAULTING, "mutating"),
            (self.programmatic_validation, "validation", templates::VALIDATION, "validating"),
        ] {
            if !is_wanted {
                continue;
            }
            let file = format!("src/{module}/{name}.rs");
            self.check_absent(project, &file)?;
            let function = if call == "mutating" { "mutate" } else { "validate" };
            changes.create(&file, render(template, &values)?);
            kind_file.insert(&format!("modules of {}", kind.kind), &format!("pub mod {name};"));
            lib.insert("webhooks", &format!("|set| set.{call}({module}::{name}::{function}),"));
        }
        if self.conversion {
            let file = format!("src/{module}/conversion.rs");
            self.check_absent(project, &file)?;
            changes.create(&file, conversion(project, kind)?);
            kind_file.insert(&format!("modules of {}", kind.kind), "pub mod conversion;");
            let versions = format!("{module}::conversion::{}Versions", kind.kind);
            lib.insert("webhooks", &format!("|set| set.converting::<{versions}>(),"));
        }
        edit(&mut changes, kind_file)?;
        edit(&mut changes, lib)?;
        Ok(changes)
    }

    /// Refuses a second webhook of the same type: one is called for all versions of its kind.
    fn check_absent(&self, project: &Project, file: &str) -> Result<()> {
        if project.root.join(Path::new(file)).exists() && !self.force.iter().any(|it| it == file) {
            bail!(
                "{file} exists: this webhook of {} is called for all of its versions. Change the file, \
                 or replace it with --force {file}",
                self.kind.kind
            );
        }
        Ok(())
    }
}

/// The file with the conversion between all present versions.
fn conversion(project: &Project, kind: &KindVersion) -> Result<String> {
    let versions = project.versions(&kind.group, &kind.kind);
    let stored = versions.first().copied().unwrap_or(kind);
    let text = render(templates::CONVERSION, &values(project, stored))?;
    let mut file = MarkedFile::of("conversion.rs", &text);
    for version in versions.into_iter().skip(1) {
        add_conversion(&mut file, project, version)?;
    }
    Ok(file.finish()?.1)
}
