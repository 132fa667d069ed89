//! [`EndpointPod`]: the fields of a pod on which the endpoints of services depend.

use std::collections::{BTreeMap, HashMap};

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

    /// The ports of a service that the pod has, each with its number in the pod; a name is that of a port
    /// of a container or of a sidecar.
    pub(crate) fn ports_for<'a>(
        &self,
        ports: &'a [ServicePortView],
    ) -> Vec<(&'a ServicePortView, i32)> {
        let has_names = ports.iter().any(|it| matches!(it.target_port, IntOrString::String(_)));
        let numbers = if has_names { self.numbers_by_name() } else { HashMap::new() };
        let number = |port: &ServicePortView| match &port.target_port {
            IntOrString::Int(number) => Some(*number),
            IntOrString::String(name) => {
                numbers.get(&(name.as_str(), port.protocol.as_str())).copied()
            }
        };
        ports.iter().filter_map(|port| Some((port, number(port)?))).collect()
    }

    /// The first port with each name and protocol.
    fn numbers_by_name(&self) -> HashMap<(&str, &str), i32> {
        let sidecars = self.spec.init_containers.iter().filter(|it| it.restart_policy == "Always");
        let ports = self.spec.containers.iter().chain(sidecars).flat_map(|it| &it.ports);
        let mut numbers = HashMap::new();
        for port in ports {
            let name = (port.name.as_str(), port.protocol.as_str());
            numbers.entry(name).or_insert(port.container_port);
        }
        numbers
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use keel::Clock;

    fn service_ports(ports: &serde_json::Value) -> Vec<ServicePortView> {
        serde_json::from_value(ports.clone()).unwrap()
    }

    #[test]
    fn a_named_port_is_the_first_of_its_name_and_protocol_in_containers_and_sidecars() {
        let port = |name: &str, protocol: &str, number: i32| json!({"name": name, "protocol": protocol, "containerPort": number});
        let pod: EndpointPod = serde_json::from_value(json!({"spec": {
            "containers": [
                {"ports": [port("web", "UDP", 1), port("web", "TCP", 2)]},
                {"ports": [port("web", "TCP", 3), port("db", "TCP", 4)]},
            ],
            "initContainers": [
                {"ports": [port("init", "TCP", 5)]},
                {"restartPolicy": "Always", "ports": [port("side", "TCP", 6)]},
            ],
        }}))
        .unwrap();
        let named = ["web", "db", "init", "side", "none"];
        let ports = named.map(|name| json!({"name": name, "targetPort": name}));
        let mut ports = ports.to_vec();
        ports.push(json!({"name": "number", "targetPort": 7}));
        ports.push(json!({"name": "udp", "protocol": "UDP", "targetPort": "web"}));
        let ports = service_ports(&json!(ports));
        let found = pod.ports_for(&ports);
        let found: Vec<(&str, i32)> =
            found.iter().map(|(port, number)| (port.name.as_str(), *number)).collect();
        assert_eq!(found, [("web", 2), ("db", 4), ("side", 6), ("number", 7), ("udp", 1)]);
    }

    #[test]
    fn the_ports_of_a_pod_are_not_searched_for_each_port_of_a_service() {
        let count = 60_000;
        let ports: Vec<_> = (0..count)
            .map(|it| json!({"name": format!("p{it}"), "protocol": "TCP", "containerPort": it}))
            .collect();
        let pod: EndpointPod =
            serde_json::from_value(json!({"spec": {"containers": [{"ports": ports}]}})).unwrap();
        let targets: Vec<_> =
            (0..count).rev().map(|it| json!({"targetPort": format!("p{it}")})).collect();
        let targets = service_ports(&json!(targets));
        let clock = Clock::system();
        let start = clock.instant();
        assert_eq!(pod.ports_for(&targets).len(), count);
        // The 1.8 billion comparisons of all pairs take ten times as long.
        assert!(clock.elapsed_since(&start).as_secs() < 5);
    }
}
