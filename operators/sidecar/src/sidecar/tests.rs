//! Configurations that are refused, and the patches of pods.

use super::*;

const ENVOY: &str = "
containers:
  - name: envoy
    image: envoyproxy/envoy
    volumeMounts: [{name: envoy-conf, mountPath: /etc/envoy}]
volumes:
  - name: envoy-conf
    configMap: {name: envoy}
";

fn pod(spec: &Value) -> Value {
    json!({"metadata": {"annotations": {ANNOTATION: "true"}}, "spec": spec})
}

fn merged(config: &str, pod: &Value) -> Value {
    let patch = Sidecar::parse(config).unwrap().patch(pod).unwrap();
    let mut merged = pod.clone();
    let ty = types::find("core/v1.Pod").unwrap();
    types::strategic::apply(ty, &mut merged, &patch).unwrap();
    merged
}

fn names_of(pod: &Value, field: &str) -> Vec<String> {
    names(&pod["spec"][field]).map(str::to_owned).collect()
}

/// Checks that a configuration is refused with this message.
fn refused(config: &str, expected: &str) {
    assert_eq!(Sidecar::parse(config).unwrap_err().to_string(), expected);
}

#[test]
fn the_sidecar_is_added_after_the_containers_and_volumes_of_the_pod() {
    let pod = pod(&json!({
        "containers": [{"name": "web", "image": "nginx"}, {"name": "log", "image": "fluentd"}],
        "volumes": [{"name": "token", "emptyDir": {}}],
    }));
    let merged = merged(ENVOY, &pod);
    assert_eq!(names_of(&merged, "containers"), ["web", "log", "envoy"]);
    assert_eq!(names_of(&merged, "volumes"), ["token", "envoy-conf"]);
    assert_eq!(merged["spec"]["containers"][0], pod["spec"]["containers"][0]);
    assert_eq!(merged["spec"]["volumes"][1]["configMap"]["name"], "envoy");
}

#[test]
fn a_pod_without_volumes_gets_those_of_the_sidecar() {
    let merged = merged(ENVOY, &pod(&json!({"containers": [{"name": "web"}]})));
    assert_eq!(names_of(&merged, "volumes"), ["envoy-conf"]);
}

#[test]
fn a_second_patch_is_not_necessary() {
    let merged = merged(ENVOY, &pod(&json!({"containers": [{"name": "web"}]})));
    assert_eq!(Sidecar::parse(ENVOY).unwrap().patch(&merged), None);
}

#[test]
fn a_pod_with_the_container_is_left_unchanged() {
    let envoy = Sidecar::parse(ENVOY).unwrap();
    let own = json!([{"name": "envoy", "image": "own/envoy"}]);
    assert_eq!(envoy.patch(&pod(&json!({"containers": own}))), None);
    let native = json!({"containers": [{"name": "web"}], "initContainers": own});
    assert_eq!(envoy.patch(&pod(&native)), None);
}

#[test]
fn a_volume_of_the_pod_is_kept() {
    let own = json!({"name": "envoy-conf", "emptyDir": {}});
    let pod = pod(&json!({"containers": [{"name": "web"}], "volumes": [own]}));
    let merged = merged(ENVOY, &pod);
    assert_eq!(merged["spec"]["volumes"], json!([own]));
    assert_eq!(names_of(&merged, "containers"), ["web", "envoy"]);
}

#[test]
fn only_the_missing_containers_are_added() {
    let two = "containers: [{name: envoy, image: e}, {name: agent, image: a}]";
    let own = json!([{"name": "agent", "image": "own"}, {"name": "web", "image": "nginx"}]);
    let merged = merged(two, &pod(&json!({"containers": own})));
    assert_eq!(names_of(&merged, "containers"), ["agent", "web", "envoy"]);
    assert_eq!(merged["spec"]["containers"][0]["image"], "own");
}

#[test]
fn a_pod_without_the_annotation_is_left_unchanged() {
    let envoy = Sidecar::parse(ENVOY).unwrap();
    for annotations in [json!(null), json!({}), json!({ANNOTATION: "false"}), json!({"a": "true"})]
    {
        let spec = json!({"containers": [{"name": "web"}]});
        let pod = json!({"metadata": {"annotations": annotations}, "spec": spec});
        assert_eq!(envoy.patch(&pod), None, "{pod}");
    }
}

#[test]
fn a_pod_on_the_network_of_the_node_is_left_unchanged() {
    let envoy = Sidecar::parse(ENVOY).unwrap();
    let spec = |host: Value| json!({"hostNetwork": host, "containers": [{"name": "web"}]});
    assert_eq!(envoy.patch(&pod(&spec(json!(true)))), None);
    for host in [json!(false), json!(null)] {
        assert!(envoy.patch(&pod(&spec(host))).is_some());
    }
}

#[test]
fn a_configuration_that_is_not_yaml_is_refused_with_the_line() {
    refused(
        "containers:\n  - name: envoy\n   image: x\n",
        "it is not YAML: yaml: line 2: did not find expected '-' indicator",
    );
    refused("just text", "it must be a map with containers, not \"just text\"");
    refused("", "it must be a map with containers, not \"\"");
}

#[test]
fn an_unknown_field_is_refused_with_its_path() {
    refused("containres: []", "unknown field \"containres\"; known are containers and volumes");
    refused("containers: [{name: envoy, imagee: x}]", "unknown field \"containers[0].imagee\"");
}

#[test]
fn containers_without_a_valid_name_or_an_image_are_refused() {
    refused("volumes: []", "containers: at least one is required");
    refused("containers: [{name: envoy}]", "containers[0].image: it is required");
    refused(
        "containers: [{name: e, image: x}, {name: e, image: z}]",
        "containers[1].name: \"e\" occurs twice",
    );
    let error = Sidecar::parse("containers: [{name: En_voy, image: x}]").unwrap_err().to_string();
    assert!(error.starts_with("containers[0].name \"En_voy\": a lowercase RFC 1123"), "{error}");
}

#[test]
fn a_field_of_another_type_is_refused() {
    let error = Sidecar::parse("containers: [{name: envoy, image: [x]}]").unwrap_err().to_string();
    assert!(error.contains("image"), "{error}");
}

#[test]
fn a_quantity_may_be_a_number() {
    let config = "containers: [{name: envoy, image: x, resources: {limits: {cpu: 1}}}]";
    let sidecar = Sidecar::parse(config).unwrap();
    assert_eq!(sidecar.containers()[0]["resources"]["limits"]["cpu"], "1");
}

#[test]
fn the_number_of_containers_and_volumes_is_limited() {
    let list = |count: usize, fields: &str| {
        let elements = (0..count).map(|number| format!("{{name: e{number}{fields}}}"));
        elements.collect::<Vec<_>>().join(", ")
    };
    let config = |containers, volumes| {
        let containers = list(containers, ", image: a");
        format!("containers: [{containers}]\nvolumes: [{}]", list(volumes, ""))
    };
    assert!(Sidecar::parse(&config(32, 32)).is_ok());
    refused(&config(33, 0), "containers: 33 are more than 32");
    refused(&config(1, 33), "volumes: 33 are more than 32");
}
