//! The containers of a pod: those that run, those that run before, and those that look on.

use super::mounts::{Volumes, validate_devices, validate_mounts};
use super::{env, handlers, is_sidecar, security};
use crate::fields::{integer, list, number, part, text};
use crate::quantities;
use crate::rules::{complaints, dns_label, one_of, port, required, supported_only};
use machinery::{Faults, Path, Value, names};
use std::collections::{BTreeSet, HashSet};

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];

/// What containers need to know of the pod that they are in.
pub(super) struct Surroundings<'a> {
    /// The spec itself.
    pub spec: &'a Value,
    /// The volumes that are in order.
    pub volumes: &'a Volumes<'a>,
    /// The names of the pod's resource claims.
    pub claims: &'a BTreeSet<&'a str>,
    /// How long the pod may take to stop.
    pub grace: Option<i64>,
    /// The operating system, if the pod says which.
    pub os: Option<&'a str>,
    /// Whether users inside are those of the node.
    pub host_users: bool,
}

/// Judges `containers`.
pub(super) fn validate_containers(faults: &mut Faults, path: &Path<'_>, pod: &Surroundings<'_>) {
    let containers = list(pod.spec, "containers");
    if containers.is_empty() {
        return faults.required(path, "");
    }
    let mut seen = HashSet::new();
    for (index, container) in containers.iter().enumerate() {
        let path = path.index(index);
        validate_common(faults, &path, container, pod);
        unique_name(faults, &path, container, &mut seen);
        handlers::validate_lifecycle(faults, &path, container, pod.grace, pod.os);
        handlers::validate_probes(faults, &path, container, pod.grace);
        validate_restart_policy(faults, &path, container);
    }
    unique_host_ports(faults, path, containers);
}

/// Judges `initContainers`.
pub(super) fn validate_init_containers(
    faults: &mut Faults,
    path: &Path<'_>,
    pod: &Surroundings<'_>,
) {
    let mut seen: HashSet<&str> =
        list(pod.spec, "containers").iter().map(|container| text(container, "name")).collect();
    for (index, container) in list(pod.spec, "initContainers").iter().enumerate() {
        let item = path.index(index);
        validate_common(faults, &item, container, pod);
        validate_restart_policy(faults, &item, container);
        if !text(container, "name").is_empty() {
            unique_name(faults, &item, container, &mut seen);
        }
        // They run one after the other, so each has the node's ports for itself.
        unique_host_ports(faults, path, std::slice::from_ref(container));
        if is_sidecar(container) {
            handlers::validate_lifecycle(faults, &item, container, pod.grace, pod.os);
            handlers::validate_probes(faults, &item, container, pod.grace);
        } else {
            forbid_for_init(faults, &item, container);
        }
    }
}

fn forbid_for_init(faults: &mut Faults, path: &Path<'_>, container: &Value) {
    for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        if part(container, field).is_some() {
            let message = "may not be set for init containers without restartPolicy=Always";
            faults.forbidden(&path.child(field), message);
        }
    }
    let policies = path.child("resizePolicy");
    for (index, policy) in list(container, "resizePolicy").iter().enumerate() {
        if text(policy, "restartPolicy") == "RestartContainer" {
            let message = "must not be set to 'RestartContainer' for non-sidecar initContainers";
            let policy_path = policies.index(index);
            faults.invalid(&policy_path.child("restartPolicy"), "RestartContainer", message);
        }
    }
}

/// Judges `ephemeralContainers`.
pub(super) fn validate_ephemeral_containers(
    faults: &mut Faults,
    path: &Path<'_>,
    pod: &Surroundings<'_>,
) {
    const FORBIDDEN: &str = "cannot be set for an Ephemeral Container";
    let others: HashSet<&str> = ["containers", "initContainers"]
        .iter()
        .flat_map(|part| list(pod.spec, part))
        .map(|container| text(container, "name"))
        .collect();
    let mut seen = others.clone();
    for (index, container) in list(pod.spec, "ephemeralContainers").iter().enumerate() {
        let path = path.index(index);
        validate_common(faults, &path, container, pod);
        untrimmed_image(faults, &path, container);
        unique_name(faults, &path, container, &mut seen);
        let target = text(container, "targetContainerName");
        if !target.is_empty() && !others.contains(&target) {
            faults.not_found(&path.child("targetContainerName"), target);
        }
        // They are there to look, not to serve.
        for field in [
            "ports",
            "resizePolicy",
            "restartPolicy",
            "restartPolicyRules",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
            "lifecycle",
        ] {
            let is_set = part(container, field)
                .is_some_and(|value| value.as_array().is_none_or(|items| !items.is_empty()));
            if is_set {
                faults.forbidden(&path.child(field), FORBIDDEN);
            }
        }
        if part(container, "resources")
            .is_some_and(|it| *it != Value::Object(machinery::Map::new()))
        {
            faults.forbidden(&path.child("resources"), FORBIDDEN);
        }
        let mounts = path.child("volumeMounts");
        for (index, mount) in list(container, "volumeMounts").iter().enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if !text(mount, field).is_empty() {
                    faults.forbidden(&mounts.index(index).child(field), FORBIDDEN);
                }
            }
        }
    }
}

fn unique_name<'a>(
    faults: &mut Faults,
    path: &Path<'_>,
    container: &'a Value,
    seen: &mut HashSet<&'a str>,
) {
    let name = text(container, "name");
    if seen.contains(&name) {
        faults.duplicate(&path.child("name"), name);
    } else {
        seen.insert(name);
    }
}

