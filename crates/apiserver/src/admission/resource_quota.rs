//! `ResourceQuota`: limits what all objects of a namespace use together.
//!
//! The usage of stored objects is computed from the objects themselves ([`usage_counter`]). The
//! usage of a request in progress is pending until its object can be read. Therefore concurrent
//! requests never exceed a quota, a deletion frees its quota immediately, and no repair is needed
//! after a crash. Upstream charges `status.used`; here the status only reports the usage
//! ([`status`]).

pub(super) mod status;
mod usage_counter;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::Attributes;
use crate::cache::watch_cache::Snapshot;
use crate::storage::catalog::ServedResource;
use crate::storage::hooks::Reservation;
use crate::storage::unreadable_error;
use kinds::core::resource_quota::usage::{Amounts, Evaluator, Quota, add, shown};
use machinery::quantity::Quantity;
use machinery::{Object, Status};
use store::Revision;
use usage_counter::{UsageCounter, UsageKey};

/// A parsed quota, for admission and for the status controller. It does not depend on the stored
/// status.
#[derive(Debug)]
pub(super) struct ParsedQuota {
    uid: String,
    quota: Quota,
    is_deleted: bool,
}

impl ParsedQuota {
    pub(super) fn of(object: &Object) -> Self {
        Self {
            uid: object.uid().to_owned(),
            quota: Quota::of(object),
            is_deleted: object.deletion_timestamp().is_some(),
        }
    }
}

/// The usage of stored objects and of requests in progress.
#[derive(Debug, Default)]
pub(crate) struct QuotaAccounting {
    state: Mutex<AccountingState>,
}

#[derive(Debug, Default)]
struct AccountingState {
    counters: HashMap<UsageKey, UsageCounter>,
    pending: Vec<PendingUsage>,
    next_id: u64,
}

/// The usage of a request in progress.
#[derive(Debug)]
struct PendingUsage {
    id: u64,
    counter: UsageKey,
    /// The key at which the request stores its object.
    key: String,
    /// The revision of the old object, or 0. Once the object at `key` has a higher revision, the
    /// request is stored and its usage is in the counter.
    old_revision: Revision,
    amounts: Amounts,
}

/// The quota that a request uses; released when it is dropped.
#[derive(Debug)]
struct QuotaReservation {
    accounting: Arc<QuotaAccounting>,
    ids: Vec<u64>,
}

impl Drop for QuotaReservation {
    fn drop(&mut self) {
        self.accounting.lock().pending.retain(|it| !self.ids.contains(&it.id));
    }
}

