//! The status controller of quotas: writes the limits and the usage to the status of each quota.
//! Admission does not read the status.
//!
//! Every change of an object can change the usage of a quota. The controller compares the usage of
//! stored objects with the last written status, and writes a status only if the usage or the quota
//! itself has changed. A status contains each name of the quota twice; one that is too large to be
//! stored is retried only when it has become shorter.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::{ParsedQuota, stored_usage};
use crate::admission::Admission;
use crate::cache::watch_cache::{Entry, Snapshot};
use crate::in_process::loopback::LoopbackClient;
use crate::storage::Storage;
use crate::storage::catalog::{Catalog, ServedResource};
use keel::{Clock, ClockInstant};
use kinds::core::resource_quota::usage::Evaluator;
use machinery::{Map, Value, json};
use store::Revision;

/// The delay before a failed write is retried for the first time. It doubles with each retry.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(200);

/// The maximum delay before a failed write is retried.
const MAX_RETRY_DELAY: Duration = Duration::from_mins(1);

/// Writes the status of all quotas until the plane stops.
pub(crate) async fn run_quota_status_controller(
    storage: Arc<Storage>,
    admission: Arc<Admission>,
    client: LoopbackClient,
) {
    let catalog = storage.catalog.load_full();
    let Some(quotas) = catalog.resource("", "resourcequotas") else { return };
    let (mut quotas_changed, mut store_changed) =
        (quotas.cache.subscribe(), storage.cache.subscribe_applied());
    let clock = storage.clock.clone();
    let stop = storage.tasks.shutdown();
    tokio::pin!(stop);
    let mut writer = StatusWriter { storage, admission, client, quotas: HashMap::new() };
    loop {
        // Without quotas, the controller waits for changes of quotas only, not for every write.
        quotas_changed.mark_seen();
        store_changed.mark_unchanged();
        let snapshot = quotas.cache.snapshot();
        writer.sync_all(&snapshot).await;
        let retry = async {
            match writer.retry_delay() {
                Some(retry_delay) => clock.sleep(retry_delay).await,
                None => std::future::pending().await,
            }
        };
        let is_stopped = if snapshot.entries.is_empty() {
            tokio::select! { () = quotas_changed.changed() => false, () = &mut stop => true }
        } else {
            tokio::select! {
                changed = store_changed.changed() => changed.is_err(),
                () = retry => false,
                () = &mut stop => true,
            }
        };
        if is_stopped {
            return;
        }
    }
}

/// Writes the status of quotas.
struct StatusWriter {
    storage: Arc<Storage>,
    admission: Arc<Admission>,
    client: LoopbackClient,
    /// The quotas by their keys.
    quotas: HashMap<Arc<str>, TrackedQuota>,
}

/// A quota and the last write of its status.
struct TrackedQuota {
    /// The revision of the quota: the one that was read, or the one that the last status write
    /// created.
    revision: Revision,
    parsed: Arc<ParsedQuota>,
    catalog: Arc<Catalog>,
    /// The resources of `catalog` that the quota limits.
    limited_resources: Vec<(Arc<ServedResource>, Evaluator)>,
    last_write: LastWrite,
}

/// The usage of a quota by resource name, as text; names without usage are absent.
type Used = BTreeMap<String, String>;

enum LastWrite {
    /// No write, or a write that conflicted with another change.
    None,
    /// The stored status has this usage.
    Written(Used),
    /// The status with this usage is too large.
    TooLarge(Used),
    /// The write failed and is retried after the delay.
    Failed { at: ClockInstant, retry_delay: Duration },
}

impl StatusWriter {
    async fn sync_all(&mut self, snapshot: &Snapshot) {
        let catalog = self.storage.catalog.load_full();
        self.quotas.retain(|key, _| snapshot.entries.contains_key(key));
        for entry in snapshot.entries.values() {
            self.sync(snapshot, entry, &catalog).await;
        }
        // The counters of deleted quotas are no longer needed.
        let uids: HashSet<&str> = self.quotas.values().map(|it| it.parsed.uid.as_str()).collect();
        let mut state = self.admission.quota_accounting.lock();
        state.counters.retain(|key, _| uids.contains(key.quota.as_str()));
    }

