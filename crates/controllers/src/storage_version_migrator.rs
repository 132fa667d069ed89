//! `storage-version-migrator-controller`: rewrites the objects of the resource in a
//! `StorageVersionMigration`, so that all of them are stored in the storage version of the resource.
//!
//! It promises that when the condition `Succeeded` is true, each object that existed at
//! `status.resourceVersion` was written since then: by the controller or by somebody else. Objects that
//! are stored in the storage version already are not changed. A migration that was interrupted
//! continues, and objects that it has written are not written again.
//!
//! It reads `StorageVersionMigration`s and lists the metadata of the migrated objects. It applies an empty
//! configuration to these objects, and updates the status of `StorageVersionMigration`s.
//!
//! The kind is not served by default: the controller starts when discovery shows it. Upstream takes the
//! objects from the cache of the garbage collector, which has no objects here, so they are listed.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use http::Request as HttpRequest;
use http::header::ACCEPT;
use k8s_openapi::api::storagemigration::v1beta1::{
    StorageVersionMigration, StorageVersionMigrationStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use crate::api_requests::{self, has_code, message};
use crate::controller_context::ControllerContext;
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use crate::resource_discovery::{ApiResource, DiscoveredResources, ResourceDiscovery};
use crate::time;
use keel::Clock;
use machinery::PolicyRule;
use runtime::client::json_requests;
use runtime::kube_client;
use runtime::{Action, Client, Controller, Failure, Lister, Request};

const NAME: &str = "storage-version-migrator-controller";

pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: NAME,
    aliases: &["svm"],
    user: ControllerUser::ServiceAccount(NAME),
    rules: &[
        // An object that was deleted is not created again, since the configuration has its uid; the
        // request needs the permission all the same.
        PolicyRule::new(&["*"], &["*"], &["create", "patch"]),
        PolicyRule::new(
            &["storagemigration.k8s.io"],
            &["storageversionmigrations/status"],
            &["update"],
        ),
    ],
    start,
};

const KIND: (&str, &str) = ("storagemigration.k8s.io/v1beta1", "StorageVersionMigration");
const PATH: &str = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations";

/// The verbs that a resource must support.
const REQUIRED_VERBS: [&str; 3] = ["update", "patch", "list"];

/// The time for which a resource may be missing in discovery: its CRD may be about to be served.
const DISCOVERY_TIME: Duration = Duration::from_mins(1);
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(5);

/// The number of objects of one list, and of the writes at a time.
const PAGE: usize = 500;
const WRITES: usize = 16;

