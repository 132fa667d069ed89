//! `patch`: changes fields of objects.

use std::fs;

use clap::ValueEnum;

use crate::error::Error;
use crate::flags::with_bool_values;
use crate::io::Io;
use crate::manifests::FileArgs;
use crate::mutation::{DryRun, MERGE_PATCH, MutationArgs, Results, patch};
use crate::session::Session;
use crate::targets::{Rules, Target, Targets};
use machinery::codec::{json, yaml};
use machinery::{Value, patch as patches};

/// Change fields of objects with a patch
#[derive(Debug, clap::Args)]
#[command(mut_args(with_bool_values), after_help = EXAMPLES)]
pub struct PatchArgs {
    /// Type and name: `node n1` or `deployment/web`
    #[arg(value_name = "TYPE/NAME")]
    resources: Vec<String>,
    #[command(flatten)]
    files: FileArgs,
    /// The patch, as JSON or YAML
    #[arg(long, short, value_name = "PATCH")]
    patch: Option<String>,
    /// File with the patch
    #[arg(long, value_name = "FILE", conflicts_with = "patch")]
    patch_file: Option<String>,
    /// Type of the patch
    #[arg(long = "type", value_enum, default_value = "strategic", value_name = "TYPE")]
    kind: PatchType,
    /// Patch a subresource, such as `status` or `scale`
    #[arg(long, value_name = "NAME")]
    subresource: Option<String>,
    /// Patch the file and print the result, without a request that changes anything
    #[arg(long)]
    local: bool,
    #[command(flatten)]
    mutation: MutationArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum PatchType {
    Json,
    Merge,
    Strategic,
}

const EXAMPLES: &str = "Examples:
  kubectl patch node n1 -p '{\"spec\":{\"unschedulable\":true}}'
  kubectl patch deployment web --type json -p '[{\"op\":\"remove\",\"path\":\"/spec/paused\"}]'
  kubectl patch deployment web --subresource scale --type merge -p '{\"spec\":{\"replicas\":2}}'";

impl PatchArgs {
    /// Runs the verb.
    pub(crate) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        let text = match (&self.patch, &self.patch_file) {
            (Some(text), _) => text.clone(),
            (None, Some(path)) => fs::read_to_string(path).map_err(|error| {
                Error::message(format!("unable to read patch file: open {path}: {error}"))
            })?,
            (None, None) => {
                return Err(Error::message(
                    "must specify --patch or --patch-file containing the contents of the patch",
                ));
            }
        };
        let decoded = yaml::decode(text.as_bytes());
        let decoded = decoded
            .map_err(|error| Error::message(format!("unable to parse {text:?}: {error}")))?;
        let mut results = self.mutation.results(io)?;
        let found =
            Targets::find(session, io, &self.resources, &self.files, Rules::default()).await?;
        let mut errors = Vec::new();
        for target in &found.targets {
            let done = self.patch_one(session, io, target, &decoded.value, &mut results).await;
            errors.extend(done.err());
        }
        Error::all(errors)
    }

    async fn patch_one(
        &self,
        session: &Session,
        io: &mut Io,
        target: &Target,
        change: &Value,
        results: &mut Results,
    ) -> Result<(), Error> {
        let mut path = target.path();
        if let Some(subresource) = &self.subresource {
            path = format!("{path}/{subresource}");
        }
        let local = target.manifest.as_ref().filter(|_| self.local);
        let before = match local {
            Some(manifest) => manifest.object.clone(),
            None => session.get(&path).await?,
        };
        let after = if self.local || self.mutation.dry_run() == DryRun::Client {
            let mut after = before.clone();
            self.apply(&mut after, change)?;
            after
        } else {
            let media_type = match self.kind {
                PatchType::Json => "application/json-patch+json",
                PatchType::Merge => MERGE_PATCH,
                PatchType::Strategic => "application/strategic-merge-patch+json",
            };
            let query = self.mutation.query("kubectl-patch");
            patch(session, &path, media_type, &query, change).await?
        };
        let done = if before == after { "patched (no change)" } else { "patched" };
        results.print(io, &after, done)
    }

    /// Applies the patch as the server would.
    fn apply(&self, object: &mut Value, change: &Value) -> Result<(), Error> {
        let kind = object["kind"].as_str().unwrap_or_default();
        let version = object["apiVersion"].as_str().unwrap_or_default();
        match (self.kind, types::of_kind(version, kind)) {
            (PatchType::Json, _) => patches::json::apply(object, json::to_text(change).as_bytes())
                .map_err(|error| Error::message(error.to_string())),
            (PatchType::Strategic, Some(ty)) => types::strategic::apply(ty, object, change)
                .map_err(|error| Error::message(error.to_string())),
            (PatchType::Strategic, None) => Err(Error::message(
                "strategic merge patch is not supported for custom resources; use --type merge",
            )),
            (PatchType::Merge, _) => {
                patches::merge::apply(object, change);
                Ok(())
            }
        }
    }
}
