//! [`RemoteApiService`]: a version of a group that another server answers for.

use crate::outbound::Trust;
use crate::outbound::service::ServiceReference;
use machinery::{Object, Value};

/// See the [module documentation](self).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemoteApiService {
    /// Of the `APIService`.
    pub name: String,
    /// Of the `APIService`.
    pub uid: String,
    /// Which it serves.
    pub group: String,
    /// Which it serves.
    pub version: String,
    /// Where it is.
    pub service: ServiceReference,
    /// How it shows that it is the one.
    pub trust: Trust,
    /// Higher comes first among the groups.
    pub group_priority: i64,
    /// Higher comes first among the group's versions.
    pub version_priority: i64,
    /// Whether it answered when it was last asked.
    pub available: bool,
}

impl RemoteApiService {
    /// What an `APIService` says; None if it speaks of what this server serves itself. The group of
    /// `APIService` always is, so that each of them can be deleted again.
    // Upstream: the aggregator's own routes come before those it proxies.
    pub(super) fn from_object(object: &Object) -> Option<Self> {
        let spec = object.map().get("spec").filter(|it| it["group"] != super::GROUP)?;
        let service = spec.get("service").filter(|it| it.is_object())?;
        let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
        let trust = if spec["insecureSkipTLSVerify"] == Value::Bool(true) {
            Trust::Anyone
        } else {
            Trust::of_bundle(&text("caBundle"))
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

    /// Whether both lead to the same server for the same version, whatever their status says.
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

/// The condition that says whether a version is there.
pub(super) fn available_condition(object: &Object) -> Option<&Value> {
    let conditions = object.get(&["status", "conditions"])?.as_array()?;
    conditions.iter().find(|it| it["type"] == "Available")
}
