//! A node of tests: it binds pods, makes them ready, and ends pods that are being deleted.

use std::time::Duration;

use crate::objects::PODS;
use crate::plane::Plane;
use machinery::{Value, json};

/// See the [module documentation](self). It works only while a test calls it, so that the test sees
/// the states in between.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FakeNode;

impl FakeNode {
    /// Works on all pods once.
    pub(crate) async fn step(self, plane: &Plane) {
        let pods = plane.read(PODS).await;
        for pod in pods["items"].as_array().unwrap() {
            let path = format!("{PODS}/{}", pod["metadata"]["name"].as_str().unwrap());
            if !pod["metadata"]["deletionTimestamp"].is_null() {
                let uid = &pod["metadata"]["uid"];
                let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}});
                plane.delete_with(&path, &options).await;
            } else if pod["spec"]["nodeName"].is_null() {
                // The pod may be gone by now.
                plane.post(&format!("{path}/binding"), &binding(pod)).await;
            } else if pod["status"]["phase"] == "Pending" {
                let now = jiff::Timestamp::from_second(plane.clock().now().seconds()).unwrap();
                let ready = json!({"type": "Ready", "status": "True",
                    "lastTransitionTime": now.to_string()});
                let status = json!({"metadata": {"uid": pod["metadata"]["uid"]},
                    "status": {"phase": "Running", "conditions": [ready]}});
                let merge = "application/merge-patch+json";
                plane.patch(&format!("{path}/status"), merge, &status).await;
            }
        }
    }

    /// Works until an object is as expected.
    pub(crate) async fn until(
        self,
        plane: &Plane,
        path: &str,
        is_expected: impl Fn(&Value) -> bool,
    ) -> Value {
        let working = async {
            loop {
                let (code, found) = plane.get(path).await;
                if code == 200 && is_expected(&found) {
                    return found;
                }
                self.step(plane).await;
                tokio::task::yield_now().await;
            }
        };
        let done = tokio::time::timeout(Duration::from_secs(30), working).await;
        let Ok(found) = done else { panic!("{path} is {}", plane.read(path).await) };
        found
    }
}

/// Binds a pod to the node that its affinity names, or else to `n1`.
fn binding(pod: &Value) -> Value {
    let terms = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        ["nodeSelectorTerms"];
    let node = terms[0]["matchFields"][0]["values"][0].as_str().unwrap_or("n1");
    let metadata = json!({"name": pod["metadata"]["name"]});
    let target = json!({"apiVersion": "v1", "kind": "Node", "name": node});
    json!({"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target})
}
