//! `horizontal-pod-autoscaler-controller`: every 15 seconds, sets the replicas of the target of each
//! `HorizontalPodAutoscaler` so that its metrics come close to their targets.
//!
//! ```text
//! metrics APIs ─▶ metrics_client ─▶ replica_calculator ─▶ limits ─▶ scale of the target
//!                 (values by pod)   (proposed replicas)   (windows, rates, minimum and maximum)
//! ```
//!
//! Reads autoscalers and pods from the caches, the `scale` of targets of any kind, and the APIs
//! metrics.k8s.io, custom.metrics.k8s.io and external.metrics.k8s.io. Writes the `scale` of targets
//! and the status of autoscalers.

mod limits;
mod metric_proposal;
mod metric_samples;
mod metrics_client;
mod replica_calculator;
mod recommendation;
mod status;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, MetricStatus,
};
use serde_json::Value;

use crate::api_requests;
use crate::controller_context::ControllerContext;
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use crate::scale_client::{LocatedScale, ScaleClient, ScaleError};
use keel::Clock;
use limits::{ScalingHistory, Step};
use machinery::PolicyRule;
use machinery::selector::LabelSelector;
use metric_samples::ScaledPod;
use runtime::informer::{Item, ObjectEvent};
use runtime::recorder::{EventType, Recorder};
use runtime::{Action, Client, Controller, Failure, Lister, Predicate, Request};
use status::Conditions;

pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "horizontal-pod-autoscaler-controller",
    aliases: &["horizontalpodautoscaling"],
    user: ControllerUser::ServiceAccount("horizontal-pod-autoscaler"),
    rules: &[
        PolicyRule::new(&["autoscaling"], &["horizontalpodautoscalers/status"], &["update"]),
        PolicyRule::new(&["*"], &["*/scale"], &["get", "update"]),
        PolicyRule::new(&["metrics.k8s.io"], &["pods"], &["list"]),
        PolicyRule::new(
            &["custom.metrics.k8s.io", "external.metrics.k8s.io"],
            &["*"],
            &["get", "list"],
        ),
    ],
    start,
};

/// The time between two decisions of an autoscaler.
const PERIOD: Duration = Duration::from_secs(15);

/// The attempts to change a scale that others change at the same time.
const MAX_ATTEMPTS: u32 = 5;

const WORKERS: usize = 5;

/// The number of workers for the autoscalers of one namespace at a time: their metrics may come from
/// slow servers, for which other namespaces need not wait.
const WORKERS_PER_NAMESPACE: usize = 2;

/// The number of metrics of an autoscaler, beyond which none is evaluated. Each may need a request,
/// and is computed from all pods.
const MAX_METRICS: usize = 100;

struct Autoscaling {
    client: Client,
    clock: Clock,
    recorder: Recorder,
    autoscalers: Lister<HorizontalPodAutoscaler>,
    pods: Lister<ScaledPod>,
    scales: ScaleClient,
    /// The state of each autoscaler between its periods.
    states: Mutex<BTreeMap<Request, AutoscalerState>>,
}

/// The state of an autoscaler between its periods.
#[derive(Default)]
struct AutoscalerState {
    history: ScalingHistory,
    /// Selects the pods of its target.
    selector: Option<Arc<LabelSelector>>,
}

fn start(cx: &ControllerContext) {
    // The caches need not show the scaled objects, which this controller may not read.
    let scales = cx.manager.fenced_client((cx.options.connect)(&CONTROLLER.identity()));
    let autoscaling = Autoscaling {
        client: cx.client.clone(),
        clock: cx.clock().clone(),
        recorder: cx.manager.recorder_with(cx.client.clone(), "horizontal-pod-autoscaler"),
        autoscalers: cx.manager.lister(),
        pods: cx.pods(),
        scales: ScaleClient::new(scales, cx.reader.clone(), cx.clock()),
        states: Mutex::default(),
    };
    let controller = Controller::for_::<HorizontalPodAutoscaler>()
        .named(cx.name)
        .when(Predicate::custom(is_new_spec))
        .workers(WORKERS)
        .workers_per_namespace(WORKERS_PER_NAMESPACE)
        .reconcile(reconcile, autoscaling);
    cx.manager.add(controller);
}

