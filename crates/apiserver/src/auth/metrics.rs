//! The metrics of authentication and authorization, under the names of kube-apiserver.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use ring::digest::{SHA256, digest};

use crate::metrics::Counter;
use keel::Timestamp;

/// The metrics of authentication.
#[derive(Debug)]
pub(crate) struct AuthenticationMetrics {
    reloads: Family<ReloadLabel, Counter>,
    tokens: Family<TokenLabel, Histogram>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReloadLabel {
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TokenLabel {
    result: &'static str,
    jwt_issuer_hash: String,
}

impl AuthenticationMetrics {
    /// Registers the metrics.
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let reloads = Family::<ReloadLabel, Counter>::default();
        registry.register(
            "apiserver_authentication_config_controller_automatic_reloads_total",
            "Reloads of the authentication configuration, by status",
            reloads.clone(),
        );
        let tokens = Family::<TokenLabel, Histogram>::new_with_constructor(|| {
            Histogram::new([0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0])
        });
        registry.register(
            "apiserver_authentication_jwt_authenticator_latency_seconds",
            "Latency of the authentication of tokens of other issuers, by result",
            tokens.clone(),
        );
        Self { reloads, tokens }
    }

    /// Counts an attempt to reload the configuration.
    pub(super) fn count_reload(&self, succeeded: bool) {
        let status = if succeeded { "success" } else { "failure" };
        self.reloads.get_or_create(&ReloadLabel { status }).inc();
    }

    /// Counts a token of an issuer.
    pub(super) fn observe_token(&self, issuer: &str, succeeded: bool, duration: Duration) {
        let result = if succeeded { "success" } else { "failure" };
        let mut jwt_issuer_hash = "sha256:".to_owned();
        for byte in digest(&SHA256, issuer.as_bytes()).as_ref() {
            jwt_issuer_hash += &format!("{byte:02x}");
        }
        let label = TokenLabel { result, jwt_issuer_hash };
        self.tokens.get_or_create(&label).observe(duration.as_secs_f64());
    }
}

/// The metrics of webhook authorizers and of the authorization configuration.
#[derive(Debug)]
pub(crate) struct AuthorizationMetrics {
    reloads: Family<ReloadLabel, Counter>,
    last_reload: Family<ReloadLabel, Gauge>,
    webhook_calls: Family<WebhookLabel, Counter>,
    webhook_durations: Family<WebhookLabel, Histogram>,
    fail_open: Family<WebhookLabel, Counter>,
    exclusions: Family<ConditionLabel, Counter>,
    condition_errors: Family<ConditionLabel, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WebhookLabel {
    name: String,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConditionLabel {
    r#type: &'static str,
    name: String,
}

impl ConditionLabel {
    fn new(name: &str) -> Self {
        Self { r#type: "Webhook", name: name.to_owned() }
    }
}

impl AuthorizationMetrics {
    /// Registers the metrics.
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            reloads: Family::default(),
            last_reload: Family::default(),
            webhook_calls: Family::default(),
            webhook_durations: Family::new_with_constructor(|| {
                Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0])
            }),
            fail_open: Family::default(),
            exclusions: Family::default(),
            condition_errors: Family::default(),
        };
        registry.register(
            "apiserver_authorization_config_controller_automatic_reloads_total",
            "Reloads of the authorization configuration, by status",
            metrics.reloads.clone(),
        );
        registry.register(
            "apiserver_authorization_config_controller_automatic_reload_last_timestamp_seconds",
            "Time of the last reload of the authorization configuration, by status",
            metrics.last_reload.clone(),
        );
        registry.register(
            "apiserver_authorization_webhook_evaluations_total",
            "Calls of authorization webhooks, by name and result",
            metrics.webhook_calls.clone(),
        );
        registry.register(
            "apiserver_authorization_webhook_duration_seconds",
            "Latency of the calls of authorization webhooks, by name and result",
            metrics.webhook_durations.clone(),
        );
        registry.register(
            "apiserver_authorization_webhook_evaluations_fail_open_total",
            "Failed calls of authorization webhooks after which the other authorizers decided",
            metrics.fail_open.clone(),
        );
        registry.register(
            "apiserver_authorization_match_condition_exclusions_total",
            "Requests about which an authorization webhook was not asked due to match conditions",
            metrics.exclusions.clone(),
        );
        registry.register(
            "apiserver_authorization_match_condition_evaluation_errors_total",
            "Requests for which match conditions of an authorization webhook have failed",
            metrics.condition_errors.clone(),
        );
        metrics
    }

