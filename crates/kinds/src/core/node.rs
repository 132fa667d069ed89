//! `Node`: a machine that runs pods.

pub mod kubelet;

use std::collections::BTreeSet;

use crate::table;
use crate::validation::rules::{add_invalid, one_of, positive, qualified_name};
use crate::validation::{address, go_struct, quantities};
use machinery::field_path::ErrorType;
use machinery::fields::{
    at, default_value, entries, flag, keep, list, list_mut, map_mut, part, text, texts, top,
};
use machinery::{ErrorList, Object, Path, Value, json, names};
use types::columns::{AGE, NAME, age, column, condition, wide};
use types::resource::{Action, Column, Columns, Now, Resource, Strategy, Subresource, Version};

/// The supported effects of taints.
pub(crate) const TAINT_EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// The resource of the kind `Node`.
pub fn resource() -> Resource {
    let version = Version {
        status: true,
        selectable: [table::selectable("spec.unschedulable", "false")].into(),
        ..table::v1("core/v1.Node", Columns::Fixed(COLUMNS, cells))
    };
    Resource {
        short_names: vec!["no".to_owned()],
        namespaced: false,
        // The former name of nodes.
        prefix: "/registry/minions".to_owned(),
        ..table::resource("", "Node", "nodes", &STRATEGY, version)
    }
}

/// Whether a node runs no containers: it is simulated by this program or by KWOK.
pub fn is_simulated(node: &Object) -> bool {
    let is = |map: &str, key: &str, value: &str| node.str_at(&["metadata", map, key]) == value;
    is("labels", "sampan.dev/simulated", "true")
        || is("labels", "kwok.x-k8s.io/node", "fake")
        || is("annotations", "kwok.x-k8s.io/node", "fake")
}

static STRATEGY: Strategy = Strategy {
    defaults,
    prepare_create,
    prepare_update,
    validate,
    validate_update: |new, old, errors| {
        validate(new, errors);
        validate_change(new, old, errors);
    },
    validate_status: validate_change,
    warnings,
    subresources: &[Subresource {
        name: "proxy",
        group: "",
        version: "",
        kind: "NodeProxyOptions",
        action: Action::Connect(&["create", "delete", "get", "patch", "update"]),
    }],
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    column("Status", "The status of the node"),
    column("Roles", "The roles of the node"),
    AGE,
    column("Version", "Kubelet Version reported by the node."),
    wide(
        "Internal-IP",
        "The first internal IP of the node, which is reachable within the cluster.",
    ),
    wide(
        "External-IP",
        "The first external IP of the node, which is reachable from outside the cluster.",
    ),
    wide(
        "OS-Image",
        "The operating system of the node, as it is named in the file /etc/os-release.",
    ),
    wide(
        "Kernel-Version",
        "The version of the kernel of the node, with its architecture in parentheses.",
    ),
    wide(
        "Container-Runtime",
        "The container runtime of the node and, after two slashes, its version.",
    ),
];

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    let info = |key| object.str_at(&["status", "nodeInfo", key]);
    let or_unknown = |text: &str| if text.is_empty() { "<unknown>" } else { text }.to_owned();
    let mut kernel = or_unknown(info("kernelVersion"));
    if !info("architecture").is_empty() {
        kernel += &format!(" ({})", info("architecture"));
    }
    vec![
        object.name().into(),
        readiness(object).into(),
        roles(object).into(),
        age(object, now),
        info("kubeletVersion").into(),
        address_of(object, "InternalIP").into(),
        address_of(object, "ExternalIP").into(),
        or_unknown(info("osImage")).into(),
        kernel.into(),
        or_unknown(info("containerRuntimeVersion")).into(),
    ]
}

fn readiness(object: &Object) -> String {
    let ready = match condition(top(object, "status"), "Ready") {
        "" => "Unknown",
        "True" => "Ready",
        _ => "NotReady",
    };
    let cordoned =
        if flag(top(object, "spec"), "unschedulable") { ",SchedulingDisabled" } else { "" };
    format!("{ready}{cordoned}")
}

fn roles(object: &Object) -> String {
    let roles: BTreeSet<&str> = entries(top(object, "metadata"), "labels")
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None => value.as_str().filter(|_| key == "kubernetes.io/role"),
        })
        .filter(|role| !role.is_empty())
        .collect();
    if roles.is_empty() {
        return "<none>".to_owned();
    }
    roles.into_iter().collect::<Vec<&str>>().join(",")
}

fn address_of<'a>(object: &'a Object, kind: &str) -> &'a str {
    list(top(object, "status"), "addresses")
        .iter()
        .find(|address| text(address, "type") == kind)
        .map_or("<none>", |address| text(address, "address"))
}

