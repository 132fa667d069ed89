//! `kube-scheduler`: binds pods whose `spec.schedulerName` is `default-scheduler` to nodes: by priority,
//! to a node that passes all filters and has the highest score. A pod that fits on no node gets the
//! condition `PodScheduled=False` with the reasons, may preempt pods of lower priority, and is tried
//! again when something changes that may help.
//!
//! It reads pods, nodes, namespaces, services, claims, volumes, storage classes, disruption budgets,
//! and the workloads that control pods. It writes the bindings and the status of pods, deletes pods
//! that it preempts, and writes the selected node of claims and the claims of volumes that are bound
//! when their first pod is scheduled.
//!
//! ```text
//! informers ─▶ handlers ─▶ SchedulerState: ClusterCache, SchedulingQueue, Nominator
//!                               │ step: pop, CycleState, filter, score (one at a time, no I/O)
//!                               ▼
//!                             Binder: binding, condition, preemption (up to 32 at a time)
//! ```

mod resources;
mod label_set;
mod selectors;
mod pod_wire;
mod host_ports;
mod constraints;
mod pod_info;
mod trait_interner;
mod node_info;
mod listers;
mod cluster_cache;
mod nominator;
mod rejection;
mod filter;
mod score;
mod preemption;
mod decision;
mod active_pods;
mod unschedulable_pods;
mod queue;
mod requeue;
mod metrics;
mod state;
mod handlers;
mod bind;
pub mod benchmark;
#[cfg(test)]
mod testing;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use k8s_openapi::api::core::v1::Pod;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::controller_context::ControllerContext;
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use bind::Binder;
use decision::{Decision, Nomination};
use filter::volumes::VolumePlan;
use handlers::{SharedState, add_handlers};
use keel::Tasks;
use listers::Listers;
use machinery::PolicyRule;
use metrics::AttemptResult;
use pod_info::SCHEDULER_NAME;
use queue::QueuedPod;
use runtime::informer::HasSynced;
use state::{SchedulerState, Step};

/// The number of decisions that are executed concurrently.
const MAX_EXECUTIONS: usize = 32;
/// The number of decisions after which other tasks run.
const DECISIONS_PER_YIELD: usize = 16;

pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "kube-scheduler",
    aliases: &["scheduler"],
    user: ControllerUser::Program("kube-scheduler"),
    rules: &[
        PolicyRule::new(&[""], &["pods/binding"], &["create"]),
        PolicyRule::new(&[""], &["pods/status"], &["patch"]),
        PolicyRule::new(&[""], &["pods"], &["delete"]),
        PolicyRule::new(&[""], &["persistentvolumes", "persistentvolumeclaims"], &["patch"]),
    ],
    start,
};

fn start(cx: &ControllerContext) {
    let (listers, mut synced) = Listers::of(&cx.manager);
    let claims = listers.claims.clone();
    let state = SchedulerState::new(listers, cx.entropy().clone());
    let shared = Arc::new(SharedState::new(state, cx.clock()));
    synced.extend(add_handlers(&cx.manager, &shared));
    // The managed client would read each bound pod back for the caches of the other controllers. They
    // see it in the watch, and the scheduler assumes it.
    let client = cx.manager.fenced_client((cx.options.connect)(&CONTROLLER.identity()));
    let binder = Binder {
        recorder: cx.manager.recorder_with(client.clone(), SCHEDULER_NAME),
        client,
        shared: Arc::clone(&shared),
        pods: Arc::clone(cx.manager.informer::<Pod>().indexer()),
        claims,
        is_write_failing: AtomicBool::new(false),
    };
    let measured = Arc::clone(&shared);
    cx.manager.add_metrics(move || measured.metrics.text(&measured.lock()));
    let tasks = cx.tasks().child("scheduler");
    let scheduler = Scheduler {
        shared,
        binder: Arc::new(binder),
        executions: Arc::new(Semaphore::new(MAX_EXECUTIONS)),
        tasks: tasks.clone(),
    };
    let (stop, manager) = (tasks.shutdown(), cx.manager.clone());
    let run = tasks.spawn("decisions", async move {
        let run = async {
            // Writes are refused before.
            manager.wait_until_ready().await;
            scheduler.run(synced).await;
        };
        tokio::select! {
            biased;
            () = stop => {}
            () = run => {}
        }
    });
    cx.manager.health().add(cx.name, move || {
        if run.is_finished() { Err("the scheduling loop has ended".to_owned()) } else { Ok(()) }
    });
}

/// The scheduling loop.
struct Scheduler {
    shared: Arc<SharedState>,
    binder: Arc<Binder>,
    executions: Arc<Semaphore>,
    tasks: Tasks,
}

impl Scheduler {
    async fn run(self, synced: Vec<HasSynced>) {
        for mut informer in synced {
            if !informer.wait().await {
                return;
            }
        }
        let mut decisions = 0;
        loop {
            let Ok(permit) = Arc::clone(&self.executions).acquire_owned().await else { return };
            let step = self.shared.lock().step(self.shared.clock.now());
            match step {
                Step::Execute { pod, decision } => {
                    self.execute(pod, decision, permit);
                    decisions += 1;
                    if decisions % DECISIONS_PER_YIELD == 0 {
                        tokio::task::yield_now().await;
                    }
                }
                Step::Wait(None) => self.shared.wake.notified().await,
                Step::Wait(Some(until)) => tokio::select! {
                    biased;
                    () = self.shared.wake.notified() => {}
                    () = self.shared.clock.sleep_until(until) => {}
                },
            }
        }
    }

    fn execute(&self, pod: QueuedPod, decision: Decision, permit: OwnedSemaphorePermit) {
        let binder = Arc::clone(&self.binder);
        match decision {
            Decision::Bind { node, volumes } if volumes.is_empty() => {
                self.tasks.spawn("bind", async move {
                    binder.bind(pod, &node).await;
                    drop(permit);
                });
            }
            Decision::Bind { node, volumes } => self.bind_with_volumes(pod, node, volumes, permit),
            Decision::Unschedulable { message, nomination, .. } => {
                self.tasks.spawn("report", async move {
                    let info = &pod.info;
                    binder.observe(&pod, AttemptResult::Unschedulable);
                    binder.report(info, "Unschedulable", &message, &nomination).await;
                    binder.end_report(info);
                    if let Nomination::Preempt { node, victims } = nomination {
                        binder.preempt(info, &node, &victims).await;
                    }
                    drop(permit);
                });
            }
        }
    }

    fn bind_with_volumes(
        &self,
        pod: QueuedPod,
        node: Arc<str>,
        volumes: VolumePlan,
        permit: OwnedSemaphorePermit,
    ) {
        let (binder, executions) = (Arc::clone(&self.binder), Arc::clone(&self.executions));
        let stop = self.tasks.shutdown();
        let work = async move {
            // Volumes may take minutes, which must not delay other pods.
            drop(permit);
            if binder.bind_volumes(&pod, &node, &volumes).await
                && let Ok(_permit) = executions.acquire_owned().await
            {
                binder.bind(pod, &node).await;
            }
        };
        self.tasks.spawn("bind volumes", async move {
            tokio::select! {
                biased;
                () = stop => {}
                () = work => {}
            }
        });
    }
}