impl QuotaAccounting {
    fn lock(&self) -> std::sync::MutexGuard<'_, AccountingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reserves the quota that an object uses, or rejects the request.
pub(super) fn reserve(attributes: &Attributes<'_>, object: &Object) -> Result<Reservation, Status> {
    let scope = attributes.scope;
    if scope.namespace().is_empty() {
        return Ok(Reservation::default());
    }
    let resource = scope.resource();
    let Some(evaluator) = Evaluator::of(&resource.group, &resource.plural) else {
        return Ok(Reservation::default());
    };
    if !evaluator.may_grow(&scope.path.subresource, object, attributes.old) {
        return Ok(Reservation::default());
    }
    let quotas = attributes.admission.quotas.of(&scope.storage, attributes.namespace)?;
    // The usage is computed before the lock is taken, which all namespaces share. The error of one
    // quota is returned after the limits of the quotas before it are checked.
    let mut usages = Vec::new();
    let mut failed = None;
    for parsed in &quotas {
        match requested_usage(attributes, &evaluator, &parsed.quota, object) {
            Ok(Some(amounts)) => usages.push((parsed, amounts)),
            Ok(None) => {}
            Err(status) => {
                failed = Some(status);
                break;
            }
        }
    }
    if usages.is_empty() {
        return failed.map_or_else(|| Ok(Reservation::default()), Err);
    }
    let accounting = &attributes.admission.quota_accounting;
    let mut state = accounting.lock();
    let mut requested = Vec::new();
    for (parsed, amounts) in usages {
        check_limits(attributes, &mut state, parsed, &evaluator, object, &amounts)?;
        requested.push((UsageKey::new(&parsed.uid, &scope.served), amounts));
    }
    if let Some(status) = failed {
        return Err(status);
    }
    if attributes.options.is_dry_run() {
        return Ok(Reservation::default());
    }
    let key = scope.served.key(attributes.namespace, object.name());
    let old_revision =
        attributes.old.and_then(|it| it.resource_version().parse().ok()).unwrap_or(0);
    let mut ids = Vec::new();
    for (counter, amounts) in requested {
        let id = state.next_id;
        state.next_id += 1;
        ids.push(id);
        state.pending.push(PendingUsage { id, counter, key: key.clone(), old_revision, amounts });
    }
    Ok(Reservation::new(QuotaReservation { accounting: Arc::clone(accounting), ids }))
}

/// The usage that an object adds to a quota; None if the quota does not apply to it.
fn requested_usage(
    attributes: &Attributes<'_>,
    evaluator: &Evaluator,
    quota: &Quota,
    object: &Object,
) -> Result<Option<Amounts>, Status> {
    let constrains_resource = quota.hard.keys().any(|name| evaluator.matches_resource(name));
    if !constrains_resource || !evaluator.matches(quota, object) {
        return Ok(None);
    }
    if let Some(why) = evaluator.missing_requests(object, quota) {
        let why = format!("failed quota: {}: {why}", quota.name);
        return Err(attributes.forbidden(object, &why));
    }
    let mut requested = evaluator.usage(object);
    let negative: Vec<&str> = requested
        .iter()
        .filter(|(_, it)| it.is_negative())
        .map(|(name, _)| name.as_str())
        .collect();
    if !negative.is_empty() {
        let why = format!("quota usage is negative for resource(s): {}", negative.join(","));
        return Err(attributes.forbidden(object, &why));
    }
    if let Some(old) = attributes.old.filter(|old| evaluator.matches(quota, old)) {
        let before = evaluator.usage(old);
        for (name, amount) in &mut requested {
            if let Some(before) = before.get(name) {
                *amount = amount.sub(before);
            }
        }
    }
    requested.retain(|name, amount| quota.hard.contains_key(name) && *amount > Quantity::zero());
    Ok((!requested.is_empty()).then_some(requested))
}

/// Rejects a request whose usage exceeds a limit of the quota.
fn check_limits(
    attributes: &Attributes<'_>,
    state: &mut AccountingState,
    parsed: &ParsedQuota,
    evaluator: &Evaluator,
    object: &Object,
    requested: &Amounts,
) -> Result<(), Status> {
    let quota = &parsed.quota;
    let used =
        total_usage(state, &attributes.scope.served, attributes.namespace, parsed, evaluator)?;
    let zero = Quantity::zero();
    let used_of = |name: &str| used.get(name).unwrap_or(&zero);
    let is_exceeded =
        |(name, amount): &(&String, &Quantity)| used_of(name).add(amount) > quota.hard[*name];
    let exceeded: Vec<&String> =
        requested.iter().filter(is_exceeded).map(|(name, _)| name).collect();
    if exceeded.is_empty() {
        return Ok(());
    }
    let formatted = |amounts: &dyn Fn(&str) -> Quantity| {
        shown(&exceeded.iter().map(|name| ((*name).clone(), amounts(name))).collect())
    };
    let why = format!(
        "exceeded quota: {}, requested: {}, used: {}, limited: {}",
        quota.name,
        formatted(&|name| requested[name].clone()),
        formatted(&|name| used_of(name).clone()),
        formatted(&|name| quota.hard[name].clone()),
    );
    Err(attributes.forbidden(object, &why))
}

/// The usage of a quota by the objects of a resource, including requests in progress.
fn total_usage(
    state: &mut AccountingState,
    served: &ServedResource,
    namespace: &str,
    parsed: &ParsedQuota,
    evaluator: &Evaluator,
) -> Result<Amounts, Status> {
    let (used, snapshot) = stored_usage(&mut state.counters, served, namespace, parsed, evaluator)?;
    let mut used = used.clone();
    let key = UsageKey::new(&parsed.uid, served);
    for pending in state.pending.iter().filter(|it| it.counter == key) {
        let stored = snapshot.entries.get(pending.key.as_str());
        let is_stored = stored.is_some_and(|it| it.revision > pending.old_revision);
        if !is_stored {
            add(&mut used, &pending.amounts);
        }
    }
    Ok(used)
}

/// The usage of a quota by the stored objects of a resource, and the snapshot with these objects. Fails
/// if one of them cannot be decrypted, so that its usage is not known.
fn stored_usage<'a>(
    counters: &'a mut HashMap<UsageKey, UsageCounter>,
    served: &ServedResource,
    namespace: &str,
    parsed: &ParsedQuota,
    evaluator: &Evaluator,
) -> Result<(&'a Amounts, Arc<Snapshot>), Status> {
    let counter = counters.entry(UsageKey::new(&parsed.uid, served)).or_default();
    let snapshot = counter.catch_up(served, namespace, &parsed.quota, evaluator);
    unreadable_error::check_list(&snapshot, &served.key(namespace, ""))?;
    Ok((&counter.used, snapshot))
}
