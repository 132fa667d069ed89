//! `rollout history` and `rollout undo`: the revisions of a workload.

use super::WorkloadArgs;
use crate::error::Error;
use crate::flags::with_bool_values;
use crate::io::Io;
use crate::mutation::{DryRun, MutationArgs, patch};
use crate::print::format::object_name;
use crate::session::Session;
use crate::targets::Target;
use machinery::fields::{flag, list, text};
use machinery::{Value, json};

/// The annotation with the revision of a Deployment's pods.
const REVISION: &str = "deployment.kubernetes.io/revision";
/// The annotation with the reason of a revision.
const CAUSE: &str = "kubernetes.io/change-cause";

/// Print the revisions
#[derive(Debug, clap::Args)]
#[command(mut_args(with_bool_values))]
pub(super) struct HistoryArgs {
    #[command(flatten)]
    workloads: WorkloadArgs,
}

/// Go back to a former revision
#[derive(Debug, clap::Args)]
#[command(mut_args(with_bool_values))]
pub(super) struct UndoArgs {
    #[command(flatten)]
    workloads: WorkloadArgs,
    /// Revision to go back to; 0 is the one before the latest
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    to_revision: i64,
    #[command(flatten)]
    mutation: MutationArgs,
}

/// A revision of a workload.
struct Revision {
    number: i64,
    cause: String,
    /// What a patch makes of the object to go back to it.
    change: Value,
    /// Its pod template.
    template: Value,
}

impl HistoryArgs {
    pub(super) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        for (target, object) in self.workloads.find(session, io).await? {
            let revisions = revisions(session, &target, &object).await?;
            io.line(&format!("{} ", object_name(&object)))?;
            let mut rows = vec![("REVISION".to_owned(), "CHANGE-CAUSE".to_owned())];
            for it in revisions {
                let cause = if it.cause.is_empty() { "<none>".to_owned() } else { it.cause };
                rows.push((it.number.to_string(), cause));
            }
            let width = rows.iter().map(|it| it.0.len()).max().unwrap_or(0) + 2;
            for (number, cause) in rows {
                io.line(&format!("{number:width$}{cause}"))?;
            }
            io.line("")?;
        }
        Ok(())
    }
}

impl UndoArgs {
    pub(super) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        let mut results = self.mutation.results(io)?;
        let mut errors = Vec::new();
        for (target, object) in self.workloads.find(session, io).await? {
            let done = async {
                let done = self.undo(session, &target, &object).await?;
                results.print(io, &object, &done)
            };
            errors.extend(done.await.err());
        }
        Error::all(errors)
    }

    async fn undo(
        &self,
        session: &Session,
        target: &Target,
        object: &Value,
    ) -> Result<String, Error> {
        if flag(&object["spec"], "paused") {
            return Err(Error::message(
                "you cannot rollback a paused deployment; resume it first with 'kubectl rollout \
                 resume' and try again",
            ));
        }
        let revisions = revisions(session, target, object).await?;
        let wanted = match self.to_revision {
            0 => revisions.iter().rev().nth(1),
            number => revisions.iter().find(|it| it.number == number),
        };
        let Some(wanted) = wanted else {
            return Err(Error::message(match self.to_revision {
                0 => format!(
                    "no rollout history found for {} {:?}",
                    target.resource.kind.to_lowercase(),
                    text(&object["metadata"], "name")
                ),
                number => format!("unable to find specified revision {number} in history"),
            }));
        };
        if without_hash(&wanted.template) == without_hash(&object["spec"]["template"]) {
            return Ok(format!(
                "skipped rollback (current template already matches revision {})",
                wanted.number
            ));
        }
        if self.mutation.dry_run() != DryRun::Client {
            let media_type = match target.resource.kind.as_str() {
                "Deployment" => "application/json-patch+json",
                _ => "application/strategic-merge-patch+json",
            };
            let query = self.mutation.query("kubectl-rollout");
            patch(session, &target.path(), media_type, &query, &wanted.change).await?;
        }
        Ok("rolled back".to_owned())
    }
}

/// A pod template without the label that the Deployment controller adds.
fn without_hash(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(labels) = template["metadata"]["labels"].as_object_mut() {
        labels.remove("pod-template-hash");
    }
    template
}

/// The revisions of a workload, the oldest first.
async fn revisions(
    session: &Session,
    target: &Target,
    object: &Value,
) -> Result<Vec<Revision>, Error> {
    let resource = match target.resource.kind.as_str() {
        "Deployment" => "replicasets",
        "DaemonSet" | "StatefulSet" => "controllerrevisions",
        kind => {
            return Err(Error::message(format!(
                "error retrieving rollbacker for {kind:?}, no visitor method exists for {{{} {kind}}}",
                target.resource.group
            )));
        }
    };
    let namespace = target.namespace.as_deref().unwrap_or_default();
    let found = session.get(&format!("/apis/apps/v1/namespaces/{namespace}/{resource}")).await?;
    let uid = text(&object["metadata"], "uid");
    let is_owned = |it: &&Value| {
        let owners = list(&it["metadata"], "ownerReferences");
        owners.iter().any(|owner| text(owner, "uid") == uid && flag(owner, "controller"))
    };
    let mut revisions: Vec<Revision> = list(&found, "items")
        .iter()
        .filter(is_owned)
        .map(|it| if resource == "replicasets" { of_replica_set(it) } else { of_data(it) })
        .collect();
    revisions.sort_by_key(|it| it.number);
    Ok(revisions)
}

fn of_replica_set(set: &Value) -> Revision {
    let annotations = &set["metadata"]["annotations"];
    let template = without_hash(&set["spec"]["template"]);
    Revision {
        number: text(annotations, REVISION).parse().unwrap_or(0),
        cause: text(annotations, CAUSE).to_owned(),
        change: json!([{"op": "replace", "path": "/spec/template", "value": template}]),
        template,
    }
}

fn of_data(revision: &Value) -> Revision {
    let annotations = &revision["metadata"]["annotations"];
    Revision {
        number: revision["revision"].as_i64().unwrap_or(0),
        cause: text(annotations, CAUSE).to_owned(),
        change: revision["data"].clone(),
        template: revision["data"]["spec"]["template"].clone(),
    }
}
