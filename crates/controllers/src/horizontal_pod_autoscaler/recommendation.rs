//! [`Recommendation`]: the number of replicas that the metrics of an autoscaler propose, without
//! limits.

use std::sync::Arc;

use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, MetricStatus,
};

use super::metric_proposal::{MetricEvaluator, status_of};
use super::metric_samples::{ScaledPod, milli_value};
use super::metrics_client::MetricsClient;
use super::replica_calculator::{ScaledWorkload, Tolerances};
use super::status::Conditions;
use super::{Autoscaling, DecisionError, MAX_METRICS};
use crate::scale_client::LocatedScale;
use machinery::selector::LabelSelector;
use runtime::Request;
use runtime::recorder::EventType;

/// See the [module documentation](self).
pub(super) struct Recommendation {
    pub replicas: i32,
    pub metric: String,
    pub metrics: Vec<MetricStatus>,
}

impl Autoscaling {
    /// The largest proposal of all metrics. Metrics without a value prevent a scale-down.
    pub(super) async fn recommend(
        &self,
        request: &Request,
        autoscaler: &HorizontalPodAutoscaler,
        spec: &HorizontalPodAutoscalerSpec,
        scale: &LocatedScale,
        conditions: &mut Conditions,
    ) -> Result<Recommendation, DecisionError> {
        let current = scale.scale.spec.as_ref().and_then(|it| it.replicas).unwrap_or_default();
        let status = scale.scale.status.as_ref();
        let failed = |message: String, metrics: Vec<MetricStatus>| {
            let event = Some(("FailedComputeMetricsReplicas", message.clone()));
            DecisionError { message, event, known: Some((current, metrics)) }
        };
        let specs = spec.metrics.as_deref().unwrap_or_default();
        if specs.len() > MAX_METRICS {
            let message = format!(
                "the autoscaler has {} metrics, and at most {MAX_METRICS} are evaluated",
                specs.len()
            );
            let text = format!("the HPA was unable to compute the replica count: {message}");
            conditions.set("ScalingActive", false, "TooManyMetrics", &text);
            return Err(failed(message, Vec::new()));
        }
        let selector = status.and_then(|it| it.selector.as_deref()).unwrap_or_default();
        let (selector, pods) = self
            .selected_pods(request, autoscaler, selector, conditions)
            .map_err(|message| failed(message, Vec::new()))?;
        let tolerances = tolerances(spec);
        let now = self.clock.now();
        let metrics_client = MetricsClient::new(self.client.clone());
        let evaluator = MetricEvaluator {
            metrics: &metrics_client,
            scales: &self.scales,
            namespace: request.namespace(),
            selector: &selector,
            workload: ScaledWorkload { current_replicas: current, tolerances, pods: &pods, now },
            status_replicas: status.map_or(0, |it| it.replicas),
        };
        let (mut best, mut metrics) = (None, Vec::with_capacity(specs.len()));
        let (mut first_failure, mut failures) = (None, 0);
        for spec in specs {
            if !self.exists(request, autoscaler) {
                return Err(DecisionError::default());
            }
            match evaluator.evaluate(spec).await {
                Ok(proposal) => {
                    metrics.push(proposal.status);
                    if best.as_ref().is_none_or(|(replicas, _)| proposal.replicas > *replicas) {
                        best = Some((proposal.replicas, proposal.name));
                    }
                }
                Err(failure) => {
                    let (reason, message) = (failure.reason, &failure.message);
                    self.recorder.record(autoscaler, EventType::Warning, reason, message);
                    metrics.push(status_of(""));
                    failures += 1;
                    first_failure.get_or_insert(failure);
                }
            }
        }
        match (best, first_failure) {
            (Some((replicas, metric)), failure) if failure.is_none() || replicas >= current => {
                let text = format!(
                    "the HPA was able to successfully calculate a replica count from {metric}"
                );
                conditions.set("ScalingActive", true, "ValidMetricFound", &text);
                Ok(Recommendation { replicas, metric, metrics })
            }
            (_, Some(failure)) => {
                let text =
                    format!("the HPA was unable to compute the replica count: {}", failure.message);
                conditions.set("ScalingActive", false, failure.reason, &text);
                let message = format!(
                    "invalid metrics ({failures} invalid out of {}), first error is: {}",
                    specs.len(),
                    failure.error
                );
                Err(failed(message, metrics))
            }
            (_, None) => Err(failed("the autoscaler has no metrics".to_owned(), metrics)),
        }
    }

