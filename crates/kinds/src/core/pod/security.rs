//! Validation of the security contexts of pods and containers.

use std::collections::HashSet;

use super::each_container;
use crate::validation::go_struct;
use crate::validation::rules::{
    add_invalid, descending_path, dns_subdomain, supported_only, unix_id,
};
use machinery::field_path::ErrorType;
use machinery::fields::{at, boolean, flag, integer, list, part, text, texts};
use machinery::{ErrorList, Path, Value};

/// Validates the security context of a pod.
pub(super) fn validate_pod_context(
    errors: &mut ErrorList,
    path: &Path<'_>,
    context: &Value,
    spec: &Value,
) {
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        if let Some(id) = integer(context, field) {
            unix_id(errors, &path.child(field), id);
        }
    }
    let groups = path.child("supplementalGroups");
    for (index, group) in list(context, "supplementalGroups").iter().enumerate() {
        unix_id(errors, &groups.index(index), group.as_i64().unwrap_or(0));
    }
    validate_sysctls(errors, &path.child("sysctls"), context, spec);
    for (field, values) in [
        ("fsGroupChangePolicy", &["Always", "OnRootMismatch"]),
        ("supplementalGroupsPolicy", &["Merge", "Strict"]),
        ("seLinuxChangePolicy", &["MountOption", "Recursive"]),
    ] {
        if part(context, field).is_some() {
            supported_only(errors, &path.child(field), text(context, field), values);
        }
    }
    validate_profiles(errors, path, context);
}

/// Validates the security context of a container.
pub(super) fn validate_container_context(
    errors: &mut ErrorList,
    path: &Path<'_>,
    context: &Value,
    host_users: bool,
) {
    for field in ["runAsUser", "runAsGroup"] {
        if let Some(id) = integer(context, field) {
            unix_id(errors, &path.child(field), id);
        }
    }
    if part(context, "procMount").is_some() {
        let mount = text(context, "procMount");
        supported_only(errors, &path.child("procMount"), mount, &["Default", "Unmasked"]);
        if host_users && mount == "Unmasked" {
            let message = "`hostUsers` must be false to use `Unmasked`";
            errors.invalid(&path.child("procMount"), mount, message);
        }
    }
    if boolean(context, "allowPrivilegeEscalation") == Some(false) {
        let mut contradicts = |what: &str| {
            let message = format!("cannot set `allowPrivilegeEscalation` to false and {what}");
            let shown = go_struct::line("SecurityContext", context);
            let detail = format!("{shown}: {message}");
            errors.add(ErrorType::Invalid, path, None, &detail);
        };
        if flag(context, "privileged") {
            contradicts("`privileged` to true");
        }
        if texts(at(context, &["capabilities"]), "add").any(|it| it == "CAP_SYS_ADMIN") {
            contradicts("`capabilities.Add` CAP_SYS_ADMIN");
        }
    }
    validate_profiles(errors, path, context);
}

/// The profiles that both contexts have.
fn validate_profiles(errors: &mut ErrorList, path: &Path<'_>, context: &Value) {
    if let Some(profile) = part(context, "seccompProfile") {
        validate_seccomp(errors, &path.child("seccompProfile"), profile);
    }
    if let Some(options) = part(context, "windowsOptions") {
        validate_windows_options(errors, &path.child("windowsOptions"), options);
    }
    if let Some(profile) = part(context, "appArmorProfile") {
        validate_app_armor(errors, &path.child("appArmorProfile"), profile);
    }
}

const PROFILE_TYPES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];

fn validate_seccomp(errors: &mut ErrorList, path: &Path<'_>, profile: &Value) {
    let kind = text(profile, "type");
    if kind.is_empty() {
        errors.required(&path.child("type"), "type is required when seccompProfile is set");
    } else {
        supported_only(errors, &path.child("type"), kind, PROFILE_TYPES);
    }
    let file = path.child("localhostProfile");
    match (kind, part(profile, "localhostProfile")) {
        ("Localhost", None) => {
            errors.required(&file, "must be set when seccomp type is Localhost");
        }
        ("Localhost", Some(_)) => descending_path(errors, &file, text(profile, "localhostProfile")),
        (_, Some(_)) => {
            let shown = go_struct::line("SeccompProfile", profile);
            let detail = format!("{shown}: can only be set when seccomp type is Localhost");
            errors.add(ErrorType::Invalid, &file, None, &detail);
        }
        (_, None) => {}
    }
}

