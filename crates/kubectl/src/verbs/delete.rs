//! `delete`: deletes objects, and waits until they are gone.

use std::time::Duration;

use clap::ValueEnum;
use http::Method;

use crate::error::Error;
use crate::flags::with_bool_values;
use crate::global::parse_timeout;
use crate::io::Io;
use crate::lists::{ListOptions, objects};
use crate::manifests::FileArgs;
use crate::mutation::DryRun;
use crate::print::format::object_name;
use crate::session::{JSON, Session};
use crate::targets::{Rules, SelectorArgs, Target, Targets};
use crate::watch::Watch;
use machinery::fields::text;
use machinery::{Value, json};

/// The wait for an object without `--timeout`, as long as kubectl's: a week.
const FOREVER: Duration = Duration::from_hours(168);

/// Delete objects
#[derive(Debug, clap::Args)]
#[command(mut_args(with_bool_values), after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "flags of the command line")]
pub struct DeleteArgs {
    /// Types and names
    #[arg(value_name = "TYPE|TYPE/NAME")]
    resources: Vec<String>,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    selectors: SelectorArgs,
    /// All objects of the types
    #[arg(long)]
    all: bool,
    /// Objects of all namespaces
    #[arg(long, short = 'A')]
    all_namespaces: bool,
    /// What happens to the objects that depend on the deleted one
    #[arg(long, value_enum, default_value = "background", num_args = 0..=1, require_equals = true,
        default_missing_value = "background")]
    cascade: Cascade,
    /// Seconds that the object has to end; -1 for its own setting
    #[arg(long, value_name = "SECONDS", default_value_t = -1, allow_negative_numbers = true)]
    grace_period: i64,
    /// With a grace period of 0: delete at once, without waiting for confirmation
    #[arg(long)]
    force: bool,
    /// The same as --grace-period 1
    #[arg(long)]
    now: bool,
    /// An object that does not exist is no error
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    ignore_not_found: Option<bool>,
    /// Wait until the objects are gone
    #[arg(long, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "true",
        default_missing_value = "true", value_name = "BOOL")]
    wait: bool,
    /// Time limit of the wait; 0 is none
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_timeout)]
    timeout: Duration,
    /// Show what would be deleted: client or server
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_value = "none",
        default_missing_value = "unchanged", hide_default_value = true)]
    dry_run: DryRun,
    /// Output format: name
    #[arg(long, short, value_name = "FORMAT")]
    output: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum Cascade {
    #[value(alias = "true")]
    Background,
    #[value(alias = "false")]
    Orphan,
    Foreground,
}

const EXAMPLES: &str = "Examples:
  kubectl delete pod web
  kubectl delete -f web.yaml --ignore-not-found
  kubectl delete deployments,services -l app=web
  kubectl delete pod web --force --grace-period 0";

impl DeleteArgs {
    /// Runs the verb.
    pub(crate) async fn run(mut self, session: &Session, io: &mut Io) -> Result<(), Error> {
        self.complete(io)?;
        let selects = self.all || !self.selectors.is_empty();
        let rules = Rules {
            allows_collections: false,
            all_namespaces: self.all_namespaces,
            has_selector: selects,
        };
        let found = Targets::find(session, io, &self.resources, &self.files, rules).await?;
        let ignores_missing = self.ignore_not_found.unwrap_or(selects);
        let options = ListOptions { query: self.selectors.query(), ..ListOptions::default() };
        let mut errors = Vec::new();
        let mut deleted = Vec::new();
        for target in &found.targets {
            let targets = if target.name.is_some() {
                Ok(vec![target.clone()])
            } else {
                let read = objects(session, target, &options).await;
                read.map(|it| it.iter().map(|it| Target::of_object(&target.resource, it)).collect())
            };
            match targets {
                Ok(targets) => {
                    for target in targets {
                        match self.delete(session, io, &target).await {
                            Ok(uid) => deleted.push((target, uid)),
                            Err(error) if ignores_missing && error.has_code(404) => {}
                            Err(error) => errors.push(error),
                        }
                    }
                }
                Err(error) => errors.push(error),
            }
        }
        if deleted.is_empty() && errors.is_empty() && self.output.is_none() && selects {
            io.line("No resources found")?;
            return Ok(());
        }
        if self.wait && self.dry_run == DryRun::None {
            for (target, uid) in &deleted {
                errors.extend(self.wait_until_gone(session, target, uid).await.err());
            }
        }
        Error::all(errors)
    }