    /// The shortest delay until a failed write is retried.
    fn retry_delay(&self) -> Option<Duration> {
        self.quotas.values().filter_map(|it| it.last_write.retry_delay(&self.storage.clock)).min()
    }

    async fn sync(&mut self, snapshot: &Snapshot, entry: &Entry, catalog: &Arc<Catalog>) {
        let Self { storage, admission, client, quotas } = self;
        let read = || TrackedQuota::read(admission, snapshot, entry, catalog);
        let quota = quotas.entry(Arc::clone(&entry.key)).or_insert_with(read);
        if quota.revision > entry.revision {
            // The watch cache does not have the last status write yet.
            return;
        }
        if quota.revision < entry.revision {
            *quota = read();
        }
        if quota.parsed.is_deleted {
            return;
        }
        quota.resolve(catalog);
        // The status stays as it is until the usage is known.
        let Some(used) = quota.used(admission, entry.namespace()) else { return };
        if !quota.last_write.is_due(&used, &storage.clock) {
            return;
        }
        let status = quota.status(&used);
        let mut object = entry.object();
        if object.map().get("status") == Some(&status) {
            quota.last_write = LastWrite::Written(used);
            return;
        }
        object.map_mut().insert("status".to_owned(), status);
        let (namespace, name) = (entry.namespace(), entry.name());
        let path = format!("/api/v1/namespaces/{namespace}/resourcequotas/{name}/status");
        let answer = client.update(&path, &object.into_value()).await;
        quota.last_write = match answer.code {
            200 => {
                let revision = answer.object().resource_version().parse().unwrap_or(entry.revision);
                admission.quotas.carry_over(&entry.key, entry.revision, revision);
                quota.revision = revision;
                LastWrite::Written(used)
            }
            413 => LastWrite::TooLarge(used),
            // Another write came first. The controller sees it next.
            404 | 409 => LastWrite::None,
            _ => quota.last_write.failed(&storage.clock),
        };
    }
}

impl TrackedQuota {
    fn read(
        admission: &Admission,
        snapshot: &Snapshot,
        entry: &Entry,
        catalog: &Arc<Catalog>,
    ) -> Self {
        let parsed = admission.quotas.get(snapshot, entry);
        let limited_resources = limited_resources(&parsed, catalog);
        let catalog = Arc::clone(catalog);
        Self {
            revision: entry.revision,
            parsed,
            catalog,
            limited_resources,
            last_write: LastWrite::None,
        }
    }

    /// Resolves the resources again if the catalog has changed.
    fn resolve(&mut self, catalog: &Arc<Catalog>) {
        if !Arc::ptr_eq(&self.catalog, catalog) {
            self.limited_resources = limited_resources(&self.parsed, catalog);
            self.catalog = Arc::clone(catalog);
        }
    }

    /// The usage of everything that the quota limits, by stored objects. None if it is not known, since
    /// an object cannot be decrypted.
    fn used(&self, admission: &Admission, namespace: &str) -> Option<Used> {
        let mut amounts = Vec::new();
        {
            let mut state = admission.quota_accounting.lock();
            for (served, evaluator) in &self.limited_resources {
                let counters = &mut state.counters;
                let stored = stored_usage(counters, served, namespace, &self.parsed, evaluator);
                amounts.push(stored.ok()?.0.clone());
            }
        }
        let is_limited = |name: &String| self.parsed.quota.hard.contains_key(name);
        let amounts = amounts.into_iter().flatten().filter(|(name, _)| is_limited(name));
        Some(amounts.map(|(name, amount)| (name, amount.to_string())).collect())
    }

