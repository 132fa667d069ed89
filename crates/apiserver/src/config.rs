//! Every setting of a server, in one place.

use crate::auth::authentication::token::TokenFile;
use crate::auth::authorization::Authorizer;
use keel::{Clock, Entropy};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Where objects are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreConfig {
    /// In memory; they are gone with the process.
    Memory,
    /// In this directory.
    Embedded(PathBuf),
}

/// How long a client may take for what; who takes longer is cut off or refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// To shake hands.
    pub handshake: Duration,
    /// To send the head of a request, counted from the handshake or from the answer before.
    pub head: Duration,
    /// To send the rest of it and get the answer, unless that is a watch.
    pub request: Duration,
    /// To take the next part of an answer, the last of which may have been sent just in time. A
    /// watch may take five times as long.
    pub answer: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(30),
            request: Duration::from_mins(1),
            answer: Duration::from_mins(1),
        }
    }
}

/// See the [module documentation](self).
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen; port 0 picks a free one. None: only the in-process door.
    pub listen: Option<SocketAddr>,
    /// Host names and addresses that clients know the server by, besides the address on which it
    /// listens and those of every plane; they are in its certificate.
    pub serving_names: Vec<String>,
    /// Where objects are kept.
    pub store: StoreConfig,
    /// How many bytes all stored objects may have together: they are in memory.
    pub quota_bytes: usize,
    /// Static tokens.
    pub tokens: TokenFile,
    /// Decide what users may do, after the default rules.
    pub authorizers: Vec<Arc<dyn Authorizer>>,
    /// The network from which services get their addresses.
    pub service_cidr: String,
    /// Admission plugins that are on besides those that are on by default, by Kubernetes' names.
    /// `ServiceAccount` among them means that the account of a pod must exist.
    pub enabled_plugins: Vec<String>,
    /// Admission plugins that are off, though they are on by default.
    pub disabled_plugins: Vec<String>,
    /// How many reads may be under way at once.
    pub max_reads: usize,
    /// How many writes.
    pub max_writes: usize,
    /// How long clients may take.
    pub timeouts: Timeouts,
    /// Time.
    pub clock: Clock,
    /// Chance.
    pub entropy: Entropy,
}

impl Default for Config {
    /// A plane in memory that nobody reaches from outside.
    fn default() -> Self {
        Self {
            listen: None,
            serving_names: Vec::new(),
            store: StoreConfig::Memory,
            quota_bytes: store::Options::default().quota_bytes,
            tokens: TokenFile::default(),
            authorizers: Vec::new(),
            service_cidr: "10.0.0.0/24".to_owned(),
            enabled_plugins: Vec::new(),
            disabled_plugins: Vec::new(),
            max_reads: 400,
            max_writes: 200,
            timeouts: Timeouts::default(),
            clock: Clock::system(),
            entropy: Entropy::system(),
        }
    }
}
