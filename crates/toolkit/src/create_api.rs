//! `sampan create api`: a kind, or another version of a kind, in a project.

use std::fmt::Write;

use anyhow::{Result, bail};
use minijinja::{Value, context};

use crate::change_set::ChangeSet;
use crate::marks::MarkedFile;
use crate::names;
use crate::output::Output;
use crate::project::{KindVersion, MANIFEST, Project};
use crate::project_args::{KindArgs, ProjectArgs};
use crate::templates::{self, render};

const EXAMPLES: &str = "Examples:
  sampan create api --group zhhnzw --version v1 --kind CustomPod --resource --controller
  sampan create api --group zhhnzw --version v2 --kind CustomPod
  sampan create api --group network --version v1 --kind Vpc --namespaced=false --plural vpcs";

/// Adds a kind, or another version of a kind, to the project
///
/// A new kind has a Rust type, a controller with `reconcile`, an example and tests. Files that exist
/// are not overwritten; lines are inserted above the comments that begin with `sampan:`.
#[derive(Debug, clap::Args)]
// --version is that of the kind.
#[command(after_help = EXAMPLES, disable_version_flag = true)]
pub struct CreateApiArgs {
    #[command(flatten)]
    #[allow(missing_docs, reason = "its help is that of its fields")]
    pub kind: KindArgs,
    /// Plural of the kind, in lower case [default: the English plural]
    #[arg(long)]
    pub plural: Option<String>,
    /// Make the type of the kind
    #[arg(
        long, num_args = 0..=1, require_equals = true, value_name = "BOOL", default_value_t = true,
        default_missing_value = "true"
    )]
    pub resource: bool,
    /// Make a controller for the kind
    #[arg(
        long, num_args = 0..=1, require_equals = true, value_name = "BOOL", default_value_t = true,
        default_missing_value = "true"
    )]
    pub controller: bool,
    /// Whether the objects are in namespaces
    #[arg(
        long, num_args = 0..=1, require_equals = true, value_name = "BOOL", default_value_t = true,
        default_missing_value = "true"
    )]
    pub namespaced: bool,
    /// Files that may be overwritten
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub force: Vec<String>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "its help is that of its fields")]
    pub project: ProjectArgs,
}

impl CreateApiArgs {
    /// Adds the kind or the version.
    pub fn run(&self, output: &mut Output<'_>) -> Result<()> {
        let project = self.project.find()?;
        if !self.resource {
            bail!(
                "--resource=false: there is nothing to make without a type. For a controller of a kind \
                 that the project has, use `sampan add controller`; for one of a built-in kind, add \
                 `Controller::for_::<Deployment>()` to the list in src/lib.rs"
            );
        }
        names::check_version(&self.kind.version)?;
        names::check_kind(&self.kind.kind)?;
        let group = names::full_group(&self.kind.group, &project.domain)?;
        let plural = match &self.plural {
            Some(plural) => plural.clone(),
            None => names::plural_of(&self.kind.kind),
        };
        let (version, kind) = (self.kind.version.clone(), self.kind.kind.clone());
        let mut new = KindVersion { group, version, kind, plural };
        let stored = project.versions(&new.group, &new.kind).first().copied().cloned();
        let changes = if let Some(stored) = &stored {
            if self.plural.as_ref().is_some_and(|plural| *plural != stored.plural) {
                bail!(
                    "--plural {}: all versions of {} have the plural {}; leave the flag out",
                    new.plural,
                    new.kind,
                    stored.plural
                );
            }
            new.plural.clone_from(&stored.plural);
            check_new_version(&project, &new)?;
            version_changes(&project, &new)?
        } else {
            names::check_plural(&new.plural)?;
            check_new_kind(&project, &new)?;
            self.kind_changes(&project, &new)?
        };
        changes.commit(&project.root, &self.force)?;
        print_changes(&changes, output)?;
        output.note(&next_step(&project, &new, stored.is_some(), self.controller));
        Ok(())
    }

    fn kind_changes(&self, project: &Project, new: &KindVersion) -> Result<ChangeSet> {
        let values = context! {
            namespaced => self.namespaced, controller => self.controller,
            ..values(project, new)
        };
        let module = new.module();
        let mut changes = ChangeSet::default();
        changes.create(&format!("src/{module}.rs"), render(templates::KIND, &values)?);
        changes.create(&format!("example/{module}.yaml"), render(templates::EXAMPLE, &values)?);
        let mut lib = MarkedFile::read(&project.root, "src/lib.rs")?;
        lib.insert("modules", &format!("pub mod {module};"));
        lib.insert("crds", &format!("{module}::{}::crd,", new.kind));
        if self.controller {
            add_controller(project, new, &values, &mut lib, &mut changes)?;
        }
        edit(&mut changes, lib)?;
        changes.edit(MANIFEST, project.manifest_with(new)?);
        Ok(changes)
    }
}

/// The values of the templates of a kind.
pub(crate) fn values(project: &Project, new: &KindVersion) -> Value {
    context! {
        name => project.name, crate => project.crate_name(), module => new.module(),
        group => new.group, version => new.version, kind => new.kind, plural => new.plural,
        kind_lower => new.kind.to_lowercase(),
    }
}

/// Adds the changed content of a file.
pub(crate) fn edit(changes: &mut ChangeSet, file: MarkedFile) -> Result<()> {
    let (path, content) = file.finish()?;
    changes.edit(&path, content);
    Ok(())
}

