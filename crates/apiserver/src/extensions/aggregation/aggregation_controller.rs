//! [`AggregationController`]: checks the availability of aggregated servers, reads their discovery
//! and OpenAPI documents, writes the status of their `APIService`, and registers local versions.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::select_all;
use futures_util::stream::{FuturesUnordered, StreamExt};
use http::header::{ACCEPT, HeaderValue};
use http::{HeaderMap, Request};
use http_body_util::Full;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::autoregister::Trigger;
use super::documents::MAX_DOWNLOADS;
use super::proxy::headers;
use super::schedule::{CheckOutcome, CheckSchedule, Due};
use super::{Aggregation, GROUP, RemoteApiService};
use crate::auth::authorization::masters;
use crate::cache::watch_cache::{Snapshot, Subscription};
use crate::in_process::loopback::LoopbackClient;
use crate::outbound;
use crate::outbound::service::ServiceError;
use crate::storage::catalog::Catalog;

/// The resources that determine the addresses of services.
const ADDRESS_RESOURCES: [(&str, &str); 3] =
    [("", "services"), ("", "endpoints"), ("discovery.k8s.io", "endpointslices")];

/// See the [module documentation](self).
pub(super) struct AggregationController {
    pub(super) aggregation: Arc<Aggregation>,
    pub(super) client: LoopbackClient,
    /// A permit for each OpenAPI document that is being read.
    pub(super) downloads: Semaphore,
}

/// The error of a request of the controller to an aggregated server.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    #[error(transparent)]
    Service(#[from] ServiceError),
    #[error(transparent)]
    Request(#[from] http::Error),
    #[error(transparent)]
    Outbound(#[from] outbound::Error),
}

/// The catalog and the `APIService` objects of the last registration.
type RegisteredState = (Arc<Catalog>, Arc<Snapshot>);

impl AggregationController {
    pub(super) fn new(aggregation: Arc<Aggregation>, client: LoopbackClient) -> Self {
        Self { aggregation, client, downloads: Semaphore::new(MAX_DOWNLOADS) }
    }

    /// Runs until the plane stops.
    pub(super) async fn run(self) {
        let storage = &self.aggregation.storage;
        let stop = storage.tasks.shutdown();
        tokio::pin!(stop);
        let mut catalog_changed = storage.catalog_changed.subscribe();
        let mut registrations = self.subscribe(&[(GROUP, "apiservices")]);
        let mut backends = self.subscribe(&ADDRESS_RESOURCES);
        let mut schedule = CheckSchedule::new(storage.clock.clone(), storage.entropy.clone());
        // The checks run concurrently: a server that hangs does not delay the others.
        let mut checks = FuturesUnordered::new();
        let mut registered = None;
        loop {
            catalog_changed.borrow_and_update();
            registrations.iter_mut().chain(&mut backends).for_each(Subscription::mark_seen);
            let _ = storage.cache.catch_up().await;
            self.register_local_versions(&mut registered).await;
            let remotes = self.aggregation.remotes();
            self.aggregation.retain_documents(&remotes);
            let (due, next) = begin(&self.aggregation, &mut schedule, &remotes);
            checks.extend(due.into_iter().map(|it| self.check(it)));
            let pause = async {
                match next {
                    Some(next) => storage.clock.sleep(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = &mut stop => return,
                // Before the subscriptions, which also report the writes of finished checks.
                Some((remote, outcome)) = checks.next() => schedule.finish(&remote, outcome),
                () = any_changed(&registrations) => {}
                // Addresses matter only if an APIService refers to a service.
                () = any_changed(&backends), if !remotes.is_empty() => {}
                _ = catalog_changed.changed() => {}
                // A failed registration is repeated.
                () = pause => registered = None,
            }
        }
    }

    fn subscribe(&self, resources: &[(&str, &str)]) -> Vec<Subscription> {
        let catalog = self.aggregation.storage.catalog.load();
        let found = resources.iter().filter_map(|(group, plural)| catalog.resource(group, plural));
        found.map(|it| it.cache.subscribe()).collect()
    }

    /// Registers the local versions if the catalog or an `APIService` has changed.
    async fn register_local_versions(&self, registered: &mut Option<RegisteredState>) {
        let catalog = self.aggregation.storage.catalog.load_full();
        let services = catalog.resource(GROUP, "apiservices").expect("the kind is built in");
        if let Some((last, snapshot)) = registered
            && Arc::ptr_eq(last, &catalog)
            && services.cache.is_current(snapshot)
        {
            return;
        }
        let snapshot = services.cache.snapshot();
        super::register_local_versions_at(&self.aggregation.storage, &self.client, Trigger::Change)
            .await;
        *registered = Some((Arc::clone(&catalog), snapshot));
    }

    /// Checks whether a server is available, and reads its documents.
    async fn check(&self, remote: Arc<RemoteApiService>) -> (Arc<RemoteApiService>, CheckOutcome) {
        let availability = self.check_availability(&remote).await;
        let is_written = self.write_condition(&remote, &availability).await;
        if availability.available {
            let before = self.aggregation.documents(&remote);
            let documents = self.read_documents(&remote, before.as_deref()).await;
            self.aggregation.store_documents(&remote, documents);
        }
        let is_failed = availability.is_failed() || !is_written;
        (remote, if is_failed { CheckOutcome::Failed } else { CheckOutcome::Settled })
    }

    /// Sends a GET request; returns the status code and the body, of at most `limit` bytes.
    pub(super) async fn get(
        &self,
        remote: &RemoteApiService,
        path: &str,
        accept: &'static str,
        limit: usize,
        deadline: Instant,
    ) -> Result<(u16, Bytes), RequestError> {
        let to = self.aggregation.destination(remote)?;
        let user = masters::member("system:kube-aggregator");
        let mut request =
            Request::get(format!("{}{path}", remote.service.origin())).body(Bytes::new())?;
        *request.headers_mut() =
            headers(&HeaderMap::new(), &user).expect("the controller's user name is ASCII");
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
        if let Some(service) = self.aggregation.in_process_service(remote) {
            let response = service(request).await;
            return Ok((response.status().as_u16(), response.into_body()));
        }
        let request = request.map(Full::new);
        let response =
            self.aggregation.storage.outbound.call(&to, request, limit, deadline).await?;
        Ok((response.status().as_u16(), response.into_body()))
    }
}

/// Begins the checks that are due; also returns the time until the next one.
fn begin(
    aggregation: &Aggregation,
    schedule: &mut CheckSchedule,
    remotes: &[Arc<RemoteApiService>],
) -> (Vec<Arc<RemoteApiService>>, Option<Duration>) {
    schedule.retain(remotes);
    let (mut due, mut next) = (Vec::new(), None);
    for remote in remotes {
        match schedule.begin(remote, aggregation.destination(remote)) {
            Due::Now => due.push(Arc::clone(remote)),
            Due::In(delay) => next = Some(next.map_or(delay, |it: Duration| it.min(delay))),
            Due::InProgress => {}
        }
    }
    (due, next)
}

async fn any_changed(subscriptions: &[Subscription]) {
    select_all(subscriptions.iter().map(|it| Box::pin(it.changed()))).await;
}
