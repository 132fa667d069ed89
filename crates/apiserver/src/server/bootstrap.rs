//! The objects that every plane has: its namespaces, the service `kubernetes` and its endpoints, the
//! network of services, the system priority classes, the roles, the flow schemas and priority levels,
//! the authentication configuration for aggregated servers, and the `APIService` objects.

mod cluster_authentication_trust;
mod default_policy;
mod default_service_cidr;
pub(super) mod flow_configuration;
pub(crate) mod legacy_token_tracking;
pub mod kubernetes_endpoints;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;

use crate::admission::IMMORTAL_NAMESPACES;
use crate::cache::watch_cache::Subscription;
use crate::extensions::aggregation;
use crate::in_process::loopback::LoopbackClient;
use crate::plane::Plane;
use crate::storage::Storage;
use kinds::scheduling::priority_class::system_classes;
use machinery::{Value, json};

/// The reason why a plane is not ready.
#[derive(Debug, thiserror::Error)]
#[error("cannot create {path}: {message}")]
pub struct Error {
    path: String,
    message: String,
}

/// The interval in which the objects are checked, in case a change is missed or a repair fails.
const INTERVAL: Duration = Duration::from_secs(10);

const NAMESPACES: &str = "/api/v1/namespaces";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const SERVICE: &str = "kubernetes";

/// The key of a namespace of the plane that is stored and cannot be decrypted, if there is one, and the
/// reason. Without it no other object can be created.
pub(crate) async fn undecryptable_namespace(storage: &Storage) -> Option<(String, String)> {
    // A store that fails is reported by the first write.
    let _ = storage.cache.catch_up().await;
    let catalog = storage.catalog.load();
    let served = catalog.resource("", "namespaces")?;
    let snapshot = served.cache.snapshot();
    namespaces().find_map(|name| {
        let key = served.key("", name);
        let reason = snapshot.unreadable.get(&key)?.reason.to_string();
        Some((key, reason))
    })
}

/// Creates the missing objects through the loopback client.
pub(crate) async fn bootstrap(plane: &Arc<Plane>) -> Result<(), Error> {
    let client = &plane.loopback;
    // Concurrently: a store on a disk needs the same time for all of them as for one.
    try_join_all(namespaces().map(|it| ensure(client, NAMESPACES, it, json!({})))).await?;
    let classes =
        system_classes().into_iter().map(|class| {
            let name = class["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            async move {
                ensure(client, "/apis/scheduling.k8s.io/v1/priorityclasses", &name, class).await
            }
        });
    let service = restore_service(plane, client);
    let network = default_service_cidr::sync(plane);
    let trust = sync_trust(plane, client);
    let tracking = legacy_token_tracking::ensure_map(plane);
    let policy = default_policy::reconcile(plane);
    let flow = flow_configuration::reconcile(plane);
    let registered = aggregation::register_local_versions(&plane.storage, client);
    let (created, ()) = tokio::join!(
        async {
            let classes = try_join_all(classes);
            tokio::try_join!(service, network, classes, trust, tracking, policy, flow)
        },
        registered
    );
    created.map(|_| ())
}