/// Prints a line for each file.
pub(crate) fn print_changes(changes: &ChangeSet, output: &mut Output<'_>) -> Result<()> {
    for path in changes.created() {
        output.line(&format!("created {path}"))?;
    }
    for path in changes.edited() {
        output.line(&format!("changed {path}"))?;
    }
    Ok(())
}

/// The files of a controller, and its lines in `src/lib.rs`. Its module is declared by the caller.
pub(crate) fn add_controller(
    project: &Project,
    kind: &KindVersion,
    values: &Value,
    lib: &mut MarkedFile,
    changes: &mut ChangeSet,
) -> Result<()> {
    let module = kind.module();
    lib.insert("controllers", &format!("{module}::controller::controller,"));
    changes.create(&format!("src/{module}/controller.rs"), render(templates::CONTROLLER, values)?);
    changes.create(&format!("tests/it/{module}.rs"), render(templates::KIND_TEST, values)?);
    let mut tests = MarkedFile::read(&project.root, "tests/it/main.rs")?;
    tests.insert("modules", &format!("mod {module};"));
    edit(changes, tests)
}

fn version_changes(project: &Project, new: &KindVersion) -> Result<ChangeSet> {
    let (module, version) = (new.module(), &new.version);
    let kind_path = format!("src/{module}.rs");
    let mut kind_file = MarkedFile::read(&project.root, &kind_path)?;
    // All versions of a kind have the scope of the stored one.
    let namespaced = kind_file.has_line("namespaced,");
    let values = context! { namespaced, ..values(project, new) };
    let mut changes = ChangeSet::default();
    changes.create(&format!("src/{module}/{version}.rs"), render(templates::VERSION, &values)?);
    changes
        .create(&format!("example/{module}_{version}.yaml"), render(templates::EXAMPLE, &values)?);
    kind_file.insert(&format!("modules of {}", new.kind), &format!("pub mod {version};"));
    edit(&mut changes, kind_file)?;
    let mut lib = MarkedFile::read(&project.root, "src/lib.rs")?;
    lib.insert("crds", &format!("{module}::{version}::{}::crd,", new.kind));
    edit(&mut changes, lib)?;
    let conversion_path = format!("src/{module}/conversion.rs");
    if project.root.join(&conversion_path).exists() {
        let mut conversion = MarkedFile::read(&project.root, &conversion_path)?;
        add_conversion(&mut conversion, project, new)?;
        edit(&mut changes, conversion)?;
    }
    changes.edit(MANIFEST, project.manifest_with(new)?);
    Ok(changes)
}

/// Adds a version to `conversion.rs`.
pub(crate) fn add_conversion(
    conversion: &mut MarkedFile,
    project: &Project,
    version: &KindVersion,
) -> Result<()> {
    let (kind, values) = (&version.kind, values(project, version));
    conversion.insert(&format!("versions of {kind}"), &render(templates::VARIANT, &values)?);
    conversion.insert(&format!("conversions of {kind}"), &render(templates::CONVERSIONS, &values)?);
    Ok(())
}

fn check_new_version(project: &Project, new: &KindVersion) -> Result<()> {
    let versions = project.versions(&new.group, &new.kind);
    if versions.iter().any(|it| it.version == new.version) {
        bail!(
            "--version {}: the project has {} in this version. Change src/{}.rs, or choose another \
             version",
            new.version,
            new.kind,
            new.module()
        );
    }
    Ok(())
}

fn check_new_kind(project: &Project, new: &KindVersion) -> Result<()> {
    let module = new.module();
    if module == project.crate_name() {
        bail!(
            "--kind {0}: its module would have the name of the crate, `{module}`; use --kind Custom{0}",
            new.kind
        );
    }
    for other in &project.kinds {
        if other.group == new.group && other.kind.eq_ignore_ascii_case(&new.kind) {
            bail!(
                "--kind {}: the kind {} of this group has the same name in lower case, which a server \
                 refuses; choose another kind",
                new.kind,
                other.kind
            );
        }
        if other.module() == module {
            bail!(
                "--kind {}: the module `{module}` is that of the kind {} in the group {}; choose \
                 another kind, or add --group {} for another version of that one",
                new.kind,
                other.kind,
                other.group,
                other.group
            );
        }
        if other.group == new.group && other.plural == new.plural {
            bail!(
                "--plural {}: the kind {} of this group has this plural; add another --plural",
                new.plural,
                other.kind
            );
        }
    }
    Ok(())
}

fn next_step(project: &Project, new: &KindVersion, is_version: bool, controller: bool) -> String {
    let module = new.module();
    let mut text = "next: ".to_owned();
    let conversion = format!("src/{module}/conversion.rs");
    // Writing to a string cannot fail.
    let _ = if !is_version && controller {
        write!(
            text,
            "edit src/{module}.rs and `reconcile` in src/{module}/controller.rs; cargo test"
        )
    } else if !is_version {
        write!(text, "edit src/{module}.rs; cargo test")
    } else if project.root.join(&conversion).exists() {
        write!(text, "edit src/{module}/{}.rs, and its conversion in {conversion}", new.version)
    } else {
        write!(
            text,
            "edit src/{module}/{}.rs. If its fields are not those of the other versions: sampan create \
             webhook --group {} --version {} --kind {} --conversion",
            new.version, new.group, new.version, new.kind
        )
    };
    text
}
