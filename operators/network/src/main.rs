//! The Network operator as a program.

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use network_operator::{NAME, NAMESPACE, Options, add_to, manifests, without_empty_variable};
use runtime::{LeaderElection, Manager, ManagerOptions, client};

/// The arguments of the program.
#[derive(Parser)]
#[command(
    name = "network-operator",
    version,
    about = "Makes an IP network for each Network, in OpenStack Neutron or on this machine",
    after_help = "The server is that of KUBECONFIG, of ~/.kube/config or of the service account of the pod.
RUST_LOG sets the level of the log, such as RUST_LOG=network_operator=debug.

Examples:
  network-operator manifests | kubectl apply -f -    install what the cluster needs
  network-operator                                   make bridges as root; otherwise only log
  network-operator --backend neutron --neutron-url http://127.0.0.1:9696
  network-operator --leader-elect --endpoint 127.0.0.1:8080",
    mut_args(without_empty_variable)
)]
struct Arguments {
    #[command(flatten)]
    options: Options,
    /// Run beside other replicas; one of them at a time is active
    #[arg(long, env = "LEADER_ELECT")]
    leader_elect: bool,
    /// The address of /healthz, /readyz, /metrics and /reconciles
    #[arg(long, env = "ENDPOINT", value_name = "ADDRESS")]
    endpoint: Option<SocketAddr>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Print the CRD, the permissions and the webhook configuration, for kubectl apply -f -
    Manifests {
        /// The URL at which the API server reaches the webhooks
        #[arg(long, default_value = "https://localhost:9443", value_parser = https_url)]
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
    if let Some(Command::Manifests { webhook_url }) = arguments.command {
        return Ok(write!(std::io::stdout(), "{}", manifests(&webhook_url).join("---\n"))?);
    }
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let stderr = std::io::stderr;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr);
    log.with_ansi(stderr().is_terminal()).init();
    let lease = format!("{NAME}-operator");
    let options = ManagerOptions {
        name: env!("CARGO_PKG_NAME"),
        version: env!("CARGO_PKG_VERSION"),
        endpoint: arguments.endpoint,
        leader_election: arguments.leader_elect.then(|| LeaderElection::new(NAMESPACE, &lease)),
        ..ManagerOptions::default()
    };
    let client = client::connect(client::infer().await?, &options.clock)?;
    let manager = Manager::new(client, options);
    add_to(&manager, &arguments.options)?;
    Ok(manager.run().await?)
}
