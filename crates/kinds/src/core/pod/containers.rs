//! The containers of a pod: ordinary, init and ephemeral ones.

use std::collections::{BTreeSet, HashSet};

use super::mounts::{Volumes, validate_devices, validate_mounts};
use super::{env, handlers, is_sidecar, security};
use crate::validation::quantities;
use crate::validation::rules::{add_invalid, dns_label, one_of, port, required, supported_only};
use machinery::fields::{integer, list, number, part, text};
use machinery::{ErrorList, Path, Value, names};

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];

/// The properties of the pod that the validation of its containers needs.
pub(super) struct PodContext<'a> {
    /// The spec itself.
    pub spec: &'a Value,
    /// The valid volumes.
    pub volumes: &'a Volumes<'a>,
    /// The names of the pod's resource claims.
    pub claims: &'a BTreeSet<&'a str>,
    /// `terminationGracePeriodSeconds`.
    pub grace_period: Option<i64>,
    /// The operating system, if the pod names one.
    pub os: Option<&'a str>,
    /// Whether the pod runs in the user namespace of the node.
    pub host_users: bool,
}

/// Validates `containers`.
pub(super) fn validate_containers(errors: &mut ErrorList, path: &Path<'_>, pod: &PodContext<'_>) {
    let containers = list(pod.spec, "containers");
    if containers.is_empty() {
        return errors.required(path, "");
    }
    let mut seen = HashSet::new();
    for (index, container) in containers.iter().enumerate() {
        let path = path.index(index);
        validate_common(errors, &path, container, pod);
        unique_name(errors, &path, container, &mut seen);
        handlers::validate_lifecycle(errors, &path, container, pod.grace_period, pod.os);
        handlers::validate_probes(errors, &path, container, pod.grace_period);
        validate_restart_policy(errors, &path, container);
    }
    unique_host_ports(errors, path, containers);
}

/// Validates `initContainers`.
pub(super) fn validate_init_containers(
    errors: &mut ErrorList,
    path: &Path<'_>,
    pod: &PodContext<'_>,
) {
    let mut seen: HashSet<&str> =
        list(pod.spec, "containers").iter().map(|container| text(container, "name")).collect();
    for (index, container) in list(pod.spec, "initContainers").iter().enumerate() {
        let item = path.index(index);
        validate_common(errors, &item, container, pod);
        validate_restart_policy(errors, &item, container);
        if !text(container, "name").is_empty() {
            unique_name(errors, &item, container, &mut seen);
        }
        // Init containers run one after the other, so they may use the same host ports.
        unique_host_ports(errors, path, std::slice::from_ref(container));
        if is_sidecar(container) {
            handlers::validate_lifecycle(errors, &item, container, pod.grace_period, pod.os);
            handlers::validate_probes(errors, &item, container, pod.grace_period);
        } else {
            forbid_for_init(errors, &item, container);
        }
    }
}

fn forbid_for_init(errors: &mut ErrorList, path: &Path<'_>, container: &Value) {
    for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        if part(container, field).is_some() {
            let message = "may not be set for init containers without restartPolicy=Always";
            errors.forbidden(&path.child(field), message);
        }
    }
    let policies = path.child("resizePolicy");
    for (index, policy) in list(container, "resizePolicy").iter().enumerate() {
        if text(policy, "restartPolicy") == "RestartContainer" {
            let message = "must not be set to 'RestartContainer' for non-sidecar initContainers";
            let policy_path = policies.index(index);
            errors.invalid(&policy_path.child("restartPolicy"), "RestartContainer", message);
        }
    }
}

/// Validates `ephemeralContainers`.
pub(super) fn validate_ephemeral_containers(
    errors: &mut ErrorList,
    path: &Path<'_>,
    pod: &PodContext<'_>,
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
        validate_common(errors, &path, container, pod);
        forbid_untrimmed_image(errors, &path, container);
        unique_name(errors, &path, container, &mut seen);
        let target = text(container, "targetContainerName");
        if !target.is_empty() && !others.contains(&target) {
            errors.not_found(&path.child("targetContainerName"), target);
        }
        // Ephemeral containers are for inspection, not for serving.
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
                errors.forbidden(&path.child(field), FORBIDDEN);
            }
        }
        if part(container, "resources")
            .is_some_and(|it| *it != Value::Object(machinery::Map::new()))
        {
            errors.forbidden(&path.child("resources"), FORBIDDEN);
        }
        let mounts = path.child("volumeMounts");
        for (index, mount) in list(container, "volumeMounts").iter().enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if !text(mount, field).is_empty() {
                    errors.forbidden(&mounts.index(index).child(field), FORBIDDEN);
                }
            }
        }
    }
}

fn unique_name<'a>(
    errors: &mut ErrorList,
    path: &Path<'_>,
    container: &'a Value,
    seen: &mut HashSet<&'a str>,
) {
    let name = text(container, "name");
    if seen.contains(&name) {
        errors.duplicate(&path.child("name"), name);
    } else {
        seen.insert(name);
    }
}

