//! A plane that is killed in the middle of the start, the update and the end of StatefulSets.

use super::interrupted_plane::{
    InterruptedPlane, PODS, WatchEvent, assert_same_end, untimed_status,
};
use super::pod_history::{PodHistory, is_ready};
use machinery::{Value, json};

const SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const DB: &str = "/apis/apps/v1/namespaces/default/statefulsets/db";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const REPLICAS: usize = 4;

#[test]
fn a_stateful_set_never_has_two_pods_of_one_ordinal() {
    assert_same_end(&[], |plane, round| {
        let mut history = PodHistory::default();
        create(plane);
        run_until_ready(plane);
        history.replay(plane.take_events(), |history, event| {
            assert_in_order(history, event);
            let count = history.remaining().count();
            assert!(count <= REPLICAS, "{count} pods in round {round}: {event:?}");
        });
        let claims = plane.list(CLAIMS);

        let containers = json!([{"name": "db", "image": "db:2"}]);
        let template = json!({"spec": {"containers": containers}});
        plane.send("PATCH", DB, Some(&json!({"spec": {"template": template}})));
        run_until_ready(plane);
        history.replay(plane.take_events(), |history, event| {
            let ready = history.remaining().filter(|pod| is_ready(pod)).count();
            assert!(ready + 1 >= REPLICAS, "{ready} pods are ready in round {round}: {event:?}");
        });
        assert_eq!(history.started.len(), 2 * REPLICAS, "started pods in round {round}");
        let end = end(plane);
        assert_eq!(plane.list(CLAIMS).len(), claims.len());

        plane.send("PATCH", DB, Some(&json!({"spec": {"replicas": 0}})));
        let is_empty = |_, set: &Value| {
            let status = &set["status"];
            status["replicas"] == 0 && status["observedGeneration"] == set["metadata"]["generation"]
        };
        plane.run_until(DB, 10, is_empty);
        plane.send("DELETE", DB, None);
        plane.run_until(PODS, 10, |_, pods| pods["items"] == json!([]));
        history.replay(plane.take_events(), |_, _| ());
        assert_eq!(history.created.len(), 2 * REPLICAS, "created pods in round {round}");
        end
    });
}

fn create(plane: &mut InterruptedPlane) {
    let labels = json!({"app": "db"});
    let containers = json!([{"name": "db", "image": "db:1"}]);
    let claim = json!({"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let spec = json!({
        "serviceName": "db", "replicas": REPLICAS, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        "volumeClaimTemplates": [claim],
    });
    plane.create(SETS, &json!({"metadata": {"name": "db"}, "spec": spec}));
}

fn run_until_ready(plane: &mut InterruptedPlane) {
    let is_complete = |_, set: &Value| {
        let status = &set["status"];
        let counts = ["replicas", "readyReplicas", "availableReplicas", "updatedReplicas"];
        status["observedGeneration"] == set["metadata"]["generation"]
            && counts.iter().all(|count| status[*count] == REPLICAS)
            && status["currentRevision"] == status["updateRevision"]
    };
    plane.run_until(DB, 12, is_complete);
}

/// A pod is created when those before it are ready.
fn assert_in_order(history: &PodHistory, event: &WatchEvent) {
    let name = event.object["metadata"]["name"].as_str().unwrap();
    let ordinal: usize = name.strip_prefix("db-").unwrap().parse().unwrap();
    if event.event_type == "ADDED" {
        for earlier in 0..ordinal {
            let is_ready = history.pod(&format!("db-{earlier}")).is_some_and(is_ready);
            assert!(is_ready, "{name} was created before db-{earlier} was ready");
        }
    }
}

/// The status of the set, and the images, revisions and claims of its pods.
fn end(plane: &mut InterruptedPlane) -> Value {
    let set = plane.send("GET", DB, None);
    let pods = plane.list(PODS).into_iter().map(|(name, pod)| {
        let labels = &pod["metadata"]["labels"];
        let spec = &pod["spec"];
        let volumes = spec["volumes"].as_array().unwrap().iter();
        let claims = volumes.map(|volume| volume["persistentVolumeClaim"]["claimName"].clone());
        let claim = claims.into_iter().find(|claim| !claim.is_null());
        json!([name, spec["containers"][0]["image"], labels["controller-revision-hash"], claim])
    });
    let claims = plane.list(CLAIMS).into_iter();
    let claims = claims.map(|(name, claim)| json!([name, claim["status"]["phase"]]));
    json!([untimed_status(&set), pods.collect::<Vec<_>>(), claims.collect::<Vec<_>>()])
}
