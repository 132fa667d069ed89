//! The checks of the level baseline: no known privilege escalations.

use std::collections::BTreeSet;

use super::{
    BadValues, Pod, Violation, annotated, container_context, named, offenders, plural, quoted,
};
use machinery::Value;
use machinery::fields::{annotation, at, entries, flag, list, number, text, texts};

/// The names of the containers that violate a check; None if there are none. `is_bad` also adds
/// their values to `bad`.
fn bad_containers<'a>(
    pod: &Pod<'a>,
    bad: &mut BadValues<'a>,
    mut is_bad: impl FnMut(&'a Value, &mut BadValues<'a>) -> bool,
) -> Option<Vec<&'a str>> {
    let containers = pod.containers_where(|container| is_bad(container, bad));
    (!containers.is_empty()).then_some(containers)
}

const APP_ARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

pub(super) fn app_armor_profile(pod: &Pod<'_>) -> Option<Violation> {
    let mut bad = BadValues::default();
    let is_bad_pod = bad_profile(pod.context(&["appArmorProfile"]), &mut bad);
    let containers = pod
        .containers_where(|it| bad_profile(container_context(it, &["appArmorProfile"]), &mut bad));
    let annotations: BTreeSet<String> = entries(pod.metadata, "annotations")
        .filter_map(|(key, value)| Some((key, value.as_str()?)))
        .filter(|(key, value)| {
            let is_allowed =
                matches!(*value, "" | "runtime/default") || value.starts_with("localhost/");
            key.starts_with(APP_ARMOR_ANNOTATION) && !is_allowed
        })
        .map(|(key, value)| annotated(key, value))
        .collect();
    let mut found: Vec<String> = offenders(is_bad_pod, &containers).into_iter().collect();
    if !annotations.is_empty() {
        found.push(plural(annotations.len(), "annotation", "annotations").to_owned());
    }
    if found.is_empty() {
        return None;
    }
    let values: Vec<&str> =
        bad.0.iter().copied().chain(annotations.iter().map(String::as_str)).collect();
    let reason = plural(values.len(), "forbidden AppArmor profile", "forbidden AppArmor profiles");
    let detail =
        format!("{} must not set AppArmor profile type to {}", found.join(" and "), quoted(values));
    Some(Violation::new(reason, detail))
}

/// The default capabilities of every container runtime.
const CAPABILITIES: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

pub(super) fn capabilities(pod: &Pod<'_>) -> Option<Violation> {
    let mut bad = BadValues::default();
    let containers = bad_containers(pod, &mut bad, |container, bad| {
        let added = texts(container_context(container, &["capabilities"]), "add");
        added.fold(false, |any, it| bad.add_unless(it, CAPABILITIES.contains(&it)) | any)
    })?;
    let detail = format!(
        "{} must not include {} in securityContext.capabilities.add",
        named(&containers),
        quoted(bad.0)
    );
    Some(Violation::new("non-default capabilities", detail))
}

pub(super) fn host_namespaces(pod: &Pod<'_>) -> Option<Violation> {
    let shared: Vec<String> = ["hostNetwork", "hostPID", "hostIPC"]
        .iter()
        .filter(|it| flag(pod.spec, it))
        .map(|it| format!("{it}=true"))
        .collect();
    if shared.is_empty() {
        None
    } else {
        Some(Violation::new("host namespaces", shared.join(", ")))
    }
}

pub(super) fn host_path_volumes(pod: &Pod<'_>) -> Option<Violation> {
    let volumes: Vec<&str> = list(pod.spec, "volumes")
        .iter()
        .filter(|volume| at(volume, &["hostPath"]).is_object())
        .map(|volume| text(volume, "name"))
        .collect();
    if volumes.is_empty() {
        return None;
    }
    let detail = format!("{} {}", plural(volumes.len(), "volume", "volumes"), quoted(volumes));
    Some(Violation::new("hostPath volumes", detail))
}

