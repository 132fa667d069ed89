//! [`Plane`]: what all requests of one server share.

use crate::admission::Allocations;
use crate::authentication::Authenticator;
use crate::catalog::Catalog;
use crate::certificates::Authority;
use crate::config::Timeouts;
use crate::flow_control::FlowControl;
use crate::metrics::Metrics;
use crate::watch_cache::WatchCache;
use arc_swap::ArcSwap;
use keel::{Clock, Entropy, Tasks};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use store::Store;

/// See the [module documentation](self). Nothing in it is global: several planes live side by side
/// in one process.
pub(crate) struct Plane {
    /// Its time.
    pub clock: Clock,
    /// Its chance.
    pub entropy: Entropy,
    /// Where it keeps what it knows.
    pub store: Arc<dyn Store>,
    /// What it reads from.
    pub cache: Arc<WatchCache>,
    /// What it serves.
    pub catalog: ArcSwap<Catalog>,
    /// Whom it knows.
    pub authenticator: Authenticator,
    /// The certificates that it makes.
    pub authority: Authority,
    /// How much it does at once.
    pub flow: FlowControl,
    /// How long its clients may take.
    pub timeouts: Timeouts,
    /// What it counts.
    pub metrics: Metrics,
    /// Addresses and ports that are handed out once.
    pub allocations: Allocations,
    /// What it runs in the background.
    pub tasks: Tasks,
    /// Whether everything is there that requests need.
    pub ready: AtomicBool,
}

impl Plane {
    /// The time as `metadata.creationTimestamp` has it.
    pub(crate) fn now(&self) -> String {
        machinery::timestamp::format_seconds(self.clock.now().seconds())
    }
}
