//! `diff`: what `apply` would change, as the program `diff` shows it.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::error::Error;
use crate::flags::with_bool_values;
use crate::io::Io;
use crate::manifests::FileArgs;
use crate::mutation::{MERGE_PATCH, create, patch};
use crate::print::object::{to_yaml, without_managed_fields};
use crate::session::Session;
use crate::targets::{Target, of_files};
use crate::verbs::apply::{LAST_APPLIED, last_applied, manifest, three_way, with_annotation};
use machinery::{Map, Value};

/// Show what apply would change
#[derive(Debug, clap::Args)]
#[command(
    mut_args(with_bool_values),
    after_help = "The exit code is 0 without differences, 1 with \
differences, and greater than 1 after an error. KUBECTL_EXTERNAL_DIFF is the program to use instead \
of `diff -u -N`.

Examples:
  kubectl diff -f web.yaml
  cat web.yaml | kubectl diff -f -"
)]
pub struct DiffArgs {
    #[command(flatten)]
    files: FileArgs,
    /// Only objects of the manifests with these labels
    #[arg(long, short = 'l', value_name = "SELECTOR")]
    selector: Option<String>,
    /// Compare with the result of a server-side apply
    #[arg(long)]
    server_side: bool,
    /// With --server-side: take fields over from other managers
    #[arg(long)]
    force_conflicts: bool,
    /// Name of the owner of the changed fields
    #[arg(long, value_name = "NAME", default_value = "kubectl-client-side-apply")]
    field_manager: String,
    /// Keep metadata.managedFields
    #[arg(long)]
    show_managed_fields: bool,
}

impl DiffArgs {
    /// Runs the verb. Differences are exit code 1, errors a greater one.
    pub(crate) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        match self.compare(session, io).await {
            Err(Error::Output(error)) => Err(Error::Output(error)),
            Err(Error::Exit(code)) => Err(Error::Exit(code)),
            Err(error) => {
                io.note(&error.text());
                Err(Error::Exit(2))
            }
            Ok(()) => Ok(()),
        }
    }

    async fn compare(&self, session: &Session, io: &mut Io) -> Result<(), Error> {
        if self.files.is_empty() {
            return Err(Error::message("must specify one of -f and -k"));
        }
        let targets = of_files(session, io, &self.files).await?;
        let selector = self.selector.as_deref().map(machinery::selector::LabelSelector::parse);
        let selector = selector.transpose().map_err(Error::message)?;
        let folder = |prefix| tempfile::Builder::new().prefix(prefix).tempdir();
        let live = folder("LIVE-").map_err(|error| cannot_write(&error))?;
        let merged = folder("MERGED-").map_err(|error| cannot_write(&error))?;
        let (live, merged) = (live.path(), merged.path());
        for target in &targets {
            let labels = &manifest(target)["metadata"]["labels"];
            let is_selected = selector
                .as_ref()
                .is_none_or(|it| it.matches(|key| labels.get(key).and_then(Value::as_str)));
            if !is_selected {
                continue;
            }
            let (before, after) = self.versions(session, target).await?;
            let name = file_name(target);
            if let Some(before) = before {
                self.write(&live.join(&name), before)?;
            }
            self.write(&merged.join(&name), after)?;
        }
        run_program(io, live, merged).await
    }

    /// The object as it is, and as it would be.
    async fn versions(
        &self,
        session: &Session,
        target: &Target,
    ) -> Result<(Option<Value>, Value), Error> {
        let mut query = vec![("dryRun", "All".to_owned())];
        let before = match session.get(&target.path()).await {
            Err(error) if error.has_code(404) => None,
            found => Some(found?),
        };
        if self.server_side {
            query.push(("fieldManager", "kubectl".to_owned()));
            query.push(("force", self.force_conflicts.to_string()));
            let media_type = "application/apply-patch+yaml";
            let after =
                patch(session, &target.path(), media_type, &query, manifest(target)).await?;
            return Ok((before, after));
        }
        query.push(("fieldManager", self.field_manager.clone()));
        // The annotation would differ wherever the manifest does.
        let mut modified = with_annotation(manifest(target));
        if let Some(annotations) = modified["metadata"]["annotations"].as_object_mut() {
            annotations.remove(LAST_APPLIED);
        }
        let Some(before) = before else {
            let collection = target.resource.collection(target.namespace.as_deref());
            let after = create(session, &collection, &query, manifest(target)).await?;
            return Ok((None, after));
        };
        let ty = types::of_kind(&target.resource.api_version(), &target.resource.kind);
        let media_type = match ty {
            Some(_) => "application/strategic-merge-patch+json",
            None => MERGE_PATCH,
        };
        let original = last_applied(&before);
        let change = three_way::patch(ty, original.as_ref(), &modified, &before);
        if change == Value::Object(Map::new()) {
            return Ok((Some(before.clone()), before));
        }
        let after = patch(session, &target.path(), media_type, &query, &change).await?;
        Ok((Some(before), after))
    }

    /// Writes an object to a file, without what changes by itself.
    fn write(&self, path: &Path, mut object: Value) -> Result<(), Error> {
        if !self.show_managed_fields {
            without_managed_fields(&mut object);
        }
        if target_is_secret(&object) {
            hide(&mut object);
        }
        fs::write(path, to_yaml(&object)).map_err(|error| cannot_write(&error))
    }
}

fn target_is_secret(object: &Value) -> bool {
    object["kind"] == "Secret" && object["apiVersion"] == "v1"
}

/// Replaces the values of a secret. Their length is not shown either.
fn hide(object: &mut Value) {
    for value in object["data"].as_object_mut().into_iter().flatten() {
        *value.1 = "***".into();
    }
}

fn cannot_write(error: &std::io::Error) -> Error {
    Error::message(format!("cannot write a temporary file: {error}"))
}

/// `apps.v1.Deployment.default.web`
fn file_name(target: &Target) -> String {
    let resource = &target.resource;
    let group =
        if resource.group.is_empty() { String::new() } else { format!("{}.", resource.group) };
    format!(
        "{group}{}.{}.{}.{}",
        resource.version,
        resource.kind,
        target.namespace.as_deref().unwrap_or_default(),
        target.name.as_deref().unwrap_or_default()
    )
}

/// Runs the program that compares the folders; its exit code is ours.
async fn run_program(io: &mut Io, live: &Path, merged: &Path) -> Result<(), Error> {
    let external = std::env::var("KUBECTL_EXTERNAL_DIFF").unwrap_or_default();
    let mut words = external.split_whitespace();
    let program = words.next().unwrap_or("diff").to_owned();
    let mut command = std::process::Command::new(&program);
    if external.trim().is_empty() {
        command.args(["-u", "-N"]);
    } else {
        command.args(words);
    }
    command.arg(live).arg(merged).stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output()).await;
    let output = output.map_err(|error| Error::message(error.to_string()))?;
    let output = output.map_err(|error| {
        Error::message(format!(
            "failed to run {program:?}: {error}; install it, or name another program in \
             KUBECTL_EXTERNAL_DIFF"
        ))
    })?;
    io.print_bytes(&output.stdout)?;
    let notes = String::from_utf8_lossy(&output.stderr);
    if !notes.trim().is_empty() {
        io.note(notes.trim_end());
    }
    match output.status.code() {
        Some(0) => Ok(()),
        Some(1) => Err(Error::Exit(1)),
        code => Err(Error::Exit(code.and_then(|it| u8::try_from(it).ok()).unwrap_or(2))),
    }
}
