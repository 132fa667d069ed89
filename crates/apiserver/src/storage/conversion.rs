//! Conversion of objects between API versions: by replacing `apiVersion`, by the kind's conversion
//! function, or by a conversion webhook.
//!
//! Stored objects stay in the version in which they were written, in the store and in the cache. They
//! are converted when they are read, and new objects are converted to the storage version before they
//! are written; `registry/conversion.rs` says to which version each verb converts.
//!
//! Kinds whose versions differ in `apiVersion` alone, and those with a conversion function, are served
//! by copying bytes: for them [`entries`] returns its argument.

mod conversion_cache;
mod metrics;
mod review;
mod webhook;

use std::sync::Arc;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::cache::watch_cache::Entry;
use crate::storage::Storage;
use crate::storage::catalog::ServedResource;
use conversion_cache::ConversionCache;
use machinery::{Object, Status, Value};
use types::Resource;
use types::resource::{Shape, Version};
use webhook::ConversionWebhook;

pub(crate) use metrics::ConversionMetrics;

/// Converts the objects of one resource between its versions.
pub(crate) struct Conversion {
    strategy: ConversionStrategy,
    /// The results of earlier conversions.
    cache: ConversionCache,
    /// When the last conversion for watchers failed, and its error. Locked while a watcher converts,
    /// so that the others wait and share the result.
    last_failure: Mutex<Option<(Instant, Status)>>,
}

enum ConversionStrategy {
    /// Replaces `apiVersion`.
    ApiVersion,
    /// Replaces `apiVersion` and prunes the fields that are not in the schema of the new version.
    ApiVersionAndPrune,
    /// Calls the conversion function of the kind: (object, from, to).
    Function(fn(&mut Object, &str, &str)),
    /// Calls a webhook.
    Webhook(ConversionWebhook),
}

impl Conversion {
    /// The conversion of a built-in kind.
    pub(crate) fn built_in(resource: &Resource) -> Self {
        Self::new(
            resource
                .strategy
                .convert
                .map_or(ConversionStrategy::ApiVersion, ConversionStrategy::Function),
        )
    }

    /// The conversion that a CRD declares.
    pub(crate) fn of_crd(crd: &Object) -> Self {
        let conversion = crd.get(&["spec", "conversion"]).unwrap_or(&Value::Null);
        if conversion["strategy"] == "Webhook" {
            return Self::new(ConversionStrategy::Webhook(ConversionWebhook::new(
                &conversion["webhook"],
            )));
        }
        let versions = crd.get(&["spec", "versions"]).and_then(Value::as_array);
        let versions = versions.map(Vec::as_slice).unwrap_or_default();
        let have_same_schema =
            |a: &Value, b: &Value| ["schema", "selectableFields"].iter().all(|it| a[it] == b[it]);
        let all_same = versions.windows(2).all(|pair| have_same_schema(&pair[0], &pair[1]));
        Self::new(if all_same {
            ConversionStrategy::ApiVersion
        } else {
            ConversionStrategy::ApiVersionAndPrune
        })
    }

    fn new(strategy: ConversionStrategy) -> Self {
        Self { strategy, cache: ConversionCache::default(), last_failure: Mutex::default() }
    }

    /// Removes the cached conversion of a stored object to `version`, so that it is converted again:
    /// the webhook may have been replaced by a newer one.
    pub(crate) fn evict(&self, version: usize, entry: &Entry) {
        self.cache.remove(version, entry);
    }

    /// Whether a webhook converts the objects.
    pub(crate) fn uses_webhook(&self) -> bool {
        matches!(self.strategy, ConversionStrategy::Webhook(_))
    }

    /// Whether stored bytes are served without a cached conversion: only `apiVersion` is replaced, or
    /// a conversion function runs while the answer is written.
    pub(crate) fn serves_stored_bytes(&self) -> bool {
        matches!(self.strategy, ConversionStrategy::ApiVersion | ConversionStrategy::Function(_))
    }
}

/// Converts an object from any version to `version` without calling a webhook: replaces `apiVersion`,
/// or calls the kind's conversion function.
pub(crate) fn convert_locally(
    served: &ServedResource,
    version: usize,
    mut object: Object,
) -> Object {
    let resource = &served.resource;
    let desired_api_version = resource.api_version(&resource.versions[version]);
    if object.api_version() != desired_api_version {
        if let ConversionStrategy::Function(convert) = served.conversion.strategy {
            let from = object.api_version().to_owned();
            convert(&mut object, &from, &desired_api_version);
        }
        object.set_type(&desired_api_version, &resource.kind);
    }
    object
}

/// Converts one object to `version`.
pub(crate) async fn object(
    storage: &Storage,
    served: &ServedResource,
    version: usize,
    object: Object,
) -> Result<Object, Status> {
    let mut converted = objects(storage, served, version, vec![object]).await?;
    Ok(converted.pop().expect("a conversion returns as many objects as it takes"))
}

