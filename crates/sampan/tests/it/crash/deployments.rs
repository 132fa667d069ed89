//! A plane that is killed in the middle of rolling updates.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::interrupted_plane::{
    InterruptedPlane, PODS, WatchEvent, assert_same_end, untimed_status,
};
use super::pod_history::{PodHistory, is_active, is_ready};
use machinery::{Value, json};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io/service-name=web";
const REPLICAS: usize = 6;
const MAX_SURGE: usize = 2;
const MAX_UNAVAILABLE: usize = 1;

#[test]
fn a_rolling_update_ends_as_without_a_crash() {
    let rollouts = RefCell::new(Rollouts::default());
    assert_same_end(&[REPLICA_SETS], |plane, round| {
        if round == 0 {
            rollouts.take();
            create(plane);
            plane.wait_until(WEB, |_, deployment| is_complete(deployment));
        } else {
            let containers = json!([{"name": "web", "image": format!("web:{round}")}]);
            let template = json!({"spec": {"containers": containers}});
            plane.send("PATCH", WEB, Some(&json!({"spec": {"template": template}})));
        }
        plane.run_until(WEB, 16, |_, deployment| is_complete(deployment));
        let slices = |_, list: &Value| ready_endpoints(list) == Some(REPLICAS);
        plane.run_until(SLICES, 16, slices);
        rollouts.borrow_mut().check(plane.take_events(), round);
        end(plane)
    });
}

/// Checks the limits of rolling updates after each event.
#[derive(Default)]
struct Rollouts {
    history: PodHistory,
    /// The desired number of pods of each `ReplicaSet`.
    sets: BTreeMap<String, usize>,
}

impl Rollouts {
    fn check(&mut self, events: Vec<WatchEvent>, round: u64) {
        let sets = &mut self.sets;
        self.history.replay(events, |history, event| {
            let ready = history.remaining().filter(|pod| is_ready(pod)).count();
            let is_enough = round == 0 || ready + MAX_UNAVAILABLE >= REPLICAS;
            assert!(is_enough, "{ready} pods are ready in round {round}: {event:?}");
            let is_added = event.event_type == "ADDED";
            match event.object["kind"].as_str() {
                Some("ReplicaSet") => {
                    let name = event.object["metadata"]["name"].as_str().unwrap();
                    let replicas = event.object["spec"]["replicas"].as_u64().unwrap();
                    sets.insert(name.to_owned(), usize::try_from(replicas).unwrap());
                    // Kubernetes limits the numbers of desired pods: those of the old template may
                    // still be there when their number was reduced.
                    let desired = sets.values().sum::<usize>();
                    let is_allowed = desired <= REPLICAS + MAX_SURGE;
                    assert!(is_allowed, "{desired} pods are desired in round {round}: {sets:?}");
                }
                Some("Pod") if is_added => {
                    let owner = owner(&event.object);
                    let of_set = history.remaining().filter(|pod| self::owner(pod) == owner);
                    let count = of_set.filter(|pod| is_active(pod)).count();
                    assert!(count <= sets[owner], "{count} pods of {owner} in round {round}");
                }
                _ => {}
            }
        });
    }
}

/// The name of the owner of a pod.
fn owner(pod: &Value) -> &str {
    pod["metadata"]["ownerReferences"][0]["name"].as_str().unwrap()
}

fn create(plane: &mut InterruptedPlane) {
    let labels = json!({"app": "web"});
    let service = json!({"metadata": {"name": "web"},
        "spec": {"selector": labels, "ports": [{"port": 80}]}});
    plane.create("/api/v1/namespaces/default/services", &service);
    let containers = json!([{"name": "web", "image": "web:0"}]);
    let limits = json!({"maxSurge": MAX_SURGE, "maxUnavailable": MAX_UNAVAILABLE});
    let spec = json!({
        "replicas": REPLICAS,
        "selector": {"matchLabels": labels},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": limits},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
    });
    plane.create(DEPLOYMENTS, &json!({"metadata": {"name": "web"}, "spec": spec}));
}

/// As `kubectl rollout status` decides it, and all pods of the old template are gone.
fn is_complete(deployment: &Value) -> bool {
    let status = &deployment["status"];
    let counts = ["updatedReplicas", "availableReplicas", "readyReplicas", "replicas"];
    status["observedGeneration"] == deployment["metadata"]["generation"]
        && counts.iter().all(|count| status[*count] == REPLICAS)
        && status["terminatingReplicas"].as_u64().unwrap_or_default() == 0
}

/// The number of endpoints, if all of them are ready.
fn ready_endpoints(slices: &Value) -> Option<usize> {
    let slices = slices["items"].as_array()?;
    let endpoints = slices.iter().filter_map(|slice| slice["endpoints"].as_array());
    let endpoints: Vec<_> = endpoints.flatten().collect();
    let are_ready = endpoints.iter().all(|endpoint| endpoint["conditions"]["ready"] == true);
    are_ready.then_some(endpoints.len())
}

/// The status of the Deployment, its revisions with their replicas, and the images of its pods.
fn end(plane: &mut InterruptedPlane) -> Value {
    let mut status = untimed_status(&plane.send("GET", WEB, None));
    for condition in status["conditions"].as_array_mut().unwrap() {
        // It names the ReplicaSet.
        condition["message"] = Value::Null;
    }
    let sets = plane.list(REPLICA_SETS).into_values();
    let mut revisions: Vec<Value> = sets
        .map(|set| {
            let revision = &set["metadata"]["annotations"]["deployment.kubernetes.io/revision"];
            let mut status = untimed_status(&set);
            // It counts the steps of the rollouts.
            assert_eq!(status["observedGeneration"].take(), set["metadata"]["generation"]);
            json!([revision, set["spec"]["replicas"], status])
        })
        .collect();
    revisions.sort_by_key(ToString::to_string);
    let pods = plane.list(PODS).into_values();
    let images: Vec<Value> =
        pods.map(|pod| pod["spec"]["containers"][0]["image"].clone()).collect();
    json!([status, revisions, images])
}