/// An image in a pod, other than in a template, is exactly what the node asks the registry for.
pub(super) fn untrimmed_image(faults: &mut Faults, path: &Path<'_>, container: &Value) {
    let image = text(container, "image");
    if image.trim() != image {
        let message = "must not have leading or trailing whitespace";
        faults.invalid(&path.child("image"), image, message);
    }
}

/// The rules for containers of every sort.
fn validate_common(
    faults: &mut Faults,
    path: &Path<'_>,
    container: &Value,
    pod: &Surroundings<'_>,
) {
    let name = text(container, "name");
    required(faults, &path.child("name"), name);
    if !name.is_empty() {
        dns_label(faults, &path.child("name"), name);
    }
    required(faults, &path.child("image"), text(container, "image"));
    one_of(
        faults,
        &path.child("terminationMessagePolicy"),
        text(container, "terminationMessagePolicy"),
        &["File", "FallbackToLogsOnError"],
    );
    validate_ports(faults, &path.child("ports"), container);
    env::validate_env(faults, &path.child("env"), container);
    env::validate_env_from(faults, &path.child("envFrom"), container);
    validate_mounts(faults, &path.child("volumeMounts"), container, pod.volumes);
    validate_devices(faults, &path.child("volumeDevices"), container, pod.volumes);
    let policy = text(container, "imagePullPolicy");
    one_of(faults, &path.child("imagePullPolicy"), policy, PULL_POLICIES);
    let resources = container.get("resources").unwrap_or(&Value::Null);
    quantities::validate_container(faults, &path.child("resources"), resources, pod.claims);
    validate_resize_policy(faults, &path.child("resizePolicy"), container, pod.spec);
    if let Some(context) = part(container, "securityContext") {
        let path = path.child("securityContext");
        security::validate_container_context(faults, &path, context, pod.host_users);
    }
}

fn validate_ports(faults: &mut Faults, path: &Path<'_>, container: &Value) {
    let mut seen = HashSet::new();
    for (index, entry) in list(container, "ports").iter().enumerate() {
        let path = path.index(index);
        let name = text(entry, "name");
        if !name.is_empty() {
            let messages = names::port_name(name);
            if !messages.is_empty() {
                complaints(faults, &path.child("name"), name, messages);
            } else if seen.contains(&name) {
                faults.duplicate(&path.child("name"), name);
            } else {
                seen.insert(name);
            }
        }
        match number(entry, "containerPort") {
            0 => faults.required(&path.child("containerPort"), ""),
            number => port(faults, &path.child("containerPort"), number),
        }
        if let Some(number) = integer(entry, "hostPort").filter(|number| *number != 0) {
            port(faults, &path.child("hostPort"), number);
        }
        one_of(faults, &path.child("protocol"), text(entry, "protocol"), PROTOCOLS);
    }
}

fn unique_host_ports(faults: &mut Faults, path: &Path<'_>, containers: &[Value]) {
    let mut seen = HashSet::new();
    for (index, container) in containers.iter().enumerate() {
        let path = path.index(index);
        let ports = path.child("ports");
        for (index, entry) in list(container, "ports").iter().enumerate() {
            let number = number(entry, "hostPort");
            if number == 0 {
                continue;
            }
            let key = format!("{}/{}/{number}", text(entry, "protocol"), text(entry, "hostIP"));
            if seen.contains(&key) {
                faults.duplicate(&ports.index(index).child("hostPort"), key);
            } else {
                seen.insert(key);
            }
        }
    }
}

fn validate_resize_policy(faults: &mut Faults, path: &Path<'_>, container: &Value, spec: &Value) {
    let mut seen = HashSet::new();
    for (index, policy) in list(container, "resizePolicy").iter().enumerate() {
        let (resource, restart) = (text(policy, "resourceName"), text(policy, "restartPolicy"));
        if seen.contains(&resource) {
            faults.duplicate(&path.index(index), resource);
        }
        seen.insert(resource);
        one_of(faults, path, resource, &["cpu", "memory"]);
        one_of(faults, path, restart, &["NotRequired", "RestartContainer"]);
        if text(spec, "restartPolicy") == "Never" && restart != "NotRequired" {
            let message = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            faults.invalid(path, restart, message);
        }
    }
}

/// Judges what a container says about its own restarts.
fn validate_restart_policy(faults: &mut Faults, path: &Path<'_>, container: &Value) {
    let rules = list(container, "restartPolicyRules");
    if part(container, "restartPolicy").is_some() {
        let policy = text(container, "restartPolicy");
        let policies = &["Always", "Never", "OnFailure"];
        supported_only(faults, &path.child("restartPolicy"), policy, policies);
    } else if !rules.is_empty() {
        let message = "must specify restartPolicy when restart rules are used";
        faults.required(&path.child("restartPolicy"), message);
    }
    let rules_path = path.child("restartPolicyRules");
    if rules.len() > 20 {
        faults.too_many(&rules_path, rules.len(), 20);
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = rules_path.index(index);
        let actions = &["Restart", "RestartAllContainers"];
        supported_only(faults, &path.child("action"), text(rule, "action"), actions);
        let codes_path = path.child("exitCodes");
        let Some(codes) = part(rule, "exitCodes") else {
            faults.required(&codes_path, "must be specified");
            continue;
        };
        let operator = text(codes, "operator");
        supported_only(faults, &codes_path.child("operator"), operator, &["In", "NotIn"]);
        let values = list(codes, "values");
        if values.len() > 255 {
            faults.too_many(&codes_path.child("values"), values.len(), 255);
        }
    }
}