    fn status(&self, used: &Used) -> Value {
        let hard = &self.parsed.quota.hard;
        let limits = hard.iter().map(|(name, it)| (name.clone(), it.to_string().into()));
        let used_of = |name: &String| used.get(name).map_or("0", String::as_str);
        let amounts = hard.keys().map(|name| (name.clone(), used_of(name).into()));
        let (hard, used): (Map<String, Value>, Map<String, Value>) =
            (limits.collect(), amounts.collect());
        json!({"hard": hard, "used": used})
    }
}

/// The served resources that a quota limits.
fn limited_resources(
    parsed: &ParsedQuota,
    catalog: &Catalog,
) -> Vec<(Arc<ServedResource>, Evaluator)> {
    let resources = parsed.quota.resources().into_iter();
    let limited_resources = resources.filter_map(|(group, plural)| {
        let served = catalog.resource(&group, &plural)?;
        Some((Arc::clone(served), Evaluator::of(&group, &plural)?))
    });
    limited_resources.collect()
}

impl LastWrite {
    /// Whether a status with the usage `used` must be written.
    fn is_due(&self, used: &Used, clock: &Clock) -> bool {
        match self {
            Self::None => true,
            Self::Written(written) => written != used,
            Self::TooLarge(too_large) => extra_length(used) < extra_length(too_large),
            Self::Failed { at, retry_delay } => clock.elapsed_since(at) >= *retry_delay,
        }
    }

    /// The state after a failed write: the retry delay doubles.
    fn failed(&self, clock: &Clock) -> Self {
        let retry_delay = match self {
            Self::Failed { retry_delay, .. } => MAX_RETRY_DELAY.min(2 * *retry_delay),
            Self::None | Self::Written(_) | Self::TooLarge(_) => FIRST_RETRY_DELAY,
        };
        Self::Failed { at: clock.instant(), retry_delay }
    }

    /// The remaining delay after a failed write.
    fn retry_delay(&self, clock: &Clock) -> Option<Duration> {
        match self {
            Self::Failed { at, retry_delay } => {
                Some(retry_delay.saturating_sub(clock.elapsed_since(at)))
            }
            Self::None | Self::Written(_) | Self::TooLarge(_) => None,
        }
    }
}

/// The length of a status beyond that of a status without usage.
fn extra_length(used: &Used) -> usize {
    used.values().map(|amount| amount.len().saturating_sub(1)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel::Timestamp;

    fn used(amount: &str) -> Used {
        Used::from([("pods".to_owned(), amount.to_owned())])
    }

    #[test]
    fn a_status_that_is_too_large_is_retried_when_it_is_shorter() {
        let clock = Clock::manual(Timestamp::from_seconds(0));
        let too_large = LastWrite::TooLarge(used("10"));
        let is_due = |amount: &str| too_large.is_due(&used(amount), &clock);
        assert_eq!(["10", "11", "100", "9"].map(is_due), [false, false, false, true]);
        assert!(too_large.is_due(&Used::new(), &clock));
    }

    #[test]
    fn a_status_is_written_when_the_usage_has_changed() {
        let clock = Clock::manual(Timestamp::from_seconds(0));
        let written = LastWrite::Written(used("10"));
        assert!(!written.is_due(&used("10"), &clock));
        assert!(written.is_due(&used("11"), &clock));
        assert_eq!(written.retry_delay(&clock), None);
    }

    #[test]
    fn the_delay_before_a_retry_doubles() {
        let clock = Clock::manual(Timestamp::from_seconds(0));
        let mut last = LastWrite::None;
        for retry_delay in [200, 400, 800] {
            last = last.failed(&clock);
            assert_eq!(last.retry_delay(&clock), Some(Duration::from_millis(retry_delay)));
            clock.advance(Duration::from_millis(retry_delay - 1));
            assert!(!last.is_due(&used("1"), &clock));
            clock.advance(Duration::from_millis(1));
            assert!(last.is_due(&used("1"), &clock));
        }
        let longest = (0..20).fold(last, |last, _| last.failed(&clock));
        assert_eq!(longest.retry_delay(&clock), Some(MAX_RETRY_DELAY));
    }
}
