//! `wait`: waits for a condition, a value, a creation or a deletion.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::error::Error;
use crate::flags::with_bool_values;
use crate::global::parse_timeout;
use crate::io::Io;
use crate::lists::{ListOptions, objects};
use crate::manifests::FileArgs;
use crate::print::custom_columns::relaxed_path;
use crate::print::format::object_name;
use crate::print::template::plain_text;
use crate::session::{JSON, Session};
use crate::targets::{Rules, SelectorArgs, Target, Targets};
use crate::verbs::delete::until_gone;
use crate::watch::Watch;
use machinery::Value;
use machinery::fields::{list, text};
use machinery::json_path::JsonPath;

/// A negative time limit in kubectl's sense: a week.
const WEEK: Duration = Duration::from_hours(168);

/// How often an object that does not exist is looked for.
const INTERVAL: Duration = Duration::from_millis(500);

/// Wait for a condition of objects
#[derive(Debug, clap::Args)]
#[command(mut_args(with_bool_values), after_help = EXAMPLES)]
pub struct WaitArgs {
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
    /// What to wait for: condition=NAME[=VALUE], jsonpath='{PATH}'[=VALUE], create or delete
    #[arg(long = "for", value_name = "WHAT", default_value = "")]
    condition: String,
    /// Time limit; 0 looks once, a negative one waits for a week
    #[arg(long, value_name = "DURATION", default_value = "30s", allow_hyphen_values = true)]
    timeout: String,
    /// Output format: name, json or yaml
    #[command(flatten)]
    output: crate::print::format::OutputArgs,
}

const EXAMPLES: &str = "Examples:
  kubectl wait pod/web --for=condition=Ready
  kubectl wait deployment/web --for=condition=Available --timeout=2m
  kubectl wait pod/web --for=jsonpath='{.status.phase}'=Running
  kubectl wait pod -l app=web --for=delete";

/// What is waited for.
enum Condition {
    /// A condition of the status has a value.
    Status {
        kind: String,
        value: String,
    },
    /// A field has a value, or any.
    Field {
        path: JsonPath,
        value: Option<String>,
    },
    Creation,
    Deletion,
}

impl WaitArgs {
    /// Runs the verb.
    pub(crate) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        let condition = parse(&self.condition)?;
        let limit = match self.timeout.strip_prefix('-') {
            Some(_) => WEEK,
            None => parse_timeout(&self.timeout).map_err(Error::message)?,
        };
        let format = self.output.format()?;
        let mut printer =
            crate::print::format::ObjectPrinter::new(format, self.output.show_managed_fields);
        let rules = Rules {
            allows_collections: false,
            all_namespaces: self.all_namespaces,
            has_selector: self.all || !self.selectors.is_empty(),
        };
        let found = Targets::find(session, io, &self.resources, &self.files, rules).await?;
        let deadline = tokio::time::Instant::now() + limit;
        let targets = self.targets(session, found.targets, &condition, deadline).await?;
        let mut errors = Vec::new();
        for target in &targets {
            let waiting = tokio::time::timeout_at(deadline, until(session, target, &condition));
            match waiting.await {
                Ok(Ok(None)) => {}
                Ok(Ok(Some(object))) => {
                    let text = printer.text(&object);
                    if text.is_empty() {
                        io.line(&format!("{} condition met", object_name(&object)))?;
                    } else {
                        io.print(&text)?;
                    }
                }
                Ok(Err(error)) => errors.push(error),
                Err(_) if limit.is_zero() => errors.push(Error::message(format!(
                    "condition not met for {}/{}",
                    target.resource.name,
                    target.name.as_deref().unwrap_or_default()
                ))),
                Err(_) => errors.push(Error::message(format!(
                    "timed out waiting for the condition on {}/{}",
                    target.resource.name,
                    target.name.as_deref().unwrap_or_default()
                ))),
            }
        }
        match errors.len() {
            0 | 1 => Error::all(errors),
            // kubectl prints several timeouts without a beginning.
            _ => {
                let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
                Err(Error::Verbatim(texts.join("\n")))
            }
        }
    }

    /// The objects to wait for.
    async fn targets(
        &self,
        session: &Session,
        found: Vec<Target>,
        condition: &Condition,
        deadline: tokio::time::Instant,
    ) -> Result<Vec<Target>, Error> {
        let options = ListOptions { query: self.selectors.query(), ..ListOptions::default() };
        let mut targets = Vec::new();
        for target in found {
            if target.name.is_some() {
                targets.push(target);
                continue;
            }
            loop {
                let read = objects(session, &target, &options).await?;
                targets.extend(read.iter().map(|it| Target::of_object(&target.resource, it)));
                let waits = targets.is_empty() && matches!(condition, Condition::Creation);
                if !waits || tokio::time::Instant::now() >= deadline {
                    break;
                }
                session.clock.sleep(INTERVAL).await;
            }
        }
        if targets.is_empty() && !matches!(condition, Condition::Deletion) {
            return Err(Error::message("no matching resources found"));
        }
        Ok(targets)
    }
}

