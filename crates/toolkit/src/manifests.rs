//! `sampan manifests`: the objects that a cluster needs, derived from the code.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::access::AccessSet;
use crate::bundle::{Chart, Format, documents, helm, kustomize};
use crate::cargo::Cargo;
use crate::change_set::ChangeSet;
use crate::deployment::Deployment;
use crate::image::pushed_image;
use crate::output::Output;
use crate::project::Project;
use crate::project_args::BuildArgs;
use machinery::Value;

const EXAMPLES: &str = "Examples:
  sampan manifests | kubectl apply --server-side -f -
  sampan manifests --format kustomize -o deploy
  sampan manifests --format helm --image mock.com:5000/operator-demo:v1 -o chart";

/// The variable that names the file to which managers append their requests.
const ACCESS_VARIABLE: &str = "SAMPAN_ACCESS_FILE";
/// The file, in the project.
const ACCESS_FILE: &str = "target/sampan/access.jsonl";

/// Prints the objects that a cluster needs: CRDs, roles, Deployment, webhooks
///
/// They are derived from the code. The CRDs and webhooks are those of the program. The roles allow what
/// the operator requests while the tests of the project run.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ManifestsArgs {
    /// Form of the manifests
    #[arg(long, value_enum, default_value = "yaml")]
    pub format: Format,
    /// Folder for the files; needed for a Kustomize folder or a chart
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "its help is that of its fields")]
    pub deployment: DeploymentArgs,
    /// Files that may be overwritten
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub force: Vec<String>,
}

/// How the operator is deployed.
#[derive(Debug, clap::Args)]
pub struct DeploymentArgs {
    /// Image of the operator [default: the one that `sampan image push` has pushed last, or the name and
    /// the version of the project]
    #[arg(long)]
    pub image: Option<String>,
    /// Namespace of the operator [default: the name of the project and -system]
    #[arg(short, long)]
    pub namespace: Option<String>,
    /// Use the requests that the tests made the last time, and do not run them
    #[arg(long)]
    pub skip_tests: bool,
    #[command(flatten)]
    #[allow(missing_docs, reason = "its help is that of its fields")]
    pub build: BuildArgs,
}

impl ManifestsArgs {
    /// Prints or writes the manifests.
    pub fn run(&self, output: &mut Output<'_>) -> Result<()> {
        if self.format != Format::Yaml && self.output.is_none() {
            bail!("this form has several files: name a folder for them with --output DIR");
        }
        let derived = self.deployment.derive(output)?;
        let chart = Chart {
            name: &derived.project.name,
            version: &derived.project.version,
            namespace: &derived.namespace,
            image: &derived.image,
        };
        let files = match self.format {
            Format::Yaml => vec![("manifests.yaml".to_owned(), documents(&derived.objects))],
            Format::Kustomize => kustomize(&derived.objects, &chart),
            Format::Helm => helm(&derived.objects, &chart),
        };
        let Some(folder) = &self.output else {
            return files.iter().try_for_each(|(_, text)| output.bytes(text.as_bytes()));
        };
        let mut changes = ChangeSet::default();
        for (path, content) in files {
            changes.create(&path, content);
        }
        changes.commit(folder, &self.force)?;
        for path in changes.created() {
            output.line(&format!("created {}", folder.join(path).display()))?;
        }
        Ok(())
    }
}

/// The objects, and what they were derived from.
pub(crate) struct Derived {
    pub(crate) project: Project,
    pub(crate) namespace: String,
    pub(crate) image: String,
    pub(crate) objects: Vec<Value>,
}

impl DeploymentArgs {
    /// Derives the objects from the project.
    pub(crate) fn derive(&self, output: &mut Output<'_>) -> Result<Derived> {
        self.derive_with(|cargo, root| {
            if self.skip_tests {
                return recorded_access(root);
            }
            output.note("running the tests of the project, whose requests are the roles …");
            run_tests(cargo, root)
        })
    }

    /// Derives the objects without building the tests, for commands that need only their names.
    pub(crate) fn derive_without_roles(&self) -> Result<Derived> {
        self.derive_with(|_, _| Ok(AccessSet::default()))
    }

    /// Derives the objects, and takes what the operator may do from `access`.
    fn derive_with(
        &self,
        access: impl FnOnce(&Cargo, &Path) -> Result<AccessSet>,
    ) -> Result<Derived> {
        let (project, cargo) = self.build.find()?;
        let namespace = self.namespace.clone().unwrap_or_else(|| project.namespace());
        let image = match &self.image {
            Some(image) => image.clone(),
            None => pushed_image(&project.root)?
                .unwrap_or_else(|| format!("{}:{}", project.name, project.version)),
        };
        let manifests = printed_manifests(&cargo, &namespace)?;
        let access = access(&cargo, &project.root)?;
        let deployment = Deployment {
            name: &project.name,
            namespace: &namespace,
            image: &image,
            manifests: &manifests,
        };
        let objects = deployment.objects(&project, access);
        Ok(Derived { project, namespace, image, objects })
    }
}

/// The CRDs and the webhook configurations, as the program of the project prints them.
pub(crate) fn printed_manifests(cargo: &Cargo, namespace: &str) -> Result<Vec<Value>> {
    let arguments = ["run", "--quiet", "--", "--namespace", namespace, "manifests"];
    let printed = cargo.run(&arguments, &[], "print the CRDs of the project")?;
    let remedy = "the program of the project does not print its manifests as a JSON list with \
                  `cargo run -- manifests`; compare src/main.rs with that of a new project";
    let manifests: Vec<Value> = serde_json::from_slice(&printed).context(remedy)?;
    Ok(manifests)
}

/// Runs the tests, and returns what the managers in them have requested.
fn run_tests(cargo: &Cargo, root: &Path) -> Result<AccessSet> {
    let record = root.join(ACCESS_FILE);
    let folder = record.parent().unwrap_or(root);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&record, ""))
        .with_context(|| format!("cannot write {}", record.display()))?;
    let record = std::path::absolute(&record)?;
    let purpose = "run the tests, from whose requests the roles are derived";
    cargo.run(&["test", "--quiet"], &[(ACCESS_VARIABLE, &record)], purpose)?;
    recorded_access(root)
}

fn recorded_access(root: &Path) -> Result<AccessSet> {
    let path = root.join(ACCESS_FILE);
    let record = fs::read_to_string(&path).with_context(|| {
        format!("the tests have left no record in {}: leave --skip-tests out", path.display())
    })?;
    if record.trim().is_empty() {
        bail!(
            "no manager of the tests has made a request, so that the roles are unknown: the tests of a \
             new project show how a test runs the operator"
        );
    }
    AccessSet::parse(&record)
}