fn defaults(object: &mut Object) {
    if let Some(spec) = map_mut(object.map_mut(), "spec") {
        let first = spec.get("podCIDR").and_then(Value::as_str).unwrap_or_default().to_owned();
        let ranges = list_mut(spec, "podCIDRs");
        // The older field takes precedence, since a client that sets it does not know the other.
        if !first.is_empty() && ranges.first().is_none_or(|range| *range != first.as_str()) {
            *ranges = vec![first.into()];
        }
        match ranges.first().cloned() {
            Some(range) => spec.insert("podCIDR".to_owned(), range),
            None => spec.remove("podCIDRs"),
        };
    }
    let capacity = at(top(object, "status"), &["capacity"]).clone();
    if capacity.is_object() {
        default_value(object.map_at(&["status"]), "allocatable", capacity);
    }
}

/// Adds the taint that keeps pods away from a new node until it is ready (the admission plugin
/// `TaintNodesByCondition`).
pub fn taint_not_ready(object: &mut Object) {
    const NOT_READY: &str = "node.kubernetes.io/not-ready";
    let taints = list_mut(object.map_at(&["spec"]), "taints");
    let is_not_ready =
        |taint: &Value| text(taint, "key") == NOT_READY && text(taint, "effect") == "NoSchedule";
    if !taints.iter().any(is_not_ready) {
        taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
    }
}

fn prepare_create(object: &mut Object) {
    // Dynamic kubelet configuration was removed from Kubernetes, but not from its types.
    if let Some(spec) = map_mut(object.map_mut(), "spec") {
        spec.remove("configSource");
    }
    if let Some(status) = map_mut(object.map_mut(), "status") {
        status.remove("config");
    }
}

fn prepare_update(new: &mut Object, old: &Object) {
    keep(new, old, "status");
    if part(top(old, "spec"), "configSource").is_none()
        && let Some(spec) = map_mut(new.map_mut(), "spec")
    {
        spec.remove("configSource");
    }
}

fn validate(object: &Object, errors: &mut ErrorList) {
    validate_taints(object, errors);
    validate_amounts(object, errors);
    let swap = at(top(object, "status"), &["nodeInfo", "swap", "capacity"]).as_i64();
    let metadata = Path::root("metadata");
    if let Some(capacity) = swap {
        // As upstream, although the field is `status.nodeInfo.swap`.
        let path = metadata.child("nodeSwapStatus");
        positive(errors, &path.child("capacity"), capacity);
    }
    validate_ranges(object, errors);
}

fn validate_ranges(object: &Object, errors: &mut ErrorList) {
    let ranges: Vec<&str> = texts(top(object, "spec"), "podCIDRs").collect();
    let spec = Path::root("spec");
    let path = spec.child("podCIDRs");
    for (index, range) in ranges.iter().enumerate() {
        address::cidr(errors, &path.index(index), range, &address::Stored::new());
    }
    if ranges.len() > 2 || (ranges.len() == 2 && !address::are_dual_stack_ranges(&ranges)) {
        let message = "may specify no more than one CIDR for each IP family";
        errors.invalid(&path, json!(ranges), message);
    }
}

fn validate_taints(object: &Object, errors: &mut ErrorList) {
    // Kubernetes says `metadata` here, although taints are in the spec.
    let metadata = Path::root("metadata");
    let path = metadata.child("taints");
    let mut seen = BTreeSet::new();
    for (index, taint) in list(top(object, "spec"), "taints").iter().enumerate() {
        let path = path.index(index);
        let (key, value, effect) =
            (text(taint, "key"), text(taint, "value"), text(taint, "effect"));
        qualified_name(errors, &path.child("key"), key);
        let messages = names::label_value(value);
        if !messages.is_empty() {
            add_invalid(errors, &path.child("value"), value, vec![messages.join(";")]);
        }
        one_of(errors, &path.child("effect"), effect, TAINT_EFFECTS);
        if !seen.insert((key, effect)) {
            let taint = go_struct::line("Taint", taint);
            let detail = format!("{taint}: taints must be unique by key and effect pair");
            errors.add(ErrorType::Duplicate, &path, None, &detail);
        }
    }
}

fn validate_amounts(object: &Object, errors: &mut ErrorList) {
    let status = Path::root("status");
    for part in ["capacity", "allocatable"] {
        let path = status.child(part);
        for (name, amount) in entries(top(object, "status"), part) {
            quantities::validate_amount(errors, &path.child(name), name, amount);
        }
    }
}

