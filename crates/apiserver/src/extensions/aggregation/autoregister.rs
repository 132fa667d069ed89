//! Registers the group versions that this server serves itself as `APIService` objects without a
//! service, so that clients find all served versions in one list.

use std::collections::BTreeMap;

use futures_util::future::join_all;

use super::SERVICES;
use crate::cache::watch_cache::Snapshot;
use crate::in_process::loopback::LoopbackClient;
use crate::storage::catalog::{Catalog, Group};
use machinery::{Object, Value, json};
use types::resource::Conventions;

/// The label of the objects that this server manages; the value is the kind of management.
const AUTOMANAGED_LABEL: &str = "kube-aggregator.kubernetes.io/automanaged";

/// The value of [`AUTOMANAGED_LABEL`] for built-in versions: the object is corrected when the server
/// starts, and users may change it afterwards.
const MANAGED_ON_START: &str = "onstart";

/// The value of [`AUTOMANAGED_LABEL`] for custom versions: the object is corrected after each change.
const MANAGED_ALWAYS: &str = "true";

/// The occasion of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trigger {
    /// The server starts: every managed object is corrected.
    Start,
    /// The catalog or an `APIService` has changed: only objects that are always managed are corrected.
    Change,
}

/// Creates missing objects, corrects changed ones, and deletes those of versions that are no longer
/// served. Objects without the label are not changed.
// Upstream: autoregister_controller.go checkAPIService
pub(super) async fn register_local_versions(
    client: &LoopbackClient,
    catalog: &Catalog,
    registered: &Snapshot,
    trigger: Trigger,
) {
    let mut wanted: BTreeMap<String, LocalVersion<'_>> = BTreeMap::new();
    for group in catalog.groups().iter().filter(|it| it.name != super::GROUP) {
        let served = group.versions.iter().map(|version| (version, group.conventions.dynamic));
        // Versions that CRDs add to a built-in group are registered like those of a custom group.
        let discovery_only = group.discovery_only.iter().map(|version| (version, true));
        for (version, is_dynamic) in served.chain(discovery_only) {
            let name = format!("{version}.{}", group.name);
            wanted.insert(name, LocalVersion { group, version, is_dynamic });
        }
    }
    let is_due = |it: &LocalVersion<'_>| it.is_dynamic || trigger == Trigger::Start;
    let (mut changed, mut obsolete) = (Vec::new(), Vec::new());
    for entry in registered.entries.values() {
        let wanted = wanted.remove(entry.name());
        let managed = entry.label(AUTOMANAGED_LABEL).unwrap_or_default();
        if managed != MANAGED_ALWAYS && (managed != MANAGED_ON_START || trigger != Trigger::Start) {
            continue;
        }
        match wanted {
            Some(wanted) if is_due(&wanted) => {
                changed.extend(corrected(entry.object(), &wanted.object()));
            }
            Some(_) => {}
            None => obsolete.push(format!("{SERVICES}/{}", entry.name())),
        }
    }
    let missing: Vec<Value> =
        wanted.values().filter(|it| is_due(it)).map(LocalVersion::object).collect();
    join_all(missing.iter().map(|it| client.create(SERVICES, it))).await;
    join_all(changed.into_iter().map(|object| async move {
        let path = format!("{SERVICES}/{}", object.name());
        client.update(&path, &object.into_value()).await
    }))
    .await;
    join_all(obsolete.iter().map(|it| client.delete(it))).await;
}

/// A version that is to be registered.
struct LocalVersion<'a> {
    group: &'a Group,
    version: &'a str,
    /// Whether it is a version of custom resources, which comes and goes while the server runs.
    is_dynamic: bool,
}

impl LocalVersion<'_> {
    fn object(&self) -> Value {
        if self.is_dynamic && !self.group.conventions.dynamic {
            return object(&Group::new(&self.group.name, &Conventions::CUSTOM), self.version);
        }
        object(self.group, self.version)
    }
}

/// The stored object with the wanted spec; None if it already has it.
fn corrected(mut stored: Object, wanted: &Value) -> Option<Object> {
    if stored.map().get("spec") == Some(&wanted["spec"]) {
        return None;
    }
    stored.map_mut().insert("spec".to_owned(), wanted["spec"].clone());
    Some(stored)
}

fn object(group: &Group, version: &str) -> Value {
    let managed = if group.conventions.dynamic { MANAGED_ALWAYS } else { MANAGED_ON_START };
    json!({
        "metadata": {"name": format!("{version}.{}", group.name), "labels": {AUTOMANAGED_LABEL: managed}},
        "spec": {
            "group": group.name, "version": version,
            "groupPriorityMinimum": group.priority(),
            "versionPriority": version_priority(group, version),
        },
    })
}

/// The `versionPriority` of a version. Upstream: `DefaultGenericAPIServicePriorities` and
/// `crdregistration_controller.go`.
fn version_priority(group: &Group, version: &str) -> i64 {
    match (group.name.as_str(), version) {
        _ if group.conventions.dynamic => 100,
        ("", _) => 1,
        ("autoscaling", "v2") => 30,
        ("resource.k8s.io" | "flowcontrol.apiserver.k8s.io", "v1") => 21,
        (_, version) if version.contains("beta") => 9,
        (_, version) if version.contains("alpha") => 1,
        _ => 15,
    }
}
