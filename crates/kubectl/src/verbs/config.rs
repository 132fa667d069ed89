//! `config`: the contexts of the kubeconfig.

use clap::Subcommand;

use crate::error::Error;
use crate::flags::with_bool_values;
use crate::global::GlobalArgs;
use crate::io::Io;
use crate::kubeconfig::{Kubeconfig, LISTS};
use crate::print::columns::Columns;
use crate::print::format::{Format, ObjectPrinter, OutputArgs};
use machinery::Value;
use machinery::fields::{list, text};

/// Show and change the kubeconfig
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl config get-contexts
  kubectl config use-context staging
  kubectl config set-context --current --namespace shop")]
pub struct ConfigArgs {
    #[command(subcommand)]
    step: Step,
}

#[derive(Debug, Subcommand)]
enum Step {
    /// Print the name of the current context
    CurrentContext,
    /// Print the contexts
    GetContexts(GetContextsArgs),
    /// Print the names of the clusters
    GetClusters,
    /// Print the names of the users
    GetUsers,
    /// Choose the current context
    #[command(visible_alias = "use")]
    UseContext(NameArgs),
    /// Create or change a context
    SetContext(SetContextArgs),
    /// Rename a context
    RenameContext(RenameArgs),
    /// Remove a context
    DeleteContext(NameArgs),
    /// Print the kubeconfig, without its secrets
    View(ViewArgs),
}

#[derive(Debug, clap::Args)]
#[command(mut_args(with_bool_values))]
struct GetContextsArgs {
    /// Names of contexts; without them, all
    names: Vec<String>,
    /// Output format: name
    #[arg(long, short, value_name = "FORMAT")]
    output: Option<String>,
    /// Print no headers
    #[arg(long)]
    no_headers: bool,
}

#[derive(Debug, clap::Args)]
struct NameArgs {
    /// Name of the context
    name: String,
}

#[derive(Debug, clap::Args)]
struct RenameArgs {
    /// Name of the context
    old: String,
    /// New name of the context
    new: String,
}

#[derive(Debug, clap::Args)]
#[command(mut_args(with_bool_values))]
struct SetContextArgs {
    /// Name of the context
    #[arg(required_unless_present = "current")]
    name: Option<String>,
    /// Change the current context
    #[arg(long, conflicts_with = "name")]
    current: bool,
    /// User of the context
    #[arg(long = "user", id = "context_user", value_name = "NAME")]
    user: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(mut_args(with_bool_values))]
struct ViewArgs {
    /// Print certificates, keys and tokens as well
    #[arg(long)]
    raw: bool,
    /// Only what the current context needs
    #[arg(long)]
    minify: bool,
    #[command(flatten)]
    output: OutputArgs,
}

impl ConfigArgs {
    /// Runs the verb.
    pub(crate) fn run(self, global: &GlobalArgs, io: &mut Io) -> Result<(), Error> {
        let mut config = Kubeconfig::load(global)?;
        match self.step {
            Step::CurrentContext => match config.current_context() {
                Some(name) => io.line(name),
                None => Err(Error::message("current-context is not set")),
            },
            Step::GetContexts(args) => args.run(&config, io),
            Step::GetClusters => names(&config, io, "clusters"),
            Step::GetUsers => names(&config, io, "users"),
            Step::UseContext(args) => {
                if config.entry("contexts", &args.name).is_none() {
                    return Err(no_context(&args.name));
                }
                let file = config.file_of_current_context();
                file.document["current-context"] = args.name.as_str().into();
                file.write()?;
                io.line(&format!("Switched to context {:?}.", args.name))
            }
            Step::SetContext(args) => args.run(global, &mut config, io),
            Step::RenameContext(args) => rename(&mut config, io, &args),
            Step::DeleteContext(args) => delete(&mut config, io, &args.name),
            Step::View(args) => args.run(&config, io),
        }
    }
}

fn no_context(name: &str) -> Error {
    Error::message(format!("no context exists with the name: {name:?}"))
}

fn names(config: &Kubeconfig, io: &mut Io, list: &str) -> Result<(), Error> {
    let mut rows = Columns::default();
    rows.push(vec!["NAME".to_owned()]);
    for name in config.names(list) {
        rows.push(vec![name]);
    }
    io.print(&rows.take_text())
}

impl GetContextsArgs {
    fn run(self, config: &Kubeconfig, io: &mut Io) -> Result<(), Error> {
        let is_name = match self.output.as_deref() {
            None | Some("") => false,
            Some("name") => true,
            Some(other) => {
                return Err(Error::message(format!("output must be one of '' or 'name': {other}")));
            }
        };
        let mut errors = Vec::new();
        let names = if self.names.is_empty() { config.names("contexts") } else { self.names };
        let mut rows = Columns::default();
        if !self.no_headers && !is_name {
            let headers = ["CURRENT", "NAME", "CLUSTER", "AUTHINFO", "NAMESPACE"];
            rows.push(headers.map(str::to_owned).to_vec());
        }
        for name in names {
            let Some(context) = config.entry("contexts", &name) else {
                errors.push(Error::message(format!("context {name} not found")));
                continue;
            };
            if is_name {
                rows.push(vec![name]);
                continue;
            }
            let mark = if config.current_context() == Some(name.as_str()) { "*" } else { "" };
            let field = |field| text(&context, field).to_owned();
            rows.push(vec![
                mark.to_owned(),
                name,
                field("cluster"),
                field("user"),
                field("namespace"),
            ]);
        }
        io.print(&rows.take_text())?;
        Error::all(errors)
    }
}

