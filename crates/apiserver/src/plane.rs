//! [`Plane`]: the state that all requests of one server share.

pub(crate) mod health_checks;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwap;
use http::HeaderMap;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::admission::Admission;
use crate::audit::Auditor;
use crate::auth::attempt_metrics::AttemptMetrics;
use crate::auth::authentication::remote::TokenSender;
use crate::auth::authentication::request_header::RequestHeaderSettings;
use crate::auth::authentication::service_account::issuer_discovery::IssuerDiscovery;
use crate::auth::authentication::service_account::{ReferencedObject, TokenError};
use crate::auth::authentication::{ANONYMOUS, Authenticator, Notes, Refusal, User};
use crate::auth::authorization::{Attributes, Authorizers, Decision};
use crate::auth::impersonation::LastModes;
use crate::auth::metrics::TlsMetrics;
use crate::certificates::Authority;
use crate::config::Timeouts;
use crate::extensions::aggregation::Aggregation;
use crate::flow_control::FlowControl;
use crate::in_process::handler::Peer;
use crate::in_process::loopback::LoopbackClient;
use crate::metrics::Metrics;
use crate::registry::service_address::ServiceAllocator;
use crate::storage::Storage;
use health_checks::HealthChecks;
use machinery::Status;

/// See the [module documentation](self). A plane has no global state: several planes run side by
/// side in one process.
pub(crate) struct Plane {
    /// The stored objects: store, watch cache and catalog.
    pub storage: Arc<Storage>,
    /// Authenticates requests.
    pub authenticator: Authenticator,
    /// The proxies that authenticate users, if there are any.
    pub request_header: Option<Arc<RequestHeaderSettings>>,
    /// The documents for verifiers of service account tokens; None if the issuer cannot have them.
    pub issuer_discovery: Option<IssuerDiscovery>,
    /// Authorizes requests.
    pub authorizers: Authorizers,
    /// The modes by which users impersonate others.
    pub impersonation_modes: LastModes,
    /// Records requests; None if the plane is not audited.
    pub audit: Option<Arc<Auditor>>,
    /// Whether roles are in effect.
    pub has_roles: bool,
    /// Signs certificates. It is replaced when its files change.
    pub authority: ArcSwap<Authority>,
    /// The certificates of the authority and its predecessors, which clients trust, in PEM.
    pub root_bundle: watch::Sender<String>,
    /// The same certificates once the listener uses them.
    pub served_bundle: watch::Sender<String>,
    /// The authorities whose client certificates are accepted, in PEM. They are replaced when their
    /// files change.
    pub client_authorities: ArcSwap<String>,
    /// The authorities of the proxies that authenticate users, in PEM. They are replaced as well.
    pub proxy_authorities: ArcSwap<String>,
    /// Counts the requests of users with client certificates, and failed handshakes.
    pub tls_metrics: Arc<TlsMetrics>,
    /// Counts the attempts of authentication and authorization.
    pub attempts: AttemptMetrics,
    /// Limits the concurrent requests of each user.
    pub flow_control: Arc<FlowControl>,
    /// The time limits of requests and connections.
    pub timeouts: Timeouts,
    /// The metrics of requests.
    pub metrics: Metrics,
    /// Mutates and validates writes.
    pub admission: Arc<Admission>,
    /// Allocates the cluster IPs and node ports of services.
    pub service_allocator: ServiceAllocator,
    /// The API services that other servers serve.
    pub aggregation: Arc<Aggregation>,
    /// The client with which the server sends requests to itself.
    pub loopback: LoopbackClient,
    /// The address at which the service `kubernetes` reaches the server; None if it does not listen.
    pub advertised: Option<SocketAddr>,
    /// The health checks of other parts of the process.
    pub health_checks: HealthChecks,
    /// Whether the plane is ready to serve requests.
    pub ready: AtomicBool,
}

impl Plane {
    /// The user of a request for `path`. The headers of authenticating proxies are removed. What else
    /// is to be said about the request is added to `notes`.
    pub(crate) async fn authenticate(
        &self,
        peer: &Peer,
        headers: &mut HeaderMap,
        path: &str,
        notes: &mut Notes,
    ) -> Result<User, Status> {
        let started = Instant::now();
        let user = self.authenticate_request(peer, headers, path, notes).await;
        self.attempts.observe_authentication(user.as_ref().ok(), notes, started.elapsed());
        user
    }

