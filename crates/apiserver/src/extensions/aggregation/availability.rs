//! [`Availability`]: whether an aggregated server is available, and its condition, which says so.

use super::aggregation_controller::AggregationController;
use super::remote_api_service::available_condition;
use super::{RemoteApiService, SERVICES};
use crate::outbound::service::ServiceError;
use machinery::{Object, Value, json};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How long the answer to a check may take.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// The size up to which the answer to a check is read.
const MAX_ANSWER: usize = 1 << 20;

/// The reason of a server that was asked and did not answer as it should.
const FAILED_DISCOVERY_CHECK: &str = "FailedDiscoveryCheck";

/// Whether a server is there, as its condition says it.
pub(super) struct Availability {
    pub available: bool,
    reason: &'static str,
    message: String,
}

impl Availability {
    /// Whether the server was asked in vain.
    pub(super) fn is_failed(&self) -> bool {
        self.reason == FAILED_DISCOVERY_CHECK
    }
}

impl AggregationController {
    /// Asks the server, if it has an address.
    pub(super) async fn check_availability(&self, remote: &RemoteApiService) -> Availability {
        let deadline = Instant::now() + CHECK_TIMEOUT;
        match timeout_at(deadline, self.request_availability(remote, deadline)).await {
            Ok(availability) => availability,
            Err(_) => failing(&self.address(remote), "context deadline exceeded"),
        }
    }

    async fn request_availability(
        &self,
        remote: &RemoteApiService,
        deadline: Instant,
    ) -> Availability {
        let (name, namespace) = (&remote.service.name, &remote.service.namespace);
        let unavailable = |reason, message| Availability { available: false, reason, message };
        match self.aggregation.destination(remote) {
            Err(ServiceError::ServiceNotFound(_)) => {
                let message = format!("service/{name} in {namespace:?} is not present");
                return unavailable("ServiceNotFound", message);
            }
            Err(ServiceError::PortNotFound { port, .. }) => {
                let message =
                    format!("service/{name} in {namespace:?} is not listening on port {port}");
                return unavailable("ServicePortError", message);
            }
            Err(ServiceError::NoEndpoints(_)) => {
                let message =
                    format!("endpoints for service/{name} in {namespace:?} have no addresses");
                return unavailable("MissingEndpoints", message);
            }
            Ok(_) => {}
        }
        let answer =
            self.get(remote, &remote.path(), "application/json", MAX_ANSWER, deadline).await;
        match answer {
            Ok((200..=299, _)) => Availability {
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
    fn address(&self, remote: &RemoteApiService) -> String {
        let found = self.aggregation.destination(remote).ok();
        let address = found.and_then(|it| it.addresses.first().cloned()).unwrap_or_default();
        format!("https://{address}{}", remote.path())
    }

    /// Writes the condition if it is not the one that is there; false if that did not work.
    pub(super) async fn write_condition(
        &self,
        remote: &RemoteApiService,
        availability: &Availability,
    ) -> bool {
        let status = if availability.available { "True" } else { "False" };
        let path = format!("{SERVICES}/{}", remote.name);
        let answer = self.client.get(&path).await;
        if answer.code != 200 {
            return answer.code == 404;
        }
        let mut object = answer.object;
        let mut since = self.aggregation.storage.now();
        if let Some(found) = available_condition(&object) {
            if found["status"] == status {
                since = found["lastTransitionTime"].as_str().unwrap_or(&since).to_owned();
            }
            if found["status"] == status
                && found["reason"] == availability.reason
                && found["message"] == availability.message.as_str()
            {
                return true;
            }
        }
        set_condition(
            &mut object,
            json!({
                "type": "Available", "status": status, "lastTransitionTime": since,
                "reason": availability.reason, "message": availability.message,
            }),
        );
        let answer = self.client.update(&format!("{path}/status"), &object.into_value()).await;
        matches!(answer.code, 200 | 404)
    }
}
fn failing(address: &str, why: &str) -> Availability {
    Availability {
        available: false,
        reason: FAILED_DISCOVERY_CHECK,
        message: format!("failing or missing response from {address}: {why}"),
    }
}

fn set_condition(object: &mut Object, condition: Value) {
    let status = object.map_at(&["status"]);
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else { return };
    conditions.retain(|it| it["type"] != condition["type"]);
    conditions.push(condition);
}
