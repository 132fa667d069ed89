//! Tests of the checks of all levels, with the messages of upstream.

use super::*;
use machinery::{ErrorList, json};

fn at_level(level: Level, version: Version, pod: Value) -> String {
    let wanted = LevelVersion { level, version };
    evaluate(wanted, at(&pod, &["metadata"]), at(&pod, &["spec"])).details()
}

fn baseline(spec: Value) -> String {
    at_level(Level::Baseline, Version::Latest, json!({"spec": spec}))
}

fn restricted(spec: Value) -> String {
    at_level(Level::Restricted, Version::Latest, json!({"spec": spec}))
}

fn container(context: Value) -> Value {
    json!({"containers": [{"name": "a", "securityContext": context}]})
}

/// A spec that meets every level.
fn hardened() -> Value {
    json!({
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "a", "securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}],
        "volumes": [{"name": "v", "emptyDir": {}}],
    })
}

#[test]
fn a_plain_pod_meets_baseline_and_not_restricted() {
    let plain = json!({"containers": [{"name": "a"}]});
    assert_eq!(baseline(plain.clone()), "");
    assert_eq!(
        restricted(plain),
        r#"allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container "a" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")"#
    );
    assert_eq!(restricted(hardened()), "");
}

#[test]
fn use_of_the_host_violates_baseline() {
    assert_eq!(
        baseline(json!({"hostNetwork": true, "hostIPC": true,
        "volumes": [{"name": "v", "hostPath": {"path": "/"}}, {"name": "w", "emptyDir": {}}],
        "containers": [
            {"name": "a", "ports": [{"hostPort": 80}, {"containerPort": 1}]},
            {"name": "b", "ports": [{"hostPort": 80}]},
        ]})),
        r#"host namespaces (hostNetwork=true, hostIPC=true), hostPath volumes (volume "v"), hostPort (containers "a", "b" use hostPort 80)"#
    );
    assert_eq!(
        baseline(json!({"containers": [{"name": "a", "livenessProbe": {"httpGet": {"host": "h"}},
            "lifecycle": {"preStop": {"tcpSocket": {"host": "g"}}}}]})),
        r#"probe or lifecycle host (container "a" uses probe or lifecycle hosts "g", "h")"#
    );
    assert_eq!(
        baseline(json!({"securityContext": {"windowsOptions": {"hostProcess": true}},
            "containers": []})),
        "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)"
    );
}

#[test]
fn violations_name_the_containers_and_their_settings() {
    assert_eq!(
        baseline(container(json!({"privileged": true, "procMount": "Unmasked",
            "capabilities": {"add": ["NET_ADMIN", "CHOWN", "BPF"]}}))),
        r#"non-default capabilities (container "a" must not include "BPF", "NET_ADMIN" in securityContext.capabilities.add), privileged (container "a" must not set securityContext.privileged=true), procMount (container "a" must not set securityContext.procMount to "Unmasked")"#
    );
    let mut spec = hardened();
    spec["containers"][0]["securityContext"]["capabilities"]["add"] = json!(["CHOWN"]);
    spec["containers"][0]["securityContext"]["runAsUser"] = json!(0);
    spec["volumes"] = json!([{"name": "v", "nfs": {"path": "/"}}]);
    assert_eq!(
        restricted(spec),
        r#"unrestricted capabilities (container "a" must not include "CHOWN" in securityContext.capabilities.add), restricted volume types (volume "v" uses restricted volume type "nfs"), runAsUser=0 (container "a" must not set runAsUser=0)"#
    );
}

#[test]
fn unconfined_profiles_and_unsafe_settings_violate_baseline() {
    let spec = json!({
        "securityContext": {"seccompProfile": {"type": "Unconfined"},
            "appArmorProfile": {"type": "Unconfined"},
            "seLinuxOptions": {"type": "spc_t", "user": "u"},
            "sysctls": [{"name": "kernel.msgmax"}, {"name": "net.ipv4.tcp_rmem"}]},
        "containers": [{"name": "a", "securityContext": {"seccompProfile": {"type": "Unconfined"}}}],
    });
    assert_eq!(
        baseline(spec),
        r#"forbidden AppArmor profile (pod must not set AppArmor profile type to "Unconfined"), seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type "spc_t"; user may not be set), seccompProfile (pod and container "a" must not set securityContext.seccompProfile.type to "Unconfined"), forbidden sysctls (kernel.msgmax)"#
    );
    let annotated = json!({"metadata": {"annotations":
        {"container.apparmor.security.beta.kubernetes.io/a": "unconfined"}},
        "spec": {"containers": [{"name": "a"}]}});
    assert_eq!(
        at_level(Level::Baseline, Version::Latest, annotated),
        r#"forbidden AppArmor profile (annotation must not set AppArmor profile type to "container.apparmor.security.beta.kubernetes.io/a="unconfined"")"#
    );
}