fn validate_app_armor(errors: &mut ErrorList, path: &Path<'_>, profile: &Value) {
    let file = path.child("localhostProfile");
    let name = text(profile, "localhostProfile");
    let is_set = part(profile, "localhostProfile").is_some();
    match text(profile, "type") {
        "Localhost" => {
            if name.trim() != name {
                errors.invalid(&file, name, "must not be padded with whitespace");
            } else if name.is_empty() {
                errors.required(&file, "must be set when AppArmor type is Localhost");
            }
            if name.len() > 4095 {
                errors.too_long(&file, 4095);
            }
        }
        "RuntimeDefault" | "Unconfined" if is_set => {
            errors.invalid(&file, name, "can only be set when AppArmor type is Localhost");
        }
        "RuntimeDefault" | "Unconfined" => {}
        "" => errors.required(&path.child("type"), "type is required when appArmorProfile is set"),
        other => errors.not_supported(&path.child("type"), other, PROFILE_TYPES),
    }
}

fn validate_sysctls(errors: &mut ErrorList, path: &Path<'_>, context: &Value, spec: &Value) {
    let mut seen = HashSet::new();
    for (index, sysctl) in list(context, "sysctls").iter().enumerate() {
        let item = path.index(index);
        let (path, name) = (item.child("name"), text(sysctl, "name"));
        if name.is_empty() {
            errors.required(&path, "");
        } else if !is_sysctl(name) {
            let message = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            errors.invalid(&path, name, message);
        } else if seen.contains(&name) {
            errors.duplicate(&path, name);
        }
        seen.insert(name);
        let name_with_dots = name.replace('/', ".");
        if flag(spec, "hostNetwork") && name_with_dots.starts_with("net.") {
            errors.invalid(&path, name, "may not be specified when 'hostNetwork' is true");
        } else if flag(spec, "hostIPC") && is_ipc_sysctl(&name_with_dots) {
            errors.invalid(&path, name, "may not be specified when 'hostIPC' is true");
        }
    }
}

fn is_sysctl(name: &str) -> bool {
    let is_edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= 253
        && name.split(['.', '/']).all(|segment| {
            segment.starts_with(is_edge)
                && segment.ends_with(is_edge)
                && segment.chars().all(|c| is_edge(c) || "-_".contains(c))
        })
}

/// Whether a sysctl belongs to the IPC namespace.
fn is_ipc_sysctl(name: &str) -> bool {
    name.starts_with("kernel.shm")
        || name.starts_with("kernel.msg")
        || name.starts_with("fs.mqueue.")
        || name == "kernel.sem"
}

fn validate_windows_options(errors: &mut ErrorList, path: &Path<'_>, options: &Value) {
    if part(options, "gmsaCredentialSpecName").is_some() {
        let name = text(options, "gmsaCredentialSpecName");
        dns_subdomain(errors, &path.child("gmsaCredentialSpecName"), name);
    }
    let spec = text(options, "gmsaCredentialSpec");
    let spec_path = path.child("gmsaCredentialSpec");
    if part(options, "gmsaCredentialSpec").is_some() && spec.is_empty() {
        errors.invalid(&spec_path, "", "gmsaCredentialSpec cannot be an empty string");
    } else if spec.len() > 64 * 1024 {
        errors.invalid(&spec_path, spec, "gmsaCredentialSpec size must be under 64 KiB");
    }
    if part(options, "runAsUserName").is_some() {
        let name = text(options, "runAsUserName");
        add_invalid(errors, &path.child("runAsUserName"), name, windows_user(name));
    }
}

