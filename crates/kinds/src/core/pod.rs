//! `Pod`: containers that run together on one node.

mod defaults;
mod prepare;
mod columns;
pub mod admission;
pub mod service_account;
pub mod object_references;
pub mod runtime_class;
pub mod totals;
pub mod qos_class;
mod spec;
mod containers;
mod env;
mod handlers;
mod mounts;
mod volumes;
mod projected;
mod security;
pub mod security_standards;
mod scheduling;
mod network;
mod overlaps;
mod ports;
mod annotations;
mod update;
mod status;
mod ephemeral;
mod resize;
mod binding;
pub mod container_name;
pub mod log_options;
mod warnings;

pub use defaults::spec_defaults;
pub(crate) use scheduling::{validate_node_selector, validate_tolerations};
pub use spec::validate_template;
pub(crate) use volumes::{validate_access_modes, validate_claim_spec, validate_volume_source};
pub(crate) use warnings::template_warnings;

use crate::table::{self, selectable};
use machinery::fields::{list, maps_mut};
use machinery::{Map, Path, Value};
use types::resource::{Action, Columns, READ_AND_WRITE, Resource, Strategy, Subresource, Version};

/// The lists of containers in a spec.
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// The resource of the kind `Pod`.
pub fn resource() -> Resource {
    let version = Version {
        status: true,
        selectable: [
            selectable("spec.nodeName", ""),
            // The former name of `spec.nodeName`.
            table::selectable_as("spec.host", "spec.nodeName", ""),
            selectable("spec.restartPolicy", ""),
            selectable("spec.schedulerName", ""),
            selectable("spec.serviceAccountName", ""),
            selectable("spec.hostNetwork", "false"),
            selectable("status.phase", ""),
            selectable("status.podIP", ""),
            selectable("status.podIPs", ""),
            selectable("status.nominatedNodeName", ""),
        ]
        .into(),
        ..table::v1("core/v1.Pod", Columns::Fixed(columns::COLUMNS, columns::cells))
    };
    Resource {
        short_names: vec!["po".to_owned()],
        categories: vec!["all".to_owned()],
        ..table::resource("", "Pod", "pods", &STRATEGY, version)
    }
}

static STRATEGY: Strategy = Strategy {
    defaults: defaults::defaults,
    prepare_create: prepare::prepare_create,
    prepare_update: prepare::prepare_update,
    prepare_status: prepare::prepare_status,
    validate: spec::validate_create,
    validate_update: update::validate_update,
    validate_status: status::validate_status,
    generation: true,
    grace_period: Some(prepare::grace_period),
    returns_deleted: true,
    warnings: warnings::warnings,
    subresources: SUBRESOURCES,
    ..Strategy::DEFAULT
};

/// Subresources that open a stream.
const STREAM: Action = Action::Connect(&["create", "get"]);
/// Subresources that forward requests to the pod.
const PROXY: Action = Action::Connect(&["create", "delete", "get", "patch", "update"]);

/// A subresource in the group and version of pods, of the kind `Pod` unless it is overridden.
const fn pod_subresource(name: &'static str, action: Action) -> Subresource {
    Subresource { name, group: "", version: "", kind: "Pod", action }
}

const SUBRESOURCES: &[Subresource] = &[
    Subresource { kind: "PodAttachOptions", ..pod_subresource("attach", STREAM) },
    Subresource { kind: "PodExecOptions", ..pod_subresource("exec", STREAM) },
    Subresource { kind: "PodPortForwardOptions", ..pod_subresource("portforward", STREAM) },
    Subresource { kind: "PodProxyOptions", ..pod_subresource("proxy", PROXY) },
    pod_subresource("log", Action::Connect(&["get"])),
    Subresource {
        name: "binding",
        group: "",
        version: "",
        kind: "Binding",
        action: Action::Post(binding::post),
    },
    Subresource {
        name: "ephemeralcontainers",
        group: "",
        version: "",
        kind: "Pod",
        action: Action::Replace {
            prepare: ephemeral::prepare,
            validate: ephemeral::validate,
            verbs: READ_AND_WRITE,
        },
    },
    Subresource {
        name: "eviction",
        group: "policy",
        version: "v1",
        kind: "Eviction",
        action: Action::Evict,
    },
    Subresource {
        name: "resize",
        group: "",
        version: "",
        kind: "Pod",
        action: Action::Replace {
            prepare: resize::prepare,
            validate: resize::validate,
            verbs: READ_AND_WRITE,
        },
    },
];

/// The containers in `list`, one of [`CONTAINERS`].
fn containers_mut<'a>(
    spec: &'a mut Map<String, Value>,
    list: &str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    maps_mut(spec, list)
}

/// Calls `visit` with every container of a spec and its path.
fn each_container(spec: &Value, path: &Path<'_>, mut visit: impl FnMut(&Value, &Path<'_>)) {
    for part in CONTAINERS {
        let path = path.child(part);
        for (index, container) in list(spec, part).iter().enumerate() {
            visit(container, &path.index(index));
        }
    }
}

/// Whether an init container is a sidecar, which keeps running beside the other containers.
fn is_sidecar(container: &Value) -> bool {
    machinery::fields::text(container, "restartPolicy") == "Always"
}
