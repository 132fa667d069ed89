//! `disruption-controller`: sets in the status of each `PodDisruptionBudget` how many of its pods are
//! healthy, and how many may be evicted.
//!
//! - The number of expected pods is the sum of the scales of the pods' controllers, if the budget
//!   has a percentage or `maxUnavailable`; otherwise the number of pods.
//! - Pods whose eviction the API server has recorded in the status count as gone, for two minutes.
//! - A pod that was to be disrupted (condition `DisruptionTarget`) and is not deleted within two
//!   minutes loses the condition.
//!
//! - A budget whose pods keep changing is counted a few times a second, and after the last change.
//!
//! Reads budgets, pods and their controllers: from the caches, or the `scale` of any other kind.
//! Writes the status of budgets, and that condition of pods.

mod count_intervals;
mod expected_pods;
mod scale_memory;
mod stale_condition;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::api_requests;
use crate::controller_context::ControllerContext;
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use crate::label_selector;
use crate::metadata::Metadata;
use crate::object_reference::object_reference;
use crate::pod_view::PodView;
use crate::selector_index::SelectorIndex;
use crate::time;
use count_intervals::{CountIntervals, CountSize};
use expected_pods::{CountError, ExpectedPods, PodControllers};
use keel::Clock;
use machinery::PolicyRule;
use machinery::selector::LabelSelector;
use runtime::conditions::{self, NewCondition};
use runtime::informer::{Item, ObjectDecodeError, ObjectEvent};
use runtime::recorder::{EventType, Recorder};
use runtime::{Action, Client, Controller, Failure, Lister, Mapper, Predicate, Request};
use scale_memory::Order;

pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "disruption-controller",
    aliases: &[],
    user: ControllerUser::ServiceAccount("disruption-controller"),
    rules: &[
        PolicyRule::new(&["policy"], &["poddisruptionbudgets/status"], &["update"]),
        PolicyRule::new(&[""], &["pods/status"], &["patch"]),
        PolicyRule::new(&["*"], &["*/scale"], &["get"]),
    ],
    start,
};

/// The time within which an evicted pod must be deleted; later it counts as present again.
const DELETION_TIMEOUT: Duration = Duration::from_mins(2);

/// The number of budgets that are reconciled at once: each may wait for the scales of custom kinds.
const WORKERS: usize = 5;

/// The size of a budget whose selector is read beside the other tasks.
const LARGE: usize = 16 << 10;

/// What the reconciles of budgets use.
struct Disruption {
    client: Client,
    clock: Clock,
    recorder: Recorder,
    budgets: Lister<PodDisruptionBudget>,
    pods: Lister<PodView>,
    controllers: PodControllers,
    intervals: CountIntervals,
    order: Order,
}

/// A budget and its parsed selector.
struct ReadBudget {
    budget: PodDisruptionBudget,
    selector: Result<LabelSelector, String>,
}

/// The computed part of a status.
struct Counts {
    expected: ExpectedPods,
    healthy: i32,
    disrupted_pods: BTreeMap<String, Time>,
    recheck_in: Option<Duration>,
}

fn start(cx: &ControllerContext) {
    let budgets = cx.manager.informer::<PodDisruptionBudget>();
    let order = Order::default();
    let disruption = Disruption {
        client: cx.client.clone(),
        clock: cx.clock().clone(),
        recorder: cx.recorder(),
        budgets: budgets.lister(),
        pods: cx.pods(),
        controllers: PodControllers::new(cx, order.clone()),
        intervals: CountIntervals::new(cx.clock()),
        order: order.clone(),
    };
    let selectors = SelectorIndex::new(budgets.indexer(), LabelSelector::from_value);
    let known = selectors.clone();
    let controller = Controller::for_::<PodDisruptionBudget>()
        .named(cx.name)
        .watches::<Pod>(Mapper::custom(move |pod| {
            let found = budgets_of(&selectors, pod);
            for budget in &found {
                order.add_change(budget);
            }
            found
        }))
        .when(Predicate::custom(move |event| is_relevant(&known, event)))
        .workers(WORKERS)
        .workers_per_namespace(WORKERS - 1)
        .reconcile(reconcile, disruption);
    cx.manager.add(controller);
    stale_condition::start(cx);
}

