//! `sampan run`: the operator on this machine, built and started again after each change.
//!
//! ```text
//! sources ─▶ cargo build ─▶ CRDs and webhooks ─▶ the operator ─▶ a source changes, or a signal
//!    ▲                      (their URL is this machine)                │ SIGTERM
//!    └─────────────────────────────────────────────────────────────────┘
//! ```

mod sources;
mod operator;
mod server;

use std::net::SocketAddr;

use anyhow::Result;

use crate::cargo::Cargo;
use crate::cluster::ClusterArgs;
use crate::deployment::kind_of;
use crate::install::install;
use crate::manifests::printed_manifests;
use crate::output::Output;
use crate::project_args::BuildArgs;
use machinery::{Value, json};
use operator::Operator;
use server::Server;
use sources::Sources;

const EXAMPLES: &str = "Examples:
  sampan run
  sampan run --context staging -- --endpoint 127.0.0.1:8080";

/// Runs the operator on this machine, and restarts it when its sources change
///
/// The CRDs and webhooks are applied first. The webhooks are reached at this machine, with a certificate
/// that the operator makes. If no cluster can be reached, a server is started, in memory.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArgs {
    #[command(flatten)]
    #[allow(missing_docs, reason = "its help is that of its fields")]
    pub build: BuildArgs,
    #[command(flatten)]
    #[allow(missing_docs, reason = "its help is that of its fields")]
    pub cluster: ClusterArgs,
    /// Apply also CRDs that refuse stored objects
    #[arg(long)]
    pub force: bool,
    /// Address at which the operator serves its webhooks
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9443")]
    pub webhook_listen: SocketAddr,
    /// Further arguments of the operator
    #[arg(last = true, value_name = "ARGUMENTS")]
    pub arguments: Vec<String>,
}

impl RunArgs {
    /// Runs the operator until `stop`, such as a signal.
    pub async fn run(&self, stop: impl Future<Output = ()>, output: &mut Output<'_>) -> Result<()> {
        let (project, cargo) = self.build.find()?;
        let namespace = project.namespace();
        tokio::pin!(stop);
        let server = tokio::select! {
            server = Server::find_or_start(&self.cluster, output) => server?,
            () = &mut stop => return Ok(()),
        };
        let mut webhooks = Vec::new();
        loop {
            let sources = Sources::read(&project.root)?;
            let started = tokio::select! {
                started = self.start(&cargo, &namespace, &server, &mut webhooks, output) => started,
                () = &mut stop => break,
            };
            let mut operator = match started {
                Ok(operator) => operator,
                Err(error) => {
                    output
                        .note(&format!("error: {error:#}\nwaiting for a change of the sources …"));
                    tokio::select! {
                        () = sources.changed() => continue,
                        () = &mut stop => break,
                    }
                }
            };
            let is_stopped = tokio::select! {
                () = sources.changed() => false,
                ended = operator.wait() => {
                    output.note(&format!("the operator ended with {}; waiting for a change …", ended?));
                    tokio::select! {
                        () = sources.changed() => false,
                        () = &mut stop => true,
                    }
                }
                () = &mut stop => true,
            };
            operator.stop().await?;
            if is_stopped {
                break;
            }
            output.note("the sources have changed: building and starting again …");
        }
        // Without the operator, the server would refuse each write.
        for webhook in &webhooks {
            server.cluster.delete(webhook).await?;
        }
        server.stop().await
    }

    /// Builds the operator, applies its CRDs and `webhooks`, and starts it.
    async fn start(
        &self,
        cargo: &Cargo,
        namespace: &str,
        server: &Server,
        webhooks: &mut Vec<Value>,
        output: &mut Output<'_>,
    ) -> Result<Operator> {
        let mut manifests = manifests_of(cargo, namespace).await?;
        let is_reachable = server.cluster.is_on_this_machine();
        if is_reachable {
            for manifest in &mut manifests {
                use_url(manifest, self.webhook_listen.port());
            }
        }
        let (crds, mut configurations): (Vec<Value>, Vec<Value>) =
            manifests.into_iter().partition(|it| kind_of(it) == "CustomResourceDefinition");
        if !is_reachable && !configurations.is_empty() {
            output.note("the server is on another machine: its webhooks are not changed");
            configurations.clear();
        }
        let namespace_object =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        server.cluster.apply(&namespace_object).await?;
        install(&server.cluster, &crds, self.force, output).await?;
        *webhooks = configurations;
        for webhook in webhooks.iter() {
            server.cluster.apply(webhook).await?;
        }
        let listen = self.webhook_listen.to_string();
        let own = ["run", "--quiet", "--", "--namespace", namespace, "--webhook-listen", &listen];
        let further = self.arguments.iter().map(String::as_str);
        let arguments: Vec<&str> = own.into_iter().chain(further).collect();
        Operator::start(cargo, &arguments, server.kubeconfig())
    }
}

/// The manifests, which cargo prints after a build.
async fn manifests_of(cargo: &Cargo, namespace: &str) -> Result<Vec<Value>> {
    let (cargo, namespace) = (cargo.clone(), namespace.to_owned());
    tokio::task::spawn_blocking(move || printed_manifests(&cargo, &namespace)).await?
}

/// Replaces the Service of each webhook by a URL of this machine.
fn use_url(value: &mut Value, port: u16) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let path = field.pointer("/service/path").and_then(Value::as_str);
                match path {
                    Some(path) if name == "clientConfig" => {
                        *field = json!({"url": format!("https://localhost:{port}{path}")});
                    }
                    _ => use_url(field, port),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|it| use_url(it, port)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhooks_are_reached_at_this_machine() {
        let service = json!({"service": {"namespace": "a", "name": "b", "path": "/c"}});
        let mut manifest = json!({"webhooks": [{"name": "d", "clientConfig": service}]});
        use_url(&mut manifest, 7);
        let expected = json!({"name": "d", "clientConfig": {"url": "https://localhost:7/c"}});
        assert_eq!(manifest, json!({"webhooks": [expected]}));
    }
}
