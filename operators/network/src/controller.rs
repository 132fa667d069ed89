//! The reconcile function: makes the networks of a backend those that the API declares.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use tokio::sync::{OnceCell, mpsc};

use crate::api::v2::{Network, NetworkStatus};
use crate::backend::{Backend, BackendError, Desired, Mark, Owner};
use crate::{Options, orphans, overlap};
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
    pub(crate) backend: Arc<B>,
    recorder: Recorder,
    clock: Clock,
    owner: OnceCell<Owner>,
}

/// Adds the controller to a manager, with a task that looks for networks whose Network is gone.
pub(crate) fn add<B: Backend>(manager: &Manager, options: &Options, backend: Arc<B>) {
    let (sender, orphans) = mpsc::channel(16);
    let context = Arc::new(Context {
        client: manager.client(),
        networks: manager.lister(),
        backend,
        recorder: manager.recorder("samplecrd.k8s.io/network-operator"),
        clock: manager.clock().clone(),
        owner: OnceCell::new_with(options.owner.clone()),
    });
    let retries =
        RateLimits { backoff_cap: options.resync.min(MAX_BACKOFF), ..RateLimits::default() };
    manager.add(
        Controller::for_::<Network>()
            .when(is_relevant())
            .resync(options.resync)
            .channel(orphans)
            .workers(2)
            .back_off(retries)
            .reconcile(reconcile, Arc::clone(&context)),
    );
    orphans::find_periodically(manager, context, options.resync, sender);
}

/// The longest time between two attempts.
const MAX_BACKOFF: std::time::Duration = std::time::Duration::from_mins(1);

/// Accepts changes of the spec, resyncs, and the loss of the status, but not the operator's own writes.
fn is_relevant() -> Predicate {
    let has_lost_status = Predicate::custom(|event| match event {
        ObjectEvent::Updated { new, .. } => {
            new.object().is_ok_and(|object| object.get(&["status"]).is_none())
        }
        ObjectEvent::Added { .. } | ObjectEvent::Deleted { .. } => false,
    });
    let is_resync = Predicate::resource_version_changed().not();
    Predicate::generation_changed().or(is_resync).or(has_lost_status)
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
            Stage::Cleanup(network) => cx.clean_up(&request, &network).await,
        }
    });
    Ok(done.await?.action())
}

/// The result of [`Context::converge`].
struct Converged {
    /// The changes that were made.
    changes: Vec<String>,
    ids: std::collections::BTreeMap<String, String>,
}

impl<B: Backend> Context<B> {
    async fn apply(
        &self,
        request: &Request,
        networks: &Api<Network>,
        network: &Network,
    ) -> Result<Action, Failure> {
        let desired = match Desired::parse(&network.spec) {
            Ok(desired) => desired,
            Err(why) => return self.refuse(networks, network, "Invalid", &why).await,
        };
        let others = self.networks.list().objects;
        if let Some(why) = overlap::with_an_older_network(network, &desired, &others) {
            return self.refuse(networks, network, "Overlap", &why).await;
        }
        match self.converge(request, Some(&desired)).await {
            Ok(converged) => {
                self.record_changes(network, &converged.changes);
                let ready = NewCondition::new("Ready", true, "InSync")
                    .message(format!("{} exists", network.spec.cidr));
                let generation = network.metadata.generation;
                let mut status = network.status.clone().unwrap_or_default();
                conditions::set(&mut status.conditions, ready, generation, &self.clock);
                status.observed_generation = generation;
                status.backend_ids = converged.ids;
                patch_status(networks, network, &status).await?;
                Ok(Action::Done)
            }
            Err(error) => {
                let why = error.to_string();
                self.recorder.record(network, EventType::Warning, "Failed", &why);
                self.report_not_ready(networks, network, error.reason(), &why).await?;
                Err(failure(error))
            }
        }
    }

    async fn clean_up(&self, request: &Request, network: &Network) -> Result<Action, Failure> {
        match self.converge(request, None).await {
            Ok(Converged { changes, .. }) => {
                let what =
                    if changes.is_empty() { "nothing was left".into() } else { changes.join("; ") };
                self.recorder.record(network, EventType::Normal, "Deleted", &what);
                Ok(Action::Done)
            }
            Err(error) => {
                let why = error.to_string();
                self.recorder.record(network, EventType::Warning, "Failed", &why);
                Err(failure(error))
            }
        }
    }

    /// Deletes what a backend has of a Network that does not exist: its finalizer was removed by
    /// somebody else, or the cluster is another one.
    async fn delete_orphan(&self, request: &Request) -> Result<(), Failure> {
        // The cache of a new leader may be older than the networks that the former one has made.
        let networks = self.client.api_in::<Network>(request.namespace());
        if networks.get_opt(request.name()).await?.is_some() {
            return Ok(());
        }
        let converged = self.converge(request, None).await.map_err(failure)?;
        if !converged.changes.is_empty() {
            let changes = converged.changes.join("; ");
            tracing::warn!(%changes, "deleted what was left of a Network that does not exist");
        }
        Ok(())
    }

    /// Makes changes until there is nothing left to change.
    async fn converge(
        &self,
        request: &Request,
        desired: Option<&Desired>,
    ) -> Result<Converged, BackendError> {
        let mark = Mark::new(self.owner().await?, request)?;
        let mut made = Vec::new();
        for _ in 0..MAX_PLANS {
            let plan = self.backend.plan(&mark, desired).await?;
            if plan.changes.is_empty() {
                return Ok(Converged { changes: made, ids: plan.ids });
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

    /// The owner in the options, or the uid of the cluster: that of its first namespace.
    pub(crate) async fn owner(&self) -> Result<&Owner, BackendError> {
        let unavailable = |error: String| BackendError::Unavailable(error);
        let read = async || {
            let namespaces = Api::<Namespace>::all(self.client.clone());
            let namespace = namespaces.get("kube-system").await;
            let namespace =
                namespace.map_err(|error| unavailable(Failure::from(error).to_string()))?;
            let uid = namespace.metadata.uid.unwrap_or_default();
            uid.parse()
                .map_err(|_| unavailable(format!("the uid {uid:?} of kube-system is no owner")))
        };
        self.owner.get_or_try_init(read).await
    }

    fn record_changes(&self, network: &Network, changes: &[String]) {
        if changes.is_empty() {
            return;
        }
        let status = network.status.as_ref();
        let was_ready = status.is_some_and(|it| conditions::is_true(&it.conditions, "Ready"));
        let observed = status.and_then(|it| it.observed_generation);
        let changes = changes.join("; ");
        if was_ready && observed == network.metadata.generation {
            let message = format!("somebody else has changed the network: {changes}");
            self.recorder.record(network, EventType::Warning, "Drifted", &message);
        } else {
            let reason = if observed.is_some() { "Updated" } else { "Created" };
            self.recorder.record(network, EventType::Normal, reason, &changes);
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
    ) -> Result<(), Failure> {
        let mut status: NetworkStatus = network.status.clone().unwrap_or_default();
        let condition = NewCondition::new("Ready", false, reason).message(why);
        let generation = network.metadata.generation;
        conditions::set(&mut status.conditions, condition, generation, &self.clock);
        patch_status(networks, network, &status).await?;
        Ok(())
    }
}

/// A refusal is tried again with the next change or resync, everything else after a short time.
fn failure(error: BackendError) -> Failure {
    match error {
        BackendError::Refused(_) | BackendError::Foreign(_) => Failure::permanent(error),
        BackendError::Conflict(_) | BackendError::Unavailable(_) => Failure::transient(error),
    }
}
