//! [`Options`]: the options of the operator.

use std::net::SocketAddr;
use std::time::Duration;

use crate::backend::Owner;
use crate::backend::neutron::NeutronOptions;

/// See the [module documentation](self).
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Where networks are made; by default linux for root, and otherwise dry-run
    #[arg(long, env = "NETWORK_BACKEND", value_enum)]
    pub backend: Option<BackendKind>,
    /// The name under which networks are made, at most 63 letters, digits and hyphens; clusters that
    /// share a backend need different ones [default: the uid of the namespace kube-system]
    #[arg(long, env = "NETWORK_OWNER")]
    pub owner: Option<Owner>,
    /// Seconds between two comparisons of all networks with the backend
    #[arg(long, env = "NETWORK_RESYNC", value_name = "SECONDS", default_value = "60",
          value_parser = parse_seconds)]
    pub resync: Duration,
    /// The address of the webhooks
    #[arg(long, env = "NETWORK_WEBHOOK_LISTEN", default_value = "127.0.0.1:9443")]
    pub webhook_listen: SocketAddr,
    /// The options of the backend neutron.
    #[command(flatten)]
    pub neutron: NeutronOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            backend: None,
            owner: None,
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

/// There are no bridges of Linux here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn is_root() -> bool {
    false
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds)),
        _ => Err("should be a number of seconds".to_owned()),
    }
}