/// Recreates deleted system objects until the plane stops.
///
/// Upstream: the controllers systemnamespaces, kubernetesservice and clusterauthenticationtrust,
/// which check every minute, every ten seconds, and at each change.
pub(crate) async fn maintain(plane: Arc<Plane>) {
    let catalog = plane.storage.catalog.load_full();
    let builtin = |plural: &str| catalog.resource("", plural).cloned();
    let networks = catalog.resource("networking.k8s.io", "servicecidrs").cloned();
    let (Some(namespace_resource), Some(services), Some(config_maps), Some(networks)) =
        (builtin("namespaces"), builtin("services"), builtin("configmaps"), networks)
    else {
        return;
    };
    let client = &plane.loopback;
    let mut changed = [&namespace_resource, &services, &config_maps].map(|it| it.cache.subscribe());
    let stop = plane.storage.tasks.shutdown();
    tokio::pin!(stop);
    // The revision of the config map at the last successful synchronization.
    let mut synced_revision = None;
    let mut synced_endpoints = kubernetes_endpoints::SyncedRevisions::default();
    log_failure(kubernetes_endpoints::sync(&plane, client, &mut synced_endpoints).await);
    // The timer is not restarted by changes: on a busy plane it would never elapse.
    let mut interval = Box::pin(plane.storage.clock.sleep(INTERVAL));
    loop {
        changed.iter_mut().for_each(Subscription::mark_seen);
        // The cache is checked first: most changes concern other objects.
        for name in namespaces()
            .filter(|it| namespace_resource.cache.get(&namespace_resource.key("", it)).is_none())
        {
            log_failure(ensure(client, NAMESPACES, name, json!({})).await);
        }
        if !services.cache.contains(&services.key("default", SERVICE)) {
            log_failure(ensure(client, SERVICES, SERVICE, service(&plane)).await);
        }
        if !networks.cache.contains(&networks.key("", default_service_cidr::NAME)) {
            log_failure(default_service_cidr::sync(&plane).await);
        }
        let tracking = config_maps.key("kube-system", legacy_token_tracking::NAME);
        if config_maps.cache.get(&tracking).is_none() {
            log_failure(legacy_token_tracking::ensure_map(&plane).await);
        }
        let found = config_maps
            .cache
            .get(&config_maps.key("kube-system", cluster_authentication_trust::NAME))
            .map(|it| it.revision);
        if found.is_none() || found != synced_revision {
            let synced = sync_trust(&plane, client).await;
            synced_revision = found.filter(|_| synced.is_ok());
            log_failure(synced);
        }
        let [first, second, third] = &mut changed;
        tokio::select! {
            () = first.changed() => {}
            () = second.changed() => {}
            () = third.changed() => {}
            () = &mut interval => {
                interval = Box::pin(plane.storage.clock.sleep(INTERVAL));
                // Certificates expire without a change of the config map.
                synced_revision = None;
                let synced = kubernetes_endpoints::sync(&plane, client, &mut synced_endpoints);
                log_failure(synced.await);
            }
            () = &mut stop => return,
        }
    }
}

fn log_failure(repaired: Result<(), Error>) {
    if let Err(error) = repaired {
        tracing::warn!(%error, "cannot repair a system object");
    }
}

fn namespaces() -> impl Iterator<Item = &'static str> {
    IMMORTAL_NAMESPACES.into_iter().chain(["kube-node-lease"])
}

/// The service `kubernetes`, which pods use to reach this server.
fn service(plane: &Plane) -> Value {
    json!({
        "metadata": {"labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {"clusterIP": plane.service_allocator.first_address(), "type": "ClusterIP",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}]},
    })
}

/// Creates the service, or restores its type and its ports. Called when the server starts.
async fn restore_service(plane: &Plane, client: &LoopbackClient) -> Result<(), Error> {
    let wanted = service(plane);
    let path = format!("{SERVICES}/{SERVICE}");
    let found = client.get(&path).await;
    if found.code != 200 {
        let catalog = plane.storage.catalog.load();
        let stored = catalog.resource("", "services");
        if stored.is_some_and(|it| it.cache.contains(&it.key("default", SERVICE))) {
            // It cannot be decrypted. Its key may be added while the plane runs.
            return Ok(());
        }
        return ensure(client, SERVICES, SERVICE, wanted).await;
    }
    let spec = found.object().get(&["spec"]).cloned().unwrap_or_default();
    let fields = ["type", "ports"];
    if fields.iter().all(|it| spec[it] == wanted["spec"][it]) {
        return Ok(());
    }
    let patch = json!({"spec": {"type": wanted["spec"]["type"], "ports": wanted["spec"]["ports"]}});
    let response = client.merge(&path, &patch).await;
    match response.code {
        200 | 404 | 409 => Ok(()),
        _ => Err(Error { path, message: response.message() }),
    }
}

async fn sync_trust(plane: &Plane, client: &LoopbackClient) -> Result<(), Error> {
    let synced = cluster_authentication_trust::sync(plane, client).await;
    synced.map_err(|message| Error { path: cluster_authentication_trust::NAME.to_owned(), message })
}

/// Creates an object unless it exists.
async fn ensure(
    client: &LoopbackClient,
    path: &str,
    name: &str,
    mut object: Value,
) -> Result<(), Error> {
    if client.get(&format!("{path}/{name}")).await.code == 200 {
        return Ok(());
    }
    object["metadata"]["name"] = name.into();
    let response = client.create(path, &object).await;
    // Another server on the same store may have created it in the meantime.
    if matches!(response.code, 201 | 409) {
        return Ok(());
    }
    Err(Error { path: path.to_owned(), message: response.message() })
}
