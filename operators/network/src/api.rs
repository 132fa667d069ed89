//! The kind Network in its two versions, and the conversion between them.
//!
//! Both versions have the same spec; `v2` adds a status. In `v1`, which has none, an annotation holds
//! the status, so that an object that is written in `v1` keeps it.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use runtime::Versions;
use runtime::kube_core::admission::AdmissionRequest;
use runtime::webhook::Changed;

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
        object_rule(
            "self.metadata.name.size() <= 63",
            message = "metadata.name: at most 63 characters"
        )
    )]
    pub struct NetworkSpec {
        /// The addresses of the network, such as `192.168.0.0/16`.
        #[schemars(length(max = 43))]
        #[schema(
            rule(
                "isCIDR(self) && cidr(self) == cidr(self).masked()",
                message = "must be a network in CIDR notation, such as 192.168.0.0/16"
            ),
            rule(
                "!isCIDR(self) || ['0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/4', \
                 '255.255.255.255/32', '::/127', 'fe80::/10', 'ff00::/8'].all(reserved, \
                 !cidr(reserved).containsCIDR(self) && !cidr(self).containsCIDR(reserved))",
                message = "must not overlap unspecified, loopback, link-local, multicast or \
                           broadcast addresses"
            )
        )]
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
        object_rule(
            "self.metadata.name.size() <= 63",
            message = "metadata.name: at most 63 characters"
        )
    )]
    pub struct NetworkSpec {
        /// The addresses of the network, such as `192.168.0.0/16`.
        #[schemars(length(max = 43))]
        #[schema(
            rule(
                "isCIDR(self) && cidr(self) == cidr(self).masked()",
                message = "must be a network in CIDR notation, such as 192.168.0.0/16"
            ),
            rule(
                "!isCIDR(self) || ['0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/4', \
                 '255.255.255.255/32', '::/127', 'fe80::/10', 'ff00::/8'].all(reserved, \
                 !cidr(reserved).containsCIDR(self) && !cidr(self).containsCIDR(reserved))",
                message = "must not overlap unspecified, loopback, link-local, multicast or \
                           broadcast addresses"
            )
        )]
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

/// The annotation of a `v1` object that holds the status of `v2`. It is written by the conversion only: a
/// webhook gives each object that is written in `v1` the annotation of the object as it is stored.
const STATUS_ANNOTATION: &str = "samplecrd.k8s.io/v2-status";

impl From<v2::Network> for v1::Network {
    fn from(network: v2::Network) -> Self {
        let v2::Network { mut metadata, spec, status } = network;
        let status = status.and_then(|status| serde_json::to_string(&status).ok());
        set_status_annotation(&mut metadata, status);
        Self { metadata, spec: v1::NetworkSpec { cidr: spec.cidr, gateway: spec.gateway } }
    }
}

impl From<v1::Network> for v2::Network {
    fn from(network: v1::Network) -> Self {
        let v1::Network { mut metadata, spec } = network;
        let status = status_annotation(&metadata).cloned();
        set_status_annotation(&mut metadata, None);
        // A status that the schema would refuse is written anew by the operator.
        let status = status.and_then(|status| serde_json::from_str(&status).ok());
        let status = status.filter(is_valid);
        let spec = v2::NetworkSpec { cidr: spec.cidr, gateway: spec.gateway };
        Self { metadata, spec, status }
    }
}

fn status_annotation(metadata: &ObjectMeta) -> Option<&String> {
    metadata.annotations.as_ref()?.get(STATUS_ANNOTATION)
}

fn set_status_annotation(metadata: &mut ObjectMeta, status: Option<String>) {
    let name = STATUS_ANNOTATION.to_owned();
    match (status, &mut metadata.annotations) {
        (Some(status), annotations) => {
            annotations.get_or_insert_default().insert(name, status);
        }
        (None, Some(annotations)) => {
            annotations.remove(&name);
        }
        (None, None) => {}
    }
    metadata.annotations = metadata.annotations.take().filter(|all| !all.is_empty());
}

/// Whether the conditions are such as the schema of `v2` accepts.
fn is_valid(status: &v2::NetworkStatus) -> bool {
    let mut types = BTreeSet::new();
    status.conditions.iter().all(|condition| {
        !condition.type_.is_empty()
            && !condition.reason.is_empty()
            && matches!(condition.status.as_str(), "True" | "False" | "Unknown")
            && types.insert(&condition.type_)
    })
}

/// Gives a Network that is written in `v1` the status that is stored. A user who may write Networks need
/// not be allowed to write their status.
pub(crate) fn keep_status(request: AdmissionRequest<v1::Network>) -> Changed<v1::Network> {
    let Some(mut network) = request.object else { return Changed::nothing() };
    let stored = request.old_object.as_ref();
    let stored = stored.and_then(|stored| status_annotation(&stored.metadata));
    if status_annotation(&network.metadata) == stored {
        return Changed::nothing();
    }
    set_status_annotation(&mut network.metadata, stored.cloned());
    Changed::to(network)
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
    fn a_status_that_the_schema_would_refuse_is_dropped() {
        let ready = json!({"type": "Ready", "status": "True", "reason": "InSync", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let mut maybe = ready.clone();
        maybe["status"] = json!("Maybe");
        let mut nameless = ready.clone();
        nameless["type"] = json!("");
        let conditions = |all: &[&serde_json::Value]| json!({"conditions": all}).to_string();
        for status in
            ["{", &conditions(&[&ready, &ready]), &conditions(&[&maybe]), &conditions(&[&nameless])]
        {
            let old = json!({
                "apiVersion": "samplecrd.k8s.io/v1", "kind": "Network",
                "metadata": {"name": "a", "annotations": {STATUS_ANNOTATION: status}},
                "spec": {"cidr": "10.0.0.0/8", "gateway": "10.0.0.1"},
            });
            let new = Network::convert(old, "samplecrd.k8s.io/v2").unwrap();
            assert_eq!((&new["metadata"], new.get("status")), (&json!({"name": "a"}), None));
        }
    }

    #[test]
    fn the_annotation_of_a_v2_object_is_not_its_status() {
        let network = json!({
            "apiVersion": "samplecrd.k8s.io/v2", "kind": "Network",
            "metadata": {"name": "a", "annotations": {STATUS_ANNOTATION: "{}", "b": "c"}},
            "spec": {"cidr": "10.0.0.0/8", "gateway": "10.0.0.1"},
        });
        let old = Network::convert(network, "samplecrd.k8s.io/v1").unwrap();
        assert_eq!(old["metadata"]["annotations"], json!({"b": "c"}));
    }
}
