//! [`Follower`]: asks aggregated servers whether they are there and what they serve, writes down
//! what it found in the status of their `APIService`, and announces what this server serves.

use super::documents::DOWNLOADS;
use super::local::Moment;
use super::proxy::{destination, headers};
use super::remote::condition;
use super::{GROUP, Remote, SERVICES};
use crate::authentication::{MASTERS, User};
use crate::outbound;
use crate::outbound::service::Nowhere;
use crate::own_client::OwnClient;
use crate::plane::Plane;
use crate::watch_cache::Subscription;
use bytes::Bytes;
use futures_util::future::{join_all, select_all};
use http::header::{ACCEPT, HeaderValue};
use http::{HeaderMap, Request};
use http_body_util::Full;
use machinery::{Object, Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

/// How often a server that says nothing new is asked.
const EVERY: Duration = Duration::from_secs(30);

/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The size up to which the answer to a check is read.
const MAX_ANSWER: usize = 1 << 20;

/// See the [module documentation](self).
pub(super) struct Follower {
    pub(super) plane: Arc<Plane>,
    client: OwnClient,
    /// A permit for each OpenAPI document that is being read.
    pub(super) downloads: Semaphore,
}

/// The reason why a request of the follower has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unanswered {
    #[error(transparent)]
    Nowhere(#[from] Nowhere),
    #[error(transparent)]
    Request(#[from] http::Error),
    #[error(transparent)]
    Outbound(#[from] outbound::Error),
}

/// Whether a server is there, as its condition says it.
struct Verdict {
    available: bool,
    reason: &'static str,
    message: String,
}

impl Follower {
    pub(super) fn new(plane: Arc<Plane>) -> Self {
        Self { client: OwnClient::new(&plane), plane, downloads: Semaphore::new(DOWNLOADS) }
    }

    /// Goes on until the plane stops.
    pub(super) async fn run(self) {
        let stop = self.plane.tasks.shutdown();
        tokio::pin!(stop);
        let mut catalog_changed = self.plane.catalog_changed.subscribe();
        loop {
            catalog_changed.borrow_and_update();
            let remotes = self.plane.aggregation.remotes(&self.plane);
            let changed = self.subscribe(!remotes.is_empty());
            let _ = self.plane.cache.catch_up().await;
            super::announce_at(&self.plane, &self.client, Moment::Change).await;
            let remotes = self.plane.aggregation.remotes(&self.plane);
            self.look_at(&remotes).await;
            let pause = async {
                if remotes.is_empty() {
                    std::future::pending::<()>().await;
                } else {
                    self.plane.clock.sleep(EVERY).await;
                }
            };
            let something = select_all(changed.iter().map(|it| Box::pin(it.changed())));
            tokio::select! {
                _ = something => {}
                _ = catalog_changed.changed() => {}
                () = pause => {}
                () = &mut stop => return,
            }
        }
    }

    /// Wakes up when something may be otherwise. Services and their endpoints matter only if there
    /// is somebody to look for.
    fn subscribe(&self, any: bool) -> Vec<Subscription> {
        let catalog = self.plane.catalog.load();
        let mut of = vec![(GROUP, "apiservices")];
        if any {
            of.extend([
                ("", "services"),
                ("", "endpoints"),
                ("discovery.k8s.io", "endpointslices"),
            ]);
        }
        let found = of.iter().filter_map(|(group, plural)| catalog.resource(group, plural));
        found.map(|it| it.cache.subscribe()).collect()
    }

    /// Asks all of them at once: one that hangs does not hold up the others.
    async fn look_at(&self, remotes: &[Arc<Remote>]) {
        self.plane.aggregation.retain_told(remotes);
        join_all(remotes.iter().map(|remote| async {
            let deadline = Instant::now() + PATIENCE;
            let verdict = match timeout_at(deadline, self.check(remote, deadline)).await {
                Ok(verdict) => verdict,
                Err(_) => failing(&self.address(remote), "context deadline exceeded"),
            };
            self.write_down(remote, &verdict).await;
            if verdict.available {
                let before = self.plane.aggregation.told(remote);
                let told = self.ask(remote, before.as_deref()).await;
                self.plane.aggregation.store_told(remote, told);
            }
        }))
        .await;
    }

    async fn check(&self, remote: &Remote, deadline: Instant) -> Verdict {
        let (name, namespace) = (&remote.service.name, &remote.service.namespace);
        let bad = |reason, message| Verdict { available: false, reason, message };
        match destination(&self.plane, remote) {
            Err(Nowhere::MissingService(_)) => {
                let message = format!("service/{name} in {namespace:?} is not present");
                return bad("ServiceNotFound", message);
            }
            Err(Nowhere::ClosedPort { port, .. }) => {
                let message =
                    format!("service/{name} in {namespace:?} is not listening on port {port}");
                return bad("ServicePortError", message);
            }
            Err(Nowhere::Deserted(_)) => {
                let message =
                    format!("endpoints for service/{name} in {namespace:?} have no addresses");
                return bad("MissingEndpoints", message);
            }
            Ok(_) => {}
        }
        let answer =
            self.get(remote, &remote.path(), "application/json", MAX_ANSWER, deadline).await;
        match answer {
            Ok((200..=299, _)) => Verdict {
                available: true,
                reason: "Passed",
                message: "all checks passed".to_owned(),
            },
            Ok((code, _)) => {
                let address = self.address(remote);
                let why = format!("bad status from {address}: {code}");
                failing(&address, &why)
            }
            Err(why) => {
                let address = self.address(remote);
                failing(&address, &format!("Get {address:?}: {why}"))
            }
        }
    }

    /// Where the check goes, for messages.
    fn address(&self, remote: &Remote) -> String {
        let found = destination(&self.plane, remote).ok();
        let address = found.and_then(|it| it.addresses.first().cloned()).unwrap_or_default();
        format!("https://{address}{}", remote.path())
    }

    /// The code and the body, of at most `limit` bytes, of the answer to a request for a path.
    pub(super) async fn get(
        &self,
        remote: &Remote,
        path: &str,
        accept: &'static str,
        limit: usize,
        deadline: Instant,
    ) -> Result<(u16, Bytes), Unanswered> {
        let to = destination(&self.plane, remote)?;
        let user = User::authenticated("system:kube-aggregator", "", vec![MASTERS.to_owned()]);
        let mut request = Request::get(format!("{}{path}", remote.service.origin()))
            .body(Full::new(Bytes::new()))?;
        *request.headers_mut() =
            headers(&HeaderMap::new(), &user).expect("our own name is plain text");
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
        let answer = self.plane.outbound.call(&to, request, limit, deadline).await?;
        Ok((answer.status().as_u16(), answer.into_body()))
    }

    /// Writes the condition if it is not the one that is there.
    async fn write_down(&self, remote: &Remote, verdict: &Verdict) {
        let status = if verdict.available { "True" } else { "False" };
        let path = format!("{SERVICES}/{}", remote.name);
        let answer = self.client.get(&path).await;
        if answer.code != 200 {
            return;
        }
        let mut object = answer.object;
        let mut since = self.plane.now();
        if let Some(found) = condition(&object) {
            if found["status"] == status {
                since = found["lastTransitionTime"].as_str().unwrap_or(&since).to_owned();
            }
            if found["status"] == status
                && found["reason"] == verdict.reason
                && found["message"] == verdict.message.as_str()
            {
                return;
            }
        }
        set(
            &mut object,
            json!({
                "type": "Available", "status": status, "lastTransitionTime": since,
                "reason": verdict.reason, "message": verdict.message,
            }),
        );
        self.client.update(&format!("{path}/status"), &object.into_value()).await;
    }
}

fn failing(address: &str, why: &str) -> Verdict {
    Verdict {
        available: false,
        reason: "FailedDiscoveryCheck",
        message: format!("failing or missing response from {address}: {why}"),
    }
}

fn set(object: &mut Object, condition: Value) {
    let status = object.map_at(&["status"]);
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else { return };
    conditions.retain(|it| it["type"] != condition["type"]);
    conditions.push(condition);
}
