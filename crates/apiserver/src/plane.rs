//! [`Plane`]: what all requests of one server share.

use crate::admission::{Admission, Policies, Webhooks};
use crate::auth::authentication::service_account::{Referenced, TokenError};
use crate::auth::authentication::{Authenticator, User};
use crate::auth::authorization::Authorizers;
use crate::cache::catalog::Catalog;
use crate::cache::watch_cache::WatchCache;
use crate::certificates::Authority;
use crate::config::Timeouts;
use crate::extensions::aggregation::Aggregation;
use crate::flow_control::FlowControl;
use crate::metrics::Metrics;
use crate::outbound::Outbound;
use crate::registry::service_address::Allocations;
use arc_swap::ArcSwap;
use http::HeaderMap;
use keel::{Clock, Entropy, Offload, Tasks};
use machinery::Status;
use schema::PatternPool;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use store::{Revision, Store};
use tokio::sync::watch;

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
    /// The patterns that the schemas of definitions share.
    pub patterns: PatternPool,
    /// Tells that there is a new catalog.
    pub catalog_changed: watch::Sender<()>,
    /// The revision up to which changes of definitions are in the catalog.
    pub definitions_served: watch::Sender<Revision>,
    /// Whom it knows.
    pub authenticator: Authenticator,
    /// Decides what users may do.
    pub authorizers: Authorizers,
    /// The certificates that it makes.
    pub authority: Authority,
    /// How much it does at once.
    pub flow: FlowControl,
    /// Runs requests that compute for long.
    pub offload: Offload,
    /// How long its clients may take.
    pub timeouts: Timeouts,
    /// What it counts.
    pub metrics: Metrics,
    /// What else is changed in or held against objects.
    pub admission: Admission,
    /// Addresses and ports that are handed out once.
    pub allocations: Allocations,
    /// By which expressions it judges and changes requests.
    pub policies: Policies,
    /// Whom it asks: webhooks and aggregated servers.
    pub outbound: Outbound,
    /// What others serve for it.
    pub aggregation: Aggregation,
    /// Which of them judge and change what is stored.
    pub webhooks: Webhooks,
    /// What it runs in the background.
    pub tasks: Tasks,
    /// Whether everything is there that requests need.
    pub ready: AtomicBool,
}

impl Plane {
    /// Who sent a request over a connection whose certificate named `peer`.
    pub(crate) fn authenticate(
        &self,
        peer: Option<&User>,
        headers: &HeaderMap,
    ) -> Result<User, Status> {
        let now = self.clock.now().seconds();
        let lookup = |resource: &str, namespace: &str, name: &str| {
            self.referenced(resource, namespace, name)
        };
        self.authenticator.authenticate(peer, headers, now, &lookup)
    }

    /// Whose token it is, and for whom it is meant.
    pub(crate) fn whose_token(&self, token: &str) -> Result<(User, Vec<String>), TokenError> {
        let now = self.clock.now().seconds();
        self.authenticator.whose(token, now, &|resource, namespace, name| {
            self.referenced(resource, namespace, name)
        })
    }

    /// What a token refers to, as far as this plane knows.
    fn referenced(&self, resource: &str, namespace: &str, name: &str) -> Option<Referenced> {
        let catalog = self.catalog.load();
        let served = catalog.resource("", resource)?;
        let object = served.cache.get(&served.key(namespace, name))?.object_as_stored();
        let deletion = object.deletion_timestamp().and_then(machinery::timestamp::parse);
        Some(Referenced {
            uid: object.uid().to_owned(),
            deletion: deletion.map(|(seconds, _)| seconds),
        })
    }

    /// The time as `metadata.creationTimestamp` has it.
    pub(crate) fn now(&self) -> String {
        machinery::timestamp::format_seconds(self.clock.now().seconds())
    }
}
