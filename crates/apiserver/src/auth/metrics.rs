//! The metrics of authentication, under the names of kube-apiserver.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use ring::digest::{SHA256, digest};

use crate::metrics::Counter;
use keel::Timestamp;

/// See the [module documentation](self).
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

/// The metrics of client certificates.
#[derive(Debug)]
pub(crate) struct ClientCertificateMetrics(Histogram);

impl ClientCertificateMetrics {
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
        Self(remaining)
    }

    /// Counts a request with a certificate that ends at this time.
    #[allow(clippy::cast_precision_loss, reason = "the buckets are wider")]
    pub(crate) fn observe(&self, not_after: Timestamp, now: Timestamp) {
        self.0.observe((not_after.seconds() - now.seconds()) as f64);
    }
}
