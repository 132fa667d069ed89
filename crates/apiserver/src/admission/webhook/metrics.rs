//! The metrics of admission webhooks, under the names of kube-apiserver.

use std::fmt::{self, Write};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::metrics::Counter;

/// See the [module documentation](self).
pub(crate) struct WebhookMetrics {
    requests: Family<RequestLabel, Counter>,
    durations: Family<DurationLabel, Histogram>,
    rejections: Family<RejectionLabel, Counter>,
    failed_open: Family<FailOpenLabel, Counter>,
}

/// The type of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum WebhookType {
    /// The webhook mutates objects.
    Mutating,
    /// The webhook validates objects.
    Validating,
}

/// A finished call of a webhook.
#[derive(Debug, Clone, Copy)]
pub(super) struct WebhookCall<'a> {
    /// The name of the webhook.
    pub name: &'a str,
    /// The type of the webhook.
    pub webhook_type: WebhookType,
    /// The operation of the client's request.
    pub operation: &'static str,
    /// The duration of the call.
    pub duration: Duration,
}

/// The reason why a request is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Rejection {
    /// The call of the webhook failed.
    CallingWebhook,
    /// The response of the webhook could not be applied.
    Internal,
    /// The webhook denied the request.
    Denied,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabel {
    name: String,
    r#type: WebhookType,
    operation: &'static str,
    code: u16,
    rejected: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DurationLabel {
    name: String,
    r#type: WebhookType,
    operation: &'static str,
    rejected: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RejectionLabel {
    name: String,
    r#type: WebhookType,
    operation: &'static str,
    error_type: Rejection,
    rejection_code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailOpenLabel {
    name: String,
    r#type: WebhookType,
}

impl EncodeLabelValue for WebhookType {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(match self {
            Self::Mutating => "admit",
            Self::Validating => "validating",
        })
    }
}

impl EncodeLabelValue for Rejection {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(match self {
            Self::CallingWebhook => "calling_webhook_error",
            Self::Internal => "apiserver_internal_error",
            // Upstream: a denial is a rejection without an error.
            Self::Denied => "no_error",
        })
    }
}

impl WebhookMetrics {
    /// Registers the metrics in `registry`.
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let requests = Family::<RequestLabel, Counter>::default();
        let durations = Family::<DurationLabel, Histogram>::new_with_constructor(|| {
            Histogram::new([0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0])
        });
        let rejections = Family::<RejectionLabel, Counter>::default();
        let failed_open = Family::<FailOpenLabel, Counter>::default();
        registry.register(
            "apiserver_admission_webhook_request_total",
            "Requests to webhooks, by name, type, operation, code and whether they rejected the request",
            requests.clone(),
        );
        registry.register(
            "apiserver_admission_webhook_admission_duration_seconds",
            "Duration of calls of webhooks, by name, type, operation and whether they rejected the request",
            durations.clone(),
        );
        registry.register(
            "apiserver_admission_webhook_rejection_count",
            "Requests that were rejected because of a webhook",
            rejections.clone(),
        );
        registry.register(
            "apiserver_admission_webhook_fail_open_count",
            "Failed calls of webhooks that were ignored",
            failed_open.clone(),
        );
        Self { requests, durations, rejections, failed_open }
    }

    /// Records a call, and a rejection if the call caused one.
    pub(super) fn observe(&self, call: &WebhookCall<'_>, rejection: Option<Rejection>, code: u16) {
        let WebhookCall { name, webhook_type, operation, duration } = *call;
        let (name, r#type) = (name.to_owned(), webhook_type);
        let rejected = if rejection.is_some() { "true" } else { "false" };
        let label = DurationLabel { name: name.clone(), r#type, operation, rejected };
        self.durations.get_or_create(&label).observe(duration.as_secs_f64());
        // Upstream: codes above 600 are recorded as 600.
        let code = code.min(600);
        let label = RequestLabel { name: name.clone(), r#type, operation, code, rejected };
        self.requests.get_or_create(&label).inc();
        if let Some(error_type) = rejection {
            let rejection_code = code;
            let label = RejectionLabel { name, r#type, operation, error_type, rejection_code };
            self.rejections.get_or_create(&label).inc();
        }
    }

    /// Records a failed call that was ignored.
    pub(super) fn fail_open(&self, name: &str, webhook_type: WebhookType) {
        let label = FailOpenLabel { name: name.to_owned(), r#type: webhook_type };
        self.failed_open.get_or_create(&label).inc();
    }
}
