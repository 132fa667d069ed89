//! [`ClusterArgs`] and [`Cluster`]: requests to the server of a kubeconfig, with objects as JSON.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use kube_client::{Client, Error};

use client::config::{Config, Kubeconfig, from_kubeconfig};
use client::json_requests::{self, APPLY_PATCH};
use keel::Clock;
use machinery::codec::yaml;
use machinery::{GroupVersionKind, Value, json};

/// The name under which the fields of applied objects are managed.
const FIELD_MANAGER: &str = "sampan";

/// The largest number of objects in a page of a list.
const PAGE: usize = 500;

/// The server of a command.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ClusterArgs {
    /// Kubeconfig of the cluster [default: $KUBECONFIG or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context in the kubeconfig [default: the current context]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

impl ClusterArgs {
    /// Reads the kubeconfig. Nothing is sent yet.
    pub(crate) async fn connect(&self) -> Result<Cluster> {
        let config = self.config().await?;
        let server = ServerUrl(config.cluster_url.to_string());
        Ok(Cluster { client: client::connect(config, &Clock::system())?, server })
    }

    /// The URL of the server. Nothing is sent, and no helper for credentials is started.
    pub(crate) async fn server(&self) -> Result<ServerUrl> {
        Ok(ServerUrl(self.config().await?.cluster_url.to_string()))
    }

    async fn config(&self) -> Result<Config> {
        Ok(from_kubeconfig(self.read()?, self.context.as_deref()).await?)
    }

    /// Writes a kubeconfig whose current context is the one of the arguments.
    pub(crate) fn write_kubeconfig(&self, path: &Path) -> Result<()> {
        let mut kubeconfig = self.read()?;
        kubeconfig.current_context = self.context.clone().or(kubeconfig.current_context);
        let text = yaml::encode(&serde_json::to_value(&kubeconfig)?);
        // The folder is a temporary one, which only this user may read.
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    fn read(&self) -> Result<Kubeconfig> {
        Ok(match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path)
                .with_context(|| format!("cannot use --kubeconfig {}", path.display()))?,
            None => Kubeconfig::read().context(
                "there is no kubeconfig that can be used: start a server with `sampan up`, which \
                 writes one, or name one with --kubeconfig",
            )?,
        })
    }
}

/// See the [module documentation](self).
pub(crate) struct Cluster {
    client: Client,
    server: ServerUrl,
}

/// The URL of a server.
#[derive(Debug)]
pub(crate) struct ServerUrl(String);

impl ServerUrl {
    /// Whether the server can reach what listens on this machine only.
    pub(crate) fn is_on_this_machine(&self) -> bool {
        let address = self.0.split_once("://").map_or("", |(_, rest)| rest);
        ["127.", "localhost:", "[::1]:"].iter().any(|host| address.starts_with(host))
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.trim_end_matches('/'))
    }
}

impl Cluster {
    /// A server that a client reaches.
    #[cfg(test)]
    pub(crate) fn of(client: Client) -> Self {
        Self { client, server: ServerUrl("the server".to_owned()) }
    }

    /// Whether the server can reach what listens on this machine only.
    pub(crate) fn is_on_this_machine(&self) -> bool {
        self.server.is_on_this_machine()
    }

    /// The object at a path, if it exists.
    pub(crate) async fn get(&self, path: &str) -> Result<Option<Value>> {
        json_requests::get(&self.client, path).await.map_err(|error| self.explain(error))
    }

    /// Applies an object on the server, and takes the fields that others manage.
    pub(crate) async fn apply(&self, object: &Value) -> Result<Value> {
        let path = self.path(object).await?;
        let path = format!("{path}?fieldManager={FIELD_MANAGER}&force=true");
        let applied = json_requests::patch(&self.client, &path, APPLY_PATCH, object).await;
        applied.map_err(|error| self.explain(error))
    }

    /// Deletes an object; whether it existed.
    pub(crate) async fn delete(&self, object: &Value) -> Result<bool> {
        let path = self.path(object).await?;
        let deleted = json_requests::delete::<Value>(&self.client, &path, &json!({})).await;
        let deleted = json_requests::none_if_missing(deleted);
        Ok(deleted.map_err(|error| self.explain(error))?.is_some())
    }

    /// All objects at a path.
    pub(crate) async fn list(&self, path: &str) -> Result<Vec<Value>> {
        let (mut objects, mut token) = (Vec::new(), String::new());
        loop {
            let page = format!("{path}?limit={PAGE}&continue={token}");
            let Some(mut list) = self.get(&page).await? else { return Ok(objects) };
            if let Value::Array(items) = list["items"].take() {
                objects.extend(items);
            }
            let next = list["metadata"]["continue"].as_str().unwrap_or_default();
            if next.is_empty() {
                return Ok(objects);
            }
            next.clone_into(&mut token);
        }
    }

    /// The path of an object, by the resource of its kind.
    async fn path(&self, object: &Value) -> Result<String> {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        let (group, version) =
            text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
        let kind = GroupVersionKind::new(group, version, text("kind"));
        let prefix = match group {
            "" => format!("/api/{version}"),
            _ => format!("/apis/{group}/{version}"),
        };
        let Some(resources) = self.get(&prefix).await? else {
            return Err(anyhow!("the server has no group {prefix}"));
        };
        let resources = resources["resources"].as_array().cloned().unwrap_or_default();
        let is_resource = |it: &&Value| {
            it["kind"] == text("kind")
                && it["name"].as_str().is_some_and(|name| !name.contains('/'))
        };
        let found = resources.iter().find(is_resource);
        let found = found.with_context(|| format!("the server has no resource for {kind}"))?;
        let plural = found["name"].as_str().unwrap_or_default();
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        Ok(match metadata["namespace"].as_str() {
            Some(namespace) if found["namespaced"] == true => {
                format!("{prefix}/namespaces/{namespace}/{plural}/{name}")
            }
            _ => format!("{prefix}/{plural}/{name}"),
        })
    }

    /// The error of a request in the words of the server, or what to do if there is none.
    fn explain(&self, error: Error) -> anyhow::Error {
        match error {
            Error::Api(status) => anyhow!("{}", status.message),
            other => anyhow::Error::from(other).context(format!(
                "cannot reach {}: is it running? `sampan up` starts a server on this machine",
                self.server
            )),
        }
    }
}