    /// Sets the selector of an autoscaler, and returns those of the others in its namespace.
    fn set_selector(
        &self,
        request: &Request,
        selector: &Arc<LabelSelector>,
    ) -> Vec<(Request, Arc<LabelSelector>)> {
        let mut states = self.states();
        states.entry(request.clone()).or_default().selector = Some(Arc::clone(selector));
        let in_namespace = states
            .range(Request::new(request.namespace(), "")..)
            .take_while(|(key, _)| key.namespace() == request.namespace());
        let others = in_namespace.filter(|(key, _)| *key != request);
        others
            .filter_map(|(key, it)| Some((key.clone(), Arc::clone(it.selector.as_ref()?))))
            .collect()
    }

    /// The selected pods of the target, which no other autoscaler may select.
    fn selected_pods(
        &self,
        request: &Request,
        autoscaler: &HorizontalPodAutoscaler,
        text: &str,
        conditions: &mut Conditions,
    ) -> Result<(Arc<LabelSelector>, Vec<ScaledPod>), String> {
        let warn = |reason, message: &str| {
            self.recorder.record(autoscaler, EventType::Warning, reason, message);
        };
        if text.is_empty() {
            warn("SelectorRequired", "selector is required");
            let message = "the HPA target's scale is missing a selector";
            conditions.set("ScalingActive", false, "InvalidSelector", message);
            return Err("selector is required".to_owned());
        }
        let selector = LabelSelector::parse(text).map_err(|error| {
            let message = format!(
                "couldn't convert selector into a corresponding internal selector object: {error}"
            );
            warn("InvalidSelector", &message);
            conditions.set("ScalingActive", false, "InvalidSelector", &message);
            message
        })?;
        let selector = Arc::new(selector);
        let pods = self.pods.select(Some(request.namespace()), &selector).objects;
        let selects = |selector: &LabelSelector, pod: &ScaledPod| {
            selector.matches(|key| pod.metadata.labels.get(key).map(String::as_str))
        };
        // Compared without the lock, which the autoscalers of other namespaces need.
        let others = self.set_selector(request, &selector);
        let other =
            others.iter().find(|(_, selector)| pods.iter().any(|pod| selects(selector, pod)));
        if let Some((other, _)) = other {
            let key = |key: &Request| format!("{{{} {}}}", key.name(), key.namespace());
            let message = format!(
                "pods by selector {text} are controlled by more than one HPA (e.g. [{} {}])",
                key(request.min(other)),
                key(request.max(other))
            );
            warn("AmbiguousSelector", &message);
            conditions.set("ScalingActive", false, "AmbiguousSelector", &message);
            return Err(message);
        }
        Ok((selector, pods))
    }
}

/// The tolerances of an autoscaler.
fn tolerances(spec: &HorizontalPodAutoscalerSpec) -> Tolerances {
    let mut tolerances = Tolerances::default();
    let Some(behavior) = &spec.behavior else { return tolerances };
    let fraction = |milli: i64| f64::from(i32::try_from(milli).unwrap_or(i32::MAX)) / 1000.0;
    if let Some(tolerance) = behavior.scale_down.as_ref().and_then(|it| it.tolerance.as_ref()) {
        tolerances.scale_down = fraction(milli_value(&tolerance.0));
    }
    if let Some(tolerance) = behavior.scale_up.as_ref().and_then(|it| it.tolerance.as_ref()) {
        tolerances.scale_up = fraction(milli_value(&tolerance.0));
    }
    tolerances
}
