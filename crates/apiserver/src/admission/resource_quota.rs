//! `ResourceQuota`: all objects of a namespace together use no more than its quotas allow.
//!
//! What is used is read off the stored objects ([`tally`]), and what requests under way are about to
//! use is remembered until their objects can be read. So requests that come at once never get more
//! than there is, what is deleted is free at once, and nothing has to be repaired after a crash: the
//! objects themselves are the record. `status.used`, which upstream charges, only shows it
//! ([`status`]).

pub(super) mod status;
mod tally;

use super::Attributes;
use crate::cache::catalog::Served;
use crate::cache::hooks::Reservation;
use crate::cache::watch_cache::Snapshot;
use kinds::core::resource_quota::usage::{Amounts, Measure, Quota, add, shown};
use machinery::quantity::Quantity;
use machinery::{Object, Status};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use store::Revision;
use tally::{Tally, TallyKey};

/// A quota, as admission and its status need it. It does not depend on the status that is stored.
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

/// What is used, and what is about to be.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    tallies: HashMap<TallyKey, Tally>,
    claims: Vec<Claimed>,
    next_id: u64,
}

/// What a request under way is about to use.
#[derive(Debug)]
struct Claimed {
    id: u64,
    of: TallyKey,
    /// Where its object will be stored.
    key: String,
    /// A newer object there is the one that the request has stored, and is in the tally.
    after: Revision,
    amounts: Amounts,
}

/// What a request has taken out of quotas; given back when it is dropped.
#[derive(Debug)]
struct Charge {
    ledger: Arc<Ledger>,
    ids: Vec<u64>,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.ledger.lock().claims.retain(|it| !self.ids.contains(&it.id));
    }
}

impl Ledger {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it counts")
    }
}

/// Takes what an object uses out of the quotas of its namespace, or refuses it.
pub(super) fn charge(attributes: &Attributes<'_>, object: &Object) -> Result<Reservation, Status> {
    let scope = attributes.scope;
    if scope.namespace().is_empty() {
        return Ok(Reservation::default());
    }
    let resource = scope.resource();
    let Some(measure) = Measure::of(&resource.group, &resource.plural) else {
        return Ok(Reservation::default());
    };
    if !measure.may_grow(&scope.path.subresource, object, attributes.old) {
        return Ok(Reservation::default());
    }
    let quotas = attributes.admission.quotas.of(&scope.storage, attributes.namespace);
    // Computed before the ledger is locked, which all namespaces share. An error of one quota is
    // returned after the checks of those before it.
    let mut demands = Vec::new();
    let mut failed = None;
    for parsed in &quotas {
        match wanted_of(attributes, &measure, &parsed.quota, object) {
            Ok(Some(amounts)) => demands.push((parsed, amounts)),
            Ok(None) => {}
            Err(status) => {
                failed = Some(status);
                break;
            }
        }
    }
    if demands.is_empty() {
        return failed.map_or_else(|| Ok(Reservation::default()), Err);
    }
    let ledger = &attributes.admission.ledger;
    let mut state = ledger.lock();
    let mut wanted = Vec::new();
    for (parsed, amounts) in demands {
        check(attributes, &mut state, parsed, &measure, object, &amounts)?;
        wanted.push((TallyKey::new(&parsed.uid, &scope.served), amounts));
    }
    if let Some(status) = failed {
        return Err(status);
    }
    if attributes.dry_run {
        return Ok(Reservation::default());
    }
    let key = scope.served.key(attributes.namespace, object.name());
    let after = attributes.old.and_then(|it| it.resource_version().parse().ok()).unwrap_or(0);
    let mut ids = Vec::new();
    for (of, amounts) in wanted {
        let id = state.next_id;
        state.next_id += 1;
        ids.push(id);
        state.claims.push(Claimed { id, of, key: key.clone(), after, amounts });
    }
    Ok(Reservation::new(Charge { ledger: Arc::clone(ledger), ids }))
}