/// The errors about the name of a Windows user, `DOMAIN\user`.
fn windows_user(name: &str) -> Vec<String> {
    let mut messages = Vec::new();
    let mut add_error = |message: &str| messages.push(format!("runAsUserName{message}"));
    if name.is_empty() {
        add_error(" cannot be an empty string");
        return messages;
    }
    if name.contains(|c: char| c.is_ascii_control()) {
        add_error(" cannot contain control characters");
        return messages;
    }
    let parts: Vec<&str> = name.split('\\').collect();
    let (domain, user) = match parts.as_slice() {
        [user] => (None, *user),
        [domain, user] => (Some(*domain), *user),
        _ => {
            add_error(" cannot contain more than one backslash");
            return messages;
        }
    };
    if domain.is_some_and(|domain| domain.len() >= 256) {
        add_error("'s Domain length must be under 256 characters");
    }
    if domain.is_some_and(|domain| !is_net_bios(domain) && !is_windows_dns(domain)) {
        add_error("'s Domain doesn't match the NetBios nor the DNS format");
    }
    if user.is_empty() {
        add_error("'s User cannot be empty");
    } else if user.len() > 104 {
        add_error("'s User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.chars().all(|c| ". ".contains(c)) {
        add_error("'s User cannot contain only periods or spaces");
    }
    if user.contains(|c: char| "\"/\\:;|=,+*?<>@[]".contains(c)) {
        add_error("'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]");
    }
    messages
}

fn is_net_bios(domain: &str) -> bool {
    let length = domain.chars().count();
    (1..=15).contains(&length)
        && !domain.starts_with('.')
        && !domain.contains(|c: char| "\\/:*?\"<>|".contains(c))
}

fn is_windows_dns(domain: &str) -> bool {
    domain.split('.').all(|label| {
        (1..=63).contains(&label.len())
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    })
}

/// Validates that a pod only has settings of its operating system.
pub(super) fn validate_os(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let Some(os) = part(spec, "os") else { return };
    match text(os, "name") {
        "" => errors.required(&path.child("os").child("name"), ""),
        "linux" => forbid_context_fields(
            errors,
            path,
            spec,
            &["windowsOptions"],
            &["windowsOptions"],
            "windows options cannot be set for a linux pod",
        ),
        "windows" => validate_windows(errors, path, spec),
        other => errors.not_supported(&path.child("os"), other, &["linux", "windows"]),
    }
}

fn validate_windows(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    const MESSAGE: &str = "cannot be set for a windows pod";
    for field in ["hostUsers", "shareProcessNamespace"] {
        if part(spec, field).is_some() {
            errors.forbidden(&path.child(field), MESSAGE);
        }
    }
    for field in ["hostPID", "hostIPC"] {
        if flag(spec, field) {
            errors.forbidden(&path.child(field), MESSAGE);
        }
    }
    let of_pod = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "fsGroup",
        "fsGroupChangePolicy",
        "sysctls",
        "runAsUser",
        "runAsGroup",
        "supplementalGroups",
        "supplementalGroupsPolicy",
        "seLinuxChangePolicy",
    ];
    let of_container = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "capabilities",
        "readOnlyRootFilesystem",
        "privileged",
        "allowPrivilegeEscalation",
        "procMount",
        "runAsUser",
        "runAsGroup",
    ];
    forbid_context_fields(errors, path, spec, &of_pod, &of_container, MESSAGE);
}

/// Forbids fields in the security contexts of the pod and of its containers.
fn forbid_context_fields(
    errors: &mut ErrorList,
    path: &Path<'_>,
    spec: &Value,
    of_pod: &[&str],
    of_container: &[&str],
    message: &str,
) {
    let mut forbid_in = |path: &Path<'_>, context: &Value, fields: &[&str]| {
        for field in fields {
            if part(context, field).is_some() {
                errors.forbidden(&path.child(field), message);
            }
        }
    };
    forbid_in(&path.child("securityContext"), at(spec, &["securityContext"]), of_pod);
    each_container(spec, path, |container, path| {
        let context = at(container, &["securityContext"]);
        forbid_in(&path.child("securityContext"), context, of_container);
    });
}

