//! `set image`: changes the images of containers.

use clap::Subcommand;

use crate::error::Error;
use crate::flags::with_bool_values;
use crate::io::Io;
use crate::lists::{ListOptions, objects};
use crate::manifests::FileArgs;
use crate::mutation::{DryRun, MutationArgs, Results, patch};
use crate::session::Session;
use crate::targets::{Rules, SelectorArgs, Target, Targets};
use machinery::fields::text;
use machinery::{Value, json};

/// Set fields of objects
#[derive(Debug, clap::Args)]
pub struct SetArgs {
    #[command(subcommand)]
    what: Setting,
}

#[derive(Debug, Subcommand)]
enum Setting {
    Image(ImageArgs),
}

/// Set the images of containers
#[derive(Debug, clap::Args)]
#[command(
    mut_args(with_bool_values),
    after_help = "Examples:
  kubectl set image deployment/web nginx=nginx:1.29
  kubectl set image deployments --all '*=busybox'"
)]
struct ImageArgs {
    /// Types and names, then CONTAINER=IMAGE; * is every container
    #[arg(value_name = "TYPE/NAME CONTAINER=IMAGE")]
    args: Vec<String>,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    selectors: SelectorArgs,
    /// All objects of the types
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    mutation: MutationArgs,
}

impl SetArgs {
    /// Runs the verb.
    pub(crate) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        match self.what {
            Setting::Image(args) => args.run(session, io).await,
        }
    }
}

impl ImageArgs {
    async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        let start = self.args.iter().position(|it| it.contains('=')).unwrap_or(self.args.len());
        let (resources, pairs) = self.args.split_at(start);
        let images: Vec<(&str, &str)> = pairs.iter().filter_map(|it| it.split_once('=')).collect();
        if resources.is_empty() && self.files.is_empty() {
            return Err(Error::message(
                "one or more resources must be specified as <resource> <name> or <resource>/<name>",
            ));
        }
        if images.is_empty() {
            return Err(Error::message("at least one image update is required"));
        }
        let mut results = self.mutation.results(io)?;
        let rules = Rules {
            allows_collections: false,
            all_namespaces: false,
            has_selector: self.all || !self.selectors.is_empty(),
        };
        let found = Targets::find(session, io, resources, &self.files, rules).await?;
        let options = ListOptions { query: self.selectors.query(), ..ListOptions::default() };
        let mut errors = Vec::new();
        for target in &found.targets {
            match objects(session, target, &options).await {
                Ok(read) => {
                    for object in read {
                        let done = self.set(session, io, target, object, &images, &mut results);
                        errors.extend(done.await.err());
                    }
                }
                Err(error) => errors.push(error),
            }
        }
        Error::all(errors)
    }

    async fn set(
        &self,
        session: &Session,
        io: &mut Io,
        target: &Target,
        object: Value,
        images: &[(&str, &str)],
        results: &mut Results,
    ) -> Result<(), Error> {
        let (path, pod) = pod_spec(&object).ok_or_else(|| {
            Error::message(format!(
                "{}/{} the object is not a pod or does not have a pod template: *{}.{}",
                target.resource.name,
                text(&object["metadata"], "name"),
                target.resource.version,
                target.resource.kind
            ))
        })?;
        let mut change = json!({});
        for (name, image) in images {
            let mut is_found = false;
            for list in ["containers", "initContainers"] {
                for container in pod[list].as_array().into_iter().flatten() {
                    let own = text(container, "name");
                    if *name != "*" && *name != own {
                        continue;
                    }
                    is_found = true;
                    if text(container, "image") == *image {
                        continue;
                    }
                    if !change[list].is_array() {
                        change[list] = json!([]);
                    }
                    if let Some(changes) = change[list].as_array_mut() {
                        changes.push(json!({"name": own, "image": image}));
                    }
                }
            }
            if !is_found {
                return Err(Error::message(format!("unable to find container named {name:?}")));
            }
        }
        if change == json!({}) {
            return Ok(());
        }
        let change = path.iter().rev().fold(change, |inner, field| json!({*field: inner}));
        let one = Target::of_object(&target.resource, &object);
        let mut changed = object;
        if self.mutation.dry_run() == DryRun::Client {
            let kind = text(&changed, "kind").to_owned();
            let version = text(&changed, "apiVersion").to_owned();
            if let Some(ty) = types::of_kind(&version, &kind) {
                let applied = types::strategic::apply(ty, &mut changed, &change);
                applied.map_err(|error| Error::message(error.to_string()))?;
            }
        } else {
            let query = self.mutation.query("kubectl-set");
            let media_type = "application/strategic-merge-patch+json";
            changed = patch(session, &one.path(), media_type, &query, &change).await?;
        }
        results.print(io, &changed, "image updated")
    }
}

/// The path and the value of the pod's specification in an object.
fn pod_spec(object: &Value) -> Option<(&'static [&'static str], &Value)> {
    const PATHS: [&[&str]; 3] = [
        &["spec", "template", "spec"],
        &["spec", "jobTemplate", "spec", "template", "spec"],
        &["spec"],
    ];
    PATHS.into_iter().find_map(|path| {
        let found = machinery::fields::at(object, path);
        found["containers"].is_array().then_some((path, found))
    })
}
