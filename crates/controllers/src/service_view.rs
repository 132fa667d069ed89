//! [`ServiceView`]: the fields of a service that the endpoint controllers read.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Deserialize;

use crate::metadata::Metadata;

/// The label of endpoints of a service without a cluster IP.
pub(crate) const HEADLESS_LABEL: &str = "service.kubernetes.io/headless";

/// See the [module documentation](self).
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ServiceView {
    /// The metadata.
    pub metadata: Metadata,
    /// The specification.
    pub spec: ServiceSpecView,
}

/// A part of a service's spec.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServiceSpecView {
    /// The type: `ClusterIP`.
    #[serde(rename = "type")]
    pub type_: String,
    /// The labels of the pods; a service without any selects no pods.
    pub selector: BTreeMap<String, String>,
    /// An address, `None`, or empty.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: String,
    /// `IPv4` and `IPv6`.
    pub ip_families: Vec<String>,
    /// Whether pods that are not ready count as ready.
    pub publish_not_ready_addresses: bool,
    /// The ports.
    pub ports: Vec<ServicePortView>,
    /// The preference for near endpoints.
    pub traffic_distribution: String,
}

/// A port of a service.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServicePortView {
    /// The name; it may be empty if there is only one port.
    pub name: String,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// The protocol of the application.
    pub app_protocol: Option<String>,
    /// The number or the name of the pods' port.
    pub target_port: IntOrString,
}

impl Default for ServicePortView {
    fn default() -> Self {
        Self {
            name: String::new(),
            protocol: "TCP".to_owned(),
            app_protocol: None,
            target_port: IntOrString::Int(0),
        }
    }
}

/// The family of IP addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum IpFamily {
    V4,
    V6,
}

impl IpFamily {
    /// The family of a well-formed address.
    pub(crate) fn of(address: &str) -> Self {
        if address.parse::<Ipv6Addr>().is_ok() { Self::V6 } else { Self::V4 }
    }

    /// The name in the API.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }
}

impl ServiceView {
    /// Whether a controller maintains the endpoints of the service, by its selector.
    pub(crate) fn has_managed_endpoints(&self) -> bool {
        self.spec.type_ != "ExternalName" && !self.spec.selector.is_empty()
    }

    /// Whether the service has a cluster IP.
    pub(crate) fn has_cluster_ip(&self) -> bool {
        !matches!(self.spec.cluster_ip.as_str(), "" | "None")
    }

    /// The families of the service's addresses. If they are not set, they are that of the cluster IP,
    /// or both for a headless service.
    pub(crate) fn families(&self) -> Vec<IpFamily> {
        let mut families = Vec::new();
        for family in [IpFamily::V4, IpFamily::V6] {
            if self.spec.ip_families.iter().any(|name| name == family.as_str()) {
                families.push(family);
            }
        }
        match families.is_empty() {
            false => families,
            true if self.has_cluster_ip() => vec![IpFamily::of(&self.spec.cluster_ip)],
            true => vec![IpFamily::V4, IpFamily::V6],
        }
    }

    /// The family of addresses in `Endpoints`, which have one family.
    pub(crate) fn first_family(&self) -> Option<IpFamily> {
        match self.spec.ip_families.first().map(String::as_str) {
            Some("IPv6") => Some(IpFamily::V6),
            Some(_) => Some(IpFamily::V4),
            None if self.has_cluster_ip() => Some(IpFamily::of(&self.spec.cluster_ip)),
            None => None,
        }
    }
}
