//! The reconcile function: makes the networks of a backend those that the API declares.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Namespace;
use tokio::sync::{OnceCell, mpsc};

use crate::address_index::AddressIndex;
use crate::api::v2::{Network, NetworkStatus};
use crate::backend::{Backend, BackendError, ClusterName, Desired, Ids, Mark};
use crate::{Options, overlap, resync};
use runtime::informer::ObjectEvent;
use runtime::informer::work_queue::RateLimits;
use runtime::prelude::*;

/// A Network with this finalizer is not removed before its networks are.
pub const FINALIZER: &str = "samplecrd.k8s.io/network-operator";

/// The number of plans for one Network until they should be empty. A creation needs three.
const MAX_PLANS: usize = 8;

/// The values that a reconcile needs.
pub(crate) struct Context<B> {
    pub(crate) client: Client,
    pub(crate) networks: Lister<Network>,
    addresses: AddressIndex,
    pub(crate) backend: Arc<B>,
    recorder: Recorder,
    clock: Clock,
    cluster_name: OnceCell<ClusterName>,
    /// The Networks whose networks this process knows to exist. A backend that is not durable has
    /// lost all others with an earlier process.
    known: Mutex<BTreeSet<Request>>,
}

/// Adds the controller to a manager, with a task that resyncs.
pub(crate) fn add<B: Backend>(manager: &Manager, options: &Options, backend: Arc<B>) {
    let (sender, resyncs) = mpsc::channel(16);
    let context = Arc::new(Context::new(manager, options, backend));
    let retries =
        RateLimits { backoff_cap: options.resync.min(MAX_BACKOFF), ..RateLimits::default() };
    manager.add(
        Controller::for_::<Network>()
            .when(is_relevant())
            .channel(resyncs)
            .workers(2)
            // A user with many Networks does not delay those of others.
            .workers_per_namespace(1)
            .back_off(retries)
            .reconcile(reconcile, Arc::clone(&context)),
    );
    resync::run_periodically(manager, context, options.resync, sender);
}

/// The time after which a backend counts as slow.
pub(crate) const SLOW: std::time::Duration = std::time::Duration::from_secs(10);

/// The longest time between two attempts.
const MAX_BACKOFF: std::time::Duration = std::time::Duration::from_mins(1);

/// Accepts changes of the spec and the loss of the status, but not the operator's own writes.
fn is_relevant() -> Predicate {
    let has_lost_status = Predicate::custom(|event| match event {
        ObjectEvent::Updated { new, .. } => {
            new.object().is_ok_and(|object| object.get(&["status"]).is_none())
        }
        ObjectEvent::Added { .. } | ObjectEvent::Deleted { .. } => false,
    });
    Predicate::generation_changed().or(has_lost_status)
}

async fn reconcile<B: Backend>(request: Request, cx: Arc<Context<B>>) -> Result<Action, Failure> {
    let Some(network) = cx.networks.get_key(&request)? else {
        cx.delete_orphan(&request).await?;
        return Ok(Action::Done);
    };
    let networks = cx.client.api_of(&network);
    let done = finalizer::run(&networks, FINALIZER, network, |stage| async {
        match stage {
            Stage::Apply(network) => cx.apply(&request, &networks, &network).await,
            Stage::Cleanup(network) => cx.clean_up(&request, &networks, &network).await,
        }
    });
    Ok(done.await?.action())
}

/// The result of [`Context::converge`].
struct Converged {
    /// The changes that were made, also before a failure.
    changes: Vec<String>,
    /// The objects of the backend.
    ids: Result<Ids, BackendError>,
}

