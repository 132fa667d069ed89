//! `rollout restart`, `pause` and `resume`: changes of the pod template and of `spec.paused`.

use super::WorkloadArgs;
use crate::error::Error;
use crate::io::Io;
use crate::mutation::{DryRun, MutationArgs, Results, patch};
use crate::session::Session;
use crate::targets::Target;
use machinery::fields::{flag, text};
use machinery::{Value, json, timestamp};

/// The annotation whose change replaces all pods.
const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";

const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// Replace all pods
#[derive(Debug, clap::Args)]
pub(super) struct RestartArgs {
    #[command(flatten)]
    workloads: WorkloadArgs,
    #[command(flatten)]
    mutation: MutationArgs,
}

/// Hold a rollout
#[derive(Debug, clap::Args)]
pub(super) struct PauseArgs {
    #[command(flatten)]
    workloads: WorkloadArgs,
    #[command(flatten)]
    mutation: MutationArgs,
}

/// Continue a rollout
#[derive(Debug, clap::Args)]
pub(super) struct ResumeArgs {
    #[command(flatten)]
    workloads: WorkloadArgs,
    #[command(flatten)]
    mutation: MutationArgs,
}

impl RestartArgs {
    pub(super) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        let mut results = self.mutation.results(io)?;
        let now = timestamp::format_seconds(session.clock.now().seconds());
        let mut errors = Vec::new();
        for (target, object) in self.workloads.find(session, io).await? {
            let done = async {
                Self::check(&target, &object, &now)?;
                let change = json!({"spec": {"template": {"metadata":
                    {"annotations": {RESTARTED_AT: now}}}}});
                let step = Change { session, mutation: &self.mutation, done: "restarted" };
                step.make(io, &mut results, &target, object, &change).await
            };
            errors.extend(done.await.err());
        }
        Error::all(errors)
    }

    fn check(target: &Target, object: &Value, now: &str) -> Result<(), Error> {
        let name = target.name.as_deref().unwrap_or_default();
        let kinds = ["Deployment", "DaemonSet", "StatefulSet"];
        if !kinds.contains(&target.resource.kind.as_str()) {
            return Err(Error::message(format!(
                "{} {name:?} restarting is not supported",
                target.resource.full_name()
            )));
        }
        if flag(&object["spec"], "paused") {
            return Err(Error::message(format!(
                "{} {name:?} can't restart paused deployment (run rollout resume first)",
                target.resource.full_name()
            )));
        }
        let annotations = &object["spec"]["template"]["metadata"]["annotations"];
        if text(annotations, RESTARTED_AT) == now {
            return Err(Error::message(format!(
                "failed to create patch for {name}: if restart has already been triggered within the \
                 past second, please wait before attempting to trigger another"
            )));
        }
        Ok(())
    }
}

impl PauseArgs {
    pub(super) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        set_paused(session, io, &self.workloads, &self.mutation, true).await
    }
}

impl ResumeArgs {
    pub(super) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        set_paused(session, io, &self.workloads, &self.mutation, false).await
    }
}

async fn set_paused(
    session: &Session,
    io: &mut Io,
    workloads: &WorkloadArgs,
    mutation: &MutationArgs,
    paused: bool,
) -> Result<(), Error> {
    let mut results = mutation.results(io)?;
    let mut errors = Vec::new();
    for (target, object) in workloads.find(session, io).await? {
        let name = target.name.as_deref().unwrap_or_default().to_owned();
        let resource = target.resource.full_name();
        let is_paused = flag(&object["spec"], "paused");
        let refused = if target.resource.kind != "Deployment" {
            let word = if paused { "pausing" } else { "resuming" };
            Some(format!("{word} is not supported"))
        } else if paused && is_paused {
            Some("is already paused".to_owned())
        } else if !paused && !is_paused {
            Some("is not paused".to_owned())
        } else {
            None
        };
        if let Some(refused) = refused {
            errors.push(Error::message(format!("{resource} {name:?} {refused}")));
            continue;
        }
        let value = if paused { json!(true) } else { Value::Null };
        let change = json!({"spec": {"paused": value}});
        let done = if paused { "paused" } else { "resumed" };
        let step = Change { session, mutation, done };
        errors.extend(step.make(io, &mut results, &target, object, &change).await.err());
    }
    Error::all(errors)
}

/// A change of a workload.
struct Change<'a> {
    session: &'a Session,
    mutation: &'a MutationArgs,
    done: &'a str,
}

impl Change<'_> {
    async fn make(
        &self,
        io: &mut Io,
        results: &mut Results,
        target: &Target,
        object: Value,
        change: &Value,
    ) -> Result<(), Error> {
        let mut changed = object;
        if self.mutation.dry_run() != DryRun::Client {
            let query = self.mutation.query("kubectl-rollout");
            changed = patch(self.session, &target.path(), STRATEGIC, &query, change).await?;
        }
        results.print(io, &changed, self.done)
    }
}
