//! A plane that is killed in the middle of the deletion of namespaces.

use std::collections::BTreeSet;

use super::interrupted_plane::{InterruptedPlane, assert_same_end};
use super::pod_history::PodHistory;
use machinery::{Value, json};

const NAMESPACES: &str = "/api/v1/namespaces";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const CONFIG_MAPS: &str = "/api/v1/configmaps";
const SECRETS: &str = "/api/v1/secrets";
const STAYS: &str = "stays";

#[test]
fn a_deleted_namespace_leaves_nothing_behind() {
    assert_same_end(&[CONFIG_MAPS, SECRETS], |plane, round| {
        if round == 0 {
            plane.create(CRDS, &crd());
            plane.wait_until("/apis/example.com/v1/boats", |code, _| code == 200);
            fill(plane, STAYS);
        }
        let name = format!("goes-{round}");
        fill(plane, &name);
        let before = objects(plane, STAYS);
        plane.send("DELETE", &format!("{NAMESPACES}/{name}"), None);
        plane.run_until(&format!("{NAMESPACES}/{name}"), 24, |code, _| code == 404);
        // The volumes of the claims are deleted in the background.
        let is_of_namespace =
            |volume: &Value| volume["spec"]["claimRef"]["namespace"] == name.as_str();
        plane.run_until(VOLUMES, 24, |_, volumes| {
            !volumes["items"].as_array().unwrap().iter().any(is_of_namespace)
        });

        assert_eq!(objects(plane, &name), BTreeSet::new(), "left behind in round {round}");
        assert_eq!(objects(plane, STAYS), before, "the other namespace in round {round}");
        let mut history = PodHistory::default();
        let events = plane.take_events().into_iter();
        let events = events.filter(|event| event.object["metadata"]["namespace"] == name.as_str());
        history.replay(events.collect(), |_, _| ());
        json!([history.created.len(), history.succeeded.len()])
    });
}

/// Creates a namespace with objects of several kinds, and waits until its pods are ready.
fn fill(plane: &mut InterruptedPlane, name: &str) {
    plane.create(NAMESPACES, &json!({"metadata": {"name": name}}));
    let core = |resource: &str| format!("{NAMESPACES}/{name}/{resource}");
    let account = core("serviceaccounts/default");
    plane.wait_until(&account, |code, _| code == 200);

    let labels = json!({"app": "web"});
    let containers = json!([{"name": "main", "image": "web:1"}]);
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
    let apps = |resource: &str| format!("/apis/apps/v1/namespaces/{name}/{resource}");
    let spec = json!({"replicas": 3, "selector": {"matchLabels": labels}, "template": template});
    plane.create(&apps("deployments"), &json!({"metadata": {"name": "web"}, "spec": spec}));
    let claim = json!({"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let db_labels = json!({"app": "db"});
    let template = json!({"metadata": {"labels": db_labels}, "spec": {"containers": containers}});
    let spec = json!({"replicas": 2, "serviceName": "db", "selector": {"matchLabels": db_labels},
        "template": template, "volumeClaimTemplates": [claim]});
    plane.create(&apps("statefulsets"), &json!({"metadata": {"name": "db"}, "spec": spec}));
    let service = json!({"metadata": {"name": "web"},
        "spec": {"selector": labels, "ports": [{"port": 80}]}});
    plane.create(&core("services"), &service);
    let job = json!({"completions": 2, "template":
        {"spec": {"restartPolicy": "Never", "containers": containers}}});
    let batch = format!("/apis/batch/v1/namespaces/{name}/jobs");
    plane.create(&batch, &json!({"metadata": {"name": "once"}, "spec": job}));

    create_owner_tree(plane, name);
    plane.wait_until(&apps("deployments/web"), |_, web| web["status"]["readyReplicas"] == 3);
    plane.wait_until(&apps("statefulsets/db"), |_, db| db["status"]["readyReplicas"] == 2);
    let is_complete = |_, job: &Value| job["status"]["completionTime"].is_string();
    plane.wait_until(&format!("{batch}/once"), is_complete);
}

/// A custom resource that owns config maps, each of which owns a secret.
fn create_owner_tree(plane: &mut InterruptedPlane, name: &str) {
    let boats = format!("/apis/example.com/v1/namespaces/{name}/boats");
    let boat = json!({"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "a"}});
    let boat = plane.send("POST", &boats, Some(&boat));
    for number in 0..8 {
        let metadata = json!({"name": format!("map-{number}"), "ownerReferences": [owner(&boat)]});
        let maps = format!("{NAMESPACES}/{name}/configmaps");
        let map = plane.send("POST", &maps, Some(&json!({"metadata": metadata})));
        let metadata =
            json!({"name": format!("secret-{number}"), "ownerReferences": [owner(&map)]});
        plane.create(&format!("{NAMESPACES}/{name}/secrets"), &json!({"metadata": metadata}));
    }
}

fn owner(object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "name": metadata["name"],
        "uid": metadata["uid"], "controller": true, "blockOwnerDeletion": true})
}

fn crd() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    json!({
        "metadata": {"name": "boats.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "boats", "singular": "boat", "kind": "Boat"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    })
}

/// The objects of all kinds in a namespace but Events, as `kind/name/uid`.
fn objects(plane: &mut InterruptedPlane, namespace: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for collection in collections(plane) {
        let list = plane.send("GET", &collection, None);
        for item in list["items"].as_array().unwrap() {
            let metadata = &item["metadata"];
            if metadata["namespace"] == namespace {
                found.insert(format!("{collection} {} {}", metadata["name"], metadata["uid"]));
            }
        }
    }
    found
}

/// The paths of all namespaced kinds.
fn collections(plane: &mut InterruptedPlane) -> Vec<String> {
    let groups = plane.send("GET", "/apis", None);
    let groups = groups["groups"].as_array().unwrap().iter();
    let versions = groups.map(|group| group["preferredVersion"]["groupVersion"].as_str().unwrap());
    let paths = versions.map(|version| format!("/apis/{version}")).chain(["/api/v1".to_owned()]);
    let mut collections = Vec::new();
    for path in paths.collect::<Vec<_>>() {
        let resources = plane.send("GET", &path, None);
        for resource in resources["resources"].as_array().unwrap() {
            let can_list = resource["verbs"].as_array().unwrap().contains(&json!("list"));
            let is_stored = resource["storageVersionHash"].is_string();
            if can_list
                && is_stored
                && resource["namespaced"] == true
                && resource["name"] != "events"
            {
                collections.push(format!("{path}/{}", resource["name"].as_str().unwrap()));
            }
        }
    }
    collections
}
