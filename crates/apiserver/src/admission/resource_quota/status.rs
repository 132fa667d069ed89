//! Shows in the status of each quota what is allowed and what is used. Nothing is decided by it.

use super::{ParsedQuota, State, used};
use crate::own_client::OwnClient;
use crate::plane::Plane;
use crate::watch_cache::Entry;
use kinds::core::resource_quota::usage::{Amounts, Measure};
use machinery::quantity::Quantity;
use machinery::{Map, Value, json};
use std::collections::HashSet;
use std::sync::Arc;

/// Keeps the status of all quotas true until the plane stops.
pub(crate) async fn keep_true(plane: Arc<Plane>) {
    let catalog = plane.catalog.load_full();
    let Some(quotas) = catalog.resource("", "resourcequotas") else { return };
    let client = OwnClient::new(&plane);
    let (mut any, mut all) = (quotas.cache.subscribe(), plane.cache.follow());
    let stop = plane.tasks.shutdown();
    tokio::pin!(stop);
    loop {
        // Where there are no quotas, nobody needs to hear of every change.
        any.mark_seen();
        all.mark_unchanged();
        let snapshot = quotas.cache.snapshot();
        let mut uids = HashSet::new();
        for entry in snapshot.entries.values() {
            let parsed = plane.admission.quotas.get(&snapshot, entry);
            show(&plane, &client, entry, &parsed).await;
            uids.insert(parsed.uid.clone());
        }
        forget_others(&plane, &uids);
        let is_over = if snapshot.entries.is_empty() {
            tokio::select! { () = any.changed() => false, () = &mut stop => true }
        } else {
            tokio::select! { changed = all.changed() => changed.is_err(), () = &mut stop => true }
        };
        if is_over {
            return;
        }
    }
}

/// Drops the tallies of quotas that are gone.
fn forget_others(plane: &Plane, uids: &HashSet<String>) {
    plane.admission.ledger.lock().tallies.retain(|key, _| uids.contains(&key.quota));
}

async fn show(plane: &Plane, client: &OwnClient, entry: &Entry, parsed: &ParsedQuota) {
    if parsed.is_deleted {
        return;
    }
    let used = {
        let mut state = plane.admission.ledger.lock();
        stored(plane, &mut state, entry.namespace(), parsed)
    };
    let status = json!({"hard": written(&parsed.quota.hard), "used": written(&used)});
    if parsed.status == status {
        return;
    }
    let mut object = entry.object();
    object.map_mut().insert("status".to_owned(), status);
    let (namespace, name) = (entry.namespace(), entry.name());
    let path = format!("/api/v1/namespaces/{namespace}/resourcequotas/{name}/status");
    // Who loses a race looks again: the winner's change wakes us.
    client.update(&path, &object.into_value()).await;
}

/// What stored objects use of everything that a quota limits.
fn stored(plane: &Plane, state: &mut State, namespace: &str, parsed: &ParsedQuota) -> Amounts {
    let ParsedQuota { uid, quota, .. } = parsed;
    let mut all: Amounts = quota.hard.keys().map(|name| (name.clone(), Quantity::zero())).collect();
    let catalog = plane.catalog.load();
    let claims = std::mem::take(&mut state.claims);
    for (group, plural) in quota.resources() {
        let (Some(served), Some(measure)) =
            (catalog.resource(&group, &plural), Measure::of(&group, &plural))
        else {
            continue;
        };
        let used = used(state, served, namespace, (uid, quota), &measure);
        for (name, amount) in used {
            if let Some(shown) = all.get_mut(&name) {
                *shown = amount;
            }
        }
    }
    state.claims = claims;
    all
}

fn written(amounts: &Amounts) -> Value {
    let written = amounts.iter().map(|(name, it)| (name.clone(), it.to_string().into()));
    Value::Object(written.collect::<Map<String, Value>>())
}
