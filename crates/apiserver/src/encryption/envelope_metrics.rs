//! [`EnvelopeMetrics`]: the metrics of KMS plugins and their keys, with kube-apiserver's names.
//!
//! Keys are shown by the SHA-256 of their ids. Upstream: storage/value/encrypt/envelope/metrics; its
//! metrics of the cache of KMS v1 do not exist here, and nor does the label `apiserver_id_hash`, since a
//! plane is one server.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use ring::digest::{SHA256, digest};

use crate::metrics::Counter;
use keel::{Clock, Timestamp};

/// The maximum number of keys with series of their own. Upstream: `cacheSize`.
const MAX_KEYS: usize = 100;

type SecondsGauge = Gauge<f64, AtomicU64>;

/// See the [module documentation](self). Clones share the series.
#[derive(Clone)]
pub(super) struct EnvelopeMetrics {
    clock: Clock,
    operations: Family<OperationLabels, Histogram, fn() -> Histogram>,
    uses: Family<UseLabels, Counter>,
    last_uses: Family<UseLabels, SecondsGauge>,
    last_statuses: Family<StatusLabels, SecondsGauge>,
    invalid_key_ids: Family<InvalidKeyLabels, Counter>,
    sources: Family<ProviderLabels, Gauge>,
    /// The keys that were used, the most recently used first.
    used: Arc<Mutex<VecDeque<UsedKey>>>,
    /// The labels of `last_statuses`, the most recently used first.
    reported: Arc<Mutex<VecDeque<StatusLabels>>>,
}

/// A key that was used, with its series.
struct UsedKey {
    key_id: String,
    labels: UseLabels,
    count: Counter,
    last: SecondsGauge,
}

/// Whether values are decrypted or encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transformation {
    FromStorage,
    ToStorage,
}

