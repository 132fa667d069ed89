//! The sidecar injector as a program.

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use runtime::{LeaderElection, Manager, ManagerOptions, client};
use sidecar_operator::{Options, add_to, manifests_of};

/// Adds the containers of the `ConfigMap` `envoy-initializer` to new pods with the annotation
/// `initializer.kubernetes.io/envoy: "true"`.
#[derive(Parser)]
#[command(
    version,
    after_help = "examples:
  sidecar-operator manifests | kubectl apply -f -    what the operator needs in the cluster
  sidecar-operator                                   a webhook, with the current context of kubectl
  sidecar-operator --mode policy manifests | kubectl apply -f -
  sidecar-operator --mode policy --leader-elect
  RUST_LOG=runtime=debug sidecar-operator            logs every reconcile"
)]
struct Arguments {
    #[command(flatten)]
    options: Options,
    /// Run several replicas, of which one writes; the lease is in the namespace `operators`
    #[arg(long, env = "LEADER_ELECT")]
    leader_elect: bool,
    /// The address for health checks, metrics and recent reconciles
    #[arg(long, env = "ENDPOINT", value_name = "ADDRESS")]
    endpoint: Option<SocketAddr>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Print the objects that the operator needs, for `kubectl apply -f -`
    Manifests {
        /// The address at which the API server reaches the webhook
        #[arg(long, env = "SIDECAR_WEBHOOK_URL", default_value = "https://localhost:9444", value_parser = https_url)]
        webhook_url: String,
    },
}

/// The API server calls no webhook over plain HTTP.
fn https_url(text: &str) -> Result<String, String> {
    if text.starts_with("https://") {
        return Ok(text.to_owned());
    }
    Err(format!("it should begin with https://, as in https://{text}"))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if let Some(Command::Manifests { webhook_url }) = &arguments.command {
        let documents = manifests_of(&arguments.options, webhook_url);
        return Ok(writeln!(std::io::stdout(), "{}", documents.join("\n---\n"))?);
    }
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    log.with_ansi(std::io::stderr().is_terminal()).init();
    let election = LeaderElection::new("operators", "sidecar-operator");
    let options = ManagerOptions {
        name: env!("CARGO_PKG_NAME"),
        version: env!("CARGO_PKG_VERSION"),
        endpoint: arguments.endpoint,
        leader_election: arguments.leader_elect.then_some(election),
        ..ManagerOptions::default()
    };
    let client = client::connect(client::infer().await?, &options.clock)?;
    let manager = Manager::new(client, options);
    add_to(&manager, &arguments.options)?;
    Ok(manager.run().await?)
}
