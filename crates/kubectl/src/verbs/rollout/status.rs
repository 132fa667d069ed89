//! `rollout status`: follows a rollout until it is done.

use std::time::Duration;

use super::WorkloadArgs;
use crate::error::Error;
use crate::flags::with_bool_values;
use crate::global::parse_timeout;
use crate::io::Io;
use crate::session::{JSON, Session};
use crate::targets::Target;
use crate::watch::Watch;
use machinery::Value;
use machinery::fields::{list, number, text};

/// Follow a rollout until it is done
#[derive(Debug, clap::Args)]
#[command(mut_args(with_bool_values))]
pub(super) struct StatusArgs {
    #[command(flatten)]
    workloads: WorkloadArgs,
    /// Follow the rollout until it is done
    #[arg(long, short, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value = "true", default_missing_value = "true", value_name = "BOOL")]
    watch: bool,
    /// Time limit; 0 is none
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_timeout)]
    timeout: Duration,
    /// Revision to follow; 0 is the latest
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    revision: i64,
}

impl StatusArgs {
    pub(super) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        let workloads = self.workloads.find(session, io).await?;
        if workloads.is_empty() {
            let namespace = &session.namespace;
            io.note(&format!("No resources found in {namespace} namespace."));
        }
        for (target, object) in workloads {
            let following = self.follow(session, io, &target, object);
            if self.timeout.is_zero() {
                following.await?;
            } else {
                let followed = tokio::time::timeout(self.timeout, following).await;
                followed.map_err(|_| Error::message("timed out waiting for the condition"))??;
            }
        }
        Ok(())
    }

    async fn follow(
        &self,
        session: &Session,
        io: &mut Io,
        target: &Target,
        mut object: Value,
    ) -> Result<(), Error> {
        loop {
            let (line, is_done) = self.line(&object)?;
            io.line(&line)?;
            if is_done || !self.watch {
                return Ok(());
            }
            let version = text(&object["metadata"], "resourceVersion").to_owned();
            let mut watch = Watch::start(session, target, &[], JSON, &version).await?;
            while let Some(event) = watch.next().await? {
                if event.kind == "DELETED" {
                    return Err(Error::message("object has been deleted"));
                }
                let (line, is_done) = self.line(&event.object)?;
                io.line(&line)?;
                if is_done {
                    return Ok(());
                }
            }
            object = session.get(&target.path()).await?;
        }
    }

    /// The progress in a line, and whether it is done.
    fn line(&self, object: &Value) -> Result<(String, bool), Error> {
        let name = text(&object["metadata"], "name");
        let kind = text(object, "kind");
        let is_observed = number(&object["metadata"], "generation")
            <= number(&object["status"], "observedGeneration");
        match kind {
            "Deployment" | "DaemonSet" if !is_observed => {
                let noun = if kind == "Deployment" { "deployment" } else { "daemon set" };
                Ok((format!("Waiting for {noun} spec update to be observed..."), false))
            }
            "Deployment" => self.deployment(name, object),
            "DaemonSet" => Ok(daemon_set(name, object)),
            "StatefulSet" => stateful_set(object, is_observed),
            _ => Err(Error::message(format!("no status viewer has been implemented for {kind}"))),
        }
    }

    fn deployment(&self, name: &str, object: &Value) -> Result<(String, bool), Error> {
        let (spec, status) = (&object["spec"], &object["status"]);
        if self.revision > 0 {
            let annotation = "deployment.kubernetes.io/revision";
            let current = text(&object["metadata"]["annotations"], annotation);
            if current != self.revision.to_string() {
                return Err(Error::message(format!(
                    "desired revision ({}) is different from the running revision ({current})",
                    self.revision
                )));
            }
        }
        let is_late = list(status, "conditions")
            .iter()
            .any(|it| text(it, "reason") == "ProgressDeadlineExceeded");
        if is_late {
            return Err(Error::message(format!(
                "deployment {name:?} exceeded its progress deadline"
            )));
        }
        let wanted = spec["replicas"].as_i64().unwrap_or(1);
        let updated = number(status, "updatedReplicas");
        let all = number(status, "replicas");
        let available = number(status, "availableReplicas");
        let waiting = format!("Waiting for deployment {name:?} rollout to finish:");
        Ok(if updated < wanted {
            let text =
                format!("{waiting} {updated} out of {wanted} new replicas have been updated...");
            (text, false)
        } else if all > updated {
            let old = all - updated;
            (format!("{waiting} {old} old replicas are pending termination..."), false)
        } else if available < updated {
            (format!("{waiting} {available} of {updated} updated replicas are available..."), false)
        } else {
            (format!("deployment {name:?} successfully rolled out"), true)
        })
    }
}

fn daemon_set(name: &str, object: &Value) -> (String, bool) {
    let status = &object["status"];
    let wanted = number(status, "desiredNumberScheduled");
    let updated = number(status, "updatedNumberScheduled");
    let available = number(status, "numberAvailable");
    let waiting = format!("Waiting for daemon set {name:?} rollout to finish:");
    if updated < wanted {
        (format!("{waiting} {updated} out of {wanted} new pods have been updated..."), false)
    } else if available < wanted {
        (format!("{waiting} {available} of {wanted} updated pods are available..."), false)
    } else {
        (format!("daemon set {name:?} successfully rolled out"), true)
    }
}

fn stateful_set(object: &Value, is_observed: bool) -> Result<(String, bool), Error> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let strategy = &spec["updateStrategy"];
    if text(strategy, "type") != "RollingUpdate" {
        return Err(Error::message(format!(
            "rollout status is only available for {} strategy type",
            "RollingUpdate"
        )));
    }
    if !is_observed {
        return Ok(("Waiting for statefulset spec update to be observed...".to_owned(), false));
    }
    let wanted = spec["replicas"].as_i64().unwrap_or(1);
    let (ready, updated) = (number(status, "readyReplicas"), number(status, "updatedReplicas"));
    if ready < wanted {
        return Ok((format!("Waiting for {} pods to be ready...", wanted - ready), false));
    }
    let partition = number(&strategy["rollingUpdate"], "partition");
    if partition > 0 {
        let new = wanted - partition;
        if updated < new {
            let text = format!(
                "Waiting for partitioned roll out to finish: {updated} out of {new} new pods have \
                 been updated..."
            );
            return Ok((text, false));
        }
        let text =
            format!("partitioned roll out complete: {updated} new pods have been updated...");
        return Ok((text, true));
    }
    let revision = text(status, "updateRevision");
    if revision != text(status, "currentRevision") {
        let text = format!(
            "waiting for statefulset rolling update to complete {updated} pods at revision \
             {revision}..."
        );
        return Ok((text, false));
    }
    let current = number(status, "currentReplicas");
    let revision = text(status, "currentRevision");
    let text =
        format!("statefulset rolling update complete {current} pods at revision {revision}...");
    Ok((text, true))
}
