//! The proposal of one metric of an autoscaler: the replicas, and the metric in the status.
// Upstream: podautoscaler/horizontal.go computeReplicasForMetric

use k8s_openapi::api::autoscaling::v2::{
    ContainerResourceMetricStatus, ExternalMetricSource, ExternalMetricStatus, MetricSpec,
    MetricStatus, MetricTarget, MetricValueStatus, ObjectMetricSource, ObjectMetricStatus,
    PodsMetricSource, PodsMetricStatus, ResourceMetricStatus,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::metric_samples::{milli_quantity, milli_value, resource_quantity};
use super::metrics_client::MetricsClient;
use super::replica_calculator::{Proposal, ScaledWorkload};
use crate::label_selector;
use crate::scale_client::ScaleClient;
use machinery::selector::LabelSelector;

/// The proposal of one metric.
pub(super) struct MetricProposal {
    pub(super) replicas: i32,
    /// The metric in messages: `cpu resource utilization (percentage of request)`.
    pub(super) name: String,
    pub(super) status: MetricStatus,
}

/// A metric that has no proposal.
pub(super) struct MetricFailure {
    /// The reason of the event and of the condition.
    pub(super) reason: &'static str,
    /// The message of the event and of the condition.
    pub(super) message: String,
    /// The message of the whole autoscaler.
    pub(super) error: String,
}

/// Computes the proposals of the metrics of one autoscaler.
pub(super) struct MetricEvaluator<'a> {
    pub(super) metrics: &'a MetricsClient,
    pub(super) scales: &'a ScaleClient,
    pub(super) namespace: &'a str,
    /// Selects the scaled pods.
    pub(super) selector: &'a LabelSelector,
    pub(super) workload: ScaledWorkload<'a>,
    /// The replicas of the status of the scale.
    pub(super) status_replicas: i32,
}

type Outcome = Result<MetricProposal, String>;