    /// Counts an attempt to reload the configuration, at a time in seconds since 1970.
    pub(crate) fn count_reload(&self, succeeded: bool, now: i64) {
        let label = ReloadLabel { status: if succeeded { "success" } else { "failure" } };
        self.reloads.get_or_create(&label).inc();
        self.last_reload.get_or_create(&label).set(now);
    }

    /// Counts an attempt of a call.
    pub(super) fn observe_webhook(&self, name: &str, result: &'static str, duration: Duration) {
        let label = WebhookLabel { name: name.to_owned(), result };
        self.webhook_calls.get_or_create(&label).inc();
        self.webhook_durations.get_or_create(&label).observe(duration.as_secs_f64());
    }

    /// Counts a failed call after which the other authorizers decide.
    pub(super) fn count_fail_open(&self, name: &str, result: &'static str) {
        self.fail_open.get_or_create(&WebhookLabel { name: name.to_owned(), result }).inc();
    }

    /// Counts a request that match conditions exclude.
    pub(super) fn count_exclusion(&self, name: &str) {
        self.exclusions.get_or_create(&ConditionLabel::new(name)).inc();
    }

    /// Counts a request for which match conditions have failed.
    pub(super) fn count_condition_error(&self, name: &str) {
        self.condition_errors.get_or_create(&ConditionLabel::new(name)).inc();
    }
}

/// The uses of tokens of service accounts.
#[derive(Debug)]
pub(crate) struct ServiceAccountMetrics {
    /// Tokens without audiences.
    pub legacy: Counter,
    /// Tokens in secrets that users have created.
    pub manual: Counter,
    /// Tokens in secrets that their service account lists.
    pub generated: Counter,
    /// Tokens in secrets that are labeled as invalid.
    pub invalidated: Counter,
    /// Tokens that are only valid because their lifetime was extended.
    pub stale: Counter,
    /// Tokens whose extended lifetime is not needed yet.
    pub valid: Counter,
}

impl ServiceAccountMetrics {
    /// Registers the metrics.
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(format!("serviceaccount_{name}"), help, counter.clone());
            counter
        };
        Self {
            legacy: counter(
                "legacy_tokens_total",
                "Uses of tokens of service accounts that have no audience",
            ),
            manual: counter(
                "legacy_manual_token_uses_total",
                "Uses of tokens in secrets that users have created",
            ),
            generated: counter(
                "legacy_auto_token_uses_total",
                "Uses of tokens in secrets that their service account lists",
            ),
            invalidated: counter(
                "invalid_legacy_auto_token_uses_total",
                "Uses of tokens in secrets that are labeled as invalid",
            ),
            stale: counter(
                "stale_tokens_total",
                "Uses of bound tokens after the time at which their client should have replaced them",
            ),
            valid: counter(
                "valid_tokens_total",
                "Uses of bound tokens before the time at which their client should replace them",
            ),
        }
    }
}

/// The metrics of TLS connections.
#[derive(Debug)]
pub(crate) struct TlsMetrics {
    /// The remaining lifetimes of client certificates.
    remaining: Histogram,
    /// The handshakes that have failed.
    pub handshake_errors: Counter,
    unusable_files: Gauge,
}

impl TlsMetrics {
    /// Registers the metrics.
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let buckets = [
            0.0,
            1800.0,
            3600.0,
            7200.0,
            21600.0,
            43200.0,
            86400.0,
            172_800.0,
            345_600.0,
            604_800.0,
            2_592_000.0,
            7_776_000.0,
            15_552_000.0,
            31_104_000.0,
        ];
        let remaining = Histogram::new(buckets);
        registry.register(
            "apiserver_client_certificate_expiration_seconds",
            "Distribution of the remaining lifetime on the certificate used to authenticate a request.",
            remaining.clone(),
        );
        let handshake_errors = Counter::default();
        registry.register(
            "apiserver_tls_handshake_errors_total",
            "Connections whose TLS handshake has failed",
            handshake_errors.clone(),
        );
        let unusable_files = Gauge::default();
        registry.register(
            "apiserver_unusable_certificate_files",
            "Files of certificates and authorities that cannot be used now, so that their previous content is in effect",
            unusable_files.clone(),
        );
        Self { remaining, handshake_errors, unusable_files }
    }

    /// Sets the number of files whose previous content is in effect.
    pub(crate) fn set_unusable_files(&self, count: usize) {
        self.unusable_files.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Counts a request with a certificate that ends at this time.
    #[allow(clippy::cast_precision_loss, reason = "the buckets are wider")]
    pub(crate) fn observe_certificate(&self, not_after: Timestamp, now: Timestamp) {
        self.remaining.observe((not_after.seconds() - now.seconds()) as f64);
    }
}
