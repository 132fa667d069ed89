//! The Pod Security Standards: the checks of the levels baseline and restricted.
//!
//! A check that changed with a version of Kubernetes is in the table several times; the last one
//! whose minimum version is not newer than that of the policy applies. A check of the level
//! restricted may override one of the level baseline.
//!
//! ```text
//! violates PodSecurity "restricted:latest": host namespaces (hostNetwork=true), runAsNonRoot != …
//!                       level      version  reason           detail
//! ```

mod baseline;
mod policy;
mod restricted;
#[cfg(test)]
mod tests;

pub use policy::{Level, LevelVersion, Policy, Version};

use std::collections::{BTreeSet, HashMap};

use super::CONTAINERS;
use machinery::field_path::quote;
use machinery::fields::{at, list, text, top};
use machinery::{Object, Value};

/// A violation of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The reason, in two or three words.
    pub reason: &'static str,
    /// The containers or volumes that violate the check, and their settings.
    pub detail: String,
}

impl Violation {
    fn new(reason: &'static str, detail: String) -> Self {
        Self { reason, detail }
    }
}

/// All violations of one level by a pod.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Violations(Vec<Violation>);

impl Violations {
    /// Whether the pod meets the level.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The reasons without details; pods with the same reasons are reported together.
    pub fn reasons(&self) -> String {
        self.0.iter().map(|it| it.reason).collect::<Vec<_>>().join(", ")
    }

    /// The reasons with their details.
    pub fn details(&self) -> String {
        let all: Vec<String> =
            self.0.iter().map(|it| format!("{} ({})", it.reason, it.detail)).collect();
        all.join(", ")
    }
}

/// Checks a pod or a pod template against a level.
pub fn evaluate(wanted: LevelVersion, metadata: &Value, spec: &Value) -> Violations {
    if wanted.level == Level::Privileged {
        return Violations::default();
    }
    let pod = Pod { metadata, spec };
    let current = |checks: &'static [VersionedCheck]| {
        checks.iter().enumerate().filter(move |(index, check)| {
            let next = checks.get(index + 1).filter(|next| next.id == check.id);
            wanted.version.includes(check.minimum_version)
                && next.is_none_or(|next| !wanted.version.includes(next.minimum_version))
        })
    };
    let restricted: Vec<&VersionedCheck> = match wanted.level {
        Level::Restricted => current(RESTRICTED).map(|(_, check)| check).collect(),
        Level::Privileged | Level::Baseline => Vec::new(),
    };
    let is_overridden =
        |check: &VersionedCheck| restricted.iter().any(|it| it.overrides == check.id);
    let baseline = current(BASELINE).map(|(_, check)| check).filter(|check| !is_overridden(check));
    let checks: Vec<&VersionedCheck> = baseline.chain(restricted.iter().copied()).collect();
    Violations(checks.iter().filter_map(|check| (check.check_pod)(&pod)).collect())
}

/// One check, as it has been since a version of Kubernetes.
struct VersionedCheck {
    id: &'static str,
    /// The minor version of Kubernetes since which the check applies.
    minimum_version: u16,
    /// The check of the level baseline that it overrides, or "".
    overrides: &'static str,
    check_pod: CheckPod,
}

type CheckPod = fn(&Pod<'_>) -> Option<Violation>;

const fn check(id: &'static str, minimum_version: u16, check_pod: CheckPod) -> VersionedCheck {
    VersionedCheck { id, minimum_version, overrides: "", check_pod }
}

/// The checks of the level baseline, sorted by name: their order is that of the violations.
const BASELINE: &[VersionedCheck] = &[
    check("appArmorProfile", 0, baseline::app_armor_profile),
    check("capabilities_baseline", 0, baseline::capabilities),
    check("hostNamespaces", 0, baseline::host_namespaces),
    check("hostPathVolumes", 0, baseline::host_path_volumes),
    check("hostPorts", 0, baseline::host_ports),
    check("hostProbesAndHostLifecycle", 34, baseline::probe_hosts),
    check("privileged", 0, baseline::privileged),
    check("procMount", 0, baseline::proc_mount),
    check("procMount", 35, |pod| unless_in_user_namespace(pod, baseline::proc_mount)),
    check("seLinuxOptions", 0, baseline::se_linux_options_until_1_30),
    check("seLinuxOptions", 31, baseline::se_linux_options),
    check("seccompProfile_baseline", 0, baseline::seccomp_annotations),
    check("seccompProfile_baseline", 19, baseline::seccomp_profile),
    check("sysctls", 0, |pod| baseline::sysctls(pod, 5)),
    check("sysctls", 27, |pod| baseline::sysctls(pod, 6)),
    check("sysctls", 29, |pod| baseline::sysctls(pod, 10)),
    check("sysctls", 32, |pod| baseline::sysctls(pod, 12)),
    check("windowsHostProcess", 0, baseline::windows_host_process),
];

/// The checks that the level restricted adds.
const RESTRICTED: &[VersionedCheck] = &[
    check("allowPrivilegeEscalation", 8, restricted::privilege_escalation),
    check("allowPrivilegeEscalation", 25, |pod| {
        unless_windows(pod, restricted::privilege_escalation)
    }),
    VersionedCheck {
        overrides: "capabilities_baseline",
        ..check("capabilities_restricted", 22, restricted::capabilities)
    },
    VersionedCheck {
        overrides: "capabilities_baseline",
        ..check("capabilities_restricted", 25, |pod| unless_windows(pod, restricted::capabilities))
    },
    VersionedCheck {
        overrides: "procMount",
        ..check("procMount_restricted", 35, baseline::proc_mount)
    },
    VersionedCheck {
        overrides: "hostPathVolumes",
        ..check("restrictedVolumes", 0, restricted::volumes)
    },
    check("runAsNonRoot", 0, restricted::run_as_non_root),
    check("runAsNonRoot", 35, |pod| unless_in_user_namespace(pod, restricted::run_as_non_root)),
    check("runAsUser", 23, restricted::run_as_user),
    check("runAsUser", 35, |pod| unless_in_user_namespace(pod, restricted::run_as_user)),
    VersionedCheck {
        overrides: "seccompProfile_baseline",
        ..check("seccompProfile_restricted", 19, restricted::seccomp_profile)
    },
    VersionedCheck {
        overrides: "seccompProfile_baseline",
        ..check("seccompProfile_restricted", 25, |pod| {
            unless_windows(pod, restricted::seccomp_profile)
        })
    },
];

/// Skips a check for a pod in a user namespace, where root has no rights outside of it.
fn unless_in_user_namespace(pod: &Pod<'_>, check_pod: CheckPod) -> Option<Violation> {
    if at(pod.spec, &["hostUsers"]) == &Value::Bool(false) { None } else { check_pod(pod) }
}

/// Skips a check of Linux settings for Windows pods.
fn unless_windows(pod: &Pod<'_>, check_pod: CheckPod) -> Option<Violation> {
    if at(pod.spec, &["os", "name"]) == "windows" { None } else { check_pod(pod) }
}

/// A pod or a pod template.
struct Pod<'a> {
    metadata: &'a Value,
    spec: &'a Value,
}

