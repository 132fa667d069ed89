//! The controller of a [`PodSet`]: creates missing pods, deletes surplus ones, and reports the rest.
//!
//! Invariants:
//! - a pod counts while it is pending or running and not being deleted;
//! - the name of a new pod is the first one that no pod has. An operator that does not see the latest
//!   pods in its cache chooses a name that exists, and the server refuses it: there is never a pod too
//!   many;
//! - pending pods are deleted before running ones, and the newest of them first.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

use crate::{Options, PodSet, PodSetStatus};
use runtime::kube_client::Error;
use runtime::kube_core::params::Preconditions;
use runtime::{ObjectKey, prelude::*};

struct Context<K> {
    sets: Lister<K>,
    pods: Lister<Pod>,
    client: Client,
    recorder: Recorder,
    image: String,
}

/// Reconciles every object of a kind, also when its pods change.
pub fn controller<K: PodSet>(manager: &Manager, options: &Options) -> Controller {
    let context = Context::<K> {
        sets: manager.lister(),
        pods: manager.lister(),
        client: manager.client(),
        recorder: manager.recorder("custompod-operator"),
        image: options.image.clone(),
    };
    Controller::for_::<K>()
        .owns::<Pod>()
        .workers(options.workers.get())
        // A user with many of them does not delay those of others.
        .workers_per_namespace(options.workers.get() / 2)
        .reconcile(reconcile, context)
}

async fn reconcile<K: PodSet>(request: Request, cx: Arc<Context<K>>) -> Result<Action, Failure> {
    let Some(set) = cx.sets.get_key(&request)? else { return Ok(Action::Done) };
    if set.meta().deletion_timestamp.is_some() {
        return Ok(Action::Done); // the garbage collector deletes its pods
    }
    let scaled = cx.scale(&set).await;
    let reported = cx.update_status(&set).await; // also of what was done before a failure
    match (scaled, reported) {
        (Ok(()), reported) => reported.map(|()| Action::Done),
        (Err(failure), Ok(())) => Err(failure),
        (Err(failure), Err(status_failure)) => {
            tracing::warn!(%status_failure, "cannot write the status");
            Err(failure)
        }
    }
}

impl<K: PodSet> Context<K> {
    /// Creates or deletes as many pods as needed.
    async fn scale(&self, set: &K) -> Result<(), Failure> {
        let (wanted, live) = (set.replicas(), self.live_pods(set)?);
        let pods = self.client.api_beside::<Pod>(set);
        let missing = wanted.saturating_sub(live.len());
        for name in self.free_names(set).take(missing) {
            let created = pods.create(&PostParams::default(), &self.pod(set, name)?).await;
            created.map_err(|error| self.report(set, "FailedCreate", error))?;
        }
        for pod in live.iter().skip(wanted) {
            let uid = pod.metadata.uid.clone();
            let this_pod = Preconditions { uid, ..Preconditions::default() };
            let parameters = DeleteParams::default().preconditions(this_pod);
            let deleted = pods.delete(&pod.name_any(), &parameters).await.ignore_not_found();
            deleted.map_err(|error| self.report(set, "FailedDelete", error))?;
        }
        if live.len() != wanted {
            let (reason, done, number) = if missing > 0 {
                ("ScaledUp", "created", missing)
            } else {
                ("ScaledDown", "deleted", live.len() - wanted)
            };
            let pods = if number == 1 { "pod" } else { "pods" };
            let message = format!("{done} {number} {pods}, from {} to {wanted}", live.len());
            self.recorder.record(set, EventType::Normal, reason, &message);
        }
        Ok(())
    }

    /// The pods that count, those to be kept first.
    fn live_pods(&self, set: &K) -> Result<Vec<Pod>, Failure> {
        let uid = set.meta().uid.as_deref().unwrap_or_default();
        let mut pods = self.pods.by_index(CONTROLLER_INDEX, uid)?.objects;
        // A pod of another namespace can name the uid, too.
        pods.retain(|pod| is_live(pod) && pod.metadata.namespace == set.meta().namespace);
        pods.sort_by_cached_key(|pod| {
            let name = pod.name_any(); // of the same second: web-10 is newer than web-9
            (phase(pod) != "Running", pod.metadata.creation_timestamp.clone(), name.len(), name)
        });
        Ok(pods)
    }

    /// The names that no pod has, always in the same order.
    fn free_names(&self, set: &K) -> impl Iterator<Item = String> {
        let (namespace, set_name) = (set.namespace().unwrap_or_default(), set.name_any());
        let names = (0..).map(move |number| format!("{set_name}-{number}"));
        names.filter(move |name| {
            self.pods.indexer().get(&ObjectKey::new(&namespace, name)).is_none()
        })
    }

    fn pod(&self, set: &K, name: String) -> Result<Pod, Failure> {
        let container = Container {
            name: "main".to_owned(),
            image: Some(self.image.clone()),
            command: Some(["sleep", "3600"].map(str::to_owned).to_vec()),
            ..Container::default()
        };
        let mut pod = Pod {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: set.namespace(),
                labels: Some(BTreeMap::from([("app".to_owned(), set.name_any())])),
                ..ObjectMeta::default()
            },
            spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
            ..Pod::default()
        };
        owner::set_controller(set, &mut pod)?;
        Ok(pod)
    }

    /// Writes the status if it has changed. The cache has the pods that this reconcile created, and
    /// not those that it deleted.
    async fn update_status(&self, set: &K) -> Result<(), Failure> {
        let mut pod_names: Vec<_> = self.live_pods(set)?.iter().map(Pod::name_any).collect();
        pod_names.sort_unstable();
        let status = PodSetStatus { replicas: pod_names.len(), pod_names };
        patch_status(&self.client.api_of(set), set, &status).await?;
        Ok(())
    }

    /// Records an Event about a request that the server has refused.
    fn report(&self, set: &K, reason: &str, error: Error) -> Failure {
        // A name that exists or has another uid is not a problem: the cache will show the pod.
        let is_stale = matches!(&error, Error::Api(status) if status.code == 409);
        let failure = Failure::from(error);
        if !is_stale {
            self.recorder.record(set, EventType::Warning, reason, &failure.to_string());
        }
        failure
    }
}

fn is_live(pod: &Pod) -> bool {
    // A pod without a phase is pending.
    matches!(phase(pod), "" | "Pending" | "Running") && pod.metadata.deletion_timestamp.is_none()
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}
