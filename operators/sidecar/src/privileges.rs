//! What a sidecar may not have unless an option allows it: rights that its author need not have in the
//! namespace of the pod, or on its node.
//!
//! Who may write the `ConfigMap` decides what runs in the pods of all namespaces. Without these rights, a
//! sidecar has what a container of such a pod has, and no more.

use serde_json::Value;

/// The kinds of volumes that contain nothing secret and nothing of the node.
const VOLUMES: [&str; 3] = ["configMap", "downwardAPI", "emptyDir"];

/// The field of the first right that is not allowed, and what it gives.
pub(crate) fn find(containers: &[Value], volumes: &[Value]) -> Option<String> {
    let of_container = |(index, container): (usize, &Value)| {
        let (field, what) = of_container(container)?;
        Some(format!("containers[{index}].{field}: {what}"))
    };
    let of_volume = |(index, volume): (usize, &Value)| {
        Some(format!("volumes[{index}].{}: a volume of this kind", kind_of_volume(volume)?))
    };
    let in_containers = containers.iter().enumerate().find_map(of_container);
    in_containers.or_else(|| volumes.iter().enumerate().find_map(of_volume))
}

fn of_container(container: &Value) -> Option<(&'static str, &'static str)> {
    let security = &container["securityContext"];
    let any = |list: &Value, is_right: fn(&Value) -> bool| {
        list.as_array().is_some_and(|list| list.iter().any(is_right))
    };
    let is_privileged = security["privileged"] == true;
    let adds_capabilities = any(&security["capabilities"]["add"], |_| true);
    let shows_kernel = security["procMount"].as_str().is_some_and(|mount| mount != "Default");
    let is_host_process = security["windowsOptions"]["hostProcess"] == true;
    let has_host_port =
        any(&container["ports"], |port| port["hostPort"].as_u64().is_some_and(|port| port > 0));
    let has_secret =
        any(&container["env"], |variable| !variable["valueFrom"]["secretKeyRef"].is_null());
    let has_secrets = any(&container["envFrom"], |source| !source["secretRef"].is_null());
    let rights = [
        (is_privileged, "securityContext.privileged", "a privileged container"),
        (adds_capabilities, "securityContext.capabilities.add", "additional capabilities"),
        (shows_kernel, "securityContext.procMount", "an unmasked /proc"),
        (is_host_process, "securityContext.windowsOptions.hostProcess", "a process of the host"),
        (has_host_port, "ports.hostPort", "a port of the host"),
        (has_secret, "env.valueFrom.secretKeyRef", "a value of a Secret"),
        (has_secrets, "envFrom.secretRef", "the values of a Secret"),
    ];
    rights.into_iter().find(|(has, ..)| *has).map(|(_, field, what)| (field, what))
}

/// The kind of a volume that is not allowed.
fn kind_of_volume(volume: &Value) -> Option<String> {
    let kinds = || volume.as_object().into_iter().flatten().filter(|(field, _)| *field != "name");
    let is_harmless = |kind: &String, source: &Value| match kind.as_str() {
        "projected" => source["sources"].as_array().is_none_or(|sources| {
            sources.iter().filter_map(Value::as_object).flatten().all(|(kind, _)| is_listed(kind))
        }),
        kind => is_listed(kind),
    };
    kinds().find(|(kind, source)| !is_harmless(kind, source)).map(|(kind, _)| kind.clone())
}

fn is_listed(kind: &str) -> bool {
    VOLUMES.contains(&kind)
}

#[cfg(test)]
mod tests {
    use crate::Sidecar;

    fn check(config: &str, expected: Option<&str>) {
        let sidecar = Sidecar::parse(config).unwrap();
        assert_eq!(sidecar.privilege().as_deref(), expected, "{config}");
    }

    fn check_container(fields: &str, expected: Option<&str>) {
        check(&format!("containers: [{{name: a, image: b, {fields}}}]"), expected);
    }

    fn check_volume(fields: &str, expected: Option<&str>) {
        let volumes = format!("volumes: [{{name: c}}, {{name: d, {fields}}}]");
        check(&format!("containers: [{{name: a, image: b}}]\n{volumes}"), expected);
    }

    #[test]
    fn rights_of_a_container_are_found() {
        let privileged = "containers[0].securityContext.privileged: a privileged container";
        check_container("securityContext: {privileged: true}", Some(privileged));
        let added = "containers[0].securityContext.capabilities.add: additional capabilities";
        check_container("securityContext: {capabilities: {add: [SYS_ADMIN]}}", Some(added));
        let port = "containers[0].ports.hostPort: a port of the host";
        check_container("ports: [{containerPort: 80, hostPort: 80}]", Some(port));
        let secret = "containers[0].env.valueFrom.secretKeyRef: a value of a Secret";
        let variable = "{name: A, valueFrom: {secretKeyRef: {name: db, key: a}}}";
        check_container(&format!("env: [{variable}]"), Some(secret));
        let secrets = "containers[0].envFrom.secretRef: the values of a Secret";
        check_container("envFrom: [{secretRef: {name: db}}]", Some(secrets));
        check_container("securityContext: {privileged: false, capabilities: {drop: [ALL]}}", None);
        check_container("env: [{name: A, value: b}], ports: [{containerPort: 80}]", None);
    }

    #[test]
    fn volumes_of_the_node_and_of_secrets_are_found() {
        let kind = |kind: &str| Some(format!("volumes[1].{kind}: a volume of this kind"));
        check_volume("hostPath: {path: /}", kind("hostPath").as_deref());
        check_volume("secret: {secretName: db}", kind("secret").as_deref());
        check_volume(
            "persistentVolumeClaim: {claimName: db}",
            kind("persistentVolumeClaim").as_deref(),
        );
        let token = "projected: {sources: [{serviceAccountToken: {path: token}}]}";
        check_volume(token, kind("projected").as_deref());
        check_volume("projected: {sources: [{configMap: {name: a}}]}", None);
        check_volume("configMap: {name: envoy}", None);
        check_volume("emptyDir: {}", None);
    }
}