impl SetContextArgs {
    fn run(self, global: &GlobalArgs, config: &mut Kubeconfig, io: &mut Io) -> Result<(), Error> {
        let name = match (self.name, config.current_context()) {
            (Some(name), _) => name,
            (None, Some(current)) => current.to_owned(),
            (None, None) => return Err(Error::message("no current context is set")),
        };
        let file = config.file_of("contexts", &name);
        let (context, is_new) = file.entry_mut("contexts", &name);
        for (field, value) in
            [("cluster", &global.cluster), ("user", &self.user), ("namespace", &global.namespace)]
        {
            if let Some(value) = value {
                context[field] = value.as_str().into();
            }
        }
        if is_new {
            for field in ["cluster", "user"] {
                if context[field].is_null() {
                    context[field] = "".into();
                }
            }
        }
        file.write()?;
        let done = if is_new { "created" } else { "modified" };
        io.line(&format!("Context {name:?} {done}."))
    }
}

fn rename(config: &mut Kubeconfig, io: &mut Io, args: &RenameArgs) -> Result<(), Error> {
    let RenameArgs { old, new } = args;
    let path = config.file_of("contexts", old).path.display().to_string();
    let Some(context) = config.entry("contexts", old) else {
        return Err(Error::message(format!(
            "cannot rename the context {old:?}, it's not in {path}"
        )));
    };
    if config.entry("contexts", new).is_some() {
        return Err(Error::message(format!(
            "cannot rename the context {old:?}, the context {new:?} already exists in {path}"
        )));
    }
    let is_current = config.current_context() == Some(old);
    let file = config.file_of("contexts", old);
    file.remove("contexts", old);
    *file.entry_mut("contexts", new).0 = context;
    file.write()?;
    if is_current {
        let file = config.file_of_current_context();
        file.document["current-context"] = new.as_str().into();
        file.write()?;
    }
    io.line(&format!("Context {old:?} renamed to {new:?}."))
}

fn delete(config: &mut Kubeconfig, io: &mut Io, name: &str) -> Result<(), Error> {
    let is_current = config.current_context() == Some(name);
    let file = config.file_of("contexts", name);
    let path = file.path.display().to_string();
    if !file.remove("contexts", name) {
        return Err(Error::message(format!("cannot delete context {name}, not in {path}")));
    }
    file.write()?;
    if is_current {
        io.note(
            "warning: this removed your active context, use \"kubectl config use-context\" to select \
             a different one",
        );
    }
    io.line(&format!("deleted context {name} from {path}"))
}

impl ViewArgs {
    fn run(self, config: &Kubeconfig, io: &mut Io) -> Result<(), Error> {
        let mut document = config.merged();
        if self.minify {
            minify(&mut document)?;
        }
        if !self.raw {
            hide_secrets(&mut document);
        }
        if self.output.output.as_deref() == Some("json") {
            return io.print(&format!("{}\n", ordered(&document, 0)));
        }
        let format = match self.output.output.as_deref() {
            None | Some("") => Format::Yaml,
            Some(_) => self.output.format()?,
        };
        io.print(&ObjectPrinter::new(format, true).text(&document))
    }
}

/// Keeps the current context, its cluster and its user.
fn minify(document: &mut Value) -> Result<(), Error> {
    let current = text(document, "current-context").to_owned();
    let contexts = list(document, "contexts");
    let context = contexts.iter().find(|it| text(it, "name") == current);
    let Some(context) = context.map(|it| it["context"].clone()) else {
        return Err(Error::message("cannot locate context ".to_owned() + &current));
    };
    for (field, name) in [
        ("contexts", current.as_str()),
        ("clusters", text(&context, "cluster")),
        ("users", text(&context, "user")),
    ] {
        if let Some(entries) = document[field].as_array_mut() {
            entries.retain(|it| it["name"] == name);
        }
    }
    Ok(())
}

/// Replaces certificates, keys, tokens and passwords.
fn hide_secrets(document: &mut Value) {
    for (field, content) in LISTS {
        for entry in document[field].as_array_mut().into_iter().flatten() {
            let Some(map) = entry[content].as_object_mut() else { continue };
            for (key, value) in map {
                if key.ends_with("-data") {
                    *value = "DATA+OMITTED".into();
                } else if matches!(key.as_str(), "token" | "password") {
                    *value = "REDACTED".into();
                }
            }
        }
    }
}

/// The order of fields in JSON, which is not that of the alphabet.
const ORDER: [&str; 16] = [
    "name",
    "kind",
    "apiVersion",
    "preferences",
    "clusters",
    "users",
    "contexts",
    "current-context",
    "server",
    "tls-server-name",
    "cluster",
    "user",
    "namespace",
    "certificate-authority-data",
    "client-certificate-data",
    "client-key-data",
];

/// JSON with the fields in this order.
fn ordered(value: &Value, depth: usize) -> String {
    let indent = "    ".repeat(depth + 1);
    let (lines, open, close): (Vec<String>, _, _) = match value {
        Value::Object(map) if !map.is_empty() => {
            let mut fields: Vec<_> = map.iter().collect();
            fields
                .sort_by_key(|it| ORDER.iter().position(|key| key == it.0).unwrap_or(ORDER.len()));
            let line = |(key, value): (&String, &Value)| {
                format!("{indent}{key:?}: {}", ordered(value, depth + 1))
            };
            (fields.into_iter().map(line).collect(), '{', '}')
        }
        Value::Array(items) if !items.is_empty() => {
            let line = |it| format!("{indent}{}", ordered(it, depth + 1));
            (items.iter().map(line).collect(), '[', ']')
        }
        other => return machinery::codec::json::to_text(other),
    };
    format!("{open}\n{}\n{}{close}", lines.join(",\n"), "    ".repeat(depth))
}