impl MetricEvaluator<'_> {
    /// The proposal of a metric.
    pub(super) async fn evaluate(
        &self,
        spec: &MetricSpec,
    ) -> Result<MetricProposal, MetricFailure> {
        let failure = |reason, what: String| {
            move |message: String| {
                let error = format!("failed to get {what} value: {message}");
                MetricFailure { reason, message, error }
            }
        };
        if let Some(source) = &spec.object {
            let failed = failure("FailedGetObjectMetric", "object metric".to_owned());
            return self.object(source).await.map_err(failed);
        }
        if let Some(source) = &spec.pods {
            let failed = failure("FailedGetPodsMetric", "pods metric".to_owned());
            return self.pods(source).await.map_err(failed);
        }
        if let Some(source) = &spec.resource {
            let failed =
                failure("FailedGetResourceMetric", format!("{} resource metric", source.name));
            let found = self.resource(&source.target, &source.name, "").await.map_err(failed)?;
            let (name, current) = (source.name.clone(), found.1);
            let status = ResourceMetricStatus { name, current };
            let status = MetricStatus { resource: Some(status), ..status_of("Resource") };
            return Ok(MetricProposal { replicas: found.0.replicas, name: found.2, status });
        }
        if let Some(source) = &spec.container_resource {
            let (name, container) = (source.name.clone(), source.container.clone());
            let failed = failure(
                "FailedGetContainerResourceMetric",
                format!("{container} container metric"),
            );
            let found = self.resource(&source.target, &name, &container).await.map_err(failed)?;
            let status = ContainerResourceMetricStatus { name, container, current: found.1 };
            let status =
                MetricStatus { container_resource: Some(status), ..status_of("ContainerResource") };
            return Ok(MetricProposal { replicas: found.0.replicas, name: found.2, status });
        }
        if let Some(source) = &spec.external {
            let what = format!("{} external metric", source.metric.name);
            let failed = failure("FailedGetExternalMetric", what);
            return self.external(source).await.map_err(failed);
        }
        let message = format!("unknown metric source type {:?}", spec.type_);
        Err(MetricFailure { reason: "InvalidMetricSourceType", error: message.clone(), message })
    }

    /// The proposal for a resource, its value and its name. `container` may be empty.
    async fn resource(
        &self,
        target: &MetricTarget,
        resource: &str,
        container: &str,
    ) -> Result<(Proposal, MetricValueStatus, String), String> {
        let read = async {
            let samples = self.metrics.resource(resource, self.namespace, self.selector, container);
            let samples = samples.await;
            samples
                .map_err(|error| format!("unable to get metrics for resource {resource}: {error}"))
        };
        if let Some(average) = &target.average_value {
            let failed = |error: String| format!("failed to get {resource} usage: {error}");
            let samples = read.await.map_err(failed)?;
            let proposal = self.workload.for_average(samples, milli_value(&average.0), resource);
            let proposal = proposal.map_err(failed)?;
            let quantity = Quantity(resource_quantity(resource, proposal.usage));
            let current = MetricValueStatus { average_value: Some(quantity), ..Default::default() };
            return Ok((proposal, current, format!("{resource} resource")));
        }
        let Some(utilization) = target.average_utilization else {
            let message = "invalid resource metric source: neither an average utilization target \
                           nor an average value (usage) target was set";
            return Err(message.to_owned());
        };
        let failed = |error: String| format!("failed to get {resource} utilization: {error}");
        let samples = read.await.map_err(failed)?;
        let proposal = self.workload.for_utilization(samples, utilization, resource, container);
        let proposal = proposal.map_err(failed)?;
        let current = MetricValueStatus {
            average_utilization: proposal.utilization,
            average_value: Some(Quantity(resource_quantity(resource, proposal.usage))),
            value: None,
        };
        let of = if container.is_empty() { "" } else { "container " };
        let name = format!("{resource} {of}resource utilization (percentage of request)");
        Ok((proposal, current, name))
    }

    async fn pods(&self, source: &PodsMetricSource) -> Outcome {
        let metric = &source.metric.name;
        let selector = metric_selector(source.metric.selector.as_ref())?;
        let samples = self.metrics.pods(metric, self.namespace, self.selector, &selector).await;
        let samples = samples.map_err(|error| format!("unable to get metric {metric}: {error}"))?;
        let target = source.target.average_value.as_ref().map_or(0, |it| milli_value(&it.0));
        let proposal = self.workload.for_average(samples, target, "")?;
        let current = average_value(proposal.usage);
        let status = PodsMetricStatus { current, metric: source.metric.clone() };
        Ok(MetricProposal {
            replicas: proposal.replicas,
            name: format!("pods metric {metric}"),
            status: MetricStatus { pods: Some(status), ..status_of("Pods") },
        })
    }

    async fn object(&self, source: &ObjectMetricSource) -> Outcome {
        let (metric, object) = (&source.metric.name, &source.described_object);
        let selector = metric_selector(source.metric.selector.as_ref())?;
        let read = async {
            let usage =
                self.metrics.object(metric, self.namespace, object, &selector, self.scales).await;
            usage.map_err(|error| {
                let (kind, namespace, name) = (&object.kind, self.namespace, &object.name);
                format!("unable to get metric {metric} on {kind} {namespace}/{name}: {error}")
            })
        };
        let (proposal, current, name) = match (&source.target.value, &source.target.average_value) {
            (Some(target), _) if source.target.type_ == "Value" => {
                let proposal = self.workload.for_value(read.await?, milli_value(&target.0))?;
                (proposal, plain_value(proposal.usage), format!("{} metric {metric}", object.kind))
            }
            (_, Some(target)) if source.target.type_ == "AverageValue" => {
                let usage = read.await;
                let usage = usage
                    .map_err(|error| format!("failed to get {metric} object metric: {error}"))?;
                let proposal = self.for_value_per_pod(usage, milli_value(&target.0));
                let name = named("external metric", metric, source.metric.selector.as_ref());
                (proposal, average_value(proposal.usage), name)
            }
            _ => {
                let message = "invalid object metric source: neither a value target nor an average \
                               value target was set";
                return Err(message.to_owned());
            }
        };
        let status = ObjectMetricStatus {
            current,
            described_object: object.clone(),
            metric: source.metric.clone(),
        };
        let status = MetricStatus { object: Some(status), ..status_of("Object") };
        Ok(MetricProposal { replicas: proposal.replicas, name, status })
    }

    async fn external(&self, source: &ExternalMetricSource) -> Outcome {
        let metric = &source.metric.name;
        let selector = metric_selector(source.metric.selector.as_ref())?;
        let read = async {
            let values = self.metrics.external(metric, self.namespace, &selector).await;
            let values = values.map_err(|error| {
                let selector = label_selector::go_text(source.metric.selector.as_ref());
                let namespace = self.namespace;
                format!("unable to get external metric {namespace}/{metric}/{selector}: {error}")
            })?;
            Ok::<i64, String>(values.into_iter().fold(0, i64::saturating_add))
        };
        let (proposal, current) = match (&source.target.average_value, &source.target.value) {
            (Some(target), _) => {
                let usage = read.await;
                let usage = usage
                    .map_err(|error| format!("failed to get {metric} external metric: {error}"))?;
                let proposal = self.for_value_per_pod(usage, milli_value(&target.0));
                (proposal, average_value(proposal.usage))
            }
            (None, Some(target)) => {
                let failed = |error| format!("failed to get external metric {metric}: {error}");
                let usage = read.await.map_err(failed)?;
                let proposal =
                    self.workload.for_value(usage, milli_value(&target.0)).map_err(failed)?;
                (proposal, plain_value(proposal.usage))
            }
            (None, None) => {
                let message = "invalid external metric source: neither a value target nor an \
                               average value target was set";
                return Err(message.to_owned());
            }
        };
        let status = ExternalMetricStatus { current, metric: source.metric.clone() };
        Ok(MetricProposal {
            replicas: proposal.replicas,
            name: named("external metric", metric, source.metric.selector.as_ref()),
            status: MetricStatus { external: Some(status), ..status_of("External") },
        })
    }

    fn for_value_per_pod(&self, usage: i64, target: i64) -> Proposal {
        let workload = ScaledWorkload { current_replicas: self.status_replicas, ..self.workload };
        workload.for_value_per_pod(usage, target)
    }
}

type TypedSelector = k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// The selector of a metric. Without one, nothing is selected, which is sent as an empty text.
fn metric_selector(selector: Option<&TypedSelector>) -> Result<LabelSelector, String> {
    if selector.is_none() {
        return Ok(LabelSelector::everything());
    }
    label_selector::parse(selector)
}

fn named(what: &str, metric: &str, selector: Option<&TypedSelector>) -> String {
    format!("{what} {metric}({})", label_selector::go_text(selector))
}

/// A status without values.
pub(super) fn status_of(type_: &str) -> MetricStatus {
    MetricStatus { type_: type_.to_owned(), ..MetricStatus::default() }
}

fn average_value(usage: i64) -> MetricValueStatus {
    let average_value = Some(Quantity(milli_quantity(usage)));
    MetricValueStatus { average_value, ..MetricValueStatus::default() }
}

fn plain_value(usage: i64) -> MetricValueStatus {
    let value = Some(Quantity(milli_quantity(usage)));
    MetricValueStatus { value, ..MetricValueStatus::default() }
}