/// The image of a pod, unlike that of a pod template, must have no surrounding space.
pub(super) fn forbid_untrimmed_image(errors: &mut ErrorList, path: &Path<'_>, container: &Value) {
    let image = text(container, "image");
    if image.trim() != image {
        let message = "must not have leading or trailing whitespace";
        errors.invalid(&path.child("image"), image, message);
    }
}

/// The rules for all three kinds of containers.
fn validate_common(
    errors: &mut ErrorList,
    path: &Path<'_>,
    container: &Value,
    pod: &PodContext<'_>,
) {
    let name = text(container, "name");
    required(errors, &path.child("name"), name);
    if !name.is_empty() {
        dns_label(errors, &path.child("name"), name);
    }
    required(errors, &path.child("image"), text(container, "image"));
    one_of(
        errors,
        &path.child("terminationMessagePolicy"),
        text(container, "terminationMessagePolicy"),
        &["File", "FallbackToLogsOnError"],
    );
    validate_ports(errors, &path.child("ports"), container);
    env::validate_env(errors, &path.child("env"), container);
    env::validate_env_from(errors, &path.child("envFrom"), container);
    validate_mounts(errors, &path.child("volumeMounts"), container, pod.volumes);
    validate_devices(errors, &path.child("volumeDevices"), container, pod.volumes);
    let policy = text(container, "imagePullPolicy");
    one_of(errors, &path.child("imagePullPolicy"), policy, PULL_POLICIES);
    let resources = container.get("resources").unwrap_or(&Value::Null);
    quantities::validate_container(errors, &path.child("resources"), resources, pod.claims);
    validate_resize_policy(errors, &path.child("resizePolicy"), container, pod.spec);
    if let Some(context) = part(container, "securityContext") {
        let path = path.child("securityContext");
        security::validate_container_context(errors, &path, context, pod.host_users);
    }
}

fn validate_ports(errors: &mut ErrorList, path: &Path<'_>, container: &Value) {
    let mut seen = HashSet::new();
    for (index, entry) in list(container, "ports").iter().enumerate() {
        let path = path.index(index);
        let name = text(entry, "name");
        if !name.is_empty() {
            let messages = names::port_name(name);
            if !messages.is_empty() {
                add_invalid(errors, &path.child("name"), name, messages);
            } else if seen.contains(&name) {
                errors.duplicate(&path.child("name"), name);
            } else {
                seen.insert(name);
            }
        }
        match number(entry, "containerPort") {
            0 => errors.required(&path.child("containerPort"), ""),
            number => port(errors, &path.child("containerPort"), number),
        }
        if let Some(number) = integer(entry, "hostPort").filter(|number| *number != 0) {
            port(errors, &path.child("hostPort"), number);
        }
        one_of(errors, &path.child("protocol"), text(entry, "protocol"), PROTOCOLS);
    }
}

fn unique_host_ports(errors: &mut ErrorList, path: &Path<'_>, containers: &[Value]) {
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
                errors.duplicate(&ports.index(index).child("hostPort"), key);
            } else {
                seen.insert(key);
            }
        }
    }
}

fn validate_resize_policy(
    errors: &mut ErrorList,
    path: &Path<'_>,
    container: &Value,
    spec: &Value,
) {
    let mut seen = HashSet::new();
    for (index, policy) in list(container, "resizePolicy").iter().enumerate() {
        let (resource, restart) = (text(policy, "resourceName"), text(policy, "restartPolicy"));
        if seen.contains(&resource) {
            errors.duplicate(&path.index(index), resource);
        }
        seen.insert(resource);
        one_of(errors, path, resource, &["cpu", "memory"]);
        one_of(errors, path, restart, &["NotRequired", "RestartContainer"]);
        if text(spec, "restartPolicy") == "Never" && restart != "NotRequired" {
            let message = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.invalid(path, restart, message);
        }
    }
}

/// Validates `restartPolicy` and `restartPolicyRules` of a container.
fn validate_restart_policy(errors: &mut ErrorList, path: &Path<'_>, container: &Value) {
    let rules = list(container, "restartPolicyRules");
    if part(container, "restartPolicy").is_some() {
        let policy = text(container, "restartPolicy");
        let policies = &["Always", "Never", "OnFailure"];
        supported_only(errors, &path.child("restartPolicy"), policy, policies);
    } else if !rules.is_empty() {
        let message = "must specify restartPolicy when restart rules are used";
        errors.required(&path.child("restartPolicy"), message);
    }
    let rules_path = path.child("restartPolicyRules");
    if rules.len() > 20 {
        errors.too_many(&rules_path, rules.len(), 20);
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = rules_path.index(index);
        let actions = &["Restart", "RestartAllContainers"];
        supported_only(errors, &path.child("action"), text(rule, "action"), actions);
        let codes_path = path.child("exitCodes");
        let Some(codes) = part(rule, "exitCodes") else {
            errors.required(&codes_path, "must be specified");
            continue;
        };
        let operator = text(codes, "operator");
        supported_only(errors, &codes_path.child("operator"), operator, &["In", "NotIn"]);
        let values = list(codes, "values");
        if values.len() > 255 {
            errors.too_many(&codes_path.child("values"), values.len(), 255);
        }
    }
}
