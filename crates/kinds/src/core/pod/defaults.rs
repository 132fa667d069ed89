//! The defaults of pods and pod templates.

use super::super::volume_sources;
use super::{CONTAINERS, containers_mut};
use crate::validation::quantities::amount;
use machinery::fields::{default_number, default_text, default_value, map_mut, maps_mut, top};
use machinery::quantity::Quantity;
use machinery::{Map, Object, Value, json};

/// The default permissions of files in a volume.
const FILE_MODE: i64 = 0o644;

/// Sets the defaults of a pod.
pub(super) fn defaults(pod: &mut Object) {
    let spec = pod.map_at(&["spec"]);
    spec_defaults(spec);
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|it| it < 0) {
        spec.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
    }
    for part in ["initContainers", "containers"] {
        for container in containers_mut(spec, part) {
            if let Some(resources) = map_mut(container, "resources") {
                requests_from_limits(resources);
            }
        }
    }
    default_value(spec, "enableServiceLinks", true.into());
    if spec.get("hostNetwork").and_then(Value::as_bool).unwrap_or(false) {
        for part in ["initContainers", "containers"] {
            containers_mut(spec, part).for_each(default_host_ports);
        }
    }
    if top(pod, "status").is_object() {
        default_pod_ips(pod.map_at(&["status"]));
    }
}

/// Sets the defaults of the spec of a pod or a pod template.
pub fn spec_defaults(spec: &mut Map<String, Value>) {
    let account = |key: &str| spec.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let name = match account("serviceAccountName") {
        name if name.is_empty() => account("serviceAccount"),
        name => name,
    };
    if !name.is_empty() {
        spec.insert("serviceAccountName".to_owned(), name.clone().into());
        spec.insert("serviceAccount".to_owned(), name.into());
    }
    default_text(spec, "dnsPolicy", "ClusterFirst");
    default_text(spec, "restartPolicy", "Always");
    default_value(spec, "securityContext", json!({}));
    default_value(spec, "terminationGracePeriodSeconds", 30.into());
    default_text(spec, "schedulerName", "default-scheduler");
    maps_mut(spec, "volumes").for_each(volume_defaults);
    for part in CONTAINERS {
        containers_mut(spec, part).for_each(container_defaults);
    }
    round_up(spec, "overhead");
    if let Some(resources) = map_mut(spec, "resources") {
        round_up(resources, "limits");
        round_up(resources, "requests");
    }
}

fn container_defaults(container: &mut Map<String, Value>) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let pull = if is_latest(image) { "Always" } else { "IfNotPresent" };
    default_text(container, "imagePullPolicy", pull);
    default_text(container, "terminationMessagePath", "/dev/termination-log");
    default_text(container, "terminationMessagePolicy", "File");
    for port in maps_mut(container, "ports") {
        default_text(port, "protocol", "TCP");
    }
    for env in maps_mut(container, "env") {
        if let Some(source) = map_mut(env, "valueFrom") {
            field_ref_defaults(source);
            if let Some(file) = map_mut(source, "fileKeyRef") {
                default_value(file, "optional", false.into());
            }
        }
    }
    if let Some(resources) = map_mut(container, "resources") {
        round_up(resources, "limits");
        round_up(resources, "requests");
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = map_mut(container, probe) {
            probe_defaults(probe);
        }
    }
    if let Some(lifecycle) = map_mut(container, "lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(hook) = map_mut(lifecycle, hook) {
                handler_defaults(hook);
            }
        }
    }
}

fn probe_defaults(probe: &mut Map<String, Value>) {
    handler_defaults(probe);
    if let Some(grpc) = map_mut(probe, "grpc") {
        default_value(grpc, "service", "".into());
    }
    default_number(probe, "timeoutSeconds", 1);
    default_number(probe, "periodSeconds", 10);
    default_number(probe, "successThreshold", 1);
    default_number(probe, "failureThreshold", 3);
}

fn handler_defaults(handler: &mut Map<String, Value>) {
    if let Some(http) = map_mut(handler, "httpGet") {
        default_text(http, "path", "/");
        default_text(http, "scheme", "HTTP");
    }
}

