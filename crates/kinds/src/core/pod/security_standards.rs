//! The Pod Security Standards: the checks of the levels baseline and restricted, as a table.
//!
//! A check may change with a version of Kubernetes; then it has several rows, and the newest row
//! that is not newer than the policy's version applies. A row of the level restricted may replace
//! one of the level baseline.
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

/// Why a pod does not meet a level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// In two or three words.
    pub reason: &'static str,
    /// The offenders and their settings.
    pub detail: String,
}

impl Violation {
    fn new(reason: &'static str, detail: String) -> Self {
        Self { reason, detail }
    }
}

/// All that is wrong with a pod at one level.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Violations(Vec<Violation>);

impl Violations {
    /// Whether the pod meets the level.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The reasons alone: what many pods may have in common.
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

/// Holds a pod, or the template of one, against a level.
pub fn evaluate(wanted: LevelVersion, metadata: &Value, spec: &Value) -> Violations {
    if wanted.level == Level::Privileged {
        return Violations::default();
    }
    let pod = Pod { metadata, spec };
    let current = |rows: &'static [Row]| {
        rows.iter().enumerate().filter(move |(index, row)| {
            let next = rows.get(index + 1).filter(|next| next.id == row.id);
            wanted.version.reaches(row.since)
                && next.is_none_or(|next| !wanted.version.reaches(next.since))
        })
    };
    let restricted: Vec<&Row> = match wanted.level {
        Level::Restricted => current(RESTRICTED).map(|(_, row)| row).collect(),
        Level::Privileged | Level::Baseline => Vec::new(),
    };
    let replaced = |row: &Row| restricted.iter().any(|it| it.replaces == row.id);
    let baseline = current(BASELINE).map(|(_, row)| row).filter(|row| !replaced(row));
    let rows: Vec<&Row> = baseline.chain(restricted.iter().copied()).collect();
    Violations(rows.iter().filter_map(|row| (row.check)(&pod)).collect())
}

/// One check, as it has been since a version of Kubernetes.
struct Row {
    id: &'static str,
    /// Since 1.…
    since: u16,
    /// The check of the lower level that it replaces, or "".
    replaces: &'static str,
    check: fn(&Pod<'_>) -> Option<Violation>,
}

const fn row(id: &'static str, since: u16, check: fn(&Pod<'_>) -> Option<Violation>) -> Row {
    Row { id, since, replaces: "", check }
}

/// The level baseline, by the names of the checks, which is the order of the errors.
const BASELINE: &[Row] = &[
    row("appArmorProfile", 0, baseline::app_armor_profile),
    row("capabilities_baseline", 0, baseline::capabilities),
    row("hostNamespaces", 0, baseline::host_namespaces),
    row("hostPathVolumes", 0, baseline::host_path_volumes),
    row("hostPorts", 0, baseline::host_ports),
    row("hostProbesAndHostLifecycle", 34, baseline::probe_hosts),
    row("privileged", 0, baseline::privileged),
    row("procMount", 0, baseline::proc_mount),
    row("procMount", 35, |pod| unless_in_user_namespace(pod, baseline::proc_mount)),
    row("seLinuxOptions", 0, baseline::se_linux_options_until_1_30),
    row("seLinuxOptions", 31, baseline::se_linux_options),
    row("seccompProfile_baseline", 0, baseline::seccomp_annotations),
    row("seccompProfile_baseline", 19, baseline::seccomp_profile),
    row("sysctls", 0, |pod| baseline::sysctls(pod, 5)),
    row("sysctls", 27, |pod| baseline::sysctls(pod, 6)),
    row("sysctls", 29, |pod| baseline::sysctls(pod, 10)),
    row("sysctls", 32, |pod| baseline::sysctls(pod, 12)),
    row("windowsHostProcess", 0, baseline::windows_host_process),
];

/// What the level restricted adds.
const RESTRICTED: &[Row] = &[
    row("allowPrivilegeEscalation", 8, restricted::privilege_escalation),
    row("allowPrivilegeEscalation", 25, |pod| {
        unless_windows(pod, restricted::privilege_escalation)
    }),
    Row {
        replaces: "capabilities_baseline",
        ..row("capabilities_restricted", 22, restricted::capabilities)
    },
    Row {
        replaces: "capabilities_baseline",
        ..row("capabilities_restricted", 25, |pod| unless_windows(pod, restricted::capabilities))
    },
    Row { replaces: "procMount", ..row("procMount_restricted", 35, baseline::proc_mount) },
    Row { replaces: "hostPathVolumes", ..row("restrictedVolumes", 0, restricted::volumes) },
    row("runAsNonRoot", 0, restricted::run_as_non_root),
    row("runAsNonRoot", 35, |pod| unless_in_user_namespace(pod, restricted::run_as_non_root)),
    row("runAsUser", 23, restricted::run_as_user),
    row("runAsUser", 35, |pod| unless_in_user_namespace(pod, restricted::run_as_user)),
    Row {
        replaces: "seccompProfile_baseline",
        ..row("seccompProfile_restricted", 19, restricted::seccomp_profile)
    },
    Row {
        replaces: "seccompProfile_baseline",
        ..row("seccompProfile_restricted", 25, |pod| {
            unless_windows(pod, restricted::seccomp_profile)
        })
    },
];

type Checker = fn(&Pod<'_>) -> Option<Violation>;

/// Root in a user namespace has no rights outside of it.
fn unless_in_user_namespace(pod: &Pod<'_>, check: Checker) -> Option<Violation> {
    if at(pod.spec, &["hostUsers"]) == &Value::Bool(false) { None } else { check(pod) }
}

/// Checks of Linux settings do not apply to Windows pods.
fn unless_windows(pod: &Pod<'_>, check: Checker) -> Option<Violation> {
    if at(pod.spec, &["os", "name"]) == "windows" { None } else { check(pod) }
}

/// A pod, or the template of one.
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
    fn own(&self, path: &[&str]) -> &'a Value {
        at(at(self.spec, &["securityContext"]), path)
    }

    /// The names of the containers for which something holds.
    fn containers_where(&self, is_bad: impl FnMut(&&'a Value) -> bool) -> Vec<&'a str> {
        self.containers().filter(is_bad).map(|it| text(it, "name")).collect()
    }
}

/// A part of the security context of a container.
fn of_container<'a>(container: &'a Value, path: &[&str]) -> &'a Value {
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

/// `pod and container "a"`: the offenders among the pod and its containers; None if there are none.
fn setters(pod: bool, containers: &[&str]) -> Option<String> {
    match (pod, containers) {
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
    /// Notes `value` unless it `is_fine`; whether it is bad.
    fn note(&mut self, value: &'a str, is_fine: bool) -> bool {
        if !is_fine {
            self.0.insert(value);
        }
        !is_fine
    }
}

/// Metadata and spec of the pods that an object makes, or of the pod that it is; None if it is and
/// makes none.
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

/// Whether a change of a pod is relevant to the standards: new containers or images. All other
/// relevant fields are immutable.
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
