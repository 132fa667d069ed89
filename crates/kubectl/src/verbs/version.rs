//! `version` and `cluster-info`: what client and server are, and where the server is.

use crate::error::Error;
use crate::flags::with_bool_values;
use crate::global::GlobalArgs;
use crate::io::Io;
use crate::print::object::{indented_json, to_yaml};
use crate::session::Session;
use machinery::fields::{list, text};
use machinery::{Value, json};

/// The version of the API that this client is made for.
const CLIENT: (&str, &str) = ("1", "35");

/// Print the versions of the client and the server
#[derive(Debug, clap::Args)]
#[command(mut_args(with_bool_values))]
pub struct VersionArgs {
    /// Only the version of the client, without a request
    #[arg(long)]
    client: bool,
    /// Output format: json or yaml
    #[arg(long, short, value_name = "FORMAT")]
    output: Option<String>,
}

impl VersionArgs {
    /// Runs the verb.
    pub(crate) async fn run(self, global: &GlobalArgs, io: &mut Io) -> Result<(), Error> {
        let version = format!("v{}.{}.0+sampan-{}", CLIENT.0, CLIENT.1, env!("CARGO_PKG_VERSION"));
        let mut versions = json!({"clientVersion": {
            "major": CLIENT.0, "minor": CLIENT.1, "gitVersion": version,
            "platform": format!("{}/{}", std::env::consts::OS, go_architecture()),
        }});
        let is_known = matches!(self.output.as_deref(), None | Some("" | "json" | "yaml"));
        if !is_known {
            return Err(Error::message("--output must be 'yaml' or 'json'"));
        }
        let mut failed = Ok(());
        if !self.client {
            let session = Session::connect(global, io.notes()).await?;
            match session.get("/version").await {
                Ok(found) => versions["serverVersion"] = found,
                Err(error) => failed = Err(error),
            }
        }
        match self.output.as_deref() {
            Some("json") => io.print(&indented_json(&versions).replace("    ", "  "))?,
            Some("yaml") => io.print(&to_yaml(&versions))?,
            _ => {
                io.line(&format!("Client Version: {version}"))?;
                if let Some(server) = versions["serverVersion"]["gitVersion"].as_str() {
                    io.line(&format!("Server Version: {server}"))?;
                }
            }
        }
        failed
    }
}

/// The architecture in the words of Go.
fn go_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Print the addresses of the control plane and of the cluster's services
#[derive(Debug, clap::Args)]
pub struct ClusterInfoArgs {}

impl ClusterInfoArgs {
    /// Runs the verb.
    pub(crate) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        let path = "/api/v1/namespaces/kube-system/services?labelSelector=kubernetes.io%2Fcluster-service%3Dtrue";
        let services = session.get(path).await?;
        io.line(&format!("Kubernetes control plane is running at {}", session.server))?;
        for service in list(&services, "items") {
            let (name, link) = service_link(service, &session.server);
            io.line(&format!("{name} is running at {link}"))?;
        }
        io.line(
            "\nTo further debug and diagnose cluster problems, use 'kubectl cluster-info dump'.",
        )
    }
}

/// The name of a service and its address through the server.
fn service_link(service: &Value, server: &str) -> (String, String) {
    let metadata = &service["metadata"];
    let name = text(metadata, "name");
    let shown = metadata["labels"]["kubernetes.io/name"].as_str().unwrap_or(name);
    let port = &service["spec"]["ports"][0];
    let port = match (text(port, "name"), &port["port"]) {
        ("", number) => number.to_string(),
        (name, _) => name.to_owned(),
    };
    let namespace = text(metadata, "namespace");
    let link = format!("{server}/api/v1/namespaces/{namespace}/services/{name}:{port}/proxy");
    (shown.to_owned(), link)
}
