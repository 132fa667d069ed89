//! Writes that are sent only if they change something: [`create_or_update`] and [`patch_status`].
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::{ConfigMap, Pod};
//! use runtime::{Client, ClientExt, Failure, Lister, owner, create_or_update};
//! use runtime::kube_core::{ObjectMeta, ResourceExt};
//!
//! async fn keep_map(client: &Client, maps: &Lister<ConfigMap>, pod: &Pod) -> Result<(), Failure> {
//!     let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
//!     let present = maps.get(&namespace, &name)?; // what the cache shows includes our last write
//!     let map = present.unwrap_or_else(|| {
//!         let (name, namespace) = (Some(name), Some(namespace));
//!         let metadata = ObjectMeta { name, namespace, ..ObjectMeta::default() };
//!         ConfigMap { metadata, ..ConfigMap::default() }
//!     });
//!     create_or_update(&client.api_beside(pod), map, |map| {
//!         map.data.get_or_insert_default().insert("node".to_owned(), "a".to_owned());
//!         Ok(owner::set_controller(pod, map)?)
//!     })
//!     .await?;
//!     Ok(())
//! }
//! ```
//!
//! [`Applier`](crate::apply::Applier) applies fields on the server, without the present object; it
//! sends a request each time.

use std::fmt;

use kube_client::Api;
use kube_client::api::{Patch, PatchParams, PostParams};
use kube_core::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::Failure;

/// What [`create_or_update`] has done, with the object as it is now.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use runtime::writes::Written;
///
/// let written = Written::Updated(ConfigMap::default());
/// assert!(written.is_change());
/// let map: &ConfigMap = written.object();
/// # let _ = map;
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum Written<K> {
    /// The object was created.
    Created(K),
    /// The object was changed.
    Updated(K),
    /// The object is as wanted; nothing was sent.
    Unchanged(K),
}

impl<K> Written<K> {
    /// The object.
    pub fn object(&self) -> &K {
        match self {
            Self::Created(object) | Self::Updated(object) | Self::Unchanged(object) => object,
        }
    }

    /// Whether the object was created or changed.
    pub fn is_change(&self) -> bool {
        !matches!(self, Self::Unchanged(_))
    }
}

/// Changes `object` with `change`, and writes it if it differs. An object without a resourceVersion
/// is created, and any other is updated.
///
/// An object that was written by somebody else since it was read is a conflict, which the reconcile
/// returns and with which it is called again.
pub async fn create_or_update<K>(
    api: &Api<K>,
    object: K,
    change: impl FnOnce(&mut K) -> Result<(), Failure>,
) -> Result<Written<K>, Failure>
where
    K: Resource + Serialize + DeserializeOwned + Clone + fmt::Debug,
{
    let params = PostParams::default();
    let mut wanted = object.clone();
    change(&mut wanted)?;
    if object.meta().resource_version.is_none() {
        return Ok(Written::Created(api.create(&params, &wanted).await?));
    }
    if serde_json::to_value(&object)? == serde_json::to_value(&wanted)? {
        return Ok(Written::Unchanged(object));
    }
    let name = object.meta().name.as_deref().unwrap_or_default();
    Ok(Written::Updated(api.replace(name, &params, &wanted).await?))
}

/// Patches the status of `object` to `status`, and returns the patched object; `None` if `object` has
/// this status already, and nothing was sent. Only fields that differ are sent.
///
/// A list, such as the conditions, is sent whole. So that nothing that others have added to it is lost,
/// an object that was written by somebody else since it was read is a conflict, as with
/// [`create_or_update`].
///
/// ```no_run
/// use k8s_openapi::api::core::v1::Pod;
/// use runtime::{Api, kube_client, patch_status};
///
/// async fn start(pods: &Api<Pod>, pod: &Pod) -> kube_client::Result<()> {
///     let mut status = pod.status.clone().unwrap_or_default();
///     status.phase = Some("Running".to_owned());
///     patch_status(pods, pod, &status).await?;
///     Ok(())
/// }
/// ```
pub async fn patch_status<K, S>(
    api: &Api<K>,
    object: &K,
    status: &S,
) -> kube_client::Result<Option<K>>
where
    K: Resource + Serialize + DeserializeOwned + Clone + fmt::Debug,
    S: Serialize,
{
    let value = serde_json::to_value(object).map_err(kube_client::Error::SerdeError)?;
    let status = serde_json::to_value(status).map_err(kube_client::Error::SerdeError)?;
    let present = value.get("status").unwrap_or(&Value::Null);
    let Some(difference) = merge_patch(present, &status) else { return Ok(None) };
    let name = object.meta().name.as_deref().unwrap_or_default();
    let metadata = json!({ "resourceVersion": object.meta().resource_version });
    let patch = Patch::Merge(json!({ "metadata": metadata, "status": difference }));
    api.patch_status(name, &PatchParams::default(), &patch).await.map(Some)
}

/// The merge patch that turns `present` into `wanted`; `None` if they are equal.
fn merge_patch(present: &Value, wanted: &Value) -> Option<Value> {
    if present == wanted {
        return None;
    }
    let (present, wanted) = match (present, wanted) {
        (Value::Object(present), Value::Object(wanted)) => (present, wanted),
        // A status without fields is the same as none.
        (Value::Null, Value::Object(wanted)) if wanted.is_empty() => return None,
        _ => return Some(wanted.clone()),
    };
    let mut patch = Map::new();
    for name in present.keys().filter(|name| !wanted.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, wanted) in wanted {
        let difference = match present.get(name) {
            Some(present) => merge_patch(present, wanted),
            None => Some(wanted.clone()),
        };
        patch.extend(difference.map(|difference| (name.clone(), difference)));
    }
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(present: Value, wanted: &Value, expected: Option<&Value>) {
        let patch = merge_patch(&present, wanted);
        assert_eq!(patch.as_ref(), expected);
        let mut patched = present;
        json_patch::merge(&mut patched, &patch.unwrap_or_else(|| json!({})));
        assert_eq!(patched, *wanted);
    }

    #[test]
    fn a_patch_has_the_fields_that_differ() {
        let present = json!({"a": 1, "b": {"c": 2, "d": 3}, "list": [1]});
        check(present.clone(), &present, None);
        let wanted = json!({"b": {"c": 2, "d": 4}, "list": [1, 2], "new": {"x": 1}});
        let patch = json!({"a": null, "b": {"d": 4}, "list": [1, 2], "new": {"x": 1}});
        check(present, &wanted, Some(&patch));
        check(Value::Null, &json!({"a": 1}), Some(&json!({"a": 1})));
        assert_eq!(merge_patch(&Value::Null, &json!({})), None);
    }
}
