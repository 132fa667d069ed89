//! The `Vpc` operator as a program.

use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use runtime::{LeaderElection, Manager, ManagerOptions, client};
use vpc_operator::{NAME, Options, add_to, manifests};

/// The namespace of the service account and the lease.
const NAMESPACE: &str = "operators";

/// The arguments of the program.
#[derive(Parser)]
#[command(
    name = "vpc-operator",
    version,
    about = "Splits the block of each Vpc into subnets, each a Network",
    after_help = "The server is that of KUBECONFIG, of ~/.kube/config or of the service account of the pod.
RUST_LOG sets the level of the log.

Examples:
  vpc-operator manifests | kubectl apply -f -
  vpc-operator --leader-elect --endpoint 127.0.0.1:8080"
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    options: Options,
    /// Works only while no other replica does; the lease is in the namespace operators
    #[arg(long, env = "LEADER_ELECT")]
    leader_elect: bool,
    /// The address of health checks, metrics and recent reconciles
    #[arg(long, env = "ENDPOINT", value_name = "ADDRESS")]
    endpoint: Option<SocketAddr>,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Prints the CRD, the service account and its permissions
    Manifests,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if let Some(Command::Manifests) = arguments.command {
        io::stdout().write_all(manifests().join("---\n").as_bytes())?;
        return Ok(());
    }
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    log.with_ansi(io::stderr().is_terminal()).init();
    let election = LeaderElection::new(NAMESPACE, &format!("{NAME}-operator"));
    let options = ManagerOptions {
        name: env!("CARGO_PKG_NAME"),
        version: env!("CARGO_PKG_VERSION"),
        endpoint: arguments.endpoint,
        leader_election: arguments.leader_elect.then_some(election),
        ..ManagerOptions::default()
    };
    let client = client::connect(client::infer().await?, &options.clock)?;
    let manager = Manager::new(client, options);
    add_to(&manager, &arguments.options);
    Ok(manager.run().await?)
}
