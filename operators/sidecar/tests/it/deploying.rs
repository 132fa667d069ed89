//! Pods of a Deployment, on simulated nodes.

use serde_json::Value;

use crate::in_each_mode;
use crate::requests::{PODS, names};
use crate::world::{BOOTSTRAP, World, decode, with_rbac};
use cluster::ClusterConfig;
use sidecar_operator::Mode;

const DEPLOYMENT: &str = include_str!("../../example/deployment.yaml");

in_each_mode! { the_pods_of_a_deployment_run_with_their_sidecars }

async fn the_pods_of_a_deployment_run_with_their_sidecars(mode: Mode) {
    let mut world = World::with(mode, ClusterConfig { nodes: 2, ..with_rbac() }).await;
    world.start_operator().await;
    world.admin.apply(&decode(BOOTSTRAP)).await;
    world.admin.apply(&decode(DEPLOYMENT)).await;
    let is_running = |pod: &Value| pod["status"]["phase"] == "Running";
    let pods = world.admin.until(PODS, |list| {
        let pods = list["items"].as_array().unwrap();
        pods.len() == 3 && pods.iter().all(is_running)
    });
    for pod in pods.await["items"].as_array().unwrap() {
        assert_eq!(names(pod, "containers"), ["web", "envoy"]);
        let ready = pod["status"]["containerStatuses"].as_array().unwrap();
        assert!(ready.len() == 2 && ready.iter().all(|status| status["ready"] == true), "{pod}");
    }
    world.stop().await;
}
