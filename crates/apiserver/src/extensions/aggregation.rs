//! Aggregation: group versions that another API server serves, as declared by `APIService` objects.
//!
//! ```text
//! APIService ─▶ remote_api_service.rs: the group, the version and the service
//! request    ─▶ proxy.rs: forwarded in the user's name; the response is streamed back
//! background ─▶ aggregation_controller.rs: checks availability, reads discovery and OpenAPI,
//!               registers the local versions (autoregister.rs)
//!               schedule.rs: the time of the next check of each server
//! ```

mod availability;
mod documents;
mod aggregation_controller;
mod autoregister;
mod openapi;
mod proxy;
mod remote_api_service;
mod schedule;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use arc_swap::ArcSwap;
use bytes::Bytes;

use crate::in_process::loopback::LoopbackClient;
use crate::outbound::in_process_services::{InProcessServices, ServiceFunction};
use crate::storage::Storage;
use crate::storage::catalog::Catalog;
use crate::storage::snapshot_value::SnapshotValue;
use aggregation_controller::AggregationController;
use autoregister::Trigger;
use machinery::Value;
use openapi::{MAX_TOTAL_SIZE, OmitReason, OpenApiV2};
use tls::Identity;

pub(crate) use openapi::{OpenApiPart, PathsAndDefinitions};
pub(crate) use remote_api_service::RemoteApiService;

/// The group of `APIService`.
const GROUP: &str = "apiregistration.k8s.io";

/// The path of the `APIService` objects.
const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

/// The common name of the client certificate for forwarded requests, which aggregated servers trust
/// to name the user.
pub(crate) const FRONT_PROXY: &str = "front-proxy-client";

/// The aggregated API servers and their cached documents.
pub(crate) struct Aggregation {
    storage: Arc<Storage>,
    remotes: SnapshotValue<Vec<Arc<RemoteApiService>>>,
    /// The latest documents of each server, by group and version.
    documents: ArcSwap<BTreeMap<(String, String), Arc<RemoteDocuments>>>,
    /// The latest aggregated discovery document. Locked while it is built, so that it is built once.
    discovery: Mutex<Option<CachedDiscovery>>,
    /// The client certificate for forwarded requests.
    identity: ArcSwap<Identity>,
    /// The services that are functions of this process.
    in_process_services: InProcessServices,
}

type Remotes = Arc<Vec<Arc<RemoteApiService>>>;

type AllDocuments = Arc<BTreeMap<(String, String), Arc<RemoteDocuments>>>;

/// A discovery document with its entity tag, and the state that it was built from.
struct CachedDiscovery {
    catalog: Weak<Catalog>,
    remotes: Remotes,
    documents: AllDocuments,
    document: (String, Bytes),
}

/// The discovery and OpenAPI documents of an aggregated server.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct RemoteDocuments {
    /// Its version's part of the aggregated discovery document.
    pub resources: Value,
    /// The path of its `OpenAPI` v3 document, if it has one.
    pub openapi_v3: Option<String>,
    /// Its `OpenAPI` v2 document.
    pub openapi_v2: OpenApiV2,
}

impl Aggregation {
    /// Creates the state without any documents.
    pub(crate) fn new(
        storage: Arc<Storage>,
        identity: Identity,
        in_process_services: InProcessServices,
    ) -> Self {
        let make = |snapshot: &crate::cache::watch_cache::Snapshot| {
            let objects = snapshot.entries.values().map(|it| it.object_as_stored());
            objects.filter_map(|it| RemoteApiService::from_object(&it)).map(Arc::new).collect()
        };
        Self {
            storage,
            remotes: SnapshotValue::new(GROUP, "apiservices", make),
            documents: ArcSwap::default(),
            discovery: Mutex::default(),
            identity: ArcSwap::from_pointee(identity),
            in_process_services,
        }
    }

    /// Replaces the client certificate for forwarded requests.
    pub(crate) fn set_identity(&self, identity: Identity) {
        self.identity.store(Arc::new(identity));
    }

    /// The group versions that other servers serve.
    pub(crate) fn remotes(&self) -> Remotes {
        self.remotes.current(&self.storage)
    }

    /// The remote `APIService` of a group version, if another server serves it.
    pub(crate) fn find(&self, group: &str, version: &str) -> Option<Arc<RemoteApiService>> {
        let remotes = self.remotes();
        remotes.iter().find(|it| it.group == group && it.version == version).cloned()
    }

    /// The function that serves a version, if its service is one of this process.
    fn in_process_service(&self, remote: &RemoteApiService) -> Option<&ServiceFunction> {
        self.in_process_services.find(&remote.service.namespace, &remote.service.name)
    }