fn validate_change(new: &Object, old: &Object, errors: &mut ErrorList) {
    validate_amounts(new, errors);
    validate_addresses(new, errors);
    let spec = Path::root("spec");
    let ranges = |object| texts(top(object, "spec"), "podCIDRs").collect::<Vec<&str>>().join(",");
    if !ranges(old).is_empty() && ranges(old) != ranges(new) {
        let message = "node updates may not change podCIDR except from \"\" to valid";
        errors.forbidden(&spec.child("podCIDRs"), message);
    }
    let provider = |object| text(top(object, "spec"), "providerID").to_owned();
    if !provider(old).is_empty() && provider(old) != provider(new) {
        let how = if provider(new).is_empty() { "cleared" } else { "modified" };
        let message = format!("field cannot be {how} once set");
        errors.invalid(&spec.child("providerID"), Value::Null, &message);
    }
    validate_taints(new, errors);
    let external = |object| text(top(object, "spec"), "externalID").to_owned();
    if external(new) != external(old) {
        errors.forbidden(&spec.child("externalID"), "may not be updated");
    }
}

fn validate_addresses(object: &Object, errors: &mut ErrorList) {
    let status = Path::root("status");
    let path = status.child("addresses");
    let mut seen = BTreeSet::new();
    for (index, address) in list(top(object, "status"), "addresses").iter().enumerate() {
        if !seen.insert((text(address, "type"), text(address, "address"))) {
            let shown = go_struct::line("NodeAddress", address);
            errors.add(ErrorType::Duplicate, &path.index(index), None, &shown);
        }
    }
}

fn warnings(object: &Object) -> Vec<String> {
    let spec = top(object, "spec");
    let mut warnings = Vec::new();
    if part(spec, "configSource").is_some() {
        warnings.push("spec.configSource: the feature is removed".to_owned());
    }
    if !text(spec, "externalID").is_empty() {
        let warning = "spec.externalID: this field is deprecated, and is unused by Kubernetes";
        warnings.push(warning.to_owned());
    }
    let path = Path::root("spec");
    let path = path.child("podCIDRs");
    for (index, range) in texts(spec, "podCIDRs").enumerate() {
        warnings.extend(address::cidr_warnings(&path.index(index), range));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{defaulted, object, refusals, refusals_of_update};

    #[test]
    fn pod_cidr_and_pod_cidrs_default_to_each_other() {
        assert_eq!(
            defaulted(&STRATEGY, json!({"spec": {"podCIDR": "10.1.0.0/24"}}))["spec"],
            json!({"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]})
        );
        assert_eq!(
            defaulted(&STRATEGY, json!({"spec": {"podCIDRs": ["10.1.0.0/24"]}}))["spec"]["podCIDR"],
            "10.1.0.0/24"
        );
        assert_eq!(defaulted(&STRATEGY, json!({"spec": {}})), json!({"spec": {}}));
    }

    #[test]
    fn allocatable_defaults_to_capacity() {
        let node = defaulted(&STRATEGY, json!({"status": {"capacity": {"cpu": "4"}}}));
        assert_eq!(node["status"]["allocatable"], json!({"cpu": "4"}));
    }

    #[test]
    fn a_new_node_is_tainted_once() {
        let mut node = object(json!({}));
        taint_not_ready(&mut node);
        taint_not_ready(&mut node);
        assert_eq!(
            node.get(&["spec", "taints"]),
            Some(&json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]))
        );
    }

    #[test]
    fn duplicate_taints_and_unknown_effects_are_refused() {
        assert_eq!(
            refusals(
                &STRATEGY,
                json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"},
                {"key": "k", "effect": "NoSchedule"}, {"key": "l", "effect": "Never"}]}})
            ),
            [
                r#"metadata.taints[1]: Duplicate value: {"Key":"k","Value":"","Effect":"NoSchedule","TimeAdded":null}: taints must be unique by key and effect pair"#,
                r#"metadata.taints[2].effect: Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute""#,
            ]
        );
    }

    #[test]
    fn the_pod_cidr_cannot_change_once_it_is_set() {
        assert_eq!(
            refusals_of_update(
                &STRATEGY,
                json!({"spec": {"podCIDR": "10.2.0.0/24"}}),
                json!({"spec": {"podCIDR": "10.1.0.0/24"}})
            ),
            [
                "spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid"
            ]
        );
    }

    #[test]
    fn the_table_shows_the_node_info() {
        let node = object(json!({
            "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/control-plane": ""}},
            "spec": {"unschedulable": true},
            "status": {"conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}],
                "nodeInfo": {"kubeletVersion": "v1", "kernelVersion": "6", "architecture": "arm64"}},
        }));
        let cells = cells(&node, &Now { unix_seconds: 0 });
        let expected = json!([
            "n",
            "Ready,SchedulingDisabled",
            "control-plane",
            "<unknown>",
            "v1",
            "192.0.2.1",
            "<none>",
            "<unknown>",
            "6 (arm64)",
            "<unknown>"
        ]);
        assert_eq!(Value::from(cells), expected);
    }
}
