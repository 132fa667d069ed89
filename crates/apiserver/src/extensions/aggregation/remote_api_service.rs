//! [`RemoteApiService`]: a group version that another server serves.

use crate::outbound::service::ServiceReference;
use crate::outbound::trust_from_ca_bundle;
use machinery::{Object, Value};
use tls::Trust;

/// See the [module documentation](self).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemoteApiService {
    /// The name of the `APIService`.
    pub name: String,
    /// The uid of the `APIService`.
    pub uid: String,
    /// The group that the server serves.
    pub group: String,
    /// The version that the server serves.
    pub version: String,
    /// The service of the server.
    pub service: ServiceReference,
    /// How the server's certificate is verified.
    pub trust: Trust,
    /// The priority among groups; the highest is first in discovery.
    pub group_priority: i64,
    /// The priority among the group's versions; the highest is first in discovery.
    pub version_priority: i64,
    /// The status of the `Available` condition.
    pub available: bool,
}

impl RemoteApiService {
    /// Reads an `APIService`; None if this server serves the version itself. It always serves the group
    /// of `APIService` itself, so that each of them can be deleted.
    // Upstream: the aggregator's own routes come before those it proxies.
    pub(super) fn from_object(object: &Object) -> Option<Self> {
        let spec = object.map().get("spec").filter(|it| it["group"] != super::GROUP)?;
        let service = spec.get("service").filter(|it| it.is_object())?;
        let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
        let trust = if spec["insecureSkipTLSVerify"] == Value::Bool(true) {
            Trust::Insecure
        } else {
            trust_from_ca_bundle(&text("caBundle"))
        };
        let mut service = ServiceReference::from_value(service);
        service.path = String::new();
        Some(Self {
            name: object.name().to_owned(),
            uid: object.uid().to_owned(),
            group: text("group"),
            version: text("version"),
            service,
            trust,
            group_priority: spec["groupPriorityMinimum"].as_i64().unwrap_or_default(),
            version_priority: spec["versionPriority"].as_i64().unwrap_or_default(),
            available: available_condition(object).is_some_and(|it| it["status"] == "True"),
        })
    }

    /// Whether both refer to the same server for the same version; the status is not compared.
    pub(super) fn is_same_registration(&self, other: &Self) -> bool {
        self.uid == other.uid
            && (&self.group, &self.version) == (&other.group, &other.version)
            && (&self.service, &self.trust) == (&other.service, &other.trust)
    }

    /// `/apis/<group>/<version>`, or `/api/v1`.
    pub(super) fn path(&self) -> String {
        if self.group.is_empty() {
            return format!("/api/{}", self.version);
        }
        format!("/apis/{}/{}", self.group, self.version)
    }
}

/// The `Available` condition of an `APIService`.
pub(super) fn available_condition(object: &Object) -> Option<&Value> {
    let conditions = object.get(&["status", "conditions"])?.as_array()?;
    conditions.iter().find(|it| it["type"] == "Available")
}
