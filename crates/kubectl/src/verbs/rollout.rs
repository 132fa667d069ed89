//! `rollout`: the progress and the history of workloads.

mod history;
mod status;
mod pausing;

use clap::Subcommand;

use crate::error::Error;
use crate::io::Io;
use crate::lists::{ListOptions, objects};
use crate::manifests::FileArgs;
use crate::session::Session;
use crate::targets::{Rules, SelectorArgs, Target, Targets};
use machinery::Value;

/// Manage the rollouts of Deployments, DaemonSets and StatefulSets
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl rollout status deployment/web
  kubectl rollout undo deployment/web --to-revision 2
  kubectl rollout restart daemonset/agent")]
#[allow(clippy::doc_markdown, reason = "the documentation of flags is their help text")]
pub struct RolloutArgs {
    #[command(subcommand)]
    step: Step,
}

#[derive(Debug, Subcommand)]
enum Step {
    Status(status::StatusArgs),
    History(history::HistoryArgs),
    Undo(history::UndoArgs),
    Restart(pausing::RestartArgs),
    Pause(pausing::PauseArgs),
    Resume(pausing::ResumeArgs),
}

/// Which workloads are meant.
#[derive(Debug, clap::Args)]
struct WorkloadArgs {
    /// Types and names
    #[arg(value_name = "TYPE/NAME")]
    resources: Vec<String>,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    selectors: SelectorArgs,
}

impl RolloutArgs {
    /// Runs the verb.
    pub(crate) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        match self.step {
            Step::Status(args) => args.run(session, io).await,
            Step::History(args) => args.run(session, io).await,
            Step::Undo(args) => args.run(session, io).await,
            Step::Restart(args) => args.run(session, io).await,
            Step::Pause(args) => args.run(session, io).await,
            Step::Resume(args) => args.run(session, io).await,
        }
    }
}

impl WorkloadArgs {
    /// The objects, each with its target.
    async fn find(&self, session: &Session, io: &mut Io) -> Result<Vec<(Target, Value)>, Error> {
        if self.resources.is_empty() && self.files.is_empty() {
            return Err(Error::message("required resource not specified"));
        }
        let rules = Rules {
            allows_collections: true,
            all_namespaces: false,
            has_selector: !self.selectors.is_empty(),
        };
        let found = Targets::find(session, io, &self.resources, &self.files, rules).await?;
        let options = ListOptions { query: self.selectors.query(), ..ListOptions::default() };
        let mut workloads = Vec::new();
        for target in &found.targets {
            for object in objects(session, target, &options).await? {
                workloads.push((Target::of_object(&target.resource, &object), object));
            }
        }
        Ok(workloads)
    }
}