/// Whether an event is no change of the status only; the next period considers that.
fn is_new_spec(event: &ObjectEvent) -> bool {
    let spec = |item: &Item| item.object().ok().and_then(|it| it.get(&["spec"]).cloned());
    match event {
        ObjectEvent::Updated { old, new } => spec(old) != spec(new),
        ObjectEvent::Added { .. } | ObjectEvent::Deleted { .. } => true,
    }
}

async fn reconcile(request: Request, cx: Arc<Autoscaling>) -> Result<Action, Failure> {
    let Some(mut autoscaler) = cx.autoscalers.get_key(&request)? else {
        cx.states().remove(&request);
        return Ok(Action::Done);
    };
    let before = autoscaler.status.clone();
    let Some(spec) = autoscaler.spec.clone() else { return Ok(Action::Done) };
    let mut conditions = Conditions::new(&autoscaler, &cx.clock);
    let outcome = cx.decide(&request, &autoscaler, &spec, &mut conditions).await;
    if !cx.exists(&request, &autoscaler) {
        cx.states().remove(&request);
        return Ok(Action::Done);
    }
    let now = crate::time::now(&cx.clock);
    let status = autoscaler.status.get_or_insert_default();
    match &outcome {
        Ok(decision) => {
            status.current_replicas = Some(decision.current);
            status.desired_replicas = decision.desired;
            status.current_metrics = Some(decision.metrics.clone()).filter(|it| !it.is_empty());
            if decision.desired != decision.current {
                status.last_scale_time = Some(now);
            }
        }
        Err(DecisionError { known: Some((current, metrics)), .. }) => {
            status.current_replicas = Some(*current);
            status.current_metrics = Some(metrics.clone()).filter(|it| !it.is_empty());
        }
        Err(_) => {}
    }
    status.conditions = Some(conditions.into_inner());
    if autoscaler.status != before {
        cx.write_status(&autoscaler).await;
    }
    if let Err(DecisionError { event: Some((reason, message)), .. }) = &outcome {
        cx.recorder.record(&autoscaler, EventType::Warning, reason, message);
    }
    if let Err(error) = &outcome {
        tracing::debug!(autoscaler = %request, error = error.message, "no decision");
    }
    Ok(Action::RequeueAfter(PERIOD))
}

/// What an autoscaler has decided.
struct Decision {
    current: i32,
    desired: i32,
    metrics: Vec<MetricStatus>,
}

/// The reason why there is no decision.
#[derive(Default)]
struct DecisionError {
    message: String,
    /// The reason and the message of an event that follows the status.
    event: Option<(&'static str, String)>,
    /// The replicas and the metrics, if they are known.
    known: Option<(i32, Vec<MetricStatus>)>,
}

impl Autoscaling {
    fn states(&self) -> MutexGuard<'_, BTreeMap<Request, AutoscalerState>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an autoscaler was not deleted meanwhile.
    fn exists(&self, request: &Request, autoscaler: &HorizontalPodAutoscaler) -> bool {
        let uid = autoscaler.metadata.uid.as_deref().unwrap_or_default();
        self.autoscalers.indexer().get(request).is_some_and(|item| item.uid() == uid)
    }

    /// Decides on the replicas, and sets them.
    async fn decide(
        &self,
        request: &Request,
        autoscaler: &HorizontalPodAutoscaler,
        spec: &HorizontalPodAutoscalerSpec,
        conditions: &mut Conditions,
    ) -> Result<Decision, DecisionError> {
        let scale = match self.target_scale(request, spec).await {
            Ok(scale) => scale,
            Err(error) => {
                let message = error.to_string();
                self.recorder.record(autoscaler, EventType::Warning, "FailedGetScale", &message);
                let text = format!(
                    "the HPA controller was unable to get the target's current scale: {message}"
                );
                conditions.set("AbleToScale", false, "FailedGetScale", &text);
                return Err(DecisionError { message, ..DecisionError::default() });
            }
        };
        let text = "the HPA controller was able to get the target's current scale";
        conditions.set("AbleToScale", true, "SucceededGetScale", text);
        let current = scale.scale.spec.as_ref().and_then(|it| it.replicas).unwrap_or_default();
        let now = self.clock.now();
        self.states().entry(request.clone()).or_default().history.begin(current, now);
        let min = spec.min_replicas.unwrap_or(1);
        let mut metrics = Vec::new();
        let (desired, reason) = if current == 0 && min != 0 {
            let text = "scaling is disabled since the replica count of the target is zero";
            conditions.set("ScalingActive", false, "ScalingDisabled", text);
            (0, String::new())
        } else if current > spec.max_replicas {
            let reason = "Current number of replicas above Spec.MaxReplicas";
            (spec.max_replicas, reason.to_owned())
        } else if current < min {
            (min, "Current number of replicas below Spec.MinReplicas".to_owned())
        } else {
            let found = self.recommend(request, autoscaler, spec, &scale, conditions).await?;
            let reason = match found.replicas {
                replicas if replicas > current => format!("{} above target", found.metric),
                replicas if replicas < current => "All metrics below target".to_owned(),
                _ => String::new(),
            };
            metrics = found.metrics;
            let step = Step { current, desired: found.replicas, min, max: spec.max_replicas, now };
            (self.limit(request, spec, step, conditions), reason)
        };
        if desired != current {
            let step = Step { current, desired, min, max: spec.max_replicas, now };
            let rescaled =
                self.rescale(request, autoscaler, step, scale, &reason, conditions).await;
            if let Err(message) = rescaled {
                let known = Some((current, metrics));
                return Err(DecisionError { message, known, event: None });
            }
        }
        Ok(Decision { current, desired, metrics })
    }

