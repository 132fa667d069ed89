//! The sidecar injector: adds the containers and volumes of a `ConfigMap` to new pods with the annotation
//! [`ANNOTATION`].
//!
//! ```text
//!                            ┌─ Initializer ─ patches the uninitialized pod
//! ConfigMap ─▶ Sidecar ──────┼─ webhook ───── responds with a patch
//! envoy-initializer  │       └─ policy ────── writes a MutatingAdmissionPolicy
//!                    ▼
//!           pod ─▶ patch, or none
//! ```
//!
//! [`Sidecar`] is the function that all three [modes](Mode) share. `docs/sidecar-injection.md` compares
//! them.

mod sidecar;
mod privileges;
mod config;
mod controller;
mod initializer;
mod webhook;
mod policy;
mod expression;
mod manifests;

use std::net::{Ipv4Addr, SocketAddr};

pub use config::ConfigError;
pub use controller::REPORTER;
pub use expression::cel;
pub use manifests::{manifests, manifests_of};
pub use sidecar::{InvalidConfig, Sidecar, is_requested};

use config::ConfigSource;
use machinery::names;
use runtime::Manager;

/// The name of the operator.
pub const NAME: &str = "sidecar";

/// Pods with this annotation and the value `true` get the sidecar.
pub const ANNOTATION: &str = "initializer.kubernetes.io/envoy";

/// The name of the initializer and of the webhook.
pub const INITIALIZER: &str = "envoy.initializer.kubernetes.io";

/// The name of the `ConfigMap`.
pub const CONFIG_MAP: &str = "envoy-initializer";

/// The key of the configuration in the `ConfigMap`.
pub const CONFIG_KEY: &str = "config";

/// The name of the webhook configuration, or of the policy and its binding.
pub const INJECTION: &str = "envoy-sidecar";

/// The way in which pods get their sidecars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// A controller that patches uninitialized pods.
    Initializer,
    /// A mutating webhook.
    #[default]
    Webhook,
    /// A `MutatingAdmissionPolicy` that is generated from the `ConfigMap`.
    Policy,
}

/// The options of the operator.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The way in which pods get their sidecars
    #[arg(long, env = "SIDECAR_MODE", value_enum, default_value_t)]
    pub mode: Mode,
    /// The namespace of the `ConfigMap` `envoy-initializer`
    #[arg(long, env = "SIDECAR_CONFIG_NAMESPACE", default_value = "default")]
    pub config_namespace: String,
    /// Accept sidecars that are privileged, or use Secrets, paths or ports of the node
    #[arg(long, env = "SIDECAR_ALLOW_PRIVILEGES")]
    pub allow_privileges: bool,
    /// The address of the webhook server
    #[arg(long, env = "SIDECAR_WEBHOOK_LISTEN", default_value = "127.0.0.1:9444")]
    pub webhook_listen: SocketAddr,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            config_namespace: "default".to_owned(),
            allow_privileges: false,
            webhook_listen: (Ipv4Addr::LOCALHOST, 9444).into(),
        }
    }
}

/// The reason why the options are not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Choose another namespace.
    #[error("the namespace {namespace:?} of the ConfigMap is not valid: {why}")]
    Namespace {
        /// The namespace.
        namespace: String,
        /// The rule that it violates.
        why: String,
    },
}

/// Adds the controllers of the mode and, in the mode `webhook`, the webhook server.
pub fn add_to(manager: &Manager, options: &Options) -> Result<(), Error> {
    let namespace = &options.config_namespace;
    if let Some(why) = names::namespace_name(namespace).into_iter().next() {
        return Err(Error::Namespace { namespace: namespace.clone(), why });
    }
    let config = ConfigSource::new(manager, namespace, options.allow_privileges);
    match options.mode {
        Mode::Initializer => {
            manager.add(controller::controller(manager, &config));
            manager.add(initializer::controller(manager, config));
        }
        Mode::Webhook => {
            manager.add(controller::controller(manager, &config));
            webhook::serve(manager, config, options.webhook_listen);
        }
        Mode::Policy => manager.add(policy::controller(manager, &config)),
    }
    Ok(())
}
