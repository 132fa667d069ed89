//! Every setting of a server, in one place.

use crate::authentication::token::TokenFile;
use keel::{Clock, Entropy};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where objects are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreConfig {
    /// In memory; they are gone with the process.
    Memory,
    /// In this directory.
    Embedded(PathBuf),
}

/// See the [module documentation](self).
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen; port 0 picks a free one. None: only the in-process door.
    pub listen: Option<SocketAddr>,
    /// Where objects are kept.
    pub store: StoreConfig,
    /// Static tokens.
    pub tokens: TokenFile,
    /// The network from which services get their addresses.
    pub service_cidr: String,
    /// How many reads may be under way at once.
    pub max_reads: usize,
    /// How many writes.
    pub max_writes: usize,
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
            store: StoreConfig::Memory,
            tokens: TokenFile::default(),
            service_cidr: "10.0.0.0/24".to_owned(),
            max_reads: 400,
            max_writes: 200,
            clock: Clock::system(),
            entropy: Entropy::system(),
        }
    }
}