#[test]
fn an_older_version_has_its_own_checks() {
    let plain = || json!({"spec": {"containers": [{"name": "a"}]}});
    let reasons = |version, pod: Value| {
        let wanted = LevelVersion { level: Level::Restricted, version };
        evaluate(wanted, at(&pod, &["metadata"]), at(&pod, &["spec"])).reasons()
    };
    assert_eq!(reasons(Version::Minor(0), plain()), "runAsNonRoot != true");
    assert_eq!(
        reasons(Version::Minor(19), plain()),
        "allowPrivilegeEscalation != false, runAsNonRoot != true, seccompProfile"
    );
    assert_eq!(reasons(Version::Minor(999), plain()), reasons(Version::Latest, plain()));
    let windows = json!({"spec": {"os": {"name": "windows"}, "securityContext":
        {"runAsNonRoot": true}, "containers": [{"name": "a"}]}});
    assert_eq!(reasons(Version::Minor(24), windows.clone()).split(", ").count(), 3);
    assert_eq!(reasons(Version::Latest, windows), "");
    let annotated = json!({"metadata": {"annotations":
        {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}},
        "spec": {"containers": [{"name": "a"}]}});
    assert_eq!(
        at_level(Level::Baseline, Version::Minor(18), annotated.clone()),
        r#"seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod="unconfined")"#
    );
    assert_eq!(at_level(Level::Baseline, Version::Minor(19), annotated), "");
}

#[test]
fn root_is_allowed_in_a_user_namespace() {
    let mut spec = hardened();
    spec["securityContext"]["runAsNonRoot"] = json!(false);
    spec["hostUsers"] = json!(false);
    assert_eq!(restricted(spec.clone()), "");
    spec["hostUsers"] = json!(true);
    assert_eq!(
        restricted(spec),
        "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)"
    );
}

/// Formats the policy of labels (without their prefix), and returns the errors.
fn policy(labels: &[(&str, &str)]) -> (String, Vec<String>) {
    let mut errors = ErrorList::new();
    let find = |key: &str| {
        let key = key.strip_prefix("pod-security.kubernetes.io/")?;
        labels.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
    };
    let Policy { enforce, audit, warn } = Policy::of(find, &mut errors);
    (format!("{enforce} {audit} {warn}"), crate::validation::testing::lines(&errors))
}

#[test]
fn labels_set_the_levels_and_their_versions() {
    let open = "privileged:latest privileged:latest privileged:latest";
    assert_eq!(policy(&[]), (open.to_owned(), vec![]));
    assert_eq!(
        policy(&[("enforce", "baseline"), ("enforce-version", "v1.25"), ("audit", "restricted")]).0,
        "baseline:v1.25 restricted:latest baseline:v1.25"
    );
    assert_eq!(
        policy(&[("enforce", "restricted"), ("warn", "privileged")]).0,
        "restricted:latest privileged:latest privileged:latest"
    );
    assert_eq!(
        policy(&[("enforce", "strict"), ("warn", "x"), ("audit-version", "v1.01")]),
        (
            "restricted:latest privileged:latest privileged:latest".to_owned(),
            vec![
                r#"metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "strict": must be one of privileged, baseline, restricted"#.to_owned(),
                r#"metadata.labels[pod-security.kubernetes.io/audit-version]: Invalid value: "v1.01": must be "latest" or "v1.x""#.to_owned(),
                r#"metadata.labels[pod-security.kubernetes.io/warn]: Invalid value: "x": must be one of privileged, baseline, restricted"#.to_owned(),
            ]
        )
    );
}
