//! [`AuditMetrics`]: counts of events and errors, with kube-apiserver's names.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::policy::Level;
use crate::metrics::Counter;

/// See the [module documentation](self).
#[derive(Debug, Clone)]
pub(super) struct AuditMetrics {
    /// The events that were given to the backends.
    pub events: Counter,
    /// The requests that failed because their event could not be stored.
    pub rejected: Counter,
    errors: Family<PluginLabels, Counter>,
    /// The counts of the levels in the order of [`Level::ALL`].
    levels: [Counter; Level::ALL.len()],
}

/// The labels of errors.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PluginLabels {
    plugin: &'static str,
}

/// The labels of levels.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LevelLabels {
    level: &'static str,
}

impl AuditMetrics {
    /// Registers the metrics.
    pub(super) fn new(registry: &mut Registry) -> Self {
        let levels = Family::<LevelLabels, Counter>::default();
        let by_level =
            |level: Level| levels.get_or_create_owned(&LevelLabels { level: level.as_str() });
        let metrics = Self {
            events: Counter::default(),
            rejected: Counter::default(),
            errors: Family::default(),
            levels: Level::ALL.map(by_level),
        };
        registry.register(
            "apiserver_audit_event_total",
            "Audit events that were generated and sent to the audit backends",
            metrics.events.clone(),
        );
        registry.register(
            "apiserver_audit_error_total",
            "Audit events that were not recorded, by the plugin that failed",
            metrics.errors.clone(),
        );
        registry.register("apiserver_audit_level_total", "Requests by their audit level", levels);
        registry.register(
            "apiserver_audit_requests_rejected_total",
            "Requests that were rejected because of an error of an audit backend",
            metrics.rejected.clone(),
        );
        metrics
    }

    /// Counts a request with this level.
    pub(super) fn count_level(&self, level: Level) {
        self.levels[level as usize].inc();
    }

    /// The count of events that this plugin did not record.
    pub(super) fn errors_of(&self, plugin: &'static str) -> Counter {
        self.errors.get_or_create_owned(&PluginLabels { plugin })
    }
}
