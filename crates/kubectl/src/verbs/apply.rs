//! `apply`: makes objects as manifests say, and leaves what others have set.

pub(crate) mod three_way;
mod prune;
mod server_side;

use crate::error::Error;
use crate::flags::with_bool_values;
use crate::io::Io;
use crate::manifests::{FileArgs, list_of};
use crate::mutation::{DryRun, MERGE_PATCH, MutationArgs, Results, create, patch};
use crate::session::Session;
use crate::targets::{Target, of_files};
use crate::verbs::create::Validate;
use machinery::codec::json;
use machinery::fields::text;
use machinery::{Map, Value};

/// The annotation with the manifest that was applied last.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// How often a patch is computed again after somebody else's change.
const ATTEMPTS: usize = 5;

/// Create and change objects so that they are as manifests say
#[derive(Debug, clap::Args)]
#[command(mut_args(with_bool_values), after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "flags of the command line")]
pub struct ApplyArgs {
    /// No arguments are expected
    #[arg(hide = true)]
    unexpected: Vec<String>,
    #[command(flatten)]
    files: FileArgs,
    /// Only objects of the manifests with these labels
    #[arg(long, short = 'l', value_name = "SELECTOR")]
    selector: Option<String>,
    /// Let the server merge the manifest (server-side apply)
    #[arg(long)]
    server_side: bool,
    /// With --server-side: take fields over from other managers
    #[arg(long)]
    force_conflicts: bool,
    /// Replace an object that cannot be patched
    #[arg(long)]
    force: bool,
    /// Delete objects that were applied before, and that the manifests no longer have
    #[arg(long)]
    prune: bool,
    /// With --prune: among all objects, not only those of a selector
    #[arg(long)]
    all: bool,
    /// With --prune: types to delete, as group/version/Kind
    #[arg(long, value_name = "TYPE", alias = "prune-whitelist")]
    prune_allowlist: Vec<String>,
    /// How the server treats unknown fields
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_value = "strict",
        default_missing_value = "strict")]
    validate: Validate,
    #[command(flatten)]
    mutation: MutationArgs,
}

const EXAMPLES: &str = "Examples:
  kubectl apply -f web.yaml
  cat web.yaml | kubectl apply -f -
  kubectl apply -f manifests/ --recursive --prune -l app=web
  kubectl apply --server-side --field-manager ci -f web.yaml";

