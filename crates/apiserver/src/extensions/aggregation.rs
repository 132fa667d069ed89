//! Aggregation: versions of groups that another server answers for, as `APIService` objects say.
//!
//! ```text
//! APIService ─▶ remote.rs: which group and version, whose service
//! request    ─▶ proxy.rs: handed on, with the user's name, and answered with what comes back
//! meanwhile  ─▶ aggregation_controller.rs: is it there? what does it serve? is each local version announced?
//!               schedule.rs: when each server is asked again
//! ```

mod availability;
mod documents;
mod aggregation_controller;
mod autoregister;
mod openapi;
mod proxy;
mod remote_api_service;
mod schedule;

pub(crate) use openapi::{OpenApiPart, PathsAndDefinitions};
pub(crate) use remote_api_service::RemoteApiService;

use crate::cache::catalog::Catalog;
use crate::cache::snapshot_value::SnapshotValue;
use crate::cache::storage::Storage;
use crate::in_process::loopback::LoopbackClient;
use crate::outbound::Identity;
use aggregation_controller::AggregationController;
use arc_swap::ArcSwap;
use autoregister::Trigger;
use bytes::Bytes;
use machinery::Value;
use openapi::{MAX_PARTS, OmitReason, OpenApiV2};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The group of `APIService`.
const GROUP: &str = "apiregistration.k8s.io";

/// Where they are.
const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

/// The name under which we hand requests on, which aggregated servers know to believe.
pub(crate) const FRONT_PROXY: &str = "front-proxy-client";

/// What is known of the servers that others run.
pub(crate) struct Aggregation {
    storage: Arc<Storage>,
    remotes: SnapshotValue<Vec<Arc<RemoteApiService>>>,
    /// What each of them last said that it serves, by group and version.
    documents: ArcSwap<BTreeMap<(String, String), Arc<RemoteDocuments>>>,
    /// The latest aggregated discovery document, as it was last asked for. Locked while it is made,
    /// so that it is made once.
    discovery: Mutex<Option<CachedDiscovery>>,
    /// Our certificate as the one who hands requests on.
    identity: Identity,
}

type Remotes = Arc<Vec<Arc<RemoteApiService>>>;

type AllDocuments = Arc<BTreeMap<(String, String), Arc<RemoteDocuments>>>;

/// A discovery document with its entity tag, and what it was made of.
struct CachedDiscovery {
    catalog: Weak<Catalog>,
    remotes: Remotes,
    documents: AllDocuments,
    document: (String, Bytes),
}

/// What an aggregated server says of itself.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct RemoteDocuments {
    /// Its version's part of the aggregated discovery document.
    pub resources: Value,
    /// Where its document of `OpenAPI` version 3 is, if it has one.
    pub openapi_v3: Option<String>,
    /// Its document of `OpenAPI` version 2.
    pub openapi_v2: OpenApiV2,
}

impl Aggregation {
    /// Nothing is known yet.
    pub(crate) fn new(storage: Arc<Storage>, identity: Identity) -> Self {
        let make = |snapshot: &crate::cache::watch_cache::Snapshot| {
            let objects = snapshot.entries.values().map(|it| it.object_as_stored());
            objects.filter_map(|it| RemoteApiService::from_object(&it)).map(Arc::new).collect()
        };
        Self {
            storage,
            remotes: SnapshotValue::new(GROUP, "apiservices", make),
            documents: ArcSwap::default(),
            discovery: Mutex::default(),
            identity,
        }
    }

    /// Every version that is not ours.
    pub(crate) fn remotes(&self) -> Remotes {
        self.remotes.current(&self.storage)
    }

    /// Who answers for a version of a group, if that is not us.
    pub(crate) fn find(&self, group: &str, version: &str) -> Option<Arc<RemoteApiService>> {
        let remotes = self.remotes();
        remotes.iter().find(|it| it.group == group && it.version == version).cloned()
    }

    /// What the server of a version last said of itself.
    pub(crate) fn documents(&self, remote: &RemoteApiService) -> Option<Arc<RemoteDocuments>> {
        self.documents.load().get(&key(remote)).cloned()
    }

    /// The aggregated discovery document and its entity tag, made anew if something of which it
    /// consists has changed.
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

    /// What the `OpenAPI` documents of version 2 of all servers add to ours, in the order of the
    /// remotes.
    pub(crate) fn openapi_parts(&self) -> Vec<Arc<OpenApiPart>> {
        let documents = self.documents.load();
        let remotes = self.remotes();
        let parts = remotes.iter().filter_map(|it| documents.get(&key(it))?.openapi_v2.part());
        parts.cloned().collect()
    }

    /// Replaces what the server of a version said of itself. A document for which there is no room
    /// beside those of the other servers is left out. Called by one task only.
    fn store_documents(&self, remote: &RemoteApiService, mut new: RemoteDocuments) {
        let mut documents = BTreeMap::clone(&self.documents.load());
        let before = documents.remove(&key(remote));
        let parts = documents.values().filter_map(|it| it.openapi_v2.part());
        let taken: usize = parts.map(|it| it.len()).sum();
        if new.openapi_v2.part().is_some_and(|it| it.len() > MAX_PARTS - taken) {
            new.openapi_v2 = OpenApiV2::Omitted(OmitReason::NoRoom);
        }
        if let OpenApiV2::Omitted(why) = &new.openapi_v2
            && before.as_ref().is_none_or(|it| it.openapi_v2 != new.openapi_v2)
        {
            let name = &remote.name;
            tracing::warn!(name, %why, "the OpenAPI document of an aggregated server is left out");
        }
        if before.is_some_and(|it| *it == new) {
            return;
        }
        documents.insert(key(remote), Arc::new(new));
        self.documents.store(Arc::new(documents));
    }

    /// Forgets all servers but these.
    fn retain_documents(&self, remotes: &[Arc<RemoteApiService>]) {
        let keys: BTreeSet<_> = remotes.iter().map(|it| key(it)).collect();
        let documents = self.documents.load();
        if documents.keys().any(|it| !keys.contains(it)) {
            let kept = documents.iter().filter(|(it, _)| keys.contains(*it));
            let kept = kept.map(|(key, it)| (key.clone(), Arc::clone(it))).collect();
            self.documents.store(Arc::new(kept));
        }
    }
}

fn key(remote: &RemoteApiService) -> (String, String) {
    (remote.group.clone(), remote.version.clone())
}

/// Announces what this server serves itself, when it starts.
pub(crate) async fn register_local_versions(storage: &Storage, client: &LoopbackClient) {
    register_local_versions_at(storage, client, Trigger::Start).await;
    // Requests must not be led to where a corrected object led. A store that cannot tell its
    // revision takes no writes either.
    let _ = storage.cache.catch_up().await;
}

async fn register_local_versions_at(storage: &Storage, client: &LoopbackClient, trigger: Trigger) {
    let catalog = storage.catalog.load_full();
    let services = catalog.resource(GROUP, "apiservices").expect("the kind is built in");
    autoregister::register_local_versions(client, &catalog, &services.cache.snapshot(), trigger)
        .await;
}

/// Follows the objects that say who serves what.
pub(crate) fn start(aggregation: &Arc<Aggregation>, client: LoopbackClient) {
    let controller = AggregationController::new(Arc::clone(aggregation), client);
    aggregation.storage.tasks.spawn("aggregation", controller.run());
}