    async fn target_scale(
        &self,
        request: &Request,
        spec: &HorizontalPodAutoscalerSpec,
    ) -> Result<LocatedScale, ScaleError> {
        let target = &spec.scale_target_ref;
        let api_version = target.api_version.as_deref().unwrap_or("v1");
        let mapping = self.scales.mapping(api_version, &target.kind).await?;
        let path = crate::scale_client::object_path(&mapping, request.namespace(), &target.name);
        self.scales.read(&format!("{path}/scale")).await
    }

    /// Applies the limits to the recommended replicas.
    fn limit(
        &self,
        request: &Request,
        spec: &HorizontalPodAutoscalerSpec,
        step: Step,
        conditions: &mut Conditions,
    ) -> i32 {
        let mut states = self.states();
        let history = &mut states.entry(request.clone()).or_default().history;
        let limited = history.limit(step, spec.behavior.as_ref());
        conditions.set("AbleToScale", true, limited.able.0, limited.able.1);
        conditions.set("ScalingLimited", limited.is_out_of_range, limited.range.0, limited.range.1);
        limited.replicas
    }

    /// Sets the replicas of the target.
    async fn rescale(
        &self,
        request: &Request,
        autoscaler: &HorizontalPodAutoscaler,
        step: Step,
        mut scale: LocatedScale,
        reason: &str,
        conditions: &mut Conditions,
    ) -> Result<(), String> {
        let desired = step.desired;
        let mut attempt = 1;
        let error = loop {
            scale.scale.spec.get_or_insert_default().replicas = Some(desired);
            let Err(error) = self.scales.replace(&scale).await else {
                let text =
                    format!("the HPA controller was able to update the target scale to {desired}");
                conditions.set("AbleToScale", true, "SucceededRescale", &text);
                let message = format!("New size: {desired}; reason: {reason}");
                self.recorder.record(autoscaler, EventType::Normal, "SuccessfulRescale", &message);
                let behavior = autoscaler.spec.as_ref().and_then(|spec| spec.behavior.as_ref());
                let mut states = self.states();
                states.entry(request.clone()).or_default().history.record(step, behavior);
                return Ok(());
            };
            let is_conflict = api_requests::has_code(&error, 409);
            if !is_conflict || attempt == MAX_ATTEMPTS {
                break api_requests::message(&error);
            }
            attempt += 1;
            match self.scales.read(&scale.path).await {
                Ok(latest) => scale = latest,
                Err(error) => break error.to_string(),
            }
        };
        let message = format!("New size: {desired}; reason: {reason}; error: {error}");
        self.recorder.record(autoscaler, EventType::Warning, "FailedRescale", &message);
        let text = format!("the HPA controller was unable to update the target scale: {error}");
        conditions.set("AbleToScale", false, "FailedUpdateScale", &text);
        Err(error)
    }

    async fn write_status(&self, autoscaler: &HorizontalPodAutoscaler) {
        let metadata = &autoscaler.metadata;
        let path = format!(
            "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers/{}/status",
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default()
        );
        let written: api_requests::Result<Value> =
            api_requests::replace(&self.client, &path, autoscaler).await;
        if let Err(error) = written {
            let message = api_requests::message(&error);
            self.recorder.record(autoscaler, EventType::Warning, "FailedUpdateStatus", &message);
        }
    }
}
