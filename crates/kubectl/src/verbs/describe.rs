//! `describe`: an object with its conditions and events, for people.

mod sheet;
mod generic;
mod pod;
mod workload;
mod data;
mod service;

use crate::error::Error;
use crate::flags::with_bool_values;
use crate::io::Io;
use crate::lists::{CHUNK, ListOptions, objects, with_query};
use crate::manifests::FileArgs;
use crate::session::Session;
use crate::targets::{Rules, SelectorArgs, Target, Targets};
use machinery::Value;
use machinery::fields::{list, text};

use sheet::Sheet;

/// Show objects with their conditions and events
#[derive(Debug, clap::Args)]
#[command(
    mut_args(with_bool_values),
    after_help = "Examples:
  kubectl describe node n1
  kubectl describe pods -l app=web
  kubectl describe deployment/web service/web"
)]
pub struct DescribeArgs {
    /// Types and names, or beginnings of names
    #[arg(value_name = "TYPE|TYPE/NAME")]
    resources: Vec<String>,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    selectors: SelectorArgs,
    /// Objects of all namespaces
    #[arg(long, short = 'A')]
    all_namespaces: bool,
    /// Show the events of the objects
    #[arg(long, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value = "true", default_missing_value = "true", value_name = "BOOL")]
    show_events: bool,
    /// Objects in one response of the server; 0 for all at once
    #[arg(long, value_name = "NUMBER", default_value_t = CHUNK)]
    chunk_size: u32,
}

impl DescribeArgs {
    /// Runs the verb.
    pub(crate) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        if self.resources.is_empty() && self.files.is_empty() {
            return Err(Error::message(
                "You must specify the type of resource to describe. Use \"kubectl api-resources\" for \
                 a complete list of supported resources.",
            ));
        }
        let rules = Rules {
            allows_collections: true,
            all_namespaces: self.all_namespaces,
            has_selector: !self.selectors.is_empty(),
        };
        let found = Targets::find(session, io, &self.resources, &self.files, rules).await?;
        let options = ListOptions {
            query: self.selectors.query(),
            chunk: self.chunk_size,
            ..ListOptions::default()
        };
        let mut errors = Vec::new();
        let mut is_first = true;
        // kubectl prints one more line end after objects that it has searched by a beginning.
        let mut ends_with_line = false;
        for target in &found.targets {
            let read = match objects(session, target, &options).await {
                Err(error) if error.has_code(404) && target.name.is_some() => {
                    ends_with_line = true;
                    self.with_prefix(session, target, error).await
                }
                read => read,
            };
            match read {
                Ok(read) => {
                    for object in read {
                        let one = Target::of_object(&target.resource, &object);
                        let described = self.describe(session, &one, &object).await;
                        match described {
                            Ok(text) if is_first => io.print(&text)?,
                            Ok(text) => io.print(&format!("\n\n{text}"))?,
                            Err(error) => errors.push(error),
                        }
                        is_first = false;
                    }
                    if ends_with_line {
                        io.line("")?;
                    }
                }
                Err(error) => errors.push(error),
            }
        }
        if is_first && errors.is_empty() {
            if self.all_namespaces || found.targets.iter().any(|it| !it.resource.is_namespaced) {
                io.note("No resources found");
            } else {
                let namespace = &session.namespace;
                io.note(&format!("No resources found in {namespace} namespace."));
            }
        }
        Error::all(errors)
    }

    /// The objects whose names begin with the name of a target that does not exist.
    async fn with_prefix(
        &self,
        session: &Session,
        target: &Target,
        missing: Error,
    ) -> Result<Vec<Value>, Error> {
        let prefix = target.name.clone().unwrap_or_default();
        let collection = Target { name: None, ..target.clone() };
        let mut found = objects(session, &collection, &ListOptions::default()).await?;
        found.retain(|it| text(&it["metadata"], "name").starts_with(&prefix));
        if found.is_empty() { Err(missing) } else { Ok(found) }
    }

    async fn describe(
        &self,
        session: &Session,
        target: &Target,
        object: &Value,
    ) -> Result<String, Error> {
        let mut sheet = Sheet::new(session.clock.now().seconds());
        let has_events = match target.resource.full_name().as_str() {
            "pods" => pod::describe(&mut sheet, object),
            "configmaps" => data::config_map(&mut sheet, object),
            "secrets" => data::secret(&mut sheet, object),
            "deployments.apps" => {
                let sets = workload::replica_sets(session, object).await?;
                workload::deployment(&mut sheet, object, &sets)
            }
            "services" => {
                let slices = service::endpoint_slices(session, object).await?;
                service::describe(&mut sheet, object, &slices)
            }
            _ => generic::describe(&mut sheet, object),
        };
        if has_events && self.show_events {
            let events = self.events(session, target, object).await?;
            sheet.events(&events);
        }
        Ok(sheet.into_text())
    }

    /// The events of an object; none if the user may not read events.
    async fn events(
        &self,
        session: &Session,
        target: &Target,
        object: &Value,
    ) -> Result<Vec<Value>, Error> {
        let metadata = &object["metadata"];
        let mut selector = format!("involvedObject.name={}", text(metadata, "name"));
        if let Some(namespace) = &target.namespace {
            selector.push_str(&format!(",involvedObject.namespace={namespace}"));
        }
        selector.push_str(&format!(
            ",involvedObject.kind={},involvedObject.uid={}",
            text(object, "kind"),
            text(metadata, "uid")
        ));
        let namespace = target.namespace.as_deref();
        let path = match namespace {
            Some(namespace) => format!("/api/v1/namespaces/{namespace}/events"),
            None => "/api/v1/events".to_owned(),
        };
        match session.get(&with_query(&path, &[("fieldSelector", selector)])).await {
            Ok(found) => Ok(list(&found, "items").to_vec()),
            Err(Error::Server(_)) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}
