//! `scale`: sets the number of replicas.

use crate::error::Error;
use crate::flags::with_bool_values;
use crate::io::Io;
use crate::lists::{ListOptions, objects};
use crate::manifests::FileArgs;
use crate::mutation::{DryRun, MERGE_PATCH, MutationArgs, Results, patch};
use crate::session::Session;
use crate::targets::{Rules, SelectorArgs, Target, Targets};
use machinery::fields::{number, text};
use machinery::{Value, json};

/// Set the number of replicas
#[derive(Debug, clap::Args)]
#[command(
    mut_args(with_bool_values),
    after_help = "Examples:
  kubectl scale deployment web --replicas 3
  kubectl scale --current-replicas 2 --replicas 3 deployment/web"
)]
pub struct ScaleArgs {
    /// Types and names
    #[arg(value_name = "TYPE/NAME")]
    resources: Vec<String>,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    selectors: SelectorArgs,
    /// All objects of the type
    #[arg(long)]
    all: bool,
    /// The new number
    #[arg(long, required = true, value_name = "NUMBER", allow_negative_numbers = true)]
    replicas: Option<i64>,
    /// Only if this is the number at present
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    current_replicas: Option<i64>,
    /// Only if the object has this revision
    #[arg(long, value_name = "REVISION")]
    resource_version: Option<String>,
    /// Accepted for scripts of kubectl: the verb does not wait
    #[arg(long, value_name = "DURATION", hide = true)]
    timeout: Option<String>,
    #[command(flatten)]
    mutation: MutationArgs,
}

impl ScaleArgs {
    /// Runs the verb.
    pub(crate) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        let Some(replicas) = self.replicas.filter(|it| *it >= 0) else {
            return Err(Error::message(
                "The --replicas=COUNT flag is required, and COUNT must be greater than or equal to 0",
            ));
        };
        let mut results = self.mutation.results(io)?;
        let rules = Rules {
            allows_collections: self.all,
            all_namespaces: false,
            has_selector: !self.selectors.is_empty(),
        };
        let found = Targets::find(session, io, &self.resources, &self.files, rules).await?;
        let options = ListOptions { query: self.selectors.query(), ..ListOptions::default() };
        let mut errors = Vec::new();
        let mut is_any = false;
        for target in &found.targets {
            match objects(session, target, &options).await {
                Ok(read) => {
                    for object in read {
                        is_any = true;
                        let target = Target::of_object(&target.resource, &object);
                        let done =
                            self.scale(session, io, &target, &object, replicas, &mut results).await;
                        errors.extend(done.err());
                    }
                }
                Err(error) => errors.push(error),
            }
        }
        if !is_any {
            let causes: Vec<String> = errors.iter().map(ToString::to_string).collect();
            let text = format!("no objects passed to scale {}", causes.join(", "));
            return Err(Error::message(text.trim_end()));
        }
        Error::all(errors)
    }

    async fn scale(
        &self,
        session: &Session,
        io: &mut Io,
        target: &Target,
        object: &Value,
        replicas: i64,
        results: &mut Results,
    ) -> Result<(), Error> {
        if !target.resource.subresources.iter().any(|it| it == "scale") {
            return Err(Error::Verbatim(
                "Error from server (NotFound): the server could not find the requested resource"
                    .to_owned(),
            ));
        }
        let path = format!("{}/scale", target.path());
        let mut change = json!({"spec": {"replicas": replicas}});
        if self.current_replicas.is_some() || self.resource_version.is_some() {
            let scale = session.get(&path).await?;
            let current = number(&scale["spec"], "replicas");
            if let Some(expected) = self.current_replicas.filter(|it| *it != current) {
                return Err(Error::message(format!(
                    "Expected replicas to be {expected}, was {current}"
                )));
            }
            let version = text(&scale["metadata"], "resourceVersion");
            if let Some(expected) = self.resource_version.as_deref().filter(|it| *it != version) {
                return Err(Error::message(format!(
                    "Expected resource version to be {expected}, was {version}"
                )));
            }
            change["metadata"] = json!({"resourceVersion": version});
        }
        if self.mutation.dry_run() == DryRun::Client {
            return results.print(io, object, "scaled");
        }
        let query = self.mutation.query("kubectl-scale");
        patch(session, &path, MERGE_PATCH, &query, &change).await?;
        if results.prints_objects() {
            let scaled = session.get(&target.path()).await?;
            return results.print(io, &scaled, "scaled");
        }
        results.print(io, object, "scaled")
    }
}