fn field_ref_defaults(source: &mut Map<String, Value>) {
    if let Some(reference) = map_mut(source, "fieldRef") {
        default_text(reference, "apiVersion", "v1");
    }
    if let Some(reference) = map_mut(source, "resourceFieldRef") {
        default_value(reference, "divisor", "0".into());
    }
}

/// The length of the longest valid name of a repository.
const MAX_REPOSITORY: usize = 255;

/// Whether an image's tag is `latest`, explicitly or by default. An image that cannot be parsed has
/// no tag.
pub(super) fn is_latest(image: &str) -> bool {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, it)| (name, Some(it)));
    let after_slash = name.rfind('/').map_or(0, |slash| slash + 1);
    let (repository, tag) = match name[after_slash..].split_once(':') {
        Some((_, tag)) => (&name[..name.len() - tag.len() - 1], Some(tag)),
        None => (name, None),
    };
    let path = match repository.split_once('/') {
        Some((host, path)) if is_host(host) => path,
        _ => repository,
    };
    let is_valid = !path.is_empty()
        && path.len() <= MAX_REPOSITORY
        && path.split('/').all(|part| {
            part.starts_with(is_lower_alphanumeric)
                && part.ends_with(is_lower_alphanumeric)
                && part.chars().all(|c| is_lower_alphanumeric(c) || "._-".contains(c))
        });
    is_valid && tag.map_or(digest.is_none(), |tag| tag == "latest")
}