pub(super) fn host_ports(pod: &Pod<'_>) -> Option<Violation> {
    let mut ports: BTreeSet<String> = BTreeSet::new();
    let containers = pod.containers_where(|container| {
        let used = list(container, "ports").iter().map(|it| number(it, "hostPort"));
        let used: Vec<String> = used.filter(|it| *it != 0).map(|it| it.to_string()).collect();
        let is_bad = !used.is_empty();
        ports.extend(used);
        is_bad
    });
    if containers.is_empty() {
        return None;
    }
    let detail = format!(
        "{} {} {} {}",
        named(&containers),
        plural(containers.len(), "uses", "use"),
        plural(ports.len(), "hostPort", "hostPorts"),
        ports.into_iter().collect::<Vec<_>>().join(", ")
    );
    Some(Violation::new("hostPort", detail))
}

/// The handlers of a container that have a host field.
const HANDLERS: [&[&str]; 5] = [
    &["livenessProbe"],
    &["readinessProbe"],
    &["startupProbe"],
    &["lifecycle", "postStart"],
    &["lifecycle", "preStop"],
];

pub(super) fn probe_hosts(pod: &Pod<'_>) -> Option<Violation> {
    let mut bad = BadValues::default();
    let mut containers = bad_containers(pod, &mut bad, |container, bad| {
        let handlers = HANDLERS.iter().map(|path| at(container, path));
        let hosts = handlers
            .flat_map(|it| ["httpGet", "tcpSocket"].map(|action| text(at(it, &[action]), "host")));
        hosts.fold(false, |any, host| bad.add_unless(host, host.is_empty()) | any)
    })?;
    containers.sort_unstable();
    containers.dedup();
    let detail = format!(
        "{} {} {} {}",
        named(&containers),
        plural(containers.len(), "uses", "use"),
        plural(bad.0.len(), "probe or lifecycle host", "probe or lifecycle hosts"),
        quoted(bad.0)
    );
    Some(Violation::new("probe or lifecycle host", detail))
}

pub(super) fn privileged(pod: &Pod<'_>) -> Option<Violation> {
    let containers =
        pod.containers_where(|it| container_context(it, &["privileged"]) == &Value::Bool(true));
    if containers.is_empty() {
        return None;
    }
    let detail = format!("{} must not set securityContext.privileged=true", named(&containers));
    Some(Violation::new("privileged", detail))
}

pub(super) fn proc_mount(pod: &Pod<'_>) -> Option<Violation> {
    let mut bad = BadValues::default();
    let containers = bad_containers(pod, &mut bad, |container, bad| {
        let mount = container_context(container, &["procMount"]).as_str();
        mount.is_some_and(|it| bad.add_unless(it, it == "Default"))
    })?;
    let detail = format!(
        "{} must not set securityContext.procMount to {}",
        named(&containers),
        quoted(bad.0)
    );
    Some(Violation::new("procMount", detail))
}