/// Converts several objects to `version` together.
pub(crate) async fn objects(
    storage: &Storage,
    served: &ServedResource,
    version: usize,
    mut objects: Vec<Object>,
) -> Result<Vec<Object>, Status> {
    let resource = &served.resource;
    let desired_api_version = resource.api_version(&resource.versions[version]);
    if let ConversionStrategy::Webhook(webhook) = &served.conversion.strategy {
        let mut batch = Vec::new();
        for (index, object) in objects.iter_mut().enumerate() {
            if object.api_version() == desired_api_version {
                continue;
            }
            check_version(resource, object)?;
            if is_empty(object) {
                object.set_type(&desired_api_version, &resource.kind);
            } else {
                batch.push((index, std::mem::take(object)));
            }
        }
        let (indices, batch): (Vec<usize>, Vec<Object>) = batch.into_iter().unzip();
        let Some(from) = batch.first().map(|it| it.gvk().version) else { return Ok(objects) };
        let (started, to) = (Instant::now(), &served.version(version).name);
        // Boxed, so that the futures of other requests do not contain this large future.
        let answered = Box::pin(webhook.convert(storage, &desired_api_version, batch)).await;
        let crd = resource.group_resource().to_string();
        let (succeeded, took) = (answered.is_ok(), started.elapsed());
        storage.conversion.record_conversion(&crd, &from, to, succeeded, took);
        let answered = answered.map_err(Status::unclassified)?;
        for (index, mut object) in indices.into_iter().zip(answered) {
            prune(served.version(version), &mut object);
            objects[index] = object;
        }
        return Ok(objects);
    }
    let prunes = matches!(served.conversion.strategy, ConversionStrategy::ApiVersionAndPrune);
    let convert = |object: Object| {
        let differs = object.api_version() != desired_api_version;
        let mut object = convert_locally(served, version, object);
        if prunes && differs {
            prune(served.version(version), &mut object);
        }
        object
    };
    Ok(objects.into_iter().map(convert).collect())
}

/// Removes the fields that are not in the version's schema, which a conversion may have left.
fn prune(version: &Version, object: &mut Object) {
    if let Shape::Structural(schema) = &version.shape {
        schema.prune(object.map_mut(), &mut Vec::new());
    }
}

/// Fails for an object that is stored in a version that its CRD no longer has.
fn check_version(resource: &Resource, object: &Object) -> Result<(), Status> {
    let found = object.api_version();
    if resource.versions.iter().any(|it| resource.api_version(it) == found) {
        return Ok(());
    }
    Err(Status::unclassified(format!(
        "request to convert CR from an invalid group/version: {found}"
    )))
}

/// Whether there is nothing to convert. The webhook is not called for the empty object that
/// represents an object before its creation.
fn is_empty(object: &Object) -> bool {
    object.map().iter().all(|(key, value)| match key.as_str() {
        "apiVersion" | "kind" => true,
        "metadata" => value.as_object().is_some_and(machinery::Map::is_empty),
        _ => false,
    })
}

/// Whether a stored object must be converted before it is served in `version`.
pub(crate) fn needs_conversion(served: &ServedResource, version: usize, entry: &Entry) -> bool {
    !served.conversion.serves_stored_bytes()
        && entry.api_version() != served.api_version(version).as_bytes()
}

/// Stored objects in `version`. Those without a cached conversion are converted together.
pub(crate) async fn entries(
    storage: &Storage,
    served: &ServedResource,
    version: usize,
    mut entries: Vec<Arc<Entry>>,
) -> Result<Vec<Arc<Entry>>, Status> {
    if served.conversion.serves_stored_bytes() {
        return Ok(entries);
    }
    let missing = replace_converted(served, version, &mut entries);
    if missing.is_empty() {
        return Ok(entries);
    }
    let stored = missing.iter().map(|index| entries[*index].object_as_stored()).collect();
    let converted = objects(storage, served, version, stored).await?;
    for (index, object) in missing.into_iter().zip(converted) {
        let entry = Arc::new(entries[index].with_object(&object));
        let stored = std::mem::replace(&mut entries[index], Arc::clone(&entry));
        served.conversion.cache.put(version, stored, entry);
    }
    Ok(entries)
}

/// Replaces stored entries by their cached conversions; returns the indices of those without one.
fn replace_converted(
    served: &ServedResource,
    version: usize,
    entries: &mut [Arc<Entry>],
) -> Vec<usize> {
    let cache = &served.conversion.cache;
    let mut missing = Vec::new();
    for (index, entry) in entries.iter_mut().enumerate() {
        if !needs_conversion(served, version, entry) {
            continue;
        }
        match cache.get(version, entry) {
            Some(converted) => *entry = converted,
            None => missing.push(index),
        }
    }
    missing
}

/// Like [`entries`], for one caller at a time. The callers that wait for the first one share its
/// result, an error included; otherwise each would call the same webhook, one after the other.
pub(crate) async fn entries_coalesced(
    storage: &Storage,
    served: &ServedResource,
    version: usize,
    mut stored: Vec<Arc<Entry>>,
) -> Result<Vec<Arc<Entry>>, Status> {
    if replace_converted(served, version, &mut stored).is_empty() {
        return Ok(stored);
    }
    let began = Instant::now();
    let mut last_failure = served.conversion.last_failure.lock().await;
    if let Some((ended, status)) = &*last_failure
        && *ended >= began
    {
        return Err(status.clone());
    }
    let converted = entries(storage, served, version, stored).await;
    if let Err(status) = &converted {
        *last_failure = Some((Instant::now(), status.clone()));
    }
    converted
}