impl<B: Backend> Context<B> {
    fn new(manager: &Manager, options: &Options, backend: Arc<B>) -> Self {
        let networks = manager.lister();
        Self {
            client: manager.client(),
            addresses: AddressIndex::new(networks.indexer()),
            networks,
            backend,
            recorder: manager.recorder("samplecrd.k8s.io/network-operator"),
            clock: manager.clock().clone(),
            cluster_name: OnceCell::new_with(options.cluster_name.clone()),
            known: Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeSet<Request>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn apply(
        &self,
        request: &Request,
        networks: &Api<Network>,
        network: &Network,
    ) -> Result<Action, Failure> {
        let desired = match Desired::parse(&network.spec) {
            Ok(desired) => desired,
            Err(why) => {
                return self.refuse(networks, network, "Invalid", &why.to_string()).await;
            }
        };
        if let Some(why) = overlap::with_an_older_network(network, &desired, &self.addresses) {
            return self.refuse(networks, network, "Overlap", &why).await;
        }
        let known = network.status.as_ref().map(|status| status.backend_ids.clone());
        let known = known.unwrap_or_default();
        let converging = self.converge(request, Some(&desired), &known);
        let (done, reported) = self.report_if_slow(networks, network, converging).await;
        let Converged { changes, ids } = done;
        let network = reported.as_ref().unwrap_or(network);
        self.record_changes(request, network, &changes);
        match ids {
            Ok(ids) => {
                self.known().insert(request.clone());
                let ready = NewCondition::new("Ready", true, "InSync")
                    .message(format!("{} exists", network.spec.cidr));
                let generation = network.metadata.generation;
                let mut status = network.status.clone().unwrap_or_default();
                conditions::set(&mut status.conditions, ready, generation, &self.clock);
                status.observed_generation = generation;
                status.backend_ids = ids;
                patch_status(networks, network, &status).await?;
                Ok(Action::Done)
            }
            Err(error) => Err(self.report_failure(networks, network, error).await),
        }
    }

    /// Waits for the backend. If that takes long, the log says so, and so does the condition of a Network
    /// that is not ready, which is returned as it then is.
    async fn report_if_slow<T>(
        &self,
        networks: &Api<Network>,
        network: &Network,
        converging: impl Future<Output = T>,
    ) -> (T, Option<Network>) {
        let mut converging = pin!(converging);
        tokio::select! {
            done = &mut converging => return (done, None),
            () = self.clock.sleep(SLOW) => {}
        }
        let why = format!("the backend has not completed its work in {} s", SLOW.as_secs());
        tracing::warn!("{why}");
        let conditions = network.status.as_ref().map(|status| &status.conditions);
        let is_ready = conditions.is_some_and(|all| conditions::is_true(all, "Ready"));
        let mut reported = None;
        if !is_ready {
            match self.report_not_ready(networks, network, "BackendSlow", &why).await {
                Ok(status) => {
                    reported = Some(Network { status: Some(status), ..network.clone() });
                }
                Err(error) => tracing::warn!(%error, "cannot write the status"),
            }
        }
        (converging.await, reported)
    }

    async fn clean_up(
        &self,
        request: &Request,
        networks: &Api<Network>,
        network: &Network,
    ) -> Result<Action, Failure> {
        let Converged { changes, ids } = self.converge(request, None, &Ids::new()).await;
        if !changes.is_empty() || ids.is_ok() {
            let what =
                if changes.is_empty() { "nothing was left".into() } else { changes.join("; ") };
            self.recorder.record(network, EventType::Normal, "Deleted", &what);
        }
        match ids {
            Ok(_) => {
                self.known().remove(request);
                Ok(Action::Done)
            }
            Err(error) => Err(self.report_failure(networks, network, error).await),
        }
    }

    /// Reports a failure of the backend in an Event and in the condition.
    async fn report_failure(
        &self,
        networks: &Api<Network>,
        network: &Network,
        error: BackendError,
    ) -> Failure {
        let why = error.to_string();
        self.recorder.record(network, EventType::Warning, "Failed", &why);
        let reported = self.report_not_ready(networks, network, error.reason(), &why).await;
        // The failure of the work decides when it is tried again.
        if let Err(status_error) = reported {
            tracing::warn!(%status_error, "cannot write the status");
        }
        failure(error)
    }

    /// Deletes what a backend has of a Network that does not exist: its finalizer was removed by
    /// somebody else, or the cluster is another one.
    async fn delete_orphan(&self, request: &Request) -> Result<(), Failure> {
        // The cache of a new leader may be older than the networks that the former one has made.
        let networks = self.client.api_in::<Network>(request.namespace());
        if networks.get_opt(request.name()).await?.is_some() {
            return Ok(());
        }
        let Converged { changes, ids } = self.converge(request, None, &Ids::new()).await;
        if !changes.is_empty() {
            let changes = changes.join("; ");
            tracing::warn!(%changes, "deleted what was left of a Network that does not exist");
        }
        ids.map_err(failure)?;
        self.known().remove(request);
        Ok(())
    }

    /// Makes changes until there is nothing left to change.
    async fn converge(
        &self,
        request: &Request,
        desired: Option<&Desired>,
        known: &Ids,
    ) -> Converged {
        let mut changes = Vec::new();
        let ids = self.make_changes(request, desired, known, &mut changes).await;
        Converged { changes, ids }
    }

    async fn make_changes(
        &self,
        request: &Request,
        desired: Option<&Desired>,
        known: &Ids,
        made: &mut Vec<String>,
    ) -> Result<Ids, BackendError> {
        let mark = Mark::new(self.cluster_name().await?, request)?;
        for _ in 0..MAX_PLANS {
            let plan = self.backend.plan(&mark, desired, known).await?;
            if plan.changes.is_empty() {
                return Ok(plan.ids);
            }
            for change in &plan.changes {
                match self.backend.make(&mark, change).await {
                    Ok(()) => made.push(change.to_string()),
                    Err(BackendError::Conflict(why)) => {
                        tracing::debug!(why, "plans again");
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Err(BackendError::Conflict(format!("still differs after {MAX_PLANS} attempts")))
    }

    /// The name in the options, or the uid of the cluster: that of its first namespace.
    pub(crate) async fn cluster_name(&self) -> Result<&ClusterName, BackendError> {
        let unavailable = |error: String| BackendError::Unavailable(error);
        let read = async || {
            let namespaces = Api::<Namespace>::all(self.client.clone());
            let namespace = namespaces.get("kube-system").await;
            let namespace =
                namespace.map_err(|error| unavailable(Failure::from(error).to_string()))?;
            let uid = namespace.metadata.uid.unwrap_or_default();
            let invalid =
                |_| unavailable(format!("{uid:?}, the uid of kube-system, names no cluster"));
            uid.parse().map_err(invalid)
        };
        self.cluster_name.get_or_try_init(read).await
    }

    fn record_changes(&self, request: &Request, network: &Network, changes: &[String]) {
        if changes.is_empty() {
            return;
        }
        let status = network.status.as_ref();
        let was_ready =
            status.is_some_and(|status| conditions::is_true(&status.conditions, "Ready"));
        let observed = status.and_then(|status| status.observed_generation);
        let is_known = self.backend.is_durable() || self.known().contains(request);
        let changes = changes.join("; ");
        if observed.is_none() || !is_known {
            self.recorder.record(network, EventType::Normal, "Created", &changes);
        } else if was_ready && observed == network.metadata.generation {
            let message =
                format!("the network was changed outside of this operator; corrected: {changes}");
            self.recorder.record(network, EventType::Warning, "Drifted", &message);
        } else {
            self.recorder.record(network, EventType::Normal, "Updated", &changes);
        }
    }

    /// Reports a Network that cannot exist as it is. The next change or resync tries again.
    async fn refuse(
        &self,
        networks: &Api<Network>,
        network: &Network,
        reason: &str,
        why: &str,
    ) -> Result<Action, Failure> {
        self.recorder.record(network, EventType::Warning, reason, why);
        self.report_not_ready(networks, network, reason, why).await?;
        Ok(Action::Done)
    }

    async fn report_not_ready(
        &self,
        networks: &Api<Network>,
        network: &Network,
        reason: &str,
        why: &str,
    ) -> Result<NetworkStatus, Failure> {
        let mut status: NetworkStatus = network.status.clone().unwrap_or_default();
        let condition = NewCondition::new("Ready", false, reason).message(why);
        let generation = network.metadata.generation;
        conditions::set(&mut status.conditions, condition, generation, &self.clock);
        patch_status(networks, network, &status).await?;
        Ok(status)
    }
}

/// What only somebody else can end is tried again with the next change or resync, everything else after
/// a short time.
fn failure(error: BackendError) -> Failure {
    match error {
        BackendError::Refused(_) | BackendError::Foreign(_) | BackendError::InUse(_) => {
            Failure::permanent(error)
        }
        BackendError::Conflict(_) | BackendError::Unavailable(_) => Failure::transient(error),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::backend::dry_run::DryRun;
    use crate::manifests;
    use testenv::TestEnv;

    /// A new leader may have an older cache than the former one; this one has an empty cache.
    #[tokio::test]
    async fn a_network_that_the_cache_does_not_have_yet_is_no_orphan() {
        let env = TestEnv::start().await;
        let mut crd = manifests::crd("https://localhost:9443");
        crd.spec.conversion = None;
        env.install_crd(&crd).await;
        let network = json!({
            "apiVersion": "samplecrd.k8s.io/v2", "kind": "Network", "metadata": {"name": "a"},
            "spec": {"cidr": "10.0.0.0/24", "gateway": "10.0.0.1"},
        });
        let path = "/apis/samplecrd.k8s.io/v2/namespaces/default/networks";
        env.create(path, &network).await;
        let backend = Arc::new(DryRun::default());
        let (cluster, request) = ("test".parse().unwrap(), Request::new("default", "a"));
        let mark = Mark::new(&cluster, &request).unwrap().to_string();
        let spec = serde_json::from_value(network["spec"].clone()).unwrap();
        backend.networks().insert(mark, Desired::parse(&spec).unwrap());

        let manager = Manager::new(env.kube(), ManagerOptions::default());
        let options = Options { cluster_name: Some(cluster), ..Options::default() };
        let context = Arc::new(Context::new(&manager, &options, Arc::clone(&backend)));
        reconcile(request.clone(), Arc::clone(&context)).await.unwrap();
        assert_eq!(backend.networks().len(), 1, "the Network exists");

        env.delete(&format!("{path}/a")).await;
        reconcile(request, context).await.unwrap();
        assert!(backend.networks().is_empty());
        env.stop().await.unwrap();
    }
}
