//! [`Options`]: the options of the operator.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Arg;
use clap::builder::Resettable;

use crate::backend::ClusterName;
use crate::backend::neutron::NeutronOptions;

/// See the [module documentation](self).
#[derive(Clone, Debug, clap::Args)]
#[command(mut_args(without_empty_variable))]
pub struct Options {
    /// Where networks are made; by default linux for root, and otherwise dry-run
    #[arg(long, env = "NETWORK_BACKEND", value_enum)]
    pub backend: Option<BackendKind>,
    /// The name of the cluster, at most 63 letters, digits and hyphens; clusters that share a backend
    /// need different ones [default: the uid of the namespace kube-system]
    #[arg(long, env = "NETWORK_CLUSTER_NAME", value_name = "NAME")]
    pub cluster_name: Option<ClusterName>,
    /// Seconds between two comparisons of all networks with the backend
    #[arg(long, env = "NETWORK_RESYNC", value_name = "SECONDS", default_value = "60",
          value_parser = parse_seconds)]
    pub resync: Duration,
    /// The address of the webhooks
    #[arg(
        long,
        env = "NETWORK_WEBHOOK_LISTEN",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:9443"
    )]
    pub webhook_listen: SocketAddr,
    /// The options of the backend neutron.
    #[command(flatten)]
    pub neutron: NeutronOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            backend: None,
            cluster_name: None,
            resync: Duration::from_mins(1),
            webhook_listen: SocketAddr::from(([127, 0, 0, 1], 9443)),
            neutron: NeutronOptions::default(),
        }
    }
}

impl Options {
    /// The chosen backend, or the default one.
    pub fn backend_kind(&self) -> BackendKind {
        let default = || if is_root() { BackendKind::Linux } else { BackendKind::DryRun };
        self.backend.unwrap_or_else(default)
    }
}

/// Where networks are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum BackendKind {
    /// `OpenStack` Neutron
    #[value(help = "OpenStack Neutron")]
    Neutron,
    /// A bridge and a network namespace on this machine
    Linux,
    /// In memory
    DryRun,
}

/// Whether this process may make bridges and namespaces.
#[cfg(target_os = "linux")]
pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Whether this process may make bridges and namespaces: never, since they exist on Linux only.
#[cfg(not(target_os = "linux"))]
pub(crate) fn is_root() -> bool {
    false
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds)),
        _ => Err("should be a number of seconds from 1".to_owned()),
    }
}

/// The argument of a program, without its environment variable if that is empty: an empty variable
/// counts as unset.
pub fn without_empty_variable(argument: Arg) -> Arg {
    let value = argument.get_env().and_then(std::env::var_os);
    if value.is_some_and(|value| value.is_empty()) {
        return argument.env(Resettable::Reset);
    }
    argument
}
