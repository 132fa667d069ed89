//! The checks that the level restricted adds: a pod must give up the privileges that it does not
//! need.

use super::baseline::bad_profile;
use super::{BadValues, Pod, Violation, container_context, named, offenders, plural, quoted};
use machinery::Value;
use machinery::fields::{at, list, text, texts};

pub(super) fn privilege_escalation(pod: &Pod<'_>) -> Option<Violation> {
    let is_bad =
        |it: &&Value| container_context(it, &["allowPrivilegeEscalation"]) != &Value::Bool(false);
    let containers = pod.containers_where(is_bad);
    if containers.is_empty() {
        return None;
    }
    let detail =
        format!("{} must set securityContext.allowPrivilegeEscalation=false", named(&containers));
    Some(Violation::new("allowPrivilegeEscalation != false", detail))
}

pub(super) fn capabilities(pod: &Pod<'_>) -> Option<Violation> {
    let of = |container| container_context(container, &["capabilities"]);
    let not_dropping = pod.containers_where(|it| !texts(of(it), "drop").any(|name| name == "ALL"));
    let mut bad = BadValues::default();
    let adding = pod.containers_where(|it| {
        let added = texts(of(it), "add");
        added.fold(false, |any, name| bad.add_unless(name, name == "NET_BIND_SERVICE") | any)
    });
    let mut details = Vec::new();
    if !not_dropping.is_empty() {
        details.push(format!(
            r#"{} must set securityContext.capabilities.drop=["ALL"]"#,
            named(&not_dropping)
        ));
    }
    if !adding.is_empty() {
        details.push(format!(
            "{} must not include {} in securityContext.capabilities.add",
            named(&adding),
            quoted(bad.0)
        ));
    }
    if details.is_empty() {
        return None;
    }
    Some(Violation::new("unrestricted capabilities", details.join("; ")))
}

const ALLOWED_VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

pub(super) fn volumes(pod: &Pod<'_>) -> Option<Violation> {
    let mut bad = BadValues::default();
    let mut names = Vec::new();
    for volume in list(pod.spec, "volumes") {
        if ALLOWED_VOLUMES.iter().any(|kind| at(volume, &[kind]).is_object()) {
            continue;
        }
        names.push(text(volume, "name"));
        let mut sources = volume.as_object().into_iter().flatten();
        let source = sources.find(|(key, value)| key.as_str() != "name" && value.is_object());
        bad.add_unless(source.map_or("unknown", |(key, _)| key.as_str()), false);
    }
    if names.is_empty() {
        return None;
    }
    let detail = format!(
        "{} {} {} {} {}",
        plural(names.len(), "volume", "volumes"),
        quoted(&names),
        plural(names.len(), "uses", "use"),
        plural(bad.0.len(), "restricted volume type", "restricted volume types"),
        quoted(bad.0)
    );
    Some(Violation::new("restricted volume types", detail))
}

pub(super) fn run_as_non_root(pod: &Pod<'_>) -> Option<Violation> {
    let of_pod = pod.context(&["runAsNonRoot"]).as_bool();
    let of = |container| container_context(container, &["runAsNonRoot"]).as_bool();
    let explicit = pod.containers_where(|it| of(it) == Some(false));
    let reason = "runAsNonRoot != true";
    if let Some(offenders) = offenders(of_pod == Some(false), &explicit) {
        let detail = format!("{offenders} must not set securityContext.runAsNonRoot=false");
        return Some(Violation::new(reason, detail));
    }
    let unset = pod.containers_where(|it| of(it).is_none() && of_pod != Some(true));
    if unset.is_empty() {
        return None;
    }
    let detail = format!("pod or {} must set securityContext.runAsNonRoot=true", named(&unset));
    Some(Violation::new(reason, detail))
}

pub(super) fn run_as_user(pod: &Pod<'_>) -> Option<Violation> {
    let is_root = |value: &Value| value.as_i64() == Some(0);
    let containers = pod.containers_where(|it| is_root(container_context(it, &["runAsUser"])));
    let offenders = offenders(is_root(pod.context(&["runAsUser"])), &containers)?;
    Some(Violation::new("runAsUser=0", format!("{offenders} must not set runAsUser=0")))
}

pub(super) fn seccomp_profile(pod: &Pod<'_>) -> Option<Violation> {
    let mut bad = BadValues::default();
    let of_pod = pod.context(&["seccompProfile"]);
    let is_bad_pod = bad_profile(of_pod, &mut bad);
    let of = |container| container_context(container, &["seccompProfile"]);
    let explicit = pod.containers_where(|it| bad_profile(of(it), &mut bad));
    if let Some(offenders) = offenders(is_bad_pod, &explicit) {
        let what = quoted(bad.0);
        let detail =
            format!("{offenders} must not set securityContext.seccompProfile.type to {what}");
        return Some(Violation::new("seccompProfile", detail));
    }
    let unset = pod.containers_where(|it| !of(it).is_object() && !of_pod.is_object());
    if unset.is_empty() {
        return None;
    }
    let detail = format!(
        r#"pod or {} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost""#,
        named(&unset)
    );
    Some(Violation::new("seccompProfile", detail))
}