/// The context of the reconcile function.
struct Migrator {
    client: Client,
    /// Lists objects.
    reader: Client,
    migrations: Lister<StorageVersionMigration>,
    discovery: ResourceDiscovery,
    clock: Clock,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MetadataList {
    metadata: ListMetadata,
    items: Vec<Listed>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMetadata {
    resource_version: String,
    #[serde(rename = "continue")]
    continue_: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Listed {
    metadata: ListedMetadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListedMetadata {
    name: String,
    namespace: String,
    uid: String,
    resource_version: String,
}

fn start(cx: &ControllerContext) {
    let (manager, discovery) = (cx.manager.clone(), cx.discovery());
    let (client, reader, clock) = (cx.client.clone(), cx.reader.clone(), cx.clock().clone());
    let stop = cx.tasks().shutdown();
    cx.tasks().spawn("storage version migrator", async move {
        let mut discoveries = discovery.subscribe();
        let is_served = discoveries
            .wait_for(|it| it.as_ref().is_some_and(|it| it.of_kind(KIND.0, KIND.1).is_some()));
        tokio::select! {
            () = stop => return,
            served = is_served => if served.is_err() { return },
        }
        let migrations = manager.lister::<StorageVersionMigration>();
        let context = Migrator { client, reader, migrations, discovery, clock };
        let controller = Controller::for_::<StorageVersionMigration>().named(NAME).workers(5);
        manager.add(controller.reconcile(reconcile, context));
    });
}

/// Upstream: `resourceversion.go` and `storageversionmigrator.go` sync
async fn reconcile(request: Request, cx: Arc<Migrator>) -> Result<Action, Failure> {
    let Some(mut migration) = cx.migrations.get_key(&request)? else { return Ok(Action::Done) };
    if is_finished(&migration) {
        return Ok(Action::Done);
    }
    let Some(resource) = cx.find_resource(&migration).await? else {
        let created = migration.metadata.creation_timestamp.as_ref();
        if created.is_none_or(|it| time::since(&cx.clock, it) < DISCOVERY_TIME) {
            return Ok(Action::RequeueAfter(DISCOVERY_INTERVAL));
        }
        return cx.fail(migration, "resource does not exist in discovery").await;
    };
    if !resource.supports(&REQUIRED_VERBS) {
        let ApiResource { group, version, plural, .. } = &*resource;
        let message = format!(
            "resource {:?} does not support discovery operations: [{}]",
            format!("{group}/{version}, Resource={plural}"),
            REQUIRED_VERBS.join(" "),
        );
        return cx.fail(migration, &message).await;
    }
    if resource_version(&migration).is_empty() {
        let latest = match cx.list(&resource, 1, "").await {
            Ok(list) => list.metadata.resource_version,
            Err(error) => return cx.end(migration, error).await,
        };
        migration.status.get_or_insert_default().resource_version = Some(latest);
        migration = cx.update_status(migration).await?;
    }
    if add_condition(&mut migration, &cx.clock, "Running", "StorageVersionMigrationInProgress", "")
    {
        migration = cx.update_status(migration).await?;
    }
    match cx.migrate(&resource, resource_version(&migration)).await {
        Ok(()) => {
            let reason = "StorageVersionMigrationSucceeded";
            add_condition(&mut migration, &cx.clock, "Succeeded", reason, "");
            cx.update_status(migration).await?;
            Ok(Action::Done)
        }
        Err(error) => cx.end(migration, error).await,
    }
}

impl Migrator {
    /// The resource of a migration in its preferred version, if it exists.
    async fn find_resource(
        &self,
        migration: &StorageVersionMigration,
    ) -> Result<Option<Arc<ApiResource>>, Failure> {
        let Some(wanted) = migration.spec.as_ref().map(|spec| &spec.resource) else {
            return Ok(None);
        };
        let find = |discovered: &DiscoveredResources| {
            let mut preferred = discovered.preferred();
            preferred.find(|it| it.group == wanted.group && it.plural == wanted.resource).cloned()
        };
        if let Some(found) = find(&self.discovery.discovered()) {
            return Ok(Some(found));
        }
        let discovered = self.discovery.refresh().await?;
        let found = find(&discovered);
        // The resource may be one of a group whose resources are not known.
        if found.is_none() && discovered.failed_groups().contains(wanted.group.as_str()) {
            let message = discovered.failure_message().unwrap_or_default();
            return Err(Failure::transient(message));
        }
        Ok(found)
    }

    /// Writes all objects that have not changed since `resource_version`.
    async fn migrate(
        &self,
        resource: &ApiResource,
        resource_version: &str,
    ) -> Result<(), kube_client::Error> {
        let mut continue_ = String::new();
        loop {
            let MetadataList { metadata, items } = self.list(resource, PAGE, &continue_).await?;
            let unchanged = items.into_iter().map(|it| it.metadata);
            let unchanged =
                unchanged.filter(|it| !is_later(&it.resource_version, resource_version));
            stream::iter(unchanged)
                .map(|object| self.rewrite(resource, object))
                .buffer_unordered(WRITES)
                .try_collect::<()>()
                .await?;
            if metadata.continue_.is_empty() {
                return Ok(());
            }
            continue_ = metadata.continue_;
        }
    }

    /// Applies nothing to an object. A conflict means that it has changed, or was deleted, since it was
    /// listed, so it needs no migration.
    async fn rewrite(
        &self,
        resource: &ApiResource,
        object: ListedMetadata,
    ) -> Result<(), kube_client::Error> {
        let path = resource.object_path(&object.namespace, &object.name);
        let path = format!("{path}?fieldManager={NAME}");
        let nothing = json!({
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"uid": object.uid, "resourceVersion": object.resource_version},
        });
        let apply = "application/apply-patch+yaml";
        let applied = json_requests::patch::<IgnoredAny>(&self.client, &path, apply, &nothing);
        match applied.await {
            Ok(_) => Ok(()),
            Err(error) if has_code(&error, 409) || has_code(&error, 404) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn list(
        &self,
        resource: &ApiResource,
        limit: usize,
        continue_: &str,
    ) -> kube_client::Result<MetadataList> {
        let path = resource.collection_path("");
        let continue_ = utf8_percent_encode(continue_, NON_ALPHANUMERIC);
        let metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        let request = HttpRequest::get(format!("{path}?limit={limit}&continue={continue_}"))
            .header(ACCEPT, metadata)
            .body(Vec::new());
        self.reader.request(request.map_err(kube_client::Error::HttpError)?).await
    }

    /// After an error, the migration is tried again, or has failed.
    async fn end(
        &self,
        migration: StorageVersionMigration,
        error: kube_client::Error,
    ) -> Result<Action, Failure> {
        if is_transient(&error) {
            return Err(error.into());
        }
        // Objects that are missing do not end a migration, so the resource is not served any more.
        if has_code(&error, 404) {
            self.discovery.refresh().await?;
            return Ok(Action::RequeueAfter(DISCOVERY_INTERVAL));
        }
        let text = format!("migration encountered unhandled error: {}", message(&error));
        self.fail(migration, &text).await
    }

    async fn fail(
        &self,
        mut migration: StorageVersionMigration,
        message: &str,
    ) -> Result<Action, Failure> {
        let reason = "StorageVersionMigrationFailed";
        add_condition(&mut migration, &self.clock, "Failed", reason, message);
        self.update_status(migration).await?;
        Ok(Action::Done)
    }

    async fn update_status(
        &self,
        migration: StorageVersionMigration,
    ) -> kube_client::Result<StorageVersionMigration> {
        let name = migration.metadata.name.as_deref().unwrap_or_default();
        let path = format!("{PATH}/{name}/status");
        api_requests::replace(&self.client, &path, &migration).await
    }
}

fn resource_version(migration: &StorageVersionMigration) -> &str {
    let status = migration.status.as_ref();
    status.and_then(|it| it.resource_version.as_deref()).unwrap_or_default()
}

fn conditions(migration: &StorageVersionMigration) -> &[Condition] {
    migration.status.as_ref().and_then(|it| it.conditions.as_deref()).unwrap_or_default()
}

fn is_finished(migration: &StorageVersionMigration) -> bool {
    conditions(migration)
        .iter()
        .any(|it| matches!(it.type_.as_str(), "Succeeded" | "Failed") && it.status == "True")
}

/// Adds a condition that is true; returns false if it exists. The end of a migration makes `Running`
/// false.
fn add_condition(
    migration: &mut StorageVersionMigration,
    clock: &Clock,
    type_: &str,
    reason: &str,
    message: &str,
) -> bool {
    if conditions(migration).iter().any(|it| it.type_ == type_) {
        return false;
    }
    let StorageVersionMigrationStatus { conditions, .. } = migration.status.get_or_insert_default();
    let conditions = conditions.get_or_insert_default();
    for running in conditions.iter_mut().filter(|it| it.type_ == "Running") {
        "False".clone_into(&mut running.status);
    }
    conditions.push(Condition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        last_transition_time: time::now(clock),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: None,
    });
    true
}

/// Whether a resource version is later than another one; both are decimal numbers.
fn is_later(a: &str, b: &str) -> bool {
    (a.len(), a) > (b.len(), b)
}

/// Whether a request may succeed later; also a list from its beginning after its continue token has
/// expired (410). Upstream: isRetriableError
fn is_transient(error: &kube_client::Error) -> bool {
    match error {
        kube_client::Error::Api(status) => matches!(status.code, 410 | 429 | 500 | 503 | 504),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_versions_are_compared_as_numbers() {
        assert!(is_later("10", "9") && is_later("12", "11"));
        assert!(!is_later("9", "10") && !is_later("11", "11"));
    }
}
