//! [`EndpointPod`]: the fields of a pod on which the endpoints of services depend.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Deserialize;

use crate::service_view::{IpFamily, ServicePortView, ServiceView};

/// See the [module documentation](self).
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct EndpointPod {
    /// A part of the metadata.
    pub metadata: EndpointPodMetadata,
    /// A part of the spec.
    pub spec: EndpointPodSpec,
    /// A part of the status.
    pub status: EndpointPodStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EndpointPodMetadata {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub labels: BTreeMap<String, String>,
    pub deletion_timestamp: Option<Time>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EndpointPodSpec {
    pub node_name: String,
    pub hostname: String,
    pub subdomain: String,
    pub containers: Vec<ContainerView>,
    pub init_containers: Vec<ContainerView>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerView {
    pub restart_policy: String,
    pub ports: Vec<ContainerPortView>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerPortView {
    pub name: String,
    pub protocol: String,
    pub container_port: i32,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EndpointPodStatus {
    pub phase: String,
    pub conditions: Vec<ConditionView>,
    #[serde(rename = "podIPs")]
    pub pod_ips: Vec<PodIp>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct PodIp {
    pub ip: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ConditionView {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: String,
    pub last_transition_time: Option<Time>,
}

impl EndpointPod {
    /// Whether the pod has an address and has not ended.
    pub(crate) fn has_endpoint(&self) -> bool {
        !matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
            && !self.status.pod_ips.is_empty()
    }

    /// Whether the deletion of the pod was requested.
    pub(crate) fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether the pod is ready.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready_condition().is_some_and(|condition| condition.status == "True")
    }

    /// The time of the last change of the pod's readiness.
    pub(crate) fn ready_changed(&self) -> Option<&Time> {
        self.ready_condition()?.last_transition_time.as_ref()
    }

    fn ready_condition(&self) -> Option<&ConditionView> {
        self.status.conditions.iter().find(|condition| condition.type_ == "Ready")
    }

    /// The addresses of one family, in their canonical form.
    pub(crate) fn addresses(&self, family: IpFamily) -> impl Iterator<Item = String> {
        let parsed =
            self.status.pod_ips.iter().filter_map(|it| it.ip.parse::<std::net::IpAddr>().ok());
        let family_of =
            |ip: &std::net::IpAddr| if ip.is_ipv6() { IpFamily::V6 } else { IpFamily::V4 };
        parsed.filter(move |ip| family_of(ip) == family).map(|ip| ip.to_string())
    }

    /// The host name of the pod in the domain of a service.
    pub(crate) fn hostname_in(&self, service: &ServiceView) -> Option<&str> {
        let is_set = !self.spec.hostname.is_empty()
            && self.spec.subdomain == service.metadata.name
            && self.metadata.namespace == service.metadata.namespace;
        is_set.then_some(self.spec.hostname.as_str())
    }

    /// The number of the pod's port for a port of a service; a name is that of a port of a container
    /// or of a sidecar.
    pub(crate) fn port_for(&self, port: &ServicePortView) -> Option<i32> {
        let name = match &port.target_port {
            IntOrString::Int(number) => return Some(*number),
            IntOrString::String(name) => name,
        };
        let sidecars = self.spec.init_containers.iter().filter(|it| it.restart_policy == "Always");
        let ports = self.spec.containers.iter().chain(sidecars).flat_map(|it| &it.ports);
        let mut named = ports.filter(|it| it.name == *name && it.protocol == port.protocol);
        named.next().map(|it| it.container_port)
    }

    /// Whether the endpoints of the pod may differ from those of its earlier state.
    pub(crate) fn differs_from(&self, old: &Self) -> bool {
        self.metadata.labels != old.metadata.labels
            || self.spec.hostname != old.spec.hostname
            || self.spec.subdomain != old.spec.subdomain
            || self.is_terminating() != old.is_terminating()
            || self.is_ready() != old.is_ready()
            || self.has_endpoint() != old.has_endpoint()
            || self.status.pod_ips != old.status.pod_ips
            || self.spec.node_name != old.spec.node_name
    }
}
