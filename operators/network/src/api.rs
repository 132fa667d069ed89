//! The kind Network in its two versions, and the conversion between them.
//!
//! Both versions have the same spec; `v2` adds a status. In `v1`, which has none, an annotation holds
//! the status, so that an object that is written in `v1` keeps it.

use runtime::Versions;

/// The version without a status.
pub mod v1 {
    /// An IP network.
    #[runtime::resource(
        group = "samplecrd.k8s.io",
        version = "v1",
        kind = "Network",
        namespaced,
        printcolumn(name = "CIDR", type_ = "string", json_path = ".spec.cidr"),
        printcolumn(name = "Gateway", type_ = "string", json_path = ".spec.gateway"),
        printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
        rule(
            "!isCIDR(self.cidr) || !isIP(self.gateway) || cidr(self.cidr).containsIP(self.gateway)",
            message = "the gateway must be in the cidr",
            field_path = ".gateway"
        ),
        object_rule("self.metadata.name.size() <= 63", message = "at most 63 characters")
    )]
    pub struct NetworkSpec {
        /// The addresses of the network, such as `192.168.0.0/16`.
        #[schemars(length(max = 43))]
        #[schema(rule(
            "isCIDR(self) && cidr(self) == cidr(self).masked()",
            message = "must be a network in CIDR notation, such as 192.168.0.0/16"
        ))]
        pub cidr: String,
        /// The address of the gateway, such as `192.168.0.1`.
        #[schemars(length(max = 39))]
        #[schema(rule("isIP(self)", message = "must be an IP address"))]
        pub gateway: String,
    }
}

/// The stored version.
pub mod v2 {
    use std::collections::BTreeMap;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

    /// An IP network.
    #[runtime::resource(
        group = "samplecrd.k8s.io",
        version = "v2",
        kind = "Network",
        namespaced,
        status = "NetworkStatus",
        printcolumn(name = "CIDR", type_ = "string", json_path = ".spec.cidr"),
        printcolumn(name = "Gateway", type_ = "string", json_path = ".spec.gateway"),
        printcolumn(
            name = "Ready",
            type_ = "string",
            json_path = ".status.conditions[?(@.type=='Ready')].status"
        ),
        printcolumn(
            name = "Reason",
            type_ = "string",
            json_path = ".status.conditions[?(@.type=='Ready')].reason",
            priority = 1
        ),
        printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
        rule(
            "!isCIDR(self.cidr) || !isIP(self.gateway) || cidr(self.cidr).containsIP(self.gateway)",
            message = "the gateway must be in the cidr",
            field_path = ".gateway"
        ),
        object_rule("self.metadata.name.size() <= 63", message = "at most 63 characters")
    )]
    pub struct NetworkSpec {
        /// The addresses of the network, such as `192.168.0.0/16`.
        #[schemars(length(max = 43))]
        #[schema(rule(
            "isCIDR(self) && cidr(self) == cidr(self).masked()",
            message = "must be a network in CIDR notation, such as 192.168.0.0/16"
        ))]
        pub cidr: String,
        /// The address of the gateway, such as `192.168.0.1`.
        #[schemars(length(max = 39))]
        #[schema(rule("isIP(self)", message = "must be an IP address"))]
        pub gateway: String,
    }

    /// The observed state of a network.
    #[runtime::schema]
    #[derive(PartialEq, Default)]
    #[serde(default)]
    pub struct NetworkStatus {
        /// The generation that the backend has.
        pub observed_generation: Option<i64>,
        /// The objects of the backend, such as `network` and `subnet`, by their identifiers.
        pub backend_ids: BTreeMap<String, String>,
        /// The condition `Ready`.
        #[schema(list_map_keys("type"))]
        pub conditions: Vec<Condition>,
    }
}

/// The versions of a Network.
#[derive(Versions)]
pub enum Network {
    /// Without a status.
    V1(v1::Network),
    /// With a status.
    #[versions(storage)]
    V2(v2::Network),
}

/// The annotation of a `v1` object that holds the status of `v2`.
const STATUS_ANNOTATION: &str = "samplecrd.k8s.io/v2-status";

impl From<v2::Network> for v1::Network {
    fn from(network: v2::Network) -> Self {
        let v2::Network { mut metadata, spec, status } = network;
        let status = status.and_then(|status| serde_json::to_string(&status).ok());
        if let Some(status) = status {
            let annotations = metadata.annotations.get_or_insert_default();
            annotations.insert(STATUS_ANNOTATION.to_owned(), status);
        }
        Self { metadata, spec: v1::NetworkSpec { cidr: spec.cidr, gateway: spec.gateway } }
    }
}

impl From<v1::Network> for v2::Network {
    fn from(network: v1::Network) -> Self {
        let v1::Network { mut metadata, spec } = network;
        let annotations = metadata.annotations.as_mut();
        let status = annotations.and_then(|all| all.remove(STATUS_ANNOTATION));
        metadata.annotations = metadata.annotations.filter(|annotations| !annotations.is_empty());
        // A status that a user has made unreadable is written anew by the operator.
        let status = status.and_then(|status| serde_json::from_str(&status).ok());
        let spec = v2::NetworkSpec { cidr: spec.cidr, gateway: spec.gateway };
        Self { metadata, spec, status }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use runtime::versions::Versions as _;

    #[test]
    fn a_network_that_is_converted_to_v1_and_back_is_unchanged() {
        let network = json!({
            "apiVersion": "samplecrd.k8s.io/v2", "kind": "Network",
            "metadata": {"name": "a", "annotations": {"b": "c"}},
            "spec": {"cidr": "10.0.0.0/8", "gateway": "10.0.0.1"},
            "status": {"observedGeneration": 3, "backendIds": {"network": "d"}, "conditions": []},
        });
        let old = Network::convert(network.clone(), "samplecrd.k8s.io/v1").unwrap();
        assert_eq!(old.get("status"), None);
        assert_eq!(Network::convert(old, "samplecrd.k8s.io/v2").unwrap(), network);
    }

    #[test]
    fn an_unreadable_status_is_dropped() {
        let old = json!({
            "apiVersion": "samplecrd.k8s.io/v1", "kind": "Network",
            "metadata": {"name": "a", "annotations": {STATUS_ANNOTATION: "{"}},
            "spec": {"cidr": "10.0.0.0/8", "gateway": "10.0.0.1"},
        });
        let new = Network::convert(old, "samplecrd.k8s.io/v2").unwrap();
        assert_eq!((&new["metadata"], new.get("status")), (&json!({"name": "a"}), None));
    }
}
