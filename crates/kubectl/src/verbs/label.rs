//! `label` and `annotate`: set and remove labels and annotations.

use crate::error::Error;
use crate::flags::with_bool_values;
use crate::io::Io;
use crate::lists::{ListOptions, objects};
use crate::manifests::FileArgs;
use crate::mutation::{DryRun, MERGE_PATCH, MutationArgs, Results, merge_patch, patch};
use crate::session::Session;
use crate::targets::{Rules, SelectorArgs, Target, Targets};
use machinery::fields::{entries, text};
use machinery::{Value, json, names};

/// Set or remove labels
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl label pod web tier=front
  kubectl label --overwrite pods -l app=web tier=back
  kubectl label node n1 zone-")]
pub struct LabelArgs {
    #[command(flatten)]
    inner: PairArgs,
}

/// Set or remove annotations
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl annotate deployment web owner=jane
  kubectl annotate --overwrite --all pods checked=yes
  kubectl annotate deployment web owner-")]
pub struct AnnotateArgs {
    #[command(flatten)]
    inner: PairArgs,
}

#[derive(Debug, clap::Args)]
#[command(mut_args(with_bool_values))]
#[expect(clippy::struct_excessive_bools, reason = "flags of the command line")]
struct PairArgs {
    /// Types and names, then KEY=VALUE to set, and KEY- to remove
    #[arg(value_name = "TYPE NAME KEY=VALUE|KEY-", allow_hyphen_values = false)]
    args: Vec<String>,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    selectors: SelectorArgs,
    /// All objects of the type
    #[arg(long)]
    all: bool,
    /// Objects of all namespaces
    #[arg(long, short = 'A')]
    all_namespaces: bool,
    /// Replace values that exist
    #[arg(long)]
    overwrite: bool,
    /// Print the values afterwards
    #[arg(long)]
    list: bool,
    /// Change the manifest and print it, without a request
    #[arg(long)]
    local: bool,
    /// Revision that the object must have
    #[arg(long, value_name = "REVISION")]
    resource_version: Option<String>,
    #[command(flatten)]
    mutation: MutationArgs,
}

/// What differs between the two verbs.
struct Words {
    verb: &'static str,
    /// The field of the metadata.
    field: &'static str,
    noun: &'static str,
    set: &'static str,
    removed: &'static str,
    both: &'static str,
    neither: &'static str,
}

const LABEL: Words = Words {
    verb: "label",
    field: "labels",
    noun: "label",
    set: "labeled",
    removed: "unlabeled",
    both: "modified",
    neither: "not labeled",
};

const ANNOTATE: Words = Words {
    verb: "annotate",
    field: "annotations",
    noun: "annotation",
    set: "annotated",
    removed: "annotated",
    both: "annotated",
    neither: "annotated",
};

impl LabelArgs {
    /// Runs the verb.
    pub(crate) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        self.inner.run(session, io, &LABEL).await
    }
}

impl AnnotateArgs {
    /// Runs the verb.
    pub(crate) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        self.inner.run(session, io, &ANNOTATE).await
    }
}

/// The changes that the arguments ask for.
#[derive(Default)]
struct Changes {
    set: Vec<(String, String)>,
    removed: Vec<String>,
}

impl PairArgs {
    async fn run(self, session: &Session, io: &mut Io, words: &Words) -> Result<(), Error> {
        let (resources, pairs) = split(&self.args, words)?;
        let changes = parse(pairs, words)?;
        self.check(resources, &changes, words)?;
        let mut results = self.mutation.results(io)?;
        let rules = Rules {
            allows_collections: self.all,
            all_namespaces: self.all_namespaces,
            has_selector: !self.selectors.is_empty(),
        };
        let found = Targets::find(session, io, resources, &self.files, rules).await?;
        if self.resource_version.is_some() && !found.is_single {
            return Err(Error::message(
                "--resource-version may only be used with a single resource",
            ));
        }
        let options = ListOptions { query: self.selectors.query(), ..ListOptions::default() };
        let mut errors = Vec::new();
        for target in &found.targets {
            let read = match &target.manifest {
                Some(manifest) if self.local => Ok(vec![manifest.object.clone()]),
                _ => objects(session, target, &options).await,
            };
            match read {
                Ok(read) => {
                    for object in read {
                        let one = Target::of_object(&target.resource, &object);
                        let one = Change { args: &self, words, changes: &changes, target: one };
                        let done =
                            one.make(session, io, object, found.is_single, &mut results).await;
                        errors.extend(done.err());
                    }
                }
                Err(error) => errors.push(error),
            }
        }
        Error::all(errors)
    }

    fn check(&self, resources: &[String], changes: &Changes, words: &Words) -> Result<(), Error> {
        if self.all && self.selectors.selector.is_some() {
            return Err(Error::message("cannot set --all and --selector at the same time"));
        }
        if self.list && self.mutation.output.output.is_some() {
            return Err(Error::message("--list and --output may not be specified together"));
        }
        if resources.is_empty() && self.files.is_empty() {
            return Err(Error::message(
                "one or more resources must be specified as <resource> <name> or <resource>/<name>",
            ));
        }
        if changes.set.is_empty() && changes.removed.is_empty() && !self.list {
            return Err(Error::message(format!("at least one {} update is required", words.noun)));
        }
        Ok(())
    }
}

