//! [`Verdict`]: whether an aggregated server is available, and its condition, which says so.

use super::follower::Follower;
use super::remote::condition;
use super::{Remote, SERVICES};
use crate::outbound::service::ServiceError;
use machinery::{Object, Value, json};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How long the answer to a check may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The size up to which the answer to a check is read.
const MAX_ANSWER: usize = 1 << 20;

/// The reason of a server that was asked and did not answer as it should.
const FAILED: &str = "FailedDiscoveryCheck";

/// Whether a server is there, as its condition says it.
pub(super) struct Verdict {
    pub available: bool,
    reason: &'static str,
    message: String,
}

impl Verdict {
    /// Whether the server was asked in vain.
    pub(super) fn is_failed(&self) -> bool {
        self.reason == FAILED
    }
}

impl Follower {
    /// Asks the server, if it has an address.
    pub(super) async fn availability(&self, remote: &Remote) -> Verdict {
        let deadline = Instant::now() + PATIENCE;
        match timeout_at(deadline, self.check(remote, deadline)).await {
            Ok(verdict) => verdict,
            Err(_) => failing(&self.address(remote), "context deadline exceeded"),
        }
    }

    async fn check(&self, remote: &Remote, deadline: Instant) -> Verdict {
        let (name, namespace) = (&remote.service.name, &remote.service.namespace);
        let bad = |reason, message| Verdict { available: false, reason, message };
        match self.aggregation.destination(remote) {
            Err(ServiceError::ServiceNotFound(_)) => {
                let message = format!("service/{name} in {namespace:?} is not present");
                return bad("ServiceNotFound", message);
            }
            Err(ServiceError::PortNotFound { port, .. }) => {
                let message =
                    format!("service/{name} in {namespace:?} is not listening on port {port}");
                return bad("ServicePortError", message);
            }
            Err(ServiceError::NoEndpoints(_)) => {
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
        let found = self.aggregation.destination(remote).ok();
        let address = found.and_then(|it| it.addresses.first().cloned()).unwrap_or_default();
        format!("https://{address}{}", remote.path())
    }

    /// Writes the condition if it is not the one that is there; false if that did not work.
    pub(super) async fn write_condition(&self, remote: &Remote, verdict: &Verdict) -> bool {
        let status = if verdict.available { "True" } else { "False" };
        let path = format!("{SERVICES}/{}", remote.name);
        let answer = self.client.get(&path).await;
        if answer.code != 200 {
            return answer.code == 404;
        }
        let mut object = answer.object;
        let mut since = self.aggregation.storage.now();
        if let Some(found) = condition(&object) {
            if found["status"] == status {
                since = found["lastTransitionTime"].as_str().unwrap_or(&since).to_owned();
            }
            if found["status"] == status
                && found["reason"] == verdict.reason
                && found["message"] == verdict.message.as_str()
            {
                return true;
            }
        }
        set(
            &mut object,
            json!({
                "type": "Available", "status": status, "lastTransitionTime": since,
                "reason": verdict.reason, "message": verdict.message,
            }),
        );
        let answer = self.client.update(&format!("{path}/status"), &object.into_value()).await;
        matches!(answer.code, 200 | 404)
    }
}
fn failing(address: &str, why: &str) -> Verdict {
    Verdict {
        available: false,
        reason: FAILED,
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
