//! `get`: prints objects and collections, and follows their changes.

mod generic;
mod human;
mod watching;

use crate::error::Error;
use crate::flags::with_bool_values;
use crate::io::Io;
use crate::lists::{CHUNK, ListOptions};
use crate::manifests::FileArgs;
use crate::print::format::{Format, OutputArgs};
use crate::print::table::TableOptions;
use crate::session::{JSON, Session};
use crate::targets::{Rules, SelectorArgs, Target, Targets};
use crate::verbs::raw;

/// A table of the server, or else the objects.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,\
    application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

/// Display one or many objects
#[derive(Debug, clap::Args)]
#[command(mut_args(with_bool_values), after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "flags of the command line")]
pub struct GetArgs {
    /// Types and names: `pods`, `pod web`, `pod/web svc/web`, `deployments,services`
    #[arg(value_name = "TYPE|TYPE/NAME")]
    resources: Vec<String>,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    selectors: SelectorArgs,
    /// List objects in all namespaces
    #[arg(long, short = 'A')]
    all_namespaces: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    table: TableArgs,
    /// Follow changes after the objects are printed
    #[arg(long, short)]
    watch: bool,
    /// Follow changes without printing the objects first
    #[arg(long)]
    watch_only: bool,
    /// Print the type of each change
    #[arg(long)]
    output_watch_events: bool,
    /// An object that does not exist is no error
    #[arg(long)]
    ignore_not_found: bool,
    /// Objects in one response of the server; 0 for all at once
    #[arg(long, value_name = "NUMBER", default_value_t = CHUNK)]
    chunk_size: u32,
    /// Get a subresource, such as `status` or `scale`
    #[arg(long, value_name = "NAME")]
    subresource: Option<String>,
    /// Print the response of this path of the server
    #[arg(long, value_name = "PATH")]
    raw: Option<String>,
}

/// The flags of tables.
#[derive(Debug, Clone, clap::Args)]
#[command(mut_args(with_bool_values))]
#[expect(clippy::struct_excessive_bools, reason = "flags of the command line")]
struct TableArgs {
    /// Print no headers
    #[arg(long)]
    no_headers: bool,
    /// Show all labels in the last column
    #[arg(long)]
    show_labels: bool,
    /// Show labels as columns
    #[arg(long, short = 'L', value_name = "LABEL", value_delimiter = ',')]
    label_columns: Vec<String>,
    /// Show the kind before each name
    #[arg(long)]
    show_kind: bool,
    /// Sort by the field at a JSON path, such as `.metadata.creationTimestamp`
    #[arg(long, value_name = "PATH")]
    sort_by: Option<String>,
    /// Let the server choose the columns; otherwise the name and the age are shown
    #[arg(long, action = clap::ArgAction::Set, default_value = "true", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", value_name = "BOOL", hide_short_help = true)]
    server_print: bool,
}

const EXAMPLES: &str = "Examples:
  kubectl get pods
  kubectl get deployment web -o yaml
  kubectl get pods -l app=web -o wide --watch
  kubectl get deploy,svc -A --show-labels
  kubectl get nodes -o custom-columns=NAME:.metadata.name,CPU:.status.capacity.cpu
  kubectl get pods --sort-by=.metadata.creationTimestamp
  kubectl get --raw /healthz";

impl GetArgs {
    /// Runs the verb.
    pub(crate) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        if let Some(path) = &self.raw {
            self.check_raw()?;
            return raw::get(session, io, path).await;
        }
        let no_headers = self.table.no_headers;
        let follows = self.watch || self.watch_only;
        if !follows && self.resources.is_empty() && self.files.is_empty() {
            io.note(
                "You must specify the type of resource to get. Use \"kubectl api-resources\" for a \
                 complete list of supported resources.\n",
            );
            return Err(Error::usage(
                "get",
                "Required resource not specified.\nUse \"kubectl explain <resource>\" for a detailed \
                 description of that resource (e.g. kubectl explain pods).",
            ));
        }
        self.check_output()?;
        let rules = Rules {
            allows_collections: true,
            all_namespaces: self.all_namespaces,
            has_selector: !self.selectors.is_empty(),
        };
        // As in kubectl, the arguments are checked before the format.
        let found = Targets::find(session, io, &self.resources, &self.files, rules).await;
        let format = self.output.format_with_tables(no_headers)?;
        let found = found?;
        let view = View { session, args: &self };
        if follows {
            return watching::follow(&view, io, &found, format).await;
        }
        match format {
            Format::Human { wide } => human::print(&view, io, &found, wide).await,
            format => generic::print(&view, io, &found, format).await,
        }
    }

    fn check_raw(&self) -> Result<(), Error> {
        if !self.resources.is_empty() {
            return Err(Error::message("arguments may not be passed when --raw is specified"));
        }
        if self.watch || self.watch_only || self.selectors.selector.is_some() {
            return Err(Error::message(
                "--raw may not be specified with other flags that filter the server request or alter \
                 the output",
            ));
        }
        if self.output.output.is_some() {
            return Err(Error::message("--raw and --output are mutually exclusive"));
        }
        Ok(())
    }

    fn check_output(&self) -> Result<(), Error> {
        let output = self.output.output.as_deref().unwrap_or_default();
        if self.table.show_labels && !output.is_empty() && output != "wide" {
            return Err(Error::message(format!(
                "--show-labels option cannot be used with {output} printer"
            )));
        }
        if !self.table.label_columns.is_empty() && output.starts_with("custom-columns") {
            return Err(Error::message(format!(
                "--label-columns option cannot be used with {output} printer"
            )));
        }
        if self.output_watch_events && !(self.watch || self.watch_only) {
            return Err(Error::message(
                "--output-watch-events option can only be used with --watch or --watch-only",
            ));
        }
        Ok(())
    }
}

/// What the parts of the verb share.
struct View<'a> {
    session: &'a Session,
    args: &'a GetArgs,
}

impl View<'_> {
    fn table_options(&self, wide: bool) -> TableOptions {
        let flags = &self.args.table;
        TableOptions {
            no_headers: flags.no_headers,
            wide,
            with_kind: flags.show_kind,
            show_labels: flags.show_labels,
            label_columns: flags.label_columns.clone(),
            with_event: self.args.output_watch_events,
        }
    }

    fn list_options(&self, is_table: bool) -> ListOptions {
        let mut query = self.args.selectors.query();
        let sorts = self.args.table.sort_by.is_some();
        if is_table && sorts {
            query.push(("includeObject", "Object".to_owned()));
        }
        let as_table = is_table && self.args.table.server_print;
        ListOptions {
            query,
            accept: if as_table { TABLE } else { JSON },
            chunk: if sorts { 0 } else { self.args.chunk_size },
        }
    }

    /// The path of an object or one of its subresources.
    fn object_path(&self, target: &Target) -> Result<String, Error> {
        let Some(subresource) = &self.args.subresource else { return Ok(target.path()) };
        if target.name.is_none() {
            return Err(Error::message(
                "subresource cannot be used when bulk resources are specified",
            ));
        }
        Ok(format!("{}/{subresource}", target.path()))
    }

    /// Whether an error is one that the user does not want to hear of.
    fn is_ignored(&self, error: &Error) -> bool {
        self.args.ignore_not_found && error.has_code(404)
    }
}