impl<'a> Pod<'a> {
    fn containers(&self) -> impl Iterator<Item = &'a Value> {
        let spec = self.spec;
        CONTAINERS.iter().flat_map(move |part| list(spec, part))
    }

    /// A part of the security context of the pod.
    fn context(&self, path: &[&str]) -> &'a Value {
        at(at(self.spec, &["securityContext"]), path)
    }

    /// The names of the containers for which `is_bad` returns true.
    fn containers_where(&self, is_bad: impl FnMut(&&'a Value) -> bool) -> Vec<&'a str> {
        self.containers().filter(is_bad).map(|it| text(it, "name")).collect()
    }
}

/// A part of the security context of a container.
fn container_context<'a>(container: &'a Value, path: &[&str]) -> &'a Value {
    at(at(container, &["securityContext"]), path)
}

/// `"a", "b"`
fn quoted<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let quoted: Vec<String> = items.into_iter().map(|it| format!("\"{}\"", it.as_ref())).collect();
    quoted.join(", ")
}

fn plural(count: usize, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

/// `container "a"`, `containers "a", "b"`
fn named(containers: &[&str]) -> String {
    format!("{} {}", plural(containers.len(), "container", "containers"), quoted(containers))
}

/// `pod and container "a"`: the pod if it is bad, and the bad containers; None if there are none.
fn offenders(is_bad_pod: bool, containers: &[&str]) -> Option<String> {
    match (is_bad_pod, containers) {
        (false, []) => None,
        (true, []) => Some("pod".to_owned()),
        (false, containers) => Some(named(containers)),
        (true, containers) => Some(format!("pod and {}", named(containers))),
    }
}

/// `key="value"`
fn annotated(key: &str, value: &str) -> String {
    format!("{key}={}", quote(value))
}

/// Collects the texts of bad values, sorted and each once.
#[derive(Default)]
struct BadValues<'a>(BTreeSet<&'a str>);

impl<'a> BadValues<'a> {
    /// Adds `value` unless it is allowed. Returns whether it was added. Callers combine the results
    /// with `|` and not `||`, so that all bad values are added.
    fn add_unless(&mut self, value: &'a str, is_allowed: bool) -> bool {
        if !is_allowed {
            self.0.insert(value);
        }
        !is_allowed
    }
}

/// The metadata and the spec of a pod, or of the pod template of a workload; None for other
/// objects.
pub fn template<'a>(
    group: &str,
    plural: &str,
    object: &'a Object,
) -> Option<(&'a Value, &'a Value)> {
    if (group, plural) == ("", "pods") {
        return Some((top(object, "metadata"), top(object, "spec")));
    }
    let template = match (group, plural) {
        ("", "podtemplates") => top(object, "template"),
        ("", "replicationcontrollers")
        | ("apps", "replicasets" | "deployments" | "statefulsets" | "daemonsets")
        | ("batch", "jobs") => at(top(object, "spec"), &["template"]),
        ("batch", "cronjobs") => at(top(object, "spec"), &["jobTemplate", "spec", "template"]),
        _ => return None,
    };
    template.is_object().then(|| (at(template, &["metadata"]), at(template, &["spec"])))
}

/// Whether an update of a pod must be checked: it has new containers or images. All other fields
/// that the standards check are immutable.
pub fn is_significant(new: &Object, old: &Object) -> bool {
    let (new, old) = (top(new, "spec"), top(old, "spec"));
    let differ = |part| {
        let (new, old) = (list(new, part), list(old, part));
        new.len() != old.len()
            || new.iter().zip(old).any(|(new, old)| text(new, "image") != text(old, "image"))
    };
    let before: HashMap<&str, &str> = list(old, "ephemeralContainers")
        .iter()
        .rev()
        .map(|it| (text(it, "name"), text(it, "image")))
        .collect();
    let is_new =
        |container: &Value| before.get(text(container, "name")) != Some(&text(container, "image"));
    differ("containers")
        || differ("initContainers")
        || list(new, "ephemeralContainers").iter().any(is_new)
}