impl Transformation {
    fn as_str(self) -> &'static str {
        match self {
            Self::FromStorage => "from_storage",
            Self::ToStorage => "to_storage",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    grpc_status_code: String,
    method_name: String,
    provider_name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UseLabels {
    key_id_hash: String,
    provider_name: String,
    transformation_type: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabels {
    key_id_hash: String,
    provider_name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InvalidKeyLabels {
    error: &'static str,
    provider_name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProviderLabels {
    provider_name: String,
}

impl EnvelopeMetrics {
    /// Metrics without series. `clock` is that of the times in them.
    pub(super) fn new(clock: &Clock) -> Self {
        let latencies: fn() -> Histogram = || Histogram::new(exponential_buckets(0.0001, 2.0, 20));
        Self {
            clock: clock.clone(),
            operations: Family::new_with_constructor(latencies),
            uses: Family::default(),
            last_uses: Family::default(),
            last_statuses: Family::default(),
            invalid_key_ids: Family::default(),
            sources: Family::default(),
            used: Arc::default(),
            reported: Arc::default(),
        }
    }

    /// Registers the metrics.
    pub(super) fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("apiserver_envelope_encryption");
        registry.register(
            "kms_operations_latency_seconds",
            "Time of calls of KMS plugins, by provider, method and gRPC status code",
            self.operations.clone(),
        );
        registry.register(
            "key_id_hash_total",
            "Values that were encrypted or decrypted with a key, by the hash of its id",
            self.uses.clone(),
        );
        registry.register(
            "key_id_hash_last_timestamp_seconds",
            "Time at which a key was used last, by the hash of its id",
            self.last_uses.clone(),
        );
        registry.register(
            "key_id_hash_status_last_timestamp_seconds",
            "Time at which a plugin named a key in its status last, by the hash of the key's id",
            self.last_statuses.clone(),
        );
        registry.register(
            "invalid_key_id_from_status_total",
            "Invalid ids of keys in the status of plugins, by error",
            self.invalid_key_ids.clone(),
        );
        registry.register(
            "dek_source_cache_size",
            "Decrypted sources of data encryption keys in the cache of a provider",
            self.sources.clone(),
        );
    }

    /// Records a call of a plugin.
    pub(super) fn observe_call(&self, provider: &str, method: &str, code: &str, time: Duration) {
        let labels = OperationLabels {
            grpc_status_code: code.to_owned(),
            method_name: format!("/v2.KeyManagementService/{method}"),
            provider_name: provider.to_owned(),
        };
        self.operations.get_or_create(&labels).observe(time.as_secs_f64());
    }

    /// Records that a value was encrypted or decrypted with a key.
    pub(super) fn count_use(&self, transformation: Transformation, provider: &str, key_id: &str) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let transformation_type = transformation.as_str();
        let found = used.iter().position(|it| {
            it.key_id == key_id
                && it.labels.provider_name == provider
                && it.labels.transformation_type == transformation_type
        });
        let key = found.and_then(|index| used.remove(index)).unwrap_or_else(|| {
            let labels = UseLabels {
                key_id_hash: hash(key_id),
                provider_name: provider.to_owned(),
                transformation_type,
            };
            let count = self.uses.get_or_create_owned(&labels);
            let last = self.last_uses.get_or_create_owned(&labels);
            UsedKey { key_id: key_id.to_owned(), labels, count, last }
        });
        key.count.inc();
        key.last.set(self.now());
        used.push_front(key);
        if used.len() > MAX_KEYS
            && let Some(oldest) = used.pop_back()
        {
            self.uses.remove(&oldest.labels);
            self.last_uses.remove(&oldest.labels);
        }
    }

    /// Records that the status of a plugin named a key.
    pub(super) fn report_key(&self, provider: &str, key_id: &str) {
        let labels = StatusLabels { key_id_hash: hash(key_id), provider_name: provider.to_owned() };
        self.last_statuses.get_or_create(&labels).set(self.now());
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        reported.retain(|it| *it != labels);
        reported.push_front(labels);
        if reported.len() > MAX_KEYS
            && let Some(oldest) = reported.pop_back()
        {
            self.last_statuses.remove(&oldest);
        }
    }

    /// Records that the status of a plugin had an invalid id of its key.
    pub(super) fn count_invalid_key(&self, provider: &str, error: &'static str) {
        let labels = InvalidKeyLabels { error, provider_name: provider.to_owned() };
        self.invalid_key_ids.get_or_create(&labels).inc();
    }

    /// Shows the number of decrypted sources of keys.
    pub(super) fn set_sources(&self, provider: &str, count: usize) {
        let labels = ProviderLabels { provider_name: provider.to_owned() };
        self.sources.get_or_create(&labels).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    fn now(&self) -> f64 {
        seconds(self.clock.now())
    }
}

/// A time in seconds since 1970.
pub(super) fn seconds(time: Timestamp) -> f64 {
    Duration::new(u64::try_from(time.seconds()).unwrap_or(0), time.nanos()).as_secs_f64()
}

/// The hash by which a key is shown; that of an empty id is empty.
fn hash(key_id: &str) -> String {
    if key_id.is_empty() {
        return String::new();
    }
    let mut text = "sha256:".to_owned();
    for byte in digest(&SHA256, key_id.as_bytes()).as_ref() {
        write!(text, "{byte:02x}").expect("a write to a String does not fail");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(registry: &Registry) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        text
    }

    #[test]
    fn the_uses_of_keys_are_counted_by_their_hashes() {
        let clock = Clock::manual(Timestamp::new(1_714_972_089, 500_000_000));
        let metrics = EnvelopeMetrics::new(&clock);
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        for _ in 0..2 {
            metrics.count_use(Transformation::ToStorage, "p", "1");
        }
        let labels = "key_id_hash=\"sha256:6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b\",provider_name=\"p\",transformation_type=\"to_storage\"";
        let text = text(&registry);
        let prefix = "apiserver_envelope_encryption_key_id_hash";
        assert!(text.contains(&format!("{prefix}_total{{{labels}}} 2\n")), "{text}");
        let last = format!("{prefix}_last_timestamp_seconds{{{labels}}} 1714972089.5\n");
        assert!(text.contains(&last), "{text}");
    }

    #[test]
    fn only_the_most_recently_used_keys_have_series() {
        let metrics = EnvelopeMetrics::new(&Clock::system());
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        metrics.count_use(Transformation::FromStorage, "p", "first");
        metrics.report_key("p", "first");
        for key in 0..MAX_KEYS {
            metrics.count_use(Transformation::FromStorage, "p", &key.to_string());
            metrics.report_key("p", &key.to_string());
        }
        let text = text(&registry);
        assert!(!text.contains(&hash("first")));
        assert_eq!(text.matches(&hash("0")).count(), 3);
    }
}
