//! The operator as a program.

use std::io::{self, IsTerminal};
use std::net::SocketAddr;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use operator_demo::{NAME, add_to, crds, webhooks};
use runtime::webhook::{CertificateOptions, ServerOptions};
use runtime::{LeaderElection, Manager, ManagerOptions, client};

/// Runs the operator operator-demo, with the server of KUBECONFIG, of ~/.kube/config or of the pod.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Namespace of the operator: of its lease and of the certificates of its webhooks
    #[arg(long, env = "POD_NAMESPACE", default_value = "operator-demo-system")]
    namespace: String,
    /// Works only while no other replica does
    #[arg(long, env = "LEADER_ELECT")]
    leader_elect: bool,
    /// Address of health checks, metrics and recent reconciles
    #[arg(long, env = "ENDPOINT", value_name = "ADDRESS")]
    endpoint: Option<SocketAddr>,
    /// Address of the webhooks
    #[arg(long, env = "WEBHOOK_LISTEN", value_name = "ADDRESS", default_value = "0.0.0.0:9443")]
    webhook_listen: SocketAddr,
}

#[derive(Subcommand)]
enum Command {
    /// Prints the CRDs and the configurations of the webhooks as JSON, for `sampan manifests`
    Manifests,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let (namespace, service) = (arguments.namespace.as_str(), format!("{NAME}-webhooks"));
    if let Some(Command::Manifests) = arguments.command {
        let manifests = webhooks().manifests(crds()?, namespace, &service)?;
        return Ok(serde_json::to_writer_pretty(io::stdout(), &manifests)?);
    }
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into()); // RUST_LOG
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    log.with_ansi(io::stderr().is_terminal()).init();
    let options = ManagerOptions {
        leader_election: arguments.leader_elect.then(|| LeaderElection::new(namespace, NAME)),
        endpoint: arguments.endpoint,
        ..ManagerOptions::default()
    };
    let client = client::connect(client::infer().await?, &options.clock)?;
    let manager = Manager::new(client, options);
    add_to(&manager);
    let mut certificates = CertificateOptions::of_service(namespace, &service);
    certificates.names.push("localhost".to_owned()); // while it runs beside the server
    let listener = ServerOptions { listen: arguments.webhook_listen, ..ServerOptions::default() };
    webhooks().serve(&manager, listener, certificates);
    Ok(manager.run().await?)
}