/// The budgets that select a pod.
fn budgets_of(budgets: &SelectorIndex, pod: &Item) -> Vec<Request> {
    if budgets.is_empty() {
        return Vec::new();
    }
    let mut found = budgets.selecting(pod.namespace(), &pod.labels());
    found.sort_unstable();
    found
}

/// Whether a change of a pod can change the status of a budget. The first checks cost little for pods
/// that no budget selects.
fn is_relevant(budgets: &SelectorIndex, event: &ObjectEvent) -> bool {
    if budgets.is_empty() {
        return false;
    }
    let ObjectEvent::Updated { old, new } = event else { return true };
    let selecting = budgets_of(budgets, new);
    if selecting != budgets_of(budgets, old) {
        return true;
    }
    if selecting.is_empty() {
        return false;
    }
    let (Ok(old), Ok(new)) = (old.decode::<PodView>(), new.decode::<PodView>()) else {
        return true;
    };
    old.is_ready() != new.is_ready()
        || old.metadata.is_deleting() != new.metadata.is_deleting()
        || old.metadata.controller() != new.metadata.controller()
}

async fn reconcile(request: Request, cx: Arc<Disruption>) -> Result<Action, Failure> {
    if let Some(remaining) = cx.intervals.remaining(&request)
        && cx.budgets.indexer().get(&request).is_some()
    {
        return Ok(Action::RequeueAfter(remaining));
    }
    let Some(ReadBudget { mut budget, selector }) = cx.read(&request)? else {
        cx.intervals.forget(&request);
        cx.order.forget(&request);
        return Ok(Action::Done);
    };
    let change = cx.order.last_change(&request);
    let (action, recheck_in) = match cx.count(&request, &budget, selector, change).await {
        Ok(counts) => {
            let evicted = counts.recheck_in;
            let recheck_in = counts.expected.recheck_in;
            if update_status(&mut budget, counts, &cx.clock) {
                cx.write_status(&budget).await?;
            }
            let soonest = [evicted, recheck_in].into_iter().flatten().min();
            (soonest.map_or(Action::Done, Action::RequeueAfter), recheck_in)
        }
        // Allows no disruption while the counts are unknown.
        Err(error) => {
            if set_failure(&mut budget, &error.message, &cx.clock) {
                cx.write_status(&budget).await?;
            }
            if error.is_transient {
                return Ok(Action::Requeue);
            }
            (error.recheck_in.map_or(Action::Done, Action::RequeueAfter), error.recheck_in)
        }
    };
    if recheck_in.is_none() {
        cx.order.remove_change(&request, change);
    }
    Ok(action)
}

impl Disruption {
    /// Reads a budget, which takes milliseconds if its selector is large.
    fn read(&self, request: &Request) -> Result<Option<ReadBudget>, ObjectDecodeError> {
        let read = || {
            let Some(budget) = self.budgets.get_key(request)? else { return Ok(None) };
            let spec = budget.spec.as_ref();
            let selector = label_selector::parse(spec.and_then(|spec| spec.selector.as_ref()));
            Ok(Some(ReadBudget { budget, selector }))
        };
        let is_large = self.budgets.indexer().get(request).is_some_and(|it| it.size() > LARGE);
        if is_large { keel::blocking(read) } else { read() }
    }