/// If one container of a pod is a Windows host process, all are, and the pod is in the host
/// network.
pub(super) fn validate_host_processes(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let host_process =
        |owner: &Value| boolean(at(owner, &["securityContext", "windowsOptions"]), "hostProcess");
    let of_pod = host_process(spec);
    let (mut all, mut on_host) = (0, 0);
    each_container(spec, path, |container, path| {
        let own = host_process(container);
        all += 1;
        on_host += usize::from(own.or(of_pod) == Some(true));
        if let (Some(of_pod), Some(own)) = (of_pod, own)
            && of_pod != own
        {
            let message = format!(
                "pod hostProcess value must be identical if both are specified, was {of_pod}"
            );
            let path = path.child("securityContext");
            let path = path.child("windowsOptions");
            errors.invalid(&path.child("hostProcess"), own, &message);
        }
    });
    if on_host == 0 {
        return;
    }
    if on_host != all {
        let message = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.invalid(path, "", message);
    }
    if !flag(spec, "hostNetwork") {
        let message = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid(&path.child("hostNetwork"), false, message);
    }
}

/// A pod with a user namespace cannot share other namespaces with the node.
pub(super) fn validate_host_users(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    const MESSAGE: &str = "when `hostUsers` is false";
    if boolean(spec, "hostUsers") != Some(false) {
        return;
    }
    for (field, shown) in
        [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")]
    {
        if flag(spec, field) {
            errors.forbidden(&path.child(shown), MESSAGE);
        }
    }
    each_container(spec, path, |container, path| {
        if !list(container, "volumeDevices").is_empty() {
            errors.forbidden(&path.child("volumeDevices"), MESSAGE);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::lines;
    use machinery::json;

    fn check(context: Value, expected: &[&str]) {
        let mut errors = ErrorList::new();
        validate_container_context(&mut errors, &Path::root("s"), &context, true);
        assert_eq!(lines(&errors), expected);
    }

    #[test]
    fn users_and_profiles_are_validated() {
        check(
            json!({"runAsUser": -1, "seccompProfile": {"type": "Localhost"},
                "appArmorProfile": {"type": "Odd"}}),
            &[
                "s.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
                "s.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost",
                r#"s.appArmorProfile.type: Unsupported value: "Odd": supported values: "Localhost", "RuntimeDefault", "Unconfined""#,
            ],
        );
    }

    #[test]
    fn a_privileged_container_must_allow_privilege_escalation() {
        let mut errors = ErrorList::new();
        let context = json!({"privileged": true, "allowPrivilegeEscalation": false});
        validate_container_context(&mut errors, &Path::root("s"), &context, true);
        assert!(
            errors[0]
                .body()
                .starts_with(r#"Invalid value: {"Capabilities":null,"Privileged":true,"#)
        );
        assert!(errors[0].body().ends_with(
            "}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        ));
    }

    #[test]
    fn network_sysctls_in_the_host_network_and_invalid_sysctls_are_refused() {
        let mut errors = ErrorList::new();
        let context = json!({"sysctls": [{"name": "net.core.somaxconn"}, {"name": "Bad"}]});
        let spec = json!({"hostNetwork": true});
        validate_pod_context(&mut errors, &Path::root("s"), &context, &spec);
        assert_eq!(
            lines(&errors),
            [
                r#"s.sysctls[0].name: Invalid value: "net.core.somaxconn": may not be specified when 'hostNetwork' is true"#,
                r#"s.sysctls[1].name: Invalid value: "Bad": must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"#,
            ]
        );
    }

    #[test]
    fn a_windows_pod_has_no_linux_settings() {
        let mut errors = ErrorList::new();
        let spec = json!({"os": {"name": "windows"}, "securityContext": {"runAsUser": 1},
            "containers": [{"securityContext": {"privileged": true}}]});
        validate_os(&mut errors, &Path::root("spec"), &spec);
        assert_eq!(
            lines(&errors),
            [
                "spec.securityContext.runAsUser: Forbidden: cannot be set for a windows pod",
                "spec.containers[0].securityContext.privileged: Forbidden: cannot be set for a windows pod",
            ]
        );
    }
}