    fn complete(&mut self, io: &Io) -> Result<(), Error> {
        if self.now {
            if self.grace_period != -1 {
                return Err(Error::message(
                    "--now and --grace-period cannot be specified together",
                ));
            }
            self.grace_period = 1;
        }
        if self.grace_period == 0 && !self.force {
            self.grace_period = 1;
        }
        if self.force && self.grace_period < 0 {
            self.grace_period = 0;
        }
        match self.output.as_deref() {
            None | Some("" | "name") => {}
            Some(other) => {
                return Err(Error::message(format!(
                    "unexpected -o output mode: {other}. We only support '-o name'"
                )));
            }
        }
        if self.all && self.selectors.selector.is_some() {
            return Err(Error::message("setting 'all' parameter but found a non empty selector. "));
        }
        if self.all && self.selectors.field_selector.is_some() {
            return Err(Error::message("cannot set --all and --field-selector at the same time"));
        }
        if self.force && self.grace_period > 0 {
            return Err(Error::message(
                "--force and --grace-period greater than 0 cannot be specified together",
            ));
        }
        if self.force {
            io.note(
                "Warning: Immediate deletion does not wait for confirmation that the running \
                 resource has been terminated. The resource may continue to run on the cluster \
                 indefinitely.",
            );
        }
        if self.dry_run == DryRun::Unchanged {
            self.dry_run = DryRun::Client;
        }
        Ok(())
    }

    /// Deletes an object, and returns its uid.
    async fn delete(
        &self,
        session: &Session,
        io: &mut Io,
        target: &Target,
    ) -> Result<String, Error> {
        if target.name.is_none() {
            return Err(Error::message("resource name may not be empty"));
        }
        let mut uid = String::new();
        if self.dry_run == DryRun::Client {
            session.get(&target.path()).await?;
        } else {
            let policy = match self.cascade {
                Cascade::Background => "Background",
                Cascade::Orphan => "Orphan",
                Cascade::Foreground => "Foreground",
            };
            let mut options = json!({
                "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy});
            if self.grace_period >= 0 {
                options["gracePeriodSeconds"] = self.grace_period.into();
            }
            if self.dry_run == DryRun::Server {
                options["dryRun"] = json!(["All"]);
            }
            let answer = session.write(Method::DELETE, &target.path(), JSON, &options).await;
            let answer = answer.map_err(|error| match &target.manifest {
                Some(it) => error.in_step(&format!("error when deleting {:?}", it.source)),
                None => error,
            })?;
            uid_of(&answer).clone_into(&mut uid);
        }
        self.print(io, target)?;
        Ok(uid)
    }

    fn print(&self, io: &mut Io, target: &Target) -> Result<(), Error> {
        let name = target.name.as_deref().unwrap_or_default();
        let resource = &target.resource;
        if self.output.as_deref() == Some("name") {
            let object = json!({"apiVersion": resource.api_version(), "kind": resource.kind,
                "metadata": {"name": name}});
            return io.line(&object_name(&object));
        }
        let done = if self.grace_period == 0 { "force deleted" } else { "deleted" };
        let suffix = match self.dry_run {
            DryRun::None => "",
            DryRun::Server => " (server dry run)",
            DryRun::Client | DryRun::Unchanged => " (dry run)",
        };
        io.line(&format!("{} {name:?} {done}{suffix}", resource.kind_name()))
    }

    /// Waits until the object with this uid is gone.
    async fn wait_until_gone(
        &self,
        session: &Session,
        target: &Target,
        uid: &str,
    ) -> Result<(), Error> {
        let limit = if self.timeout.is_zero() { FOREVER } else { self.timeout };
        let waited = tokio::time::timeout(limit, until_gone(session, target, uid)).await;
        waited.unwrap_or_else(|_| {
            let resource = &target.resource;
            let name = target.name.as_deref().unwrap_or_default();
            Err(Error::message(format!(
                "timed out waiting for the condition on {}/{name}",
                resource.name
            )))
        })
    }
}

/// Waits until an object is deleted. Another one of the same name, with another uid, does not count.
pub(crate) async fn until_gone(session: &Session, target: &Target, uid: &str) -> Result<(), Error> {
    loop {
        let found = match session.get(&target.path()).await {
            Err(error) if error.has_code(404) => return Ok(()),
            // A user who may delete need not be allowed to read.
            Err(error) if error.has_code(403) || error.has_code(405) => return Ok(()),
            found => found?,
        };
        let metadata = &found["metadata"];
        if !uid.is_empty() && text(metadata, "uid") != uid {
            return Ok(());
        }
        let version = text(metadata, "resourceVersion");
        let mut watch = Watch::start(session, target, &[], JSON, version).await?;
        while let Some(event) = watch.next().await? {
            if event.kind == "DELETED" {
                return Ok(());
            }
        }
    }
}

/// The uid in the answer to a deletion: a status, or the object if it is not gone yet.
fn uid_of(answer: &Value) -> &str {
    match text(&answer["details"], "uid") {
        "" => text(&answer["metadata"], "uid"),
        uid => uid,
    }
}