    /// Counts the pods of a budget, after this change of them.
    async fn count(
        &self,
        request: &Request,
        budget: &PodDisruptionBudget,
        selector: Result<LabelSelector, String>,
        change: u64,
    ) -> Result<Counts, CountError> {
        let spec = budget.spec.as_ref();
        let record_failure = |error: &String| {
            let message = format!("Failed to get pods: {error}");
            self.record(budget, EventType::Warning, "NoPods", &message);
        };
        let selector = selector.inspect_err(record_failure)?;
        let pods = self.pods.indexer().list_namespace(request.namespace());
        let mut size = CountSize {
            requirements: selector.requirements().len(),
            pods: pods.len(),
            controllers: 0,
        };
        let pods = self.selected_pods(&pods, &selector).map_err(|error| error.to_string());
        let pods = pods.inspect_err(record_failure)?;
        if pods.is_empty() {
            self.record(budget, EventType::Normal, "NoPods", "No matching pods found");
        }
        let expected = self.controllers.expected_pods(spec, &pods, change).await;
        size.controllers = expected.as_ref().map_or(1, |expected| expected.controllers);
        self.intervals.add(request, size);
        let expected = expected.inspect_err(|error| {
            let message =
                format!("Failed to calculate the number of expected pods: {}", error.message);
            self.record(budget, EventType::Warning, "CalculateExpectedPodCountFailed", &message);
        })?;
        if expected.has_unmanaged {
            self.warn_of_unmanaged(budget);
        }
        let (disrupted_pods, recheck_in) = self.disrupted_pods(budget, &pods);
        let is_healthy = |pod: &&Arc<PodView>| {
            pod.is_ready()
                && !pod.metadata.is_deleting()
                && !disrupted_pods.contains_key(&pod.metadata.name)
        };
        let healthy = pods.iter().filter(is_healthy).count();
        let healthy = i32::try_from(healthy).unwrap_or(i32::MAX);
        Ok(Counts { expected, healthy, disrupted_pods, recheck_in })
    }

    /// The selected pods. Their decoded form is cached, since one change of a pod leads to a count of
    /// all.
    fn selected_pods(
        &self,
        pods: &[Item],
        selector: &LabelSelector,
    ) -> Result<Vec<Arc<PodView>>, ObjectDecodeError> {
        let is_selected = |pod: &PodView| selector.matches_labels(&pod.metadata.labels);
        let decoded = pods.iter().filter_map(|pod| self.pods.shared_key(pod.key()).transpose());
        decoded.filter(|pod| pod.as_ref().map_or(true, |pod| is_selected(pod))).collect()
    }

    /// The pods that were evicted and are not deleted yet, and the time until the first of them
    /// counts as present again.
    fn disrupted_pods(
        &self,
        budget: &PodDisruptionBudget,
        pods: &[Arc<PodView>],
    ) -> (BTreeMap<String, Time>, Option<Duration>) {
        let (mut disrupted, mut recheck_in) = (BTreeMap::new(), None);
        let recorded = budget.status.as_ref().and_then(|status| status.disrupted_pods.as_ref());
        let Some(recorded) = recorded.filter(|recorded| !recorded.is_empty()) else {
            return (disrupted, recheck_in);
        };
        for pod in pods.iter().filter(|pod| !pod.metadata.is_deleting()) {
            let name = &pod.metadata.name;
            let Some(time) = recorded.get(name) else { continue };
            match DELETION_TIMEOUT.checked_sub(time::since(&self.clock, time)) {
                Some(remaining) if !remaining.is_zero() => {
                    recheck_in =
                        Some(recheck_in.map_or(remaining, |it: Duration| it.min(remaining)));
                    disrupted.insert(name.clone(), time.clone());
                }
                _ => self.warn_of_not_deleted(budget, &pod.metadata),
            }
        }
        (disrupted, recheck_in)
    }

    fn warn_of_not_deleted(&self, budget: &PodDisruptionBudget, pod: &Metadata) {
        // Kubernetes' message names the namespace twice, and not the budget.
        let namespace = budget.metadata.namespace.as_deref().unwrap_or_default();
        let message =
            format!("Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't");
        let pod = object_reference("v1", "Pod", pod);
        self.recorder.record_about(pod, EventType::Warning, "NotDeleted", &message);
    }

    fn warn_of_unmanaged(&self, budget: &PodDisruptionBudget) {
        let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let requirements = selector.map_or(0, |selector| {
            selector.match_labels.as_ref().map_or(0, BTreeMap::len)
                + selector.match_expressions.as_ref().map_or(0, Vec::len)
        });
        let print = || label_selector::go_text(selector);
        let selector = if requirements > 1000 { keel::blocking(print) } else { print() };
        let message = format!(
            "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. \
             As a result, the status of the PDB cannot be calculated correctly, which may result \
             in undefined behavior. To account for these pods please set \".spec.minAvailable\" \
             field of the PDB to an integer value."
        );
        self.record(budget, EventType::Warning, "UnmanagedPods", &message);
    }

