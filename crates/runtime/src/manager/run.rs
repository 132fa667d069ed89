//! The run of a manager: caches, leadership, workers.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use tokio::net::TcpListener;

use super::signals::Signals;
use super::stop::StopOnDrop;
use super::{Manager, ManagerError, ManagerState, caches};
use crate::endpoint;
use crate::leader_election::{Elector, Leadership};
use keel::message_with_causes;

impl Manager {
    /// Runs until it is stopped, by [`stop`](Self::stop) or a signal, or loses leadership. It runs
    /// once.
    pub async fn run(&self) -> Result<(), ManagerError> {
        let shared = &self.state;
        // Stops all tasks if this future is dropped.
        let mut abandoned = StopOnDrop(Some(Arc::clone(shared)));
        let outcome = shared.run(&mut abandoned).await;
        shared.ended.send_replace(Some(match &outcome {
            Ok(()) => "it was stopped".to_owned(),
            Err(error) => message_with_causes(error),
        }));
        outcome
    }
}

impl ManagerState {
    /// Runs until the manager is stopped; `abandoned` is disarmed when all tasks have been stopped.
    async fn run(self: &Arc<Self>, abandoned: &mut StopOnDrop) -> Result<(), ManagerError> {
        self.check_names()?;
        if let Some(election) = &self.options.leader_election {
            election.check().map_err(ManagerError::Election)?;
        }
        let signals = Signals::new(self.options.handles_signals)?;
        self.listen().await?;
        self.log_start();
        self.start_caches();
        let outcome = tokio::select! {
            biased;
            () = self.asked_to_stop() => Ok(()),
            () = signals.wait() => Ok(()),
            error = self.lead() => Err(error),
        };
        match &outcome {
            Ok(()) => tracing::info!("stopping on request"),
            Err(error) => {
                let error = message_with_causes(error);
                tracing::error!(error, "the manager stops");
            }
        }
        let stopped = self.shut_down(outcome.is_ok()).await;
        abandoned.0 = None;
        outcome.and(stopped.map_err(ManagerError::UncleanStop))
    }

    /// Metrics and records are identified by the name of their controller.
    fn check_names(&self) -> Result<(), ManagerError> {
        let mut names = BTreeSet::new();
        let loops = self.loops();
        let same = loops.iter().find(|control_loop| !names.insert(&control_loop.name));
        same.map_or(Ok(()), |same| Err(ManagerError::SameName(same.name.clone())))
    }

    async fn listen(self: &Arc<Self>) -> Result<(), ManagerError> {
        let Some(address) = self.options.endpoint else { return Ok(()) };
        let failed = |source| ManagerError::Endpoint { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        self.address.send_replace(Some(listener.local_addr().map_err(failed)?));
        let served = endpoint::serve(listener, Arc::clone(self), self.endpoint_tasks.clone());
        self.endpoint_tasks.spawn("endpoint", served);
        Ok(())
    }

    fn log_start(&self) {
        let given = |text: &'static str| (!text.is_empty()).then_some(text);
        let (operator, version) = (given(self.options.name), given(self.options.version));
        let runtime = env!("CARGO_PKG_VERSION");
        let kinds = self.caches.factory.scopes().join(", ");
        let endpoint = self.address.borrow().map(|address| format!("http://{address}"));
        let endpoint = endpoint.as_deref().unwrap_or("none");
        tracing::info!(operator, version, runtime, kinds, endpoint, "the manager starts");
    }

    fn start_caches(&self) {
        let factory = Arc::clone(&self.caches.factory);
        self.readiness.add("caches", move || caches::all_complete(&factory));
        self.caches.start();
    }

    /// Serves webhooks, if there are any, as leader or not.
    async fn start_webhooks(&self) -> Result<(), ManagerError> {
        let webhooks = self.webhooks.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(webhooks) = webhooks else { return Ok(()) };
        // Without the fence: a replica that is not the leader writes its certificates, too.
        let client = self.raw_client.clone();
        let address = webhooks.start(client, &self.options, &self.webhook_tasks).await?;
        tracing::info!(url = format!("https://{address}"), "serves webhooks");
        self.webhook_address.send_replace(Some(address));
        Ok(())
    }

    /// Runs the workers until leadership is lost.
    async fn lead(self: &Arc<Self>) -> ManagerError {
        if let Err(error) = self.start_webhooks().await {
            return error;
        }
        if !self.common_caches.wait_for_sync().await {
            // The caches were stopped, so a stop is under way.
            return std::future::pending().await;
        }
        let Some(options) = self.options.leader_election.clone() else {
            self.fence.open();
            tracing::info!("caches are complete, work begins");
            self.start_workers();
            return std::future::pending().await;
        };
        let (clock, entropy) = (&self.options.clock, &self.options.entropy);
        let elector = Elector::new(options, self.raw_client.clone(), clock, entropy, &self.fence);
        let mut leadership = elector.leadership();
        *self.leadership.lock().unwrap_or_else(PoisonError::into_inner) = Some(leadership.clone());
        self.elector_tasks.spawn("elector", elector.run(self.elector_tasks.clone()));
        // If the elector has ended, by a panic for example, leadership is lost.
        if leadership.wait_for(|it| *it == Leadership::Leading).await.is_ok() {
            self.start_workers();
            let _ = leadership.wait_for(|it| *it != Leadership::Leading).await;
        }
        self.fence.close();
        ManagerError::LeadershipLost
    }

    async fn asked_to_stop(&self) {
        let mut stop = self.stop.subscribe();
        let _ = stop.wait_for(|stop| *stop).await;
    }
}
