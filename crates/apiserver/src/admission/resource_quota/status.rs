//! Shows in the status of each quota what is allowed and what is used. Nothing is decided by it.

use super::{State, used};
use crate::own_client::OwnClient;
use crate::plane::Plane;
use kinds::core::resource_quota::usage::{Amounts, Measure, Quota};
use machinery::quantity::Quantity;
use machinery::{Map, Object, Value, json};
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
        forget_others(&plane, &snapshot);
        for entry in snapshot.entries.values() {
            show(&plane, &client, &entry.object()).await;
        }
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
fn forget_others(plane: &Plane, quotas: &crate::watch_cache::Snapshot) {
    let mut state = plane.admission.ledger.lock();
    if state.tallies.is_empty() {
        return;
    }
    let uids: HashSet<String> =
        quotas.entries.values().map(|it| it.object_as_stored().uid().to_owned()).collect();
    state.tallies.retain(|key, _| uids.contains(&key.quota));
}

async fn show(plane: &Plane, client: &OwnClient, object: &Object) {
    let quota = Quota::of(object);
    let (hard, used) = {
        let mut state = plane.admission.ledger.lock();
        (written(&quota.hard), written(&stored(plane, &mut state, object, &quota)))
    };
    let status = json!({"hard": hard, "used": used});
    if object.map().get("status") == Some(&status) || object.deletion_timestamp().is_some() {
        return;
    }
    let mut new = object.clone();
    new.map_mut().insert("status".to_owned(), status);
    let path = format!(
        "/api/v1/namespaces/{}/resourcequotas/{}/status",
        object.namespace(),
        object.name()
    );
    // Who loses a race looks again: the winner's change wakes us.
    client.update(&path, &new.into_value()).await;
}

/// What stored objects use of everything that a quota limits.
fn stored(plane: &Plane, state: &mut State, object: &Object, quota: &Quota) -> Amounts {
    let mut all: Amounts = quota.hard.keys().map(|name| (name.clone(), Quantity::zero())).collect();
    let catalog = plane.catalog.load();
    let claims = std::mem::take(&mut state.claims);
    for (group, plural) in quota.resources() {
        let (Some(served), Some(measure)) =
            (catalog.resource(&group, &plural), Measure::of(&group, &plural))
        else {
            continue;
        };
        let used = used(state, served, object.namespace(), (object.uid(), quota), &measure);
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