    fn record(&self, budget: &PodDisruptionBudget, type_: EventType, reason: &str, message: &str) {
        self.recorder.record(budget, type_, reason, message);
    }

    async fn write_status(&self, budget: &PodDisruptionBudget) -> api_requests::Result<()> {
        let metadata = &budget.metadata;
        let path = format!(
            "/apis/policy/v1/namespaces/{}/poddisruptionbudgets/{}/status",
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default()
        );
        let _: PodDisruptionBudget = api_requests::replace(&self.client, &path, budget).await?;
        Ok(())
    }
}

/// Sets the status; returns whether it has changed.
fn update_status(budget: &mut PodDisruptionBudget, counts: Counts, clock: &Clock) -> bool {
    let before = budget.status.take().unwrap_or_default();
    let mut conditions = before.conditions.clone().unwrap_or_default();
    let generation = budget.metadata.generation;
    let Counts { expected, healthy, disrupted_pods, .. } = counts;
    // A budget without pods allows none, so that it is safe when the first pods appear.
    let spare = (healthy - expected.desired_healthy).max(0);
    let allowed = if expected.count > 0 { spare } else { 0 };
    let reason = if allowed > 0 { "SufficientPods" } else { "InsufficientPods" };
    let condition = NewCondition::new("DisruptionAllowed", allowed > 0, reason);
    conditions::set(&mut conditions, condition, generation, clock);
    let status = PodDisruptionBudgetStatus {
        conditions: Some(conditions),
        current_healthy: healthy,
        desired_healthy: expected.desired_healthy,
        disrupted_pods: Some(disrupted_pods).filter(|pods| !pods.is_empty()),
        disruptions_allowed: allowed,
        expected_pods: expected.count,
        observed_generation: generation,
    };
    let had_pods = before.disrupted_pods.as_ref().filter(|pods| !pods.is_empty()).cloned();
    let has_changed = status != PodDisruptionBudgetStatus { disrupted_pods: had_pods, ..before };
    budget.status = Some(status);
    has_changed
}

/// Allows no disruption because of an error; returns whether that changes the status.
fn set_failure(budget: &mut PodDisruptionBudget, message: &str, clock: &Clock) -> bool {
    let status = budget.status.get_or_insert_default();
    let before = status.clone();
    status.disruptions_allowed = 0;
    let condition = NewCondition::new("DisruptionAllowed", false, "SyncFailed").message(message);
    let observed = status.observed_generation;
    conditions::set(status.conditions.get_or_insert_default(), condition, observed, clock);
    *status != before
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use runtime::informer::Indexer;

    fn pod(labels: &Value, status: &Value) -> Item {
        let pod = json!({"metadata": {"namespace": "n", "name": "a", "labels": labels},
            "status": status});
        Item::parse(pod.to_string().into_bytes()).unwrap()
    }

    #[test]
    fn only_changes_of_pods_that_count_are_relevant() {
        let budget = json!({"metadata": {"namespace": "n", "name": "web", "resourceVersion": "1"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}}});
        let indexer = Arc::new(Indexer::new());
        let budgets = SelectorIndex::new(&indexer, LabelSelector::from_value);
        indexer.insert(Item::parse(budget.to_string().into_bytes()).unwrap());
        let (web, db) = (json!({"app": "web"}), json!({"app": "db"}));
        let more = json!({"app": "web", "color": "red"});
        let (pending, running) = (json!({"phase": "Pending"}), json!({"phase": "Running"}));
        let ready =
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        for (old, new, expected) in [
            (pod(&web, &pending), pod(&web, &ready), true),
            (pod(&web, &pending), pod(&db, &pending), true),
            (pod(&db, &pending), pod(&web, &pending), true),
            (pod(&web, &pending), pod(&web, &running), false),
            (pod(&web, &pending), pod(&more, &pending), false),
            (pod(&db, &pending), pod(&db, &ready), false),
        ] {
            let event = ObjectEvent::Updated { old, new };
            assert_eq!(is_relevant(&budgets, &event), expected, "{event:?}");
        }
    }
}