/// What an object would use of a quota that covers it, beyond what it uses already.
fn wanted_of(
    attributes: &Attributes<'_>,
    measure: &Measure,
    quota: &Quota,
    object: &Object,
) -> Result<Option<Amounts>, Status> {
    let is_concerned = quota.hard.keys().any(|name| measure.measures(name));
    if !is_concerned || !measure.covered(object, quota) {
        return Ok(None);
    }
    if let Some(why) = measure.missing_requests(object, quota) {
        let why = format!("failed quota: {}: {why}", quota.name);
        return Err(attributes.forbidden(object, &why));
    }
    let mut wanted = measure.usage(object);
    let negative: Vec<&str> =
        wanted.iter().filter(|(_, it)| it.is_negative()).map(|(name, _)| name.as_str()).collect();
    if !negative.is_empty() {
        let why = format!("quota usage is negative for resource(s): {}", negative.join(","));
        return Err(attributes.forbidden(object, &why));
    }
    if let Some(old) = attributes.old.filter(|old| measure.covered(old, quota)) {
        let before = measure.usage(old);
        for (name, amount) in &mut wanted {
            if let Some(before) = before.get(name) {
                *amount = amount.sub(before);
            }
        }
    }
    wanted.retain(|name, amount| quota.hard.contains_key(name) && *amount > Quantity::zero());
    Ok((!wanted.is_empty()).then_some(wanted))
}

fn check(
    attributes: &Attributes<'_>,
    state: &mut State,
    parsed: &ParsedQuota,
    measure: &Measure,
    object: &Object,
    wanted: &Amounts,
) -> Result<(), Status> {
    let quota = &parsed.quota;
    let used = used(state, &attributes.scope.served, attributes.namespace, parsed, measure);
    let zero = Quantity::zero();
    let used_of = |name: &str| used.get(name).unwrap_or(&zero);
    let is_exceeded =
        |(name, amount): &(&String, &Quantity)| used_of(name).add(amount) > quota.hard[*name];
    let exceeded: Vec<&String> = wanted.iter().filter(is_exceeded).map(|(name, _)| name).collect();
    if exceeded.is_empty() {
        return Ok(());
    }
    let shown_of = |amounts: &dyn Fn(&str) -> Quantity| {
        shown(&exceeded.iter().map(|name| ((*name).clone(), amounts(name))).collect())
    };
    let why = format!(
        "exceeded quota: {}, requested: {}, used: {}, limited: {}",
        quota.name,
        shown_of(&|name| wanted[name].clone()),
        shown_of(&|name| used_of(name).clone()),
        shown_of(&|name| quota.hard[name].clone()),
    );
    Err(attributes.forbidden(object, &why))
}

/// What the objects of a resource use of a quota, with what requests under way are about to.
fn used(
    state: &mut State,
    served: &Served,
    namespace: &str,
    parsed: &ParsedQuota,
    measure: &Measure,
) -> Amounts {
    let snapshot = served.cache.snapshot();
    let mut used =
        stored(&mut state.tallies, served, &snapshot, namespace, parsed, measure).clone();
    let key = TallyKey::new(&parsed.uid, served);
    for claim in state.claims.iter().filter(|it| it.of == key) {
        let is_stored =
            snapshot.entries.get(claim.key.as_str()).is_some_and(|it| it.revision > claim.after);
        if !is_stored {
            add(&mut used, &claim.amounts);
        }
    }
    used
}

/// What the stored objects of a resource use of a quota.
fn stored<'a>(
    tallies: &'a mut HashMap<TallyKey, Tally>,
    served: &Served,
    snapshot: &Snapshot,
    namespace: &str,
    parsed: &ParsedQuota,
    measure: &Measure,
) -> &'a Amounts {
    let tally = tallies.entry(TallyKey::new(&parsed.uid, served)).or_default();
    tally.catch_up(served, snapshot, namespace, &parsed.quota, measure);
    &tally.used
}
