//! What this server serves itself, announced as `APIService` objects without a service: that is
//! where clients look for who serves what.

use super::SERVICES;
use crate::catalog::{Catalog, Group};
use crate::own_client::OwnClient;
use crate::watch_cache::Snapshot;
use futures_util::future::join_all;
use machinery::{Value, json};
use std::collections::BTreeMap;

/// Marks the objects that are kept by this server; the value says for how long.
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// Makes what is missing, takes away what was announced and is no longer served.
pub(super) async fn announce(client: &OwnClient, catalog: &Catalog, announced: &Snapshot) {
    let mut wanted: BTreeMap<String, Value> = BTreeMap::new();
    for group in catalog.groups().iter().filter(|it| it.name != super::GROUP) {
        for version in &group.versions {
            wanted.insert(format!("{version}.{}", group.name), object(group, version));
        }
    }
    let mut obsolete = Vec::new();
    for entry in announced.entries.values() {
        let is_ours =
            || !entry.object_as_stored().str_at(&["metadata", "labels", MANAGED]).is_empty();
        if wanted.remove(entry.name()).is_none() && is_ours() {
            obsolete.push(format!("{SERVICES}/{}", entry.name()));
        }
    }
    join_all(wanted.values().map(|it| client.create(SERVICES, it))).await;
    join_all(obsolete.iter().map(|it| client.delete(it))).await;
}

fn object(group: &Group, version: &str) -> Value {
    let managed = if group.custom { "true" } else { "onstart" };
    json!({
        "metadata": {"name": format!("{version}.{}", group.name), "labels": {MANAGED: managed}},
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
