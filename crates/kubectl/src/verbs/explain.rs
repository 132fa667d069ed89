//! `explain`: the documentation of a kind's fields, from the server's OpenAPI v3.

mod schema;
mod text_wrap;

use crate::discovery::ApiResource;
use crate::error::Error;
use crate::flags::with_bool_values;
use crate::io::Io;
use crate::session::Session;
use machinery::GroupVersion;
use machinery::fields::{entries, list, text};

use schema::Document;
use text_wrap::{indent, wrap};

/// Describe the fields of a kind
#[derive(Debug, clap::Args)]
#[command(mut_args(with_bool_values), after_help = EXAMPLES)]
pub struct ExplainArgs {
    /// A type, or a path of fields such as `pods.spec.containers`
    #[arg(value_name = "TYPE.FIELD")]
    path: Vec<String>,
    /// Print the names of all fields below it
    #[arg(long)]
    recursive: bool,
    /// Version of the kind, such as apps/v1
    #[arg(long, value_name = "GROUP/VERSION")]
    api_version: Option<String>,
    /// Output format: plaintext
    #[arg(long, short, value_name = "FORMAT", default_value = "plaintext")]
    output: String,
}

const EXAMPLES: &str = "Examples:
  kubectl explain pods
  kubectl explain deployment.spec.strategy
  kubectl explain jobs --recursive
  kubectl explain cronjobs --api-version batch/v1";

impl ExplainArgs {
    /// Runs the verb.
    pub(crate) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        let path = match self.path.as_slice() {
            [path] => path,
            [] => {
                return Err(Error::message(
                    "You must specify the type of resource to explain. Use \"kubectl api-resources\" \
                     for a complete list of supported resources.",
                ));
            }
            _ => return Err(Error::message("We accept only this format: explain RESOURCE")),
        };
        if self.output != "plaintext" {
            return Err(Error::message(format!(
                "unrecognized format: {}: only plaintext is available",
                self.output
            )));
        }
        let (resource, fields) = self.resource(session, path).await?;
        let document = document(session, &resource).await?;
        let mut out = String::new();
        if !resource.group.is_empty() {
            out.push_str(&format!("GROUP:      {}\n", resource.group));
        }
        out.push_str(&format!(
            "KIND:       {}\nVERSION:    {}\n\n",
            resource.kind, resource.version
        ));
        let Some(root) = document.of_kind(&resource) else {
            let gvr =
                format!("{}/{}, Resource={}", resource.group, resource.version, resource.name);
            return Err(Error::message(format!("GVR ({gvr}) not found in OpenAPI schema")));
        };
        io.print(&out)?;
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        if let Some(text) = document.explain(root, &fields, self.recursive) {
            return io.print(&format!("{text}\n"));
        }
        let last = fields.last().copied().unwrap_or_default();
        Err(Error::message(format!("field {last:?} does not exist")))
    }

    /// The resource and the fields that a path names.
    async fn resource(
        &self,
        session: &Session,
        path: &str,
    ) -> Result<(ApiResource, Vec<String>), Error> {
        let discovery = session.discovery().await?;
        let parts: Vec<&str> = path.trim_end_matches('.').split('.').collect();
        // A group has dots as well: the longest one that is served counts.
        let longest = (1..=parts.len()).rev().find_map(|length| {
            let named = discovery.resource(&parts[..length].join(".")).ok()?;
            let is_group = length == 1 || parts[1..length].join(".").ends_with(&named.group);
            (is_group && (length == 1 || !named.group.is_empty())).then_some((named, length))
        });
        let (resource, length) = if let Some(found) = longest {
            found
        } else {
            let named = discovery.resource(parts[0]);
            (named.map_err(|error| Error::Verbatim(error.to_string()))?, 1)
        };
        let fields = parts[length..].iter().map(|it| (*it).to_owned()).collect();
        let Some(version) = &self.api_version else { return Ok((resource.clone(), fields)) };
        let wanted: GroupVersion = version
            .parse()
            .map_err(|_| Error::message(format!("unexpected GroupVersion string: {version}")))?;
        let found = discovery.resources.iter().find(|it| {
            it.name == resource.name && it.group == wanted.group && it.version == wanted.version
        });
        let found = found.ok_or_else(|| {
            Error::message(format!(
                "couldn't find resource for \"{version}, Resource={}\"",
                resource.name
            ))
        })?;
        Ok((found.clone(), fields))
    }
}

/// The OpenAPI document of a resource's group version.
async fn document(session: &Session, resource: &ApiResource) -> Result<Document, Error> {
    let index = session.get("/openapi/v3").await?;
    let root = if resource.group.is_empty() { "api" } else { "apis" };
    let key = format!("{root}/{}", resource.api_version());
    let found = entries(&index, "paths").find(|it| it.0 == key);
    let path = found.map(|it| text(it.1, "serverRelativeURL")).filter(|it| !it.is_empty());
    let path = path.ok_or_else(|| {
        Error::message(format!(
            "couldn't find OpenAPI schema of {}: the server does not publish it",
            resource.api_version()
        ))
    })?;
    Ok(Document(session.get(path).await?))
}

/// A part of the output: the description of a schema.
fn description_text(description: &str) -> String {
    let description = if description.is_empty() { "<empty>" } else { description };
    format!("DESCRIPTION:\n{}\n", indent(4, &wrap(76, description)))
}

/// The values of an enumeration, at most `limit`.
fn enum_values(schema: &machinery::Value, limit: usize) -> Option<Vec<String>> {
    let values = list(schema, "enum");
    if values.is_empty() {
        return None;
    }
    let shown = values.iter().take(limit).map(|value| match value.as_str() {
        Some("") => "\"\"".to_owned(),
        Some(text) => text.to_owned(),
        None => value.to_string(),
    });
    let more = (values.len() > limit).then(|| "....".to_owned());
    Some(shown.chain(more).collect())
}