fn parse(text: &str) -> Result<Condition, Error> {
    let lower = text.to_lowercase();
    if lower == "delete" {
        return Ok(Condition::Deletion);
    }
    if lower == "create" {
        return Ok(Condition::Creation);
    }
    if let Some(condition) = text.strip_prefix("condition=") {
        let (kind, value) = condition.split_once('=').unwrap_or((condition, "true"));
        return Ok(Condition::Status { kind: kind.to_owned(), value: value.to_owned() });
    }
    if let Some(field) = text.strip_prefix("jsonpath=") {
        let end = field.rfind('}').map_or(0, |it| it + 1);
        let (path, value) = match field.get(end..).and_then(|it| it.strip_prefix('=')) {
            Some(value) if end > 0 => (&field[..end], Some(value)),
            _ if end == field.len() => (field, None),
            _ => field.split_once('=').map_or((field, None), |it| (it.0, Some(it.1))),
        };
        if value == Some("") {
            return Err(Error::message(
                "jsonpath wait has to have a value after equal sign, like --for=jsonpath='{.status.readyReplicas}'=3",
            ));
        }
        let value = value.map(|it| it.trim_matches(['\'', '"']).to_owned());
        return Ok(Condition::Field { path: relaxed_path(path)?, value });
    }
    Err(Error::message(format!("unrecognized condition: {text:?}")))
}

/// Waits until the condition holds, and returns the object; none if it was deleted before.
fn until<'a>(
    session: &'a Session,
    target: &'a Target,
    condition: &'a Condition,
) -> BoxFuture<'a, Result<Option<Value>, Error>> {
    async move {
        match condition {
            Condition::Deletion => {
                let found = match session.get(&target.path()).await {
                    Err(error) if error.has_code(404) => return Ok(None),
                    found => found?,
                };
                until_gone(session, target, text(&found["metadata"], "uid")).await?;
                Ok(Some(found))
            }
            Condition::Creation => loop {
                match session.get(&target.path()).await {
                    Err(error) if error.has_code(404) => session.clock.sleep(INTERVAL).await,
                    found => return found.map(Some),
                }
            },
            _ => until_true(session, target, condition).await.map(Some),
        }
    }
    .boxed()
}

async fn until_true(
    session: &Session,
    target: &Target,
    condition: &Condition,
) -> Result<Value, Error> {
    loop {
        let found = session.get(&target.path()).await?;
        if condition.holds(&found) {
            return Ok(found);
        }
        let version = text(&found["metadata"], "resourceVersion");
        let mut watch = Watch::start(session, target, &[], JSON, version).await?;
        while let Some(event) = watch.next().await? {
            if event.kind == "DELETED" {
                break;
            }
            if condition.holds(&event.object) {
                return Ok(event.object);
            }
        }
    }
}

impl Condition {
    fn holds(&self, object: &Value) -> bool {
        match self {
            Self::Status { kind, value } => {
                let metadata = &object["metadata"];
                list(&object["status"], "conditions").iter().any(|it| {
                    // A condition of an older generation says nothing about this one.
                    let is_current = match (
                        it["observedGeneration"].as_i64(),
                        metadata["generation"].as_i64(),
                    ) {
                        (Some(observed), Some(generation)) => observed >= generation,
                        _ => true,
                    };
                    is_current
                        && text(it, "type").eq_ignore_ascii_case(kind)
                        && text(it, "status").eq_ignore_ascii_case(value)
                })
            }
            Self::Field { path, value } => match (path.find(object).as_slice(), value) {
                ([], _) => false,
                (_, None) => true,
                ([found], Some(value)) => plain_text(found) == *value,
                _ => false,
            },
            Self::Creation | Self::Deletion => false,
        }
    }
}
