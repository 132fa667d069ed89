//! [`ManagerOptions`]: how a manager runs; [`ManagerError`]: why it does not any more.

use std::{io, net::SocketAddr, time::Duration};

use informer::InformerOptions;
use keel::{Clock, Entropy, Unclean};

use crate::{InvalidLeaderElection, LeaderElection, webhook::CertificateError};

/// How a manager runs.
pub struct ManagerOptions {
    /// Only objects of this namespace are cached; of all namespaces if None.
    pub namespace: Option<String>,
    /// Whether there may be others; None if this is the only one.
    pub leader_election: Option<LeaderElection>,
    /// Where to answer for health, metrics and reasons; nowhere if None.
    pub endpoint: Option<SocketAddr>,
    /// A stop takes no longer. Workers may end what they do in all of this time but five seconds, or
    /// but half of it, which are for events to be written and the lease to be given back.
    pub stop_within: Duration,
    /// How objects are cached.
    pub informer: InformerOptions,
    /// Whether SIGINT and SIGTERM stop it.
    pub handles_signals: bool,
    /// What time it is.
    pub clock: Clock,
    /// Where chance comes from.
    pub entropy: Entropy,
}

impl Default for ManagerOptions {
    /// Alone, for all namespaces, without an endpoint, stopped by signals within half a minute.
    fn default() -> Self {
        Self {
            namespace: None,
            leader_election: None,
            endpoint: None,
            stop_within: Duration::from_secs(30),
            informer: InformerOptions::default(),
            handles_signals: true,
            clock: Clock::system(),
            entropy: Entropy::system(),
        }
    }
}

/// Why a manager does not run any more.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// Start afresh: another is the leader, or nobody knows.
    #[error("lost the leadership")]
    LeadershipLost,
    /// [Name](crate::ControllerBuilder::named) one of them.
    #[error("two controllers are named {0:?}")]
    SameName(String),
    /// Choose other settings: nothing was begun.
    #[error("nobody can be elected like this")]
    Election(#[source] InvalidLeaderElection),
    /// Choose another address, or end who has it.
    #[error("cannot listen on {address}")]
    Endpoint {
        /// The address.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The webhooks have no certificate to show.
    #[error("cannot get certificates for the webhooks")]
    Certificates(#[source] CertificateError),
    /// Signals cannot be waited for.
    #[error("cannot wait for signals")]
    Signals(#[source] io::Error),
    /// Something did not end in time, and was ended; or something had panicked.
    #[error("did not stop cleanly")]
    Unclean(#[source] Unclean),
}
