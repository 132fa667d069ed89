//! [`Plane`]: what all requests of one server share.

use crate::admission::Admission;
use crate::auth::authentication::service_account::{ReferencedObject, TokenError};
use crate::auth::authentication::{Authenticator, User};
use crate::auth::authorization::Authorizers;
use crate::cache::storage::Storage;
use crate::certificates::Authority;
use crate::config::Timeouts;
use crate::extensions::aggregation::Aggregation;
use crate::flow_control::FlowControl;
use crate::in_process::loopback::LoopbackClient;
use crate::metrics::Metrics;
use crate::registry::service_address::Allocations;
use http::HeaderMap;
use machinery::Status;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// See the [module documentation](self). Nothing in it is global: several planes live side by side
/// in one process.
pub(crate) struct Plane {
    /// The objects of the plane.
    pub storage: Arc<Storage>,
    /// Finds the user of a request.
    pub authenticator: Authenticator,
    /// Decides what users may do.
    pub authorizers: Authorizers,
    /// Signs certificates.
    pub authority: Authority,
    /// Limits what is done at once, for each user.
    pub flow: Arc<FlowControl>,
    /// The limits of time.
    pub timeouts: Timeouts,
    /// The metrics of requests.
    pub metrics: Metrics,
    /// Changes and validates writes.
    pub admission: Arc<Admission>,
    /// The cluster IPs and node ports of services.
    pub allocations: Allocations,
    /// Servers that serve other groups.
    pub aggregation: Arc<Aggregation>,
    /// The plane as a client of itself.
    pub loopback: LoopbackClient,
    /// Whether everything that requests need is there.
    pub ready: AtomicBool,
}

impl Plane {
    /// Who sent a request over a connection whose certificate named `peer`.
    pub(crate) fn authenticate(
        &self,
        peer: Option<&User>,
        headers: &HeaderMap,
    ) -> Result<User, Status> {
        let now = self.storage.clock.now().seconds();
        let lookup = |resource: &str, namespace: &str, name: &str| {
            self.referenced(resource, namespace, name)
        };
        self.authenticator.authenticate(peer, headers, now, &lookup)
    }

    /// Whose token it is, and for whom it is meant.
    pub(crate) fn whose_token(&self, token: &str) -> Result<(User, Vec<String>), TokenError> {
        let now = self.storage.clock.now().seconds();
        self.authenticator.authenticate_token(token, now, &|resource, namespace, name| {
            self.referenced(resource, namespace, name)
        })
    }

    /// What a token refers to, as far as this plane knows.
    fn referenced(&self, resource: &str, namespace: &str, name: &str) -> Option<ReferencedObject> {
        let catalog = self.storage.catalog.load();
        let served = catalog.resource("", resource)?;
        let object = served.cache.get(&served.key(namespace, name))?.object_as_stored();
        let deletion = object.deletion_timestamp().and_then(machinery::timestamp::parse);
        Some(ReferencedObject {
            uid: object.uid().to_owned(),
            deletion: deletion.map(|(seconds, _)| seconds),
        })
    }
}
