//! Metrics of conversion webhooks, with kube-apiserver's names.

use std::fmt::{self, Write};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::metrics::Counter;

/// See the [module documentation](self).
pub(crate) struct ConversionMetrics {
    requests: Family<RequestLabel, Counter>,
    durations: Family<RequestLabel, Histogram>,
    conversions: Family<ConversionLabel, Histogram>,
}

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Failure {
    /// The request was not answered with a success.
    Call,
    /// The answer is not a `ConversionReview` with a successful result.
    Malformed,
    /// The answer does not have as many objects as the request.
    Partial,
    /// An object in the answer is not valid.
    Object,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabel {
    result: &'static str,
    failure_type: FailureType,
}

/// None for a success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct FailureType(Option<Failure>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConversionLabel {
    crd_name: String,
    from_version: String,
    to_version: String,
    succeeded: &'static str,
}

impl EncodeLabelValue for FailureType {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(match self.0 {
            None => "",
            Some(Failure::Call) => "conversion_webhook_call_failure",
            Some(Failure::Malformed) => "conversion_webhook_malformed_response_failure",
            Some(Failure::Partial) => "conversion_webhook_partial_response_failure",
            Some(Failure::Object) => "conversion_webhook_invalid_converted_object_failure",
        })
    }
}

impl ConversionMetrics {
    /// Registers the metrics in `registry`.
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let requests = Family::<RequestLabel, Counter>::default();
        let durations = Family::<RequestLabel, Histogram>::new_with_constructor(|| {
            Histogram::new([
                0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0,
            ])
        });
        let conversions = Family::<ConversionLabel, Histogram>::new_with_constructor(|| {
            Histogram::new(exponential_buckets(0.001, 2.0, 15))
        });
        registry.register(
            "apiserver_conversion_webhook_request_total",
            "Requests to conversion webhooks, by result and type of failure",
            requests.clone(),
        );
        registry.register(
            "apiserver_conversion_webhook_duration_seconds",
            "Duration of requests to conversion webhooks, by result and type of failure",
            durations.clone(),
        );
        registry.register(
            "apiserver_crd_conversion_webhook_duration_seconds",
            "Duration of conversions by webhooks, by CRD and versions",
            conversions.clone(),
        );
        Self { requests, durations, conversions }
    }

    /// Records a request to a webhook.
    pub(super) fn record_request(&self, failure: Option<Failure>, took: Duration) {
        let result = if failure.is_none() { "success" } else { "failure" };
        let label = RequestLabel { result, failure_type: FailureType(failure) };
        self.requests.get_or_create(&label).inc();
        self.durations.get_or_create(&label).observe(took.as_secs_f64());
    }

    /// Records the conversion of objects of a CRD.
    pub(super) fn record_conversion(
        &self,
        crd: &str,
        from: &str,
        to: &str,
        succeeded: bool,
        took: Duration,
    ) {
        let label = ConversionLabel {
            crd_name: crd.to_owned(),
            from_version: from.to_owned(),
            to_version: to.to_owned(),
            succeeded: if succeeded { "true" } else { "false" },
        };
        self.conversions.get_or_create(&label).observe(took.as_secs_f64());
    }
}
