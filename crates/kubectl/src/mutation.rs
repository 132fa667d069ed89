//! What the verbs that change objects have in common: dry runs, field managers and their results.

use http::Method;

use crate::error::Error;
use crate::flags::with_bool_values;
use crate::io::Io;
use crate::lists::with_query;
use crate::print::format::{Format, ObjectPrinter, OutputArgs, object_name};
use crate::session::{JSON, Session};
use machinery::Value;

/// The media type of JSON merge patches.
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";

/// Where a change ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum DryRun {
    /// It is made.
    #[default]
    None,
    /// It is not sent.
    Client,
    /// The server checks it, and does not store it.
    Server,
    /// `--dry-run` without a value, as in old scripts.
    #[value(hide = true)]
    Unchanged,
}

/// The flags of a verb that changes objects.
#[derive(Debug, Clone, clap::Args)]
#[command(mut_args(with_bool_values))]
pub(crate) struct MutationArgs {
    /// Show the result without storing it: client or server
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_value = "none",
        default_missing_value = "unchanged", hide_default_value = true)]
    dry_run: DryRun,
    /// Name of the owner of the changed fields
    #[arg(long, value_name = "NAME")]
    pub field_manager: Option<String>,
    #[command(flatten)]
    pub output: OutputArgs,
}

impl MutationArgs {
    /// Where the change ends.
    pub(crate) fn dry_run(&self) -> DryRun {
        match self.dry_run {
            DryRun::Unchanged => DryRun::Client,
            other => other,
        }
    }

    /// The printer of results. `-o` is checked before anything is changed.
    pub(crate) fn results(&self, io: &Io) -> Result<Results, Error> {
        if self.dry_run == DryRun::Unchanged {
            io.note("W: --dry-run is deprecated and can be replaced with --dry-run=client.");
        }
        let printer = ObjectPrinter::new(self.output.format()?, self.output.show_managed_fields);
        Ok(Results { printer, dry_run: self.dry_run() })
    }

    /// The parameters of a request.
    pub(crate) fn query(&self, manager: &str) -> Vec<(&'static str, String)> {
        let manager = self.field_manager.clone().unwrap_or_else(|| manager.to_owned());
        let mut query = vec![("fieldManager", manager)];
        if self.dry_run == DryRun::Server {
            query.push(("dryRun", "All".to_owned()));
        }
        query
    }
}

/// Prints what was done with objects.
pub(crate) struct Results {
    pub printer: ObjectPrinter,
    dry_run: DryRun,
}

impl Results {
    /// A printer of lines alone, for a verb with another use of `-o`.
    pub(crate) fn of_lines(args: &MutationArgs) -> Self {
        let printer = ObjectPrinter::new(Format::Human { wide: false }, false);
        Self { printer, dry_run: args.dry_run() }
    }

    /// Prints the object, or a line such as `deployment.apps/web created`.
    pub(crate) fn print(&mut self, io: &mut Io, object: &Value, done: &str) -> Result<(), Error> {
        if !matches!(self.printer.format, Format::Human { .. }) {
            return io.print(&self.printer.text(object));
        }
        let suffix = match self.dry_run {
            DryRun::Client | DryRun::Unchanged => " (dry run)",
            DryRun::Server => " (server dry run)",
            DryRun::None => "",
        };
        let done = if done.is_empty() { String::new() } else { format!(" {done}") };
        io.line(&format!("{}{done}{suffix}", object_name(object)))
    }

    /// Whether objects are printed, rather than a line for each.
    pub(crate) fn prints_objects(&self) -> bool {
        !matches!(self.printer.format, Format::Human { .. } | Format::Name)
    }
}

/// Creates an object in a collection.
pub(crate) async fn create(
    session: &Session,
    collection: &str,
    query: &[(&'static str, String)],
    object: &Value,
) -> Result<Value, Error> {
    session.write(Method::POST, &with_query(collection, query), JSON, object).await
}

/// Patches an object.
pub(crate) async fn patch(
    session: &Session,
    path: &str,
    media_type: &str,
    query: &[(&'static str, String)],
    patch: &Value,
) -> Result<Value, Error> {
    session.write(Method::PATCH, &with_query(path, query), media_type, patch).await
}

/// The merge patch that turns one object into another.
pub(crate) fn merge_patch(from: &Value, to: &Value) -> Value {
    let (Some(from), Some(to)) = (from.as_object(), to.as_object()) else { return to.clone() };
    let mut patch = machinery::Map::new();
    for (key, value) in to {
        match from.get(key) {
            Some(old) if old == value => {}
            Some(old) if old.is_object() && value.is_object() => {
                patch.insert(key.clone(), merge_patch(old, value));
            }
            _ => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    for key in from.keys().filter(|key| !to.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    Value::Object(patch)
}

#[cfg(test)]
mod tests {
    use machinery::json;

    use super::*;

    #[test]
    fn a_merge_patch_has_what_differs() {
        let from = json!({"a": 1, "b": {"c": 1, "d": 2}, "l": [1]});
        let to = json!({"a": 1, "b": {"c": 2}, "l": [1, 2], "n": {}});
        let expected = json!({"b": {"c": 2, "d": null}, "l": [1, 2], "n": {}});
        assert_eq!(merge_patch(&from, &to), expected);
    }
}
