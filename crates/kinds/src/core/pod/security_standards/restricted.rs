//! What the level restricted adds: a pod says of itself how little it needs.

use super::baseline::bad_profile;
use super::{BadValues, Pod, Violation, named, of_container, plural, quoted, setters};
use machinery::Value;
use machinery::fields::{at, list, text, texts};

pub(super) fn privilege_escalation(pod: &Pod<'_>) -> Option<Violation> {
    let is_bad =
        |it: &&Value| of_container(it, &["allowPrivilegeEscalation"]) != &Value::Bool(false);
    let containers = pod.containers_where(is_bad);
    if containers.is_empty() {
        return None;
    }
    let detail =
        format!("{} must set securityContext.allowPrivilegeEscalation=false", named(&containers));
    Some(Violation::new("allowPrivilegeEscalation != false", detail))
}

pub(super) fn capabilities(pod: &Pod<'_>) -> Option<Violation> {
    let of = |container| of_container(container, &["capabilities"]);
    let keeping = pod.containers_where(|it| !texts(of(it), "drop").any(|name| name == "ALL"));
    let mut bad = BadValues::default();
    let adding = pod.containers_where(|it| {
        let added = texts(of(it), "add");
        added.fold(false, |any, name| bad.note(name, name == "NET_BIND_SERVICE") | any)
    });
    let mut details = Vec::new();
    if !keeping.is_empty() {
        details.push(format!(
            r#"{} must set securityContext.capabilities.drop=["ALL"]"#,
            named(&keeping)
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

const VOLUMES: [&str; 9] = [
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
        if VOLUMES.iter().any(|kind| at(volume, &[kind]).is_object()) {
            continue;
        }
        names.push(text(volume, "name"));
        let mut sources = volume.as_object().into_iter().flatten();
        let source = sources.find(|(key, value)| key.as_str() != "name" && value.is_object());
        bad.note(source.map_or("unknown", |(key, _)| key.as_str()), false);
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
    let of_pod = pod.own(&["runAsNonRoot"]).as_bool();
    let of = |container| of_container(container, &["runAsNonRoot"]).as_bool();
    let explicit = pod.containers_where(|it| of(it) == Some(false));
    let reason = "runAsNonRoot != true";
    if let Some(who) = setters(of_pod == Some(false), &explicit) {
        let detail = format!("{who} must not set securityContext.runAsNonRoot=false");
        return Some(Violation::new(reason, detail));
    }
    let silent = pod.containers_where(|it| of(it).is_none() && of_pod != Some(true));
    if silent.is_empty() {
        return None;
    }
    let detail = format!("pod or {} must set securityContext.runAsNonRoot=true", named(&silent));
    Some(Violation::new(reason, detail))
}

pub(super) fn run_as_user(pod: &Pod<'_>) -> Option<Violation> {
    let is_root = |value: &Value| value.as_i64() == Some(0);
    let containers = pod.containers_where(|it| is_root(of_container(it, &["runAsUser"])));
    let who = setters(is_root(pod.own(&["runAsUser"])), &containers)?;
    Some(Violation::new("runAsUser=0", format!("{who} must not set runAsUser=0")))
}

pub(super) fn seccomp_profile(pod: &Pod<'_>) -> Option<Violation> {
    let mut bad = BadValues::default();
    let of_pod = pod.own(&["seccompProfile"]);
    let is_bad_pod = bad_profile(of_pod, &mut bad);
    let of = |container| of_container(container, &["seccompProfile"]);
    let explicit = pod.containers_where(|it| bad_profile(of(it), &mut bad));
    if let Some(who) = setters(is_bad_pod, &explicit) {
        let what = quoted(bad.0);
        let detail = format!("{who} must not set securityContext.seccompProfile.type to {what}");
        return Some(Violation::new("seccompProfile", detail));
    }
    let silent = pod.containers_where(|it| !of(it).is_object() && !of_pod.is_object());
    if silent.is_empty() {
        return None;
    }
    let detail = format!(
        r#"pod or {} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost""#,
        named(&silent)
    );
    Some(Violation::new("seccompProfile", detail))
}