impl ApplyArgs {
    /// Runs the verb.
    pub(crate) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        self.check()?;
        let mut results = self.mutation.results(io)?;
        let targets = of_files(session, io, &self.files).await.map_err(|error| match error {
            Error::Message(text) if text.starts_with("no objects passed") => {
                Error::message("no objects passed to apply")
            }
            other => other,
        })?;
        let targets = self.selected(targets)?;
        if targets.is_empty() {
            return Err(Error::message("no objects passed to apply"));
        }
        let mut errors = Vec::new();
        let mut applied = Vec::new();
        for target in &targets {
            match self.apply_one(session, io, target, &mut results).await {
                Ok(object) => applied.push(object),
                Err(error) => errors.push(error),
            }
        }
        if results.prints_objects() && !applied.is_empty() {
            let printed = if applied.len() == 1 { applied[0].clone() } else { list_of(&applied) };
            results.print(io, &printed, "")?;
        }
        if self.prune && errors.is_empty() {
            let prune = prune::Prune { session, args: &self, targets: &targets, applied: &applied };
            prune.run(io, &mut results).await?;
        }
        Error::all(errors)
    }

    fn check(&self) -> Result<(), Error> {
        if let Some(unexpected) = self.unexpected.first() {
            return Err(Error::message(format!(
                "Unexpected args: [{unexpected}]\nSee 'kubectl apply -h' for help and examples"
            )));
        }
        if self.files.is_empty() {
            return Err(Error::message("must specify one of -f and -k"));
        }
        if self.force_conflicts && !self.server_side {
            return Err(Error::message("--force-conflicts only works with --server-side"));
        }
        if self.server_side && self.mutation.dry_run() == DryRun::Client {
            return Err(Error::message(
                "--dry-run=client doesn't work with --server-side (did you mean --dry-run=server instead?)",
            ));
        }
        if self.force && self.server_side {
            return Err(Error::message("--force cannot be used with --server-side"));
        }
        if self.prune && !self.all && self.selector.is_none() {
            return Err(Error::message(
                "all resources selected for prune without explicitly passing --all. To prune all \
                 resources, pass the --all flag. If you did not mean to prune all resources, specify \
                 a label selector",
            ));
        }
        Ok(())
    }

    /// The targets whose manifests have the labels of the selector.
    fn selected(&self, targets: Vec<Target>) -> Result<Vec<Target>, Error> {
        let Some(selector) = &self.selector else { return Ok(targets) };
        let selector = machinery::selector::LabelSelector::parse(selector);
        let selector = selector.map_err(Error::message)?;
        let matches = |target: &Target| {
            let labels = manifest(target)["metadata"]["labels"].clone();
            selector.matches(|key| labels.get(key).and_then(Value::as_str))
        };
        Ok(targets.into_iter().filter(matches).collect())
    }

    async fn apply_one(
        &self,
        session: &Session,
        io: &mut Io,
        target: &Target,
        results: &mut Results,
    ) -> Result<Value, Error> {
        if self.server_side {
            let object = server_side::apply(session, self, target).await?;
            return done_with(io, results, object, "serverside-applied");
        }
        if target.name.is_none() {
            let source = target.manifest.as_ref().map_or("", |it| &it.source);
            return Err(Error::message(format!(
                "error when retrieving current configuration of:\nResource: \"{}, Resource={}\", \
                 GroupVersionKind: \"{}, Kind={}\"\nName: \"\", Namespace: {:?}\nfrom server for: \
                 {source:?}: resource name may not be empty",
                gvr_version(target),
                target.resource.name,
                gvr_version(target),
                target.resource.kind,
                target.namespace.as_deref().unwrap_or_default()
            )));
        }
        match session.get(&target.path()).await {
            Err(error) if error.has_code(404) => {
                let object = self.create(session, target).await?;
                done_with(io, results, object, "created")
            }
            Err(error) => Err(error),
            Ok(current) => {
                warn_of_missing_annotation(io, target, &current);
                let (object, done) = self.change(session, target, current).await?;
                done_with(io, results, object, done)
            }
        }
    }

    /// The parameters of a request.
    fn query(&self, manager: &str) -> Vec<(&'static str, String)> {
        let mut query = self.mutation.query(manager);
        query.push(("fieldValidation", self.validate.level().to_owned()));
        query
    }

    async fn create(&self, session: &Session, target: &Target) -> Result<Value, Error> {
        let object = with_annotation(manifest(target));
        if self.mutation.dry_run() == DryRun::Client {
            return Ok(object);
        }
        let collection = target.resource.collection(target.namespace.as_deref());
        let created =
            create(session, &collection, &self.query("kubectl-client-side-apply"), &object).await;
        let source = target.manifest.as_ref().map_or("", |it| &it.source);
        created.map_err(|error| error.in_step(&format!("error when creating {source:?}")))
    }

    /// Patches an object that exists; the result, and what was done.
    async fn change(
        &self,
        session: &Session,
        target: &Target,
        mut current: Value,
    ) -> Result<(Value, &'static str), Error> {
        let modified = with_annotation(manifest(target));
        if self.mutation.dry_run() == DryRun::Client {
            return Ok((modified, "configured"));
        }
        let ty = types::of_kind(&target.resource.api_version(), &target.resource.kind);
        let media_type = match ty {
            Some(_) => "application/strategic-merge-patch+json",
            None => MERGE_PATCH,
        };
        let query = self.query("kubectl-client-side-apply");
        for attempt in 1.. {
            let original = last_applied(&current);
            let change = three_way::patch(ty, original.as_ref(), &modified, &current);
            if change == Value::Object(Map::new()) {
                return Ok((current, "unchanged"));
            }
            match patch(session, &target.path(), media_type, &query, &change).await {
                Ok(object) => return Ok((object, "configured")),
                Err(error) if error.has_code(409) && attempt < ATTEMPTS => {
                    current = session.get(&target.path()).await?;
                }
                Err(error) if self.force && (error.has_code(422) || error.has_code(409)) => {
                    let object = self.replace(session, target, &modified).await?;
                    return Ok((object, "configured"));
                }
                Err(error) => return Err(in_patch(error, target, &change)),
            }
        }
        Ok((current, "unchanged"))
    }

    /// Deletes the object and creates it again.
    async fn replace(
        &self,
        session: &Session,
        target: &Target,
        modified: &Value,
    ) -> Result<Value, Error> {
        let options = machinery::json!({"propagationPolicy": "Background"});
        session.write(http::Method::DELETE, &target.path(), crate::session::JSON, &options).await?;
        crate::verbs::delete::until_gone(session, target, "").await?;
        let collection = target.resource.collection(target.namespace.as_deref());
        create(session, &collection, &self.query("kubectl-client-side-apply"), modified).await
    }
}

