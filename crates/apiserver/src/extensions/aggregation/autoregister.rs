//! What this server serves itself, registered as `APIService` objects without a service: that is
//! where clients look for who serves what.

use super::SERVICES;
use crate::cache::catalog::{Catalog, Group};
use crate::cache::watch_cache::Snapshot;
use crate::in_process::loopback::LoopbackClient;
use futures_util::future::join_all;
use machinery::{Object, Value, json};
use std::collections::BTreeMap;

/// Marks the objects that are kept by this server; the value says for how long.
const AUTOMANAGED_LABEL: &str = "kube-aggregator.kubernetes.io/automanaged";

/// The value of [`AUTOMANAGED_LABEL`] for built-in versions: the object is set right when the server starts,
/// and is the user's from then on.
const MANAGED_ON_START: &str = "onstart";

/// The value of [`AUTOMANAGED_LABEL`] for custom versions: the object is always kept as it should be.
const MANAGED_ALWAYS: &str = "true";

/// When versions are registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trigger {
    /// The server starts: every managed object is set right.
    Start,
    /// Something has changed: only objects that are always managed are looked at.
    Change,
}

/// Makes what is missing, sets right what was changed, removes what is no longer served. An object
/// without the label is left alone.
// Upstream: autoregister_controller.go checkAPIService
pub(super) async fn register_local_versions(
    client: &LoopbackClient,
    catalog: &Catalog,
    registered: &Snapshot,
    trigger: Trigger,
) {
    let mut wanted: BTreeMap<String, LocalVersion<'_>> = BTreeMap::new();
    for group in catalog.groups().iter().filter(|it| it.name != super::GROUP) {
        let served = group.versions.iter().map(|version| (version, group.custom));
        // What definitions add to a built-in group is registered as if the group were theirs.
        let discovery_only = group.discovery_only.iter().map(|version| (version, true));
        for (version, custom) in served.chain(discovery_only) {
            let name = format!("{version}.{}", group.name);
            wanted.insert(name, LocalVersion { group, version, custom });
        }
    }
    let is_due = |it: &LocalVersion<'_>| it.custom || trigger == Trigger::Start;
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

/// A version to register_local_versions.
struct LocalVersion<'a> {
    group: &'a Group,
    version: &'a str,
    /// Whether definitions have added it.
    custom: bool,
}

impl LocalVersion<'_> {
    fn object(&self) -> Value {
        if self.custom && !self.group.custom {
            return object(&Group::new(&self.group.name, true), self.version);
        }
        object(self.group, self.version)
    }
}

/// The stored object with the wanted spec, if it has another.
fn corrected(mut stored: Object, wanted: &Value) -> Option<Object> {
    if stored.map().get("spec") == Some(&wanted["spec"]) {
        return None;
    }
    stored.map_mut().insert("spec".to_owned(), wanted["spec"].clone());
    Some(stored)
}

fn object(group: &Group, version: &str) -> Value {
    let managed = if group.custom { MANAGED_ALWAYS } else { MANAGED_ON_START };
    json!({
        "metadata": {"name": format!("{version}.{}", group.name), "labels": {AUTOMANAGED_LABEL: managed}},
        "spec": {
            "group": group.name, "version": version,
            "groupPriorityMinimum": group.priority(),
            "versionPriority": version_priority(group, version),
        },
    })
}

fn version_priority(group: &Group, version: &str) -> i64 {
    match (group.name.as_str(), version) {
        _ if group.custom => 100,
        ("", _) => 1,
        ("autoscaling", "v2") => 30,
        ("resource.k8s.io" | "flowcontrol.apiserver.k8s.io", "v1") => 21,
        (_, version) if version.contains("beta") => 9,
        (_, version) if version.contains("alpha") => 1,
        _ => 15,
    }
}