/// The arguments before and after the first pair.
fn split<'a>(args: &'a [String], words: &Words) -> Result<(&'a [String], &'a [String]), Error> {
    let is_pair = |it: &String| !it.starts_with('=') && it.contains('=') || it.ends_with('-');
    let start = args.iter().position(is_pair).unwrap_or(args.len());
    let (resources, pairs) = args.split_at(start);
    if !pairs.iter().all(is_pair) {
        return Err(Error::message(format!(
            "all resources must be specified before {} changes: {}",
            words.noun,
            pairs.iter().find(|it| !is_pair(it)).map_or("", String::as_str)
        )));
    }
    Ok((resources, pairs))
}

fn parse(pairs: &[String], words: &Words) -> Result<Changes, Error> {
    let mut changes = Changes::default();
    for pair in pairs {
        match pair.split_once('=') {
            Some((key, value)) => {
                let mut problems = names::qualified_name(key);
                if words.field == "labels" {
                    problems.extend(names::label_value(value));
                    if !problems.is_empty() {
                        let problem = problems.join("; ");
                        return Err(Error::message(format!(
                            "invalid label value: {pair:?}: {problem}"
                        )));
                    }
                }
                changes.set.push((key.to_owned(), value.to_owned()));
            }
            None => changes.removed.push(pair.trim_end_matches('-').to_owned()),
        }
    }
    if let Some((key, _)) = changes.set.iter().find(|(key, _)| changes.removed.contains(key)) {
        return Err(Error::message(
            format!(
                "can not both modify and remove {} in the same command",
                if words.field == "labels" { "a label" } else { "an annotation" }
            )
            .replace("{key}", key),
        ));
    }
    Ok(changes)
}

/// The change of one object.
struct Change<'a> {
    args: &'a PairArgs,
    words: &'a Words,
    changes: &'a Changes,
    target: Target,
}

impl Change<'_> {
    async fn make(
        &self,
        session: &Session,
        io: &mut Io,
        mut object: Value,
        is_single: bool,
        results: &mut Results,
    ) -> Result<(), Error> {
        let (args, words) = (self.args, self.words);
        if args.resource_version.is_some()
            && let Some(metadata) = object["metadata"].as_object_mut()
        {
            metadata.remove("resourceVersion");
        }
        let before = object.clone();
        let is_local = args.local || args.mutation.dry_run() == DryRun::Client || args.list;
        for key in self.changes.removed.iter().filter(|_| !is_local && words.field == "labels") {
            if object["metadata"][words.field][key].is_null() {
                io.line(&format!("label {key:?} not found."))?;
            }
        }
        let (is_set, is_removed) = self.apply(&mut object)?;
        if !is_local && before != object {
            let query = args.mutation.query(&format!("kubectl-{}", words.verb));
            let change = merge_patch(&before, &object);
            object = patch(session, &self.target.path(), MERGE_PATCH, &query, &change).await?;
        }
        if args.list {
            return self.list(io, &object, is_single);
        }
        let done = match (is_set, is_removed) {
            (true, true) => words.both,
            (true, false) => words.set,
            (false, true) => words.removed,
            (false, false) => words.neither,
        };
        results.print(io, &object, done)
    }

    /// Changes the object; whether a value was set, and whether one was removed.
    fn apply(&self, object: &mut Value) -> Result<(bool, bool), Error> {
        let field = self.words.field;
        let map = object["metadata"][field].as_object().cloned().unwrap_or_default();
        if !self.args.overwrite {
            let clashes: Vec<String> = self
                .changes
                .set
                .iter()
                .filter_map(|(key, value)| {
                    let old = map.get(key)?.as_str().unwrap_or_default();
                    (old != value).then(|| {
                        if field == "labels" {
                            format!("'{key}' already has a value ({old}), and --overwrite is false")
                        } else {
                            format!(
                                "--overwrite is false but found the following declared \
                             annotation(s): '{key}' already has a value ({old})"
                            )
                        }
                    })
                })
                .collect();
            if !clashes.is_empty() {
                return Err(Error::message(clashes.join("\n")));
            }
        }
        let mut changed = map.clone();
        let mut is_set = false;
        for (key, value) in &self.changes.set {
            is_set |= map.get(key).and_then(Value::as_str) != Some(value);
            changed.insert(key.clone(), value.as_str().into());
        }
        let mut is_removed = false;
        for key in &self.changes.removed {
            is_removed |= changed.remove(key).is_some();
        }
        if is_set || is_removed {
            object["metadata"][field] = Value::Object(changed);
        }
        if let Some(version) = &self.args.resource_version {
            object["metadata"]["resourceVersion"] = json!(version);
        }
        Ok((is_set, is_removed))
    }

    fn list(&self, io: &mut Io, object: &Value, is_single: bool) -> Result<(), Error> {
        let indent = if is_single { "" } else { " " };
        if !is_single {
            let resource = &self.target.resource;
            io.line(&format!(
                "Listing {} for {}.{}/{}:",
                self.words.field,
                resource.kind,
                resource.group,
                text(&object["metadata"], "name")
            ))?;
        }
        for (key, value) in entries(&object["metadata"], self.words.field) {
            io.line(&format!("{indent}{key}={}", value.as_str().unwrap_or_default()))?;
        }
        Ok(())
    }
}
