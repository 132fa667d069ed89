//! [`ScaleMemory`]: the scales of custom kinds, each of them read at most once in a period, for all budgets
//! together; and the kinds that have no scale.
//!
//! ```text
//! pod of s changes   budgets a, b   GET /scale   one request for both
//! pod of s changes   budget a       remembered   but read before the change: a is counted again later
//!                    budget a       GET /scale
//! ```
//!
//! A budget thus never keeps a count of a scale that was read before the last change of its pods. The
//! changes and the requests have numbers, since many happen at the same time.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::expected_pods::CountError;
use crate::controller_context::ControllerContext;
use crate::metadata::OwnerReference;
use crate::scale_client::{ScaleClient, ScaleError};
use keel::{Clock, ClockInstant};
use runtime::Request;

/// The minimum time between two requests for the scale of one object.
const SCALE_PERIOD: Duration = Duration::from_secs(1);

/// The time for which a kind is known to have no scale.
const KIND_PERIOD: Duration = Duration::from_secs(30);

/// Old entries are removed when there are this many.
const MAX_ENTRIES: usize = 1000;

/// See the [module documentation](self).
pub(super) struct ScaleMemory {
    scales: ScaleClient,
    clock: Clock,
    start: ClockInstant,
    order: Order,
    /// The errors of kinds, by `apiVersion` and `kind`.
    kinds: Mutex<HashMap<(String, String), Remembered<String>>>,
    /// Locked while the scale is read.
    owners: Mutex<HashMap<OwnerKey, OwnerEntry>>,
}

/// The order of requests and of the changes of the pods of budgets.
#[derive(Clone, Default)]
pub(super) struct Order(Arc<OrderState>);

#[derive(Default)]
struct OrderState {
    last: AtomicU64,
    /// The last change of the pods of budgets that have to be counted.
    changes: Mutex<HashMap<Request, u64>>,
}

/// `apiVersion`, `kind`, namespace and name.
type OwnerKey = (String, String, String, String);

/// The scale of an owner, if it was read.
type OwnerEntry = Arc<tokio::sync::Mutex<Option<Remembered<ReadScale>>>>;

/// The uid and the replicas of an object; `None` if it does not exist.
type ReadScale = Option<(Option<String>, i32)>;

#[derive(Clone)]
struct Remembered<T> {
    value: T,
    /// The number of the request.
    number: u64,
    /// The time until which it is remembered, since `start`.
    until: Duration,
}

/// A scale, and the time after which it must be read again.
pub(super) struct KnownScale {
    pub(super) scale: ReadScale,
    pub(super) recheck_in: Option<Duration>,
}

impl Order {
    /// The pods of a budget have changed.
    pub(super) fn add_change(&self, budget: &Request) {
        let number = self.next();
        self.changes().insert(budget.clone(), number);
    }

    /// The last change of the pods of a budget that is counted now.
    pub(super) fn last_change(&self, budget: &Request) -> u64 {
        let number = self.next();
        *self.changes().entry(budget.clone()).or_insert(number)
    }

    /// The budget was counted after this change.
    pub(super) fn remove_change(&self, budget: &Request, number: u64) {
        let mut changes = self.changes();
        if changes.get(budget) == Some(&number) {
            changes.remove(budget);
        }
    }

    /// Forgets a budget that was deleted.
    pub(super) fn forget(&self, budget: &Request) {
        self.changes().remove(budget);
    }

    fn next(&self) -> u64 {
        self.0.last.fetch_add(1, Relaxed) + 1
    }

    fn changes(&self) -> MutexGuard<'_, HashMap<Request, u64>> {
        self.0.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Remembered<T> {
    /// The time after which this must be read again, if it was read before the change.
    fn recheck_in(&self, now: Duration, change: u64) -> Option<Duration> {
        (self.number < change).then(|| self.until.saturating_sub(now))
    }
}

impl ScaleMemory {
    pub(super) fn new(cx: &ControllerContext, order: Order) -> Self {
        Self {
            scales: ScaleClient::new(cx.client.clone(), cx.reader.clone(), cx.clock()),
            clock: cx.clock().clone(),
            start: cx.clock().instant(),
            order,
            kinds: Mutex::default(),
            owners: Mutex::default(),
        }
    }

    /// The scale of an owner, for a count after this change.
    pub(super) async fn get(
        &self,
        owner: &OwnerReference,
        namespace: &str,
        change: u64,
    ) -> Result<KnownScale, CountError> {
        let kind = (owner.api_version.clone(), owner.kind.clone());
        let entry =
            self.entry((kind.0.clone(), kind.1.clone(), namespace.into(), owner.name.clone()));
        let mut entry = entry.lock().await;
        let now = self.now();
        if let Some(known) = self.error_of_kind(&kind, now) {
            let recheck_in = known.recheck_in(now, change);
            return Err(CountError { message: known.value, is_transient: false, recheck_in });
        }
        if let Some(known) = entry.as_ref().filter(|known| now < known.until) {
            let recheck_in = known.recheck_in(now, change);
            return Ok(KnownScale { scale: known.value.clone(), recheck_in });
        }
        let number = self.order.next();
        let found = self.scales.get(&owner.api_version, &owner.kind, namespace, &owner.name).await;
        let found = found.inspect_err(|error| self.remember_error(kind, error, number))?;
        let scale = found.map(|found| {
            let replicas = found.scale.spec.and_then(|spec| spec.replicas).unwrap_or_default();
            (found.scale.metadata.uid, replicas)
        });
        let until = self.now() + SCALE_PERIOD;
        *entry = Some(Remembered { value: scale.clone(), number, until });
        Ok(KnownScale { scale, recheck_in: None })
    }

    fn entry(&self, key: OwnerKey) -> OwnerEntry {
        let now = self.now();
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        if owners.len() >= MAX_ENTRIES && !owners.contains_key(&key) {
            // An entry that is locked is being read.
            let is_recent = |entry: &OwnerEntry| {
                let Ok(entry) = entry.try_lock() else { return true };
                entry.as_ref().is_some_and(|known| now < known.until)
            };
            owners.retain(|_, entry| is_recent(entry));
        }
        Arc::clone(owners.entry(key).or_default())
    }

    fn error_of_kind(&self, kind: &(String, String), now: Duration) -> Option<Remembered<String>> {
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.get(kind).filter(|known| now < known.until).cloned()
    }

    fn remember_error(&self, kind: (String, String), error: &ScaleError, number: u64) {
        let period = match error {
            ScaleError::NotScalable(_) => KIND_PERIOD,
            // Its CRD may be about to be created.
            ScaleError::NoKind { .. } => SCALE_PERIOD,
            ScaleError::Discovery(_) | ScaleError::Request(_) => return,
        };
        let now = self.now();
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        if kinds.len() >= MAX_ENTRIES {
            kinds.retain(|_, known| now < known.until);
        }
        let until = now + period;
        kinds.insert(kind, Remembered { value: error.to_string(), number, until });
    }

    fn now(&self) -> Duration {
        self.clock.elapsed_since(&self.start)
    }
}