fn is_lower_alphanumeric(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

/// Whether the first part of an image's name is a host and not a part of the repository.
fn is_host(part: &str) -> bool {
    part.contains(['.', ':'])
        || part == "localhost"
        || part.contains(|c: char| c.is_ascii_uppercase())
}

/// Sets the defaults of a volume; one without a source is an `emptyDir`.
fn volume_defaults(volume: &mut Map<String, Value>) {
    if volume.iter().all(|(key, value)| key == "name" || value.is_null()) {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = map_mut(volume, source) {
            default_value(source, "defaultMode", FILE_MODE.into());
        }
    }
    if let Some(source) = map_mut(volume, "downwardAPI") {
        maps_mut(source, "items").for_each(field_ref_defaults);
    }
    if let Some(projected) = map_mut(volume, "projected") {
        for source in maps_mut(projected, "sources") {
            if let Some(token) = map_mut(source, "serviceAccountToken") {
                default_value(token, "expirationSeconds", 3600.into());
            }
            if let Some(files) = map_mut(source, "downwardAPI") {
                maps_mut(files, "items").for_each(field_ref_defaults);
            }
        }
    }
    if let Some(source) = map_mut(volume, "hostPath") {
        default_value(source, "type", "".into());
    }
    if let Some(image) = map_mut(volume, "image") {
        let reference = image.get("reference").and_then(Value::as_str).unwrap_or_default();
        let pull = if is_latest(reference) { "Always" } else { "IfNotPresent" };
        default_text(image, "pullPolicy", pull);
    }
    if let Some(claim) = map_mut(volume, "ephemeral")
        .and_then(|it| map_mut(it, "volumeClaimTemplate"))
        .and_then(|it| map_mut(it, "spec"))
    {
        default_value(claim, "volumeMode", "Filesystem".into());
    }
    volume_sources::defaults(volume);
}

/// A container with a limit and without a request requests its limit.
fn requests_from_limits(resources: &mut Map<String, Value>) {
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    if limits.is_empty() {
        return;
    }
    let requests = resources.entry("requests").or_insert_with(|| json!({}));
    if !requests.is_object() {
        *requests = json!({});
    }
    if let Some(requests) = requests.as_object_mut() {
        for (name, limit) in limits {
            requests.entry(name).or_insert(limit);
        }
    }
}

/// Rounds quantities up to thousandths.
fn round_up(map: &mut Map<String, Value>, key: &str) {
    for value in map_mut(map, key).into_iter().flat_map(Map::values_mut) {
        let amount = amount(value);
        match Quantity::parse(&format!("{}m", amount.milli_value())) {
            Ok(rounded) if rounded != amount => *value = rounded.to_string().into(),
            _ => {}
        }
    }
}

/// In the host network, the host port defaults to the container port.
fn default_host_ports(container: &mut Map<String, Value>) {
    for port in maps_mut(container, "ports") {
        let number = port.get("containerPort").and_then(Value::as_i64).unwrap_or(0);
        if number != 0 {
            default_number(port, "hostPort", number);
        }
    }
}

/// Sets `podIP` and `podIPs` from each other; `podIP` takes precedence.
fn default_pod_ips(status: &mut Map<String, Value>) {
    let single = status.get("podIP").and_then(Value::as_str).unwrap_or_default().to_owned();
    let first = status
        .get("podIPs")
        .and_then(|addresses| addresses.get(0))
        .and_then(|address| address.get("ip"))
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if single.is_empty() && !first.is_empty() {
        status.insert("podIP".to_owned(), first.into());
    } else if !single.is_empty() && single != first {
        status.insert("podIPs".to_owned(), json!([{"ip": single}]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::object;

    fn check(pod: Value, path: &[&str], expected: Value) {
        let mut pod = object(pod);
        defaults(&mut pod);
        assert_eq!(pod.get(path), Some(&expected));
    }

    #[test]
    fn a_pod_and_its_container_get_defaults() {
        check(
            json!({"spec": {"containers": [{"name": "c", "image": "nginx"}]}}),
            &["spec"],
            json!({
                "containers": [{"name": "c", "image": "nginx", "imagePullPolicy": "Always",
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File"}],
                "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "securityContext": {},
                "terminationGracePeriodSeconds": 30, "schedulerName": "default-scheduler",
                "enableServiceLinks": true,
            }),
        );
    }

    #[test]
    fn only_the_latest_image_is_always_pulled() {
        for (image, expected) in [
            ("nginx", true),
            ("nginx:latest", true),
            ("nginx:1.27", false),
            ("localhost:5000/a/b", true),
            ("example.com/a:1", false),
            ("a@sha256:0123", false),
            ("Not An Image", false),
            ("", false),
        ] {
            assert_eq!(is_latest(image), expected, "{image}");
        }
    }

    #[test]
    fn volumes_get_defaults() {
        check(
            json!({"spec": {"volumes": [{"name": "n"}, {"name": "s", "secret": {"secretName": "s"}},
                {"name": "h", "hostPath": {"path": "/x"}}]}}),
            &["spec", "volumes"],
            json!([{"name": "n", "emptyDir": {}},
                {"name": "s", "secret": {"secretName": "s", "defaultMode": 420}},
                {"name": "h", "hostPath": {"path": "/x", "type": ""}}]),
        );
    }

    #[test]
    fn probes_and_ports_get_defaults() {
        let mut pod = object(json!({"spec": {"hostNetwork": true, "containers": [{
            "ports": [{"containerPort": 80}], "livenessProbe": {"httpGet": {"port": 80}}}]}}));
        defaults(&mut pod);
        let container = &top(&pod, "spec")["containers"][0];
        assert_eq!(
            container["ports"],
            json!([{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}])
        );
        assert_eq!(
            container["livenessProbe"],
            json!({"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}, "timeoutSeconds": 1,
                "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3})
        );
    }

    #[test]
    fn requests_default_to_limits_and_are_rounded_up() {
        let mut pod = object(json!({"spec": {"containers": [
            {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1u"}}}]}}));
        defaults(&mut pod);
        assert_eq!(
            top(&pod, "spec")["containers"][0]["resources"]["requests"],
            json!({"cpu": "1m", "memory": "1Gi"})
        );
    }

    #[test]
    fn pod_ip_and_pod_ips_default_to_each_other() {
        check(
            json!({"status": {"podIPs": [{"ip": "192.0.2.3"}]}}),
            &["status", "podIP"],
            json!("192.0.2.3"),
        );
        check(
            json!({"status": {"podIP": "192.0.2.3"}}),
            &["status", "podIPs"],
            json!([{"ip": "192.0.2.3"}]),
        );
    }
}
