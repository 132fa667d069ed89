//! [`Storage`]: the objects of one plane and the services needed to read and write them.
//!
//! Its modules are the served resources ([`catalog`]) with their [`hooks`], the [`conversion`] of
//! objects between versions, and the values that are computed from stored objects.

pub(crate) mod catalog;
pub(crate) mod hooks;
pub(crate) mod creations;
pub(crate) mod documents;
pub(crate) mod conversion;
pub(crate) mod service_resolver;
pub(crate) mod unreadable_error;
pub(crate) mod snapshot_value;
pub(crate) mod parsed_objects;

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::watch;

use crate::cache::watch_cache::WatchCache;
use crate::encryption::EncryptedStore;
use crate::outbound::Outbound;
use catalog::Catalog;
use conversion::ConversionMetrics;
use keel::{Clock, Entropy, Offload, Tasks};
use schema::PatternPool;
use service_resolver::ResolvedServices;
use store::{Revision, Store};

/// See the [module documentation](self).
pub(crate) struct Storage {
    /// The plane's clock.
    pub clock: Clock,
    /// The plane's source of uids and random suffixes.
    pub entropy: Entropy,
    /// The plane's background tasks.
    pub tasks: Tasks,
    /// Runs long computations outside of the async workers.
    pub offload: Offload,
    /// Holds all objects as bytes, which are encrypted as configured.
    pub store: Arc<dyn Store>,
    /// The same store, which knows whether a value is encrypted as it should be.
    pub encryption: Arc<EncryptedStore>,
    /// Mirrors the store; all reads come from it.
    pub cache: Arc<WatchCache>,
    /// The resources that are served now.
    pub catalog: ArcSwap<Catalog>,
    /// Notified when there is a new catalog.
    pub catalog_changed: watch::Sender<()>,
    /// The revision up to which changes of CRDs are in the catalog.
    pub crds_served: watch::Sender<Revision>,
    /// The compiled patterns that the schemas of CRDs share.
    pub patterns: PatternPool,
    /// Calls webhooks and aggregated API servers.
    pub outbound: Outbound,
    /// The addresses of the services of webhooks and aggregated API servers.
    pub resolved_services: ResolvedServices,
    /// Counts calls of conversion webhooks.
    pub conversion: ConversionMetrics,
}

impl Storage {
    /// The current time in the format of `metadata.creationTimestamp`.
    pub(crate) fn now(&self) -> String {
        machinery::timestamp::format_seconds(self.clock.now().seconds())
    }
}
