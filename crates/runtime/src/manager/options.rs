//! [`ManagerOptions`]: the options of a manager; [`ManagerError`]: the reason why it has ended.

use std::env;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::webhook::CertificateError;
use crate::{InvalidLeaderElection, LeaderElection};
use informer::InformerOptions;
use keel::{Clock, Entropy, UncleanStop};

/// The options of a [`Manager`](crate::Manager).
///
/// ```
/// use runtime::ManagerOptions;
///
/// let (name, version) = (env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")); // of the operator
/// let options = ManagerOptions { name, version, ..ManagerOptions::default() };
/// # drop(options);
/// ```
pub struct ManagerOptions {
    /// The name of the operator, in the log; empty if it has none.
    pub name: &'static str,
    /// The version of the operator, in the log; empty if it has none.
    pub version: &'static str,
    /// Only objects of this namespace are cached; those of all namespaces if `None`.
    pub namespace: Option<String>,
    /// Leader election among several managers; `None` if this is the only one.
    pub leader_election: Option<LeaderElection>,
    /// The address of the endpoint with the health checks, the metrics and the page of recent
    /// reconciles; no endpoint if `None`.
    pub endpoint: Option<SocketAddr>,
    /// The access to the metrics and the recent reconciles of the endpoint.
    pub endpoint_access: EndpointAccess,
    /// The longest time of a stop. The last five seconds, or the last half if that is shorter, are
    /// reserved for writing events and releasing the lease after the workers have ended.
    pub stop_within: Duration,
    /// The options of all caches.
    pub informer: InformerOptions,
    /// Whether SIGINT and SIGTERM stop the manager.
    pub handles_signals: bool,
    /// The file to which the verbs on resources that this manager requests are appended, one JSON
    /// object per line; no record if `None`. `sampan manifests` derives the roles of an operator from
    /// it. By default, the file that the environment variable `SAMPAN_ACCESS_FILE` names.
    pub access_file: Option<PathBuf>,
    /// The begin of the paths of all webhooks, such as `/4f9c…`; empty if there is none. With a secret,
    /// clients that do not know it cannot use the webhook server
    /// ([`WebhookServer::under`](crate::webhook::WebhookServer::under)).
    pub webhook_prefix: String,
    /// The clock.
    pub clock: Clock,
    /// The source of randomness.
    pub entropy: Entropy,
}

/// The access to `/metrics` and `/reconciles` of the endpoint of a manager. The health checks are always
/// open.
///
/// ```
/// use runtime::{ManagerOptions, manager::EndpointAccess};
///
/// let options = ManagerOptions {
///     endpoint: Some(([0, 0, 0, 0], 8080).into()),
///     endpoint_access: EndpointAccess::Authorized,
///     ..ManagerOptions::default()
/// };
/// # drop(options);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EndpointAccess {
    /// Everybody who reaches the endpoint.
    #[default]
    Open,
    /// Those whose bearer token the API server accepts (`TokenReview`) and who may `get` the path as
    /// a non-resource URL (`SubjectAccessReview`). The operator needs the permission to create both:
    /// the cluster role `system:auth-delegator`. If the server cannot be asked, nobody may.
    Authorized,
}

impl Default for ManagerOptions {
    /// Without leader election, for all namespaces, without an endpoint, stopped by signals within
    /// half a minute.
    fn default() -> Self {
        Self {
            name: "",
            version: "",
            namespace: None,
            leader_election: None,
            endpoint: None,
            endpoint_access: EndpointAccess::default(),
            stop_within: Duration::from_secs(30),
            informer: InformerOptions::default(),
            handles_signals: true,
            access_file: env::var_os("SAMPAN_ACCESS_FILE").map(PathBuf::from),
            webhook_prefix: String::new(),
            clock: Clock::system(),
            entropy: Entropy::system(),
        }
    }
}

/// The reason why a manager has ended.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// Restart the process: another manager may be the leader.
    #[error("lost the leadership")]
    LeadershipLost,
    /// Give one of them another [name](crate::ControllerBuilder::named).
    #[error("two controllers are named {0:?}")]
    SameName(String),
    /// Choose other settings: nothing was started.
    #[error("the leader election is not valid")]
    Election(#[source] InvalidLeaderElection),
    /// Choose another address, or end the process that uses it.
    #[error("cannot listen on {address}")]
    Endpoint {
        /// The address.
        address: SocketAddr,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// There is no certificate for the webhooks.
    #[error("cannot get certificates for the webhooks")]
    Certificates(#[source] CertificateError),
    /// The handlers of signals cannot be installed.
    #[error("cannot wait for signals")]
    Signals(#[source] io::Error),
    /// A task did not end in time and was aborted, or has panicked.
    #[error("did not stop cleanly")]
    UncleanStop(#[source] UncleanStop),
}