    /// The decision about a request.
    pub(crate) async fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        let started = Instant::now();
        let decision = self.authorizers.decide(attributes).await;
        self.attempts.observe_authorization(&decision, started.elapsed());
        decision
    }

    async fn authenticate_request(
        &self,
        peer: &Peer,
        headers: &mut HeaderMap,
        path: &str,
        notes: &mut Notes,
    ) -> Result<User, Status> {
        let Some(settings) = &self.request_header else {
            return self.authenticate_client(peer, headers, path, notes).await;
        };
        let named = if peer.is_front_proxy { settings.user(headers)? } else { None };
        settings.remove_from(headers);
        match named {
            Some(user) => Ok(user),
            None => self.authenticate_client(peer, headers, path, notes).await,
        }
    }

    /// The user of a request that no proxy has authenticated.
    async fn authenticate_client(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
        path: &str,
        notes: &mut Notes,
    ) -> Result<User, Status> {
        let authenticator = &self.authenticator;
        let user = match self.authenticate_locally(peer, headers, path, notes) {
            Ok(user) => user,
            Err(Refusal::Token { token, why }) if authenticator.remote.is_some() => {
                let audiences = authenticator.audiences();
                let sender = TokenSender::Address(peer.address);
                let answer = authenticator.authenticate_remotely(sender, &token, audiences, why);
                answer.await.map_err(|why| unauthorized(path, &why))?.0
            }
            Err(Refusal::Token { why, .. }) => return Err(unauthorized(path, &why)),
            Err(Refusal::Unauthorized) => {
                return Err(unauthorized(path, &"the request has no valid credentials"));
            }
        };
        // Upstream: who presents a certificate expects to be authenticated.
        if peer.has_foreign_certificate && user.name == ANONYMOUS {
            return Err(unauthorized(path, &"the client certificate is not accepted"));
        }
        Ok(user)
    }

    fn authenticate_locally<'a>(
        &self,
        peer: &Peer,
        headers: &'a HeaderMap,
        path: &str,
        notes: &mut Notes,
    ) -> Result<User, Refusal<'a>> {
        let now = self.storage.clock.now().seconds();
        let lookup = |resource: &str, namespace: &str, name: &str| {
            self.find_referenced(resource, namespace, name)
        };
        let peer = peer.user.as_deref();
        self.authenticator.authenticate(peer, headers, path, now, &lookup, notes)
    }

    /// The user of a token in a review of `reviewer`, and those of the `requested` audiences that the
    /// token is for.
    pub(crate) async fn authenticate_token(
        &self,
        reviewer: &User,
        token: &str,
        requested: &[String],
        notes: &mut Notes,
    ) -> Result<(User, Vec<String>), TokenError> {
        match self.authenticate_token_locally(token, requested, notes) {
            Ok(found) => Ok(found),
            Err(why) => {
                let sender = TokenSender::User(&reviewer.name);
                self.authenticator.authenticate_remotely(sender, token, requested, why).await
            }
        }
    }

    fn authenticate_token_locally(
        &self,
        token: &str,
        requested: &[String],
        notes: &mut Notes,
    ) -> Result<(User, Vec<String>), TokenError> {
        let now = self.storage.clock.now().seconds();
        let lookup = |resource: &str, namespace: &str, name: &str| {
            self.find_referenced(resource, namespace, name)
        };
        self.authenticator.authenticate_token(token, requested, now, &lookup, notes)
    }

    /// The state of an object that a token refers to, such as its pod; None if it does not exist.
    pub(crate) fn find_referenced(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> Option<ReferencedObject> {
        let catalog = self.storage.catalog.load();
        let served = catalog.resource("", resource)?;
        let entry = served.cache.get(&served.key(namespace, name))?;
        Some(ReferencedObject::of(&entry.object_as_stored()))
    }
}

/// The response to a request that is not authenticated. Its reason is for operators only: the log has
/// it at the level `debug`, so that nobody can fill the log of a server with default settings.
fn unauthorized(path: &str, why: &dyn fmt::Display) -> Status {
    tracing::debug!(path, error = %why, "Unable to authenticate the request");
    Status::unauthorized()
}
