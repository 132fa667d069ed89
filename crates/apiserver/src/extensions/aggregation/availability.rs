//! [`Availability`]: the result of an availability check of an aggregated server, and the `Available`
//! condition of its `APIService`.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::aggregation_controller::AggregationController;
use super::remote_api_service::available_condition;
use super::{RemoteApiService, SERVICES};
use crate::outbound::service::ServiceError;
use machinery::{Object, Value, json};

/// The time limit of a check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum size of the response to a check.
const MAX_RESPONSE: usize = 1 << 20;

/// The condition's reason if the request to the server failed.
const FAILED_DISCOVERY_CHECK: &str = "FailedDiscoveryCheck";

/// The content of the `Available` condition.
pub(super) struct Availability {
    pub available: bool,
    reason: &'static str,
    message: String,
}

impl Availability {
    /// Whether the request to the server failed.
    pub(super) fn is_failed(&self) -> bool {
        self.reason == FAILED_DISCOVERY_CHECK
    }
}

impl AggregationController {
    /// Checks the server's service, then sends a request to it.
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
            Err(error @ ServiceError::Simulated(_)) => {
                return unavailable("MissingEndpoints", error.to_string());
            }
            Ok(_) => {}
        }
        let response =
            self.get(remote, &remote.path(), "application/json", MAX_RESPONSE, deadline).await;
        match response {
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

    /// The URL of the check, for messages.
    fn address(&self, remote: &RemoteApiService) -> String {
        let found = self.aggregation.destination(remote).ok();
        let address = found.and_then(|it| it.addresses.first().cloned()).unwrap_or_default();
        format!("https://{address}{}", remote.path())
    }

    /// Writes the condition if it differs from the stored one; returns false if the write failed.
    pub(super) async fn write_condition(
        &self,
        remote: &RemoteApiService,
        availability: &Availability,
    ) -> bool {
        let status = if availability.available { "True" } else { "False" };
        let path = format!("{SERVICES}/{}", remote.name);
        let response = self.client.get(&path).await;
        if response.code != 200 {
            return response.code == 404;
        }
        let mut object = response.object();
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
        let response = self.client.update(&format!("{path}/status"), &object.into_value()).await;
        matches!(response.code, 200 | 404)
    }
}

/// A failed request to the server.
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