/// The allowed types, the last of which is allowed since 1.31.
const SE_LINUX_TYPES: &[&str] =
    &["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];

pub(super) fn se_linux_options_until_1_30(pod: &Pod<'_>) -> Option<Violation> {
    se_linux(pod, &SE_LINUX_TYPES[..4])
}

pub(super) fn se_linux_options(pod: &Pod<'_>) -> Option<Violation> {
    se_linux(pod, SE_LINUX_TYPES)
}

fn se_linux(pod: &Pod<'_>, types: &[&str]) -> Option<Violation> {
    let mut bad = BadValues::default();
    let (mut user, mut role) = (false, false);
    let mut is_bad = |options| {
        let kind = text(options, "type");
        let (has_user, has_role) =
            (!text(options, "user").is_empty(), !text(options, "role").is_empty());
        user |= has_user;
        role |= has_role;
        bad.add_unless(kind, types.contains(&kind)) | has_user | has_role
    };
    let is_bad_pod = is_bad(pod.context(&["seLinuxOptions"]));
    let containers = pod.containers_where(|it| is_bad(container_context(it, &["seLinuxOptions"])));
    let offenders = offenders(is_bad_pod, &containers)?;
    let mut what = Vec::new();
    if !bad.0.is_empty() {
        what.push(format!("{} {}", plural(bad.0.len(), "type", "types"), quoted(bad.0)));
    }
    if user {
        what.push("user may not be set".to_owned());
    }
    if role {
        what.push("role may not be set".to_owned());
    }
    let what = what.join("; ");
    Some(Violation::new(
        "seLinuxOptions",
        format!("{offenders} set forbidden securityContext.seLinuxOptions: {what}"),
    ))
}

/// The check before 1.19, when seccomp profiles were set by annotations.
pub(super) fn seccomp_annotations(pod: &Pod<'_>) -> Option<Violation> {
    let container_key = |container| {
        format!("container.seccomp.security.alpha.kubernetes.io/{}", text(container, "name"))
    };
    let keys = std::iter::once("seccomp.security.alpha.kubernetes.io/pod".to_owned())
        .chain(pod.containers().map(container_key));
    let bad: BTreeSet<String> = keys
        .filter_map(|key| {
            let value = annotation(pod.metadata, &key)?;
            let is_allowed = matches!(value, "runtime/default" | "docker/default")
                || value.starts_with("localhost/");
            (!is_allowed).then(|| annotated(&key, value))
        })
        .collect();
    if bad.is_empty() {
        return None;
    }
    let word = plural(bad.len(), "annotation", "annotations");
    let bad = bad.into_iter().collect::<Vec<_>>().join(", ");
    Some(Violation::new("seccompProfile", format!("forbidden {word} {bad}")))
}

/// Adds the type of a seccomp or `AppArmor` profile to `bad` if it is set and not allowed. Returns
/// whether it was added.
pub(super) fn bad_profile<'a>(profile: &'a Value, bad: &mut BadValues<'a>) -> bool {
    let kind = text(profile, "type");
    profile.is_object() && bad.add_unless(kind, matches!(kind, "RuntimeDefault" | "Localhost"))
}

pub(super) fn seccomp_profile(pod: &Pod<'_>) -> Option<Violation> {
    let mut bad = BadValues::default();
    let is_bad_pod = bad_profile(pod.context(&["seccompProfile"]), &mut bad);
    let containers = pod
        .containers_where(|it| bad_profile(container_context(it, &["seccompProfile"]), &mut bad));
    let offenders = offenders(is_bad_pod, &containers)?;
    let what = quoted(bad.0);
    let detail = format!("{offenders} must not set securityContext.seccompProfile.type to {what}");
    Some(Violation::new("seccompProfile", detail))
}

/// The safe sysctls, in the order in which Kubernetes allowed them.
const SYSCTLS: &[&str] = &[
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
];

/// Allows the first `count` of [`SYSCTLS`].
pub(super) fn sysctls(pod: &Pod<'_>, count: usize) -> Option<Violation> {
    let bad: Vec<&str> = list(pod.context(&[]), "sysctls")
        .iter()
        .map(|it| text(it, "name"))
        .filter(|it| !SYSCTLS[..count].contains(it))
        .collect();
    if bad.is_empty() { None } else { Some(Violation::new("forbidden sysctls", bad.join(", "))) }
}

pub(super) fn windows_host_process(pod: &Pod<'_>) -> Option<Violation> {
    let path = &["windowsOptions", "hostProcess"];
    let containers = pod.containers_where(|it| container_context(it, path) == &Value::Bool(true));
    let offenders = offenders(pod.context(path) == &Value::Bool(true), &containers)?;
    let detail =
        format!("{offenders} must not set securityContext.windowsOptions.hostProcess=true");
    Some(Violation::new("hostProcess", detail))
}