/// Prints the line of an object, unless all objects are printed at the end.
fn done_with(
    io: &mut Io,
    results: &mut Results,
    object: Value,
    done: &str,
) -> Result<Value, Error> {
    if !results.prints_objects() {
        results.print(io, &object, done)?;
    }
    Ok(object)
}

/// Warns of an object that was not made with `apply`.
fn warn_of_missing_annotation(io: &Io, target: &Target, current: &Value) {
    if current["metadata"]["annotations"][LAST_APPLIED].is_string() {
        return;
    }
    let name = target.name.as_deref().unwrap_or_default();
    io.note(&format!(
        "Warning: resource {}/{name} is missing the {LAST_APPLIED} annotation which is required \
         by kubectl apply. kubectl apply should only be used on resources created declaratively \
         by either kubectl create --save-config or kubectl apply. The missing annotation will be \
         patched automatically.",
        target.resource.name
    ));
}

/// Names the patch and the object in an error, as kubectl does.
fn in_patch(error: Error, target: &Target, change: &Value) -> Error {
    let source = target.manifest.as_ref().map_or("", |it| &it.source);
    error.in_step(&format!(
        "error when applying patch:\n{}\nto:\nResource: \"{}, Resource={}\", GroupVersionKind: \
         \"{}, Kind={}\"\nName: {:?}, Namespace: {:?}\nfor: {source:?}: error when patching {source:?}",
        json::to_text(change),
        gvr_version(target),
        target.resource.name,
        gvr_version(target),
        target.resource.kind,
        target.name.as_deref().unwrap_or_default(),
        target.namespace.as_deref().unwrap_or_default()
    ))
}

/// `apps/v1`, or `/v1` for the core group.
fn gvr_version(target: &Target) -> String {
    format!("{}/{}", target.resource.group, target.resource.version)
}

/// The object of a target's manifest.
pub(crate) fn manifest(target: &Target) -> &Value {
    target.manifest.as_ref().map_or(&Value::Null, |it| &it.object)
}

/// A manifest with the annotation that contains it.
pub(crate) fn with_annotation(object: &Value) -> Value {
    let mut bare = object.clone();
    if !bare["metadata"].is_object() {
        bare["metadata"] = Value::Object(Map::new());
    }
    if !bare["metadata"]["annotations"].is_object() {
        bare["metadata"]["annotations"] = Value::Object(Map::new());
    }
    if let Some(annotations) = bare["metadata"]["annotations"].as_object_mut() {
        annotations.remove(LAST_APPLIED);
    }
    let content = format!("{}\n", json::to_text(&bare));
    bare["metadata"]["annotations"][LAST_APPLIED] = content.into();
    bare
}

/// The manifest in the annotation of an object.
pub(crate) fn last_applied(object: &Value) -> Option<Value> {
    let annotations = &object["metadata"]["annotations"];
    serde_json::from_str(text(annotations, LAST_APPLIED)).ok()
}
