//! [`Format`]: the value of `-o`, and [`ObjectPrinter`], which prints objects in it.

use std::fs;

use machinery::Value;
use machinery::fields::{list, text};

use crate::error::Error;
use crate::print::custom_columns::CustomColumns;
use crate::print::object::{indented_json, ordered_json, to_yaml, without_managed_fields};
use crate::print::template::Template;

/// A form of output.
#[derive(Debug)]
pub(crate) enum Format {
    /// For people; the verb decides what that is.
    Human {
        /// With all columns.
        wide: bool,
    },
    Json,
    Yaml,
    Name,
    JsonPath(Template),
    JsonPathAsJson(Template),
    Columns(CustomColumns),
}

/// The flags that say how objects are printed.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(mut_args(crate::flags::with_bool_values))]
pub(crate) struct OutputArgs {
    /// Output format: json, yaml, name, wide, jsonpath=…, jsonpath-as-json=…, jsonpath-file=…,
    /// custom-columns=… or custom-columns-file=…
    #[arg(long, short = 'o', value_name = "FORMAT")]
    pub output: Option<String>,
    /// Template for `-o jsonpath` and `-o custom-columns`
    #[arg(long, value_name = "TEMPLATE", hide_short_help = true)]
    pub template: Option<String>,
    /// Keep metadata.managedFields in JSON and YAML
    #[arg(long)]
    pub show_managed_fields: bool,
    /// Accepted and ignored: missing keys of templates are never errors
    #[arg(long, hide = true)]
    pub allow_missing_template_keys: Option<bool>,
}

/// The formats that every verb has.
const GENERIC: [&str; 6] =
    ["json", "jsonpath", "jsonpath-as-json", "jsonpath-file", "name", "yaml"];
/// The formats that we do not have, which kubectl names in its list.
const TEMPLATES: [&str; 4] = ["go-template", "go-template-file", "template", "templatefile"];
/// The formats of `get` alone.
const TABLES: [&str; 3] = ["custom-columns", "custom-columns-file", "wide"];

impl OutputArgs {
    /// The format of `get`, which has tables.
    pub(crate) fn format_with_tables(&self, no_headers: bool) -> Result<Format, Error> {
        self.parse(&TABLES, no_headers)
    }

    /// The format of a verb that prints a line for each object.
    pub(crate) fn format(&self) -> Result<Format, Error> {
        self.parse(&[], false)
    }

    fn parse(&self, more: &[&str], no_headers: bool) -> Result<Format, Error> {
        let output = self.output.as_deref().unwrap_or_default();
        let (name, value) = output.split_once('=').unwrap_or((output, ""));
        let value =
            if value.is_empty() { self.template.as_deref().unwrap_or_default() } else { value };
        if name.starts_with("custom-columns") && !more.contains(&name) {
            return Err(unknown(output, more));
        }
        Ok(match name {
            "" => Format::Human { wide: false },
            "wide" if more.contains(&"wide") => Format::Human { wide: true },
            "json" => Format::Json,
            "yaml" => Format::Yaml,
            "name" => Format::Name,
            "jsonpath" => Format::JsonPath(Template::parse(given(value)?)?),
            "jsonpath-as-json" => Format::JsonPathAsJson(Template::parse(given(value)?)?),
            "jsonpath-file" => Format::JsonPath(Template::parse(&read(given(value)?)?)?),
            "custom-columns" => Format::Columns(CustomColumns::parse(value, no_headers)?),
            "custom-columns-file" => {
                if value.is_empty() {
                    return Err(Error::message(
                        "custom-columns-file format specified but no custom columns given",
                    ));
                }
                Format::Columns(CustomColumns::parse_file(&read(value)?)?)
            }
            _ if TEMPLATES.contains(&name) => {
                given(value)?;
                return Err(Error::message(format!(
                    "the output format {name:?} is not available, since Go templates are not \
                     implemented; use jsonpath or custom-columns"
                )));
            }
            _ => return Err(unknown(output, more)),
        })
    }
}

fn unknown(output: &str, more: &[&str]) -> Error {
    let mut allowed: Vec<&str> = [&GENERIC[..], &TEMPLATES[..], more].concat();
    allowed.sort_unstable();
    Error::message(format!(
        "unable to match a printer suitable for the output format {output:?}, allowed formats are: {}",
        allowed.join(",")
    ))
}

fn given(value: &str) -> Result<&str, Error> {
    if value.is_empty() {
        return Err(Error::message("template format specified but no template given"));
    }
    Ok(value)
}

fn read(path: &str) -> Result<String, Error> {
    let text = fs::read_to_string(path);
    text.map_err(|error| Error::message(format!("error reading --template {path}, {error}")))
}

/// Prints one object after the other in a format that is not for people.
#[derive(Debug)]
pub(crate) struct ObjectPrinter {
    pub format: Format,
    pub shows_managed_fields: bool,
    /// Whether fields are in the order of types, as in what kubectl makes itself.
    pub is_typed: bool,
    printed: usize,
}

impl ObjectPrinter {
    pub(crate) fn new(format: Format, shows_managed_fields: bool) -> Self {
        Self { format, shows_managed_fields, is_typed: false, printed: 0 }
    }

    /// The text of an object or a list of objects; empty for the format for people.
    pub(crate) fn text(&mut self, object: &Value) -> String {
        let mut object = object.clone();
        if !self.shows_managed_fields && matches!(self.format, Format::Json | Format::Yaml) {
            without_managed_fields(&mut object);
        }
        self.printed += 1;
        match &mut self.format {
            Format::Human { .. } => String::new(),
            Format::Json if self.is_typed => ordered_json(&object),
            Format::Json => indented_json(&object),
            Format::Yaml if self.printed > 1 => format!("---\n{}", to_yaml(&object)),
            Format::Yaml => to_yaml(&object),
            Format::Name => names(&object),
            Format::JsonPath(template) => {
                let mut text = String::new();
                template.write(&object, &mut text);
                text
            }
            Format::JsonPathAsJson(template) => {
                let mut text = String::new();
                template.write_as_json(&object, &mut text);
                text
            }
            Format::Columns(columns) => match items(&object) {
                Some(items) => columns.text(&items.iter().collect::<Vec<_>>()),
                None => columns.text(&[&object]),
            },
        }
    }
}

/// The items of a list.
fn items(object: &Value) -> Option<&[Value]> {
    object.get("items")?.as_array().map(Vec::as_slice)
}

/// A line such as `deployment.apps/web` for an object, or for each item of a list.
fn names(object: &Value) -> String {
    if items(object).is_some() {
        return list(object, "items").iter().map(names).collect();
    }
    format!("{}\n", object_name(object))
}

/// `deployment.apps/web`, from an object's own kind.
pub(crate) fn object_name(object: &Value) -> String {
    let kind = text(object, "kind").to_lowercase();
    let name = text(&object["metadata"], "name");
    match text(object, "apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}