    /// The latest documents of the server of a version.
    pub(crate) fn documents(&self, remote: &RemoteApiService) -> Option<Arc<RemoteDocuments>> {
        self.documents.load().get(&key(remote)).cloned()
    }

    /// The aggregated discovery document and its entity tag. `make` builds it if the catalog, the
    /// remotes or their documents have changed.
    pub(crate) fn discovery(
        &self,
        catalog: &Arc<Catalog>,
        make: impl FnOnce() -> (String, Bytes),
    ) -> (String, Bytes) {
        let mut discovery = self.discovery.lock().unwrap_or_else(PoisonError::into_inner);
        let (remotes, documents) = (self.remotes(), self.documents.load_full());
        if let Some(found) = &*discovery
            && found.catalog.as_ptr() == Arc::as_ptr(catalog)
            && Arc::ptr_eq(&found.remotes, &remotes)
            && Arc::ptr_eq(&found.documents, &documents)
        {
            return found.document.clone();
        }
        let document = make();
        let catalog = Arc::downgrade(catalog);
        *discovery =
            Some(CachedDiscovery { catalog, remotes, documents, document: document.clone() });
        document
    }

    /// The parts of the `OpenAPI` v2 document that come from aggregated servers, in the order of the
    /// remotes.
    pub(crate) fn openapi_parts(&self) -> Vec<Arc<OpenApiPart>> {
        let documents = self.documents.load();
        let remotes = self.remotes();
        let parts = remotes.iter().filter_map(|it| documents.get(&key(it))?.openapi_v2.part());
        parts.cloned().collect()
    }

    /// Replaces the documents of the server of a version. An `OpenAPI` document is omitted if the
    /// documents of all servers would exceed [`MAX_TOTAL_SIZE`]. Called by one task only.
    fn store_documents(&self, remote: &RemoteApiService, mut new: RemoteDocuments) {
        let mut documents = BTreeMap::clone(&self.documents.load());
        let before = documents.remove(&key(remote));
        let parts = documents.values().filter_map(|it| it.openapi_v2.part());
        let size_of_others: usize = parts.map(|it| it.len()).sum();
        if new.openapi_v2.part().is_some_and(|it| it.len() > MAX_TOTAL_SIZE - size_of_others) {
            new.openapi_v2 = OpenApiV2::Omitted(OmitReason::TotalTooLarge);
        }
        if let OpenApiV2::Omitted(why) = &new.openapi_v2
            && before.as_ref().is_none_or(|it| it.openapi_v2 != new.openapi_v2)
        {
            let name = &remote.name;
            tracing::warn!(name, %why, "the OpenAPI document of an aggregated server is omitted");
        }
        if before.is_some_and(|it| *it == new) {
            return;
        }
        documents.insert(key(remote), Arc::new(new));
        self.documents.store(Arc::new(documents));
    }

    /// Removes the documents of all servers but these.
    fn retain_documents(&self, remotes: &[Arc<RemoteApiService>]) {
        let keys: BTreeSet<_> = remotes.iter().map(|it| key(it)).collect();
        let documents = self.documents.load();
        if documents.keys().any(|it| !keys.contains(it)) {
            let retained = documents.iter().filter(|(it, _)| keys.contains(*it));
            let retained = retained.map(|(key, it)| (key.clone(), Arc::clone(it))).collect();
            self.documents.store(Arc::new(retained));
        }
    }
}

fn key(remote: &RemoteApiService) -> (String, String) {
    (remote.group.clone(), remote.version.clone())
}

/// Registers the versions that this server serves itself. Called when the server starts.
pub(crate) async fn register_local_versions(storage: &Storage, client: &LoopbackClient) {
    register_local_versions_at(storage, client, Trigger::Start).await;
    // Requests must not be routed by the content of an object before its correction. The error is
    // ignored: a store that cannot report its revision accepts no writes either.
    let _ = storage.cache.catch_up().await;
}

async fn register_local_versions_at(storage: &Storage, client: &LoopbackClient, trigger: Trigger) {
    let catalog = storage.catalog.load_full();
    let services = catalog.resource(GROUP, "apiservices").expect("the kind is built in");
    autoregister::register_local_versions(client, &catalog, &services.cache.snapshot(), trigger)
        .await;
}

/// Starts the controller of the `APIService` objects.
pub(crate) fn start(aggregation: &Arc<Aggregation>, client: LoopbackClient) {
    let controller = AggregationController::new(Arc::clone(aggregation), client);
    aggregation.storage.tasks.spawn("aggregation", controller.run());
}
