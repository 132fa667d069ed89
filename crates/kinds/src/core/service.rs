//! `Service`: a stable address in front of changing pods.
//!
//! The server allocates addresses and node ports, since it knows which are free; see [`allocation`]
//! for its interface.

pub mod allocation;
mod columns;
mod defaults;
mod ip_families;
mod prepare;
mod validate;
mod update;
mod warnings;

pub use allocation::{
    cluster_ips, node_ports, set_cluster_ip, set_node_port, shared_node_ports, wants_cluster_ip,
};
pub use prepare::keep_allocated;

use std::collections::HashSet;

use crate::table::{self, selectable};
use machinery::fields::{list, text, texts, top};
use machinery::{Object, Value, names};
use types::resource::{Action, Columns, Resource, Strategy, Subresource, Version};

/// The resource of the kind `Service`.
pub fn resource() -> Resource {
    let version = Version {
        status: true,
        selectable: [selectable("spec.clusterIP", ""), selectable("spec.type", "")].into(),
        ..table::v1("core/v1.Service", Columns::Fixed(columns::COLUMNS, columns::cells))
    };
    Resource {
        short_names: vec!["svc".to_owned()],
        categories: vec!["all".to_owned()],
        prefix: "/registry/services/specs".to_owned(),
        ..table::resource("", "Service", "services", &STRATEGY, version)
    }
}

/// Whether a service has external IPs that it did not have before.
pub fn has_new_external_ips(new: &Object, old: Option<&Object>) -> bool {
    let before: HashSet<&str> =
        old.into_iter().flat_map(|it| texts(top(it, "spec"), "externalIPs")).collect();
    texts(top(new, "spec"), "externalIPs").any(|it| !before.contains(it))
}

static STRATEGY: Strategy = Strategy {
    defaults: defaults::defaults,
    prepare_create: prepare::prepare_create,
    prepare_update: prepare::prepare_update,
    validate: validate::validate_create,
    validate_update: update::validate_update,
    validate_status: update::validate_status,
    validate_name: names::dns1123_label,
    create_on_update: true,
    returns_deleted: true,
    warnings: warnings::warnings,
    subresources: &[Subresource {
        name: "proxy",
        group: "",
        version: "",
        kind: "ServiceProxyOptions",
        action: Action::Connect(&["create", "delete", "get", "patch", "update"]),
    }],
    ..Strategy::DEFAULT
};

fn kind(spec: &Value) -> &str {
    text(spec, "type")
}

/// Whether a service has no cluster IP.
fn is_headless(spec: &Value) -> bool {
    matches!(list(spec, "clusterIPs"), [only] if only == "None")
}

/// Whether a service can be reached from outside of the cluster.
fn is_external(spec: &Value) -> bool {
    match kind(spec) {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !list(spec, "externalIPs").is_empty(),
        _ => false,
    }
}

/// Whether a load balancer must check each node for pods of the service.
fn needs_health_check(spec: &Value) -> bool {
    kind(spec) == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local"
}

fn spec_of(service: &Object) -> &Value {
    top(service, "spec")
}
