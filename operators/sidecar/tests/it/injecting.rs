//! Pods that get a sidecar, and pods that do not.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use serde_json::json;

use crate::in_each_mode;
use crate::requests::{PODS, annotated, names, plain};
use crate::world::World;
use sidecar_operator::Mode;

in_each_mode! {
    a_thousand_pods_created_at_once_have_one_envoy_each
    a_pod_with_the_container_is_left_unchanged
    a_pod_with_an_init_container_of_the_name_is_left_unchanged
    a_pod_without_the_annotation_is_left_unchanged
    a_pod_on_the_network_of_the_node_is_left_unchanged
    a_pod_keeps_its_own_volume_and_gets_the_container
}

async fn a_thousand_pods_created_at_once_have_one_envoy_each(mode: Mode) {
    let world = World::start(mode).await;
    let pods: Vec<_> = (0..1000).map(|number| annotated(&format!("web-{number}"))).collect();
    let created = join_all(pods.iter().map(|pod| world.admin.create(PODS, pod))).await;
    for created in created {
        assert_eq!(names(&created.unwrap(), "containers"), ["web", "envoy"]);
    }
    let stored = world.admin.get(PODS).await.unwrap();
    let stored = stored["items"].as_array().unwrap();
    let mut counts = BTreeMap::new();
    for pod in stored {
        let shape = (names(pod, "containers").join(" "), names(pod, "volumes").join(" "));
        *counts.entry(shape).or_insert(0) += 1;
    }
    let expected = ("web envoy".to_owned(), "envoy-conf".to_owned());
    assert_eq!(counts, BTreeMap::from([(expected, 1000)]));
    world.stop().await;
}

async fn a_pod_with_the_container_is_left_unchanged(mode: Mode) {
    let world = World::start(mode).await;
    let mut own = annotated("own");
    let containers = json!([{"name": "web", "image": "nginx"}, {"name": "envoy", "image": "own"}]);
    own["spec"]["containers"] = containers;
    let created = world.admin.create(PODS, &own).await.unwrap();
    assert_eq!(names(&created, "containers"), ["web", "envoy"]);
    assert_eq!(created["spec"]["containers"][1]["image"], "own");
    assert_eq!(names(&created, "volumes"), [""; 0]);
    world.stop().await;
}

async fn a_pod_with_an_init_container_of_the_name_is_left_unchanged(mode: Mode) {
    let world = World::start(mode).await;
    let mut own = annotated("own");
    own["spec"]["initContainers"] =
        json!([{"name": "envoy", "image": "own", "restartPolicy": "Always"}]);
    let created = world.admin.create(PODS, &own).await.unwrap();
    assert_eq!(names(&created, "containers"), ["web"]);
    assert_eq!(names(&created, "initContainers"), ["envoy"]);
    assert_eq!(created["spec"]["initContainers"][0]["image"], "own");
    assert_eq!(names(&created, "volumes"), [""; 0]);
    world.stop().await;
}

async fn a_pod_without_the_annotation_is_left_unchanged(mode: Mode) {
    let world = World::start(mode).await;
    let mut declined = annotated("declined");
    declined["metadata"]["annotations"]["initializer.kubernetes.io/envoy"] = json!("false");
    for pod in [plain("plain"), declined] {
        let created = world.admin.create(PODS, &pod).await.unwrap();
        assert_eq!(names(&created, "containers"), ["web"]);
        assert_eq!(names(&created, "volumes"), [""; 0]);
        assert_eq!(created["metadata"].get("initializers"), None);
    }
    world.stop().await;
}

async fn a_pod_on_the_network_of_the_node_is_left_unchanged(mode: Mode) {
    let world = World::start(mode).await;
    for (name, is_on_node, expected) in
        [("node", true, ["web"].as_slice()), ("own", false, &["web", "envoy"])]
    {
        let mut pod = annotated(name);
        pod["spec"]["hostNetwork"] = json!(is_on_node);
        let created = world.admin.create(PODS, &pod).await.unwrap();
        assert_eq!(names(&created, "containers"), expected);
        assert_eq!(names(&created, "volumes").is_empty(), is_on_node);
        assert_eq!(created["metadata"].get("initializers"), None);
    }
    world.stop().await;
}

async fn a_pod_keeps_its_own_volume_and_gets_the_container(mode: Mode) {
    let world = World::start(mode).await;
    let mut pod = annotated("web");
    pod["spec"]["volumes"] = json!([{"name": "envoy-conf", "emptyDir": {}}]);
    let created = world.admin.create(PODS, &pod).await.unwrap();
    assert_eq!(names(&created, "containers"), ["web", "envoy"]);
    assert_eq!(names(&created, "volumes"), ["envoy-conf"]);
    assert_eq!(created["spec"]["volumes"][0], json!({"name": "envoy-conf", "emptyDir": {}}));
    let envoy = &created["spec"]["containers"][1];
    assert_eq!(envoy["args"][0], "--concurrency 4");
    assert_eq!(envoy["resources"]["limits"], json!({"cpu": "1", "memory": "512Mi"}));
    world.stop().await;
}
