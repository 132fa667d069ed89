//! Workloads and their pods in the namespace of mallory that are to change those of others: by the
//! uid of an owner, by templates and by status.

use std::time::Duration;

use super::{OWN, controller, own, plane};
use crate::fake_node::FakeNode;
use crate::objects::{PODS, names, template};
use machinery::{Value, json};

const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

fn own_pods() -> String {
    own("api/v1", "pods")
}

fn workload(replicas: u32) -> Value {
    json!({"metadata": {"name": "web"}, "spec": {"replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}}, "template": template("web")}})
}

/// A pod with the labels of the victim's pods, which names the uid of their controller.
fn foreign_pod(name: &str, controller: &Value) -> Value {
    let mut pod = template("web");
    pod["metadata"]["name"] = name.into();
    pod["metadata"]["ownerReferences"] = json!([controller]);
    pod
}

#[tokio::test]
async fn pods_elsewhere_that_name_the_uid_of_a_replica_set_are_not_its_pods() {
    let (plane, mallory) = plane(&["replicaset"]).await;
    let set = plane.create(SETS, &workload(2)).await;
    plane.until(PODS, |_, pods| names(pods).len() == 2).await;
    for name in ["a", "b"] {
        let pod = foreign_pod(name, &controller("apps/v1", "ReplicaSet", &set));
        mallory.create(&own_pods(), &pod).await;
    }
    // The cache shows pods in the order of their changes.
    let before = names(&plane.read(PODS).await);
    plane.delete(&format!("{PODS}/{}", before[0])).await;
    plane.until(PODS, |_, pods| names(pods).len() == 2 && !names(pods).contains(&before[0])).await;
    plane
        .until(&format!("{SETS}/web"), |_, it| {
            it["status"]["replicas"] == 2 && it["status"]["observedGeneration"] == 1
        })
        .await;
    assert_eq!(names(&plane.read(&own_pods()).await), ["a", "b"]);
    plane.stop().await;
}

#[tokio::test]
async fn replica_sets_elsewhere_that_name_the_uid_of_a_deployment_are_not_its_own() {
    let (plane, mallory) = plane(&["deployment"]).await;
    let deployment = plane.create(DEPLOYMENTS, &workload(2)).await;
    plane.until(SETS, |_, sets| names(sets).len() == 1).await;
    // It has the template of the next rollout.
    let mut foreign = workload(0);
    foreign["spec"]["template"]["spec"]["containers"][0]["image"] = "nginx:2".into();
    foreign["metadata"]["ownerReferences"] =
        json!([controller("apps/v1", "Deployment", &deployment)]);
    let own_sets = own("apis/apps/v1", "replicasets");
    mallory.create(&own_sets, &foreign).await;
    // The cache shows sets in the order of their changes.
    let mut orphan = workload(0);
    orphan["metadata"] = json!({"name": "orphan", "labels": {"app": "web"}});
    plane.create(SETS, &orphan).await;
    let is_adopted = |_: u16, it: &Value| it["metadata"]["ownerReferences"][0]["name"] == "web";
    plane.until(&format!("{SETS}/orphan"), is_adopted).await;

    let rollout = json!([{"op": "replace",
        "path": "/spec/template/spec/containers/0/image", "value": "nginx:2"}]);
    let path = format!("{DEPLOYMENTS}/web");
    plane.patch(&path, "application/json-patch+json", &rollout).await;
    let has_new = |_: u16, sets: &Value| {
        let image = |it: &Value| it["spec"]["template"]["spec"]["containers"][0]["image"].clone();
        sets["items"].as_array().unwrap().iter().any(|it| image(it) == "nginx:2")
    };
    plane.until(SETS, has_new).await;
    let left = plane.read(&format!("{own_sets}/web")).await;
    assert_eq!(
        (&left["spec"]["replicas"], &left["metadata"]["generation"]),
        (&json!(0), &json!(1))
    );
    plane.stop().await;
}

#[tokio::test]
async fn pods_elsewhere_do_not_stand_for_the_replicas_of_a_stateful_set() {
    let (plane, mallory) = plane(&["statefulset"]).await;
    let mut set = workload(1);
    set["spec"]["podManagementPolicy"] = "Parallel".into();
    set["spec"]["serviceName"] = "web".into();
    let set = plane.create(STATEFUL_SETS, &set).await;
    let first = plane.until(&format!("{PODS}/web-0"), |code, _| code == 200).await;
    let pod = foreign_pod("web-1", &controller("apps/v1", "StatefulSet", &set));
    mallory.create(&own_pods(), &pod).await;
    // The cache shows pods in the order of their changes.
    plane.delete(&format!("{PODS}/web-0")).await;
    let uid = &first["metadata"]["uid"];
    plane
        .until(&format!("{PODS}/web-0"), |code, it| code == 200 && it["metadata"]["uid"] != *uid)
        .await;
    let path = format!("{STATEFUL_SETS}/web");
    plane.merge(&path, &json!({"spec": {"replicas": 2}})).await;
    plane.until(&format!("{PODS}/web-1"), |code, _| code == 200).await;
    // It is neither updated nor deleted with the others.
    plane.merge(&path, &json!({"spec": {"replicas": 0}})).await;
    FakeNode.until(&plane, &path, |it| it["status"]["replicas"] == 0).await;
    plane.read(&format!("{}/web-1", own_pods())).await;
    plane.stop().await;
}

/// Writes the status of a Job that is complete since `minute`.
async fn complete(plane: &testenv::Client, path: &str, minute: u32) {
    let at = format!("2024-01-01T00:{minute:02}:00Z");
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": at});
    let status = json!({"startTime": at, "completionTime": at, "succeeded": 1,
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")]});
    plane.merge(&format!("{path}/status"), &json!({"status": status})).await;
}

#[tokio::test]
async fn jobs_elsewhere_do_not_push_those_of_a_cron_job_out_of_its_history() {
    let (plane, mallory) = plane(&["cronjob"]).await;
    let pods = json!({"spec": {"restartPolicy": "Never",
        "containers": [{"name": "a", "image": "a"}]}});
    let cron_job = json!({"metadata": {"name": "report"}, "spec": {"schedule": "0 * * * *",
        "successfulJobsHistoryLimit": 1, "jobTemplate": {"spec": {"template": pods}}}});
    let cron_job = plane.create(CRON_JOBS, &cron_job).await;
    let job = |name: &str| {
        json!({"metadata": {"name": name,
            "ownerReferences": [controller("batch/v1", "CronJob", &cron_job)]},
            "spec": {"template": pods}})
    };
    plane.create(JOBS, &job("done")).await;
    complete(&plane, &format!("{JOBS}/done"), 1).await;
    let own_jobs = own("apis/batch/v1", "jobs");
    for (name, minute) in [("x", 2), ("y", 3)] {
        mallory.create(&own_jobs, &job(name)).await;
        complete(&plane, &format!("{own_jobs}/{name}"), minute).await;
    }
    // The cache shows Jobs in the order of their changes, and the controller sees this one.
    plane.create(JOBS, &job("unexpected")).await;
    let events = "/api/v1/namespaces/default/events?fieldSelector=reason=UnexpectedJob";
    let is_seen =
        |_: u16, list: &Value| {
            list["items"].as_array().unwrap().iter().any(|it| {
                it["message"].as_str().unwrap_or_default().ends_with("forgot: unexpected")
            })
        };
    plane.until(events, is_seen).await;
    plane.read(&format!("{JOBS}/done")).await;
    let last = &plane.read(&format!("{CRON_JOBS}/report")).await["status"]["lastSuccessfulTime"];
    assert!(last.is_null() || *last == "2024-01-01T00:01:00Z", "{last}");
    assert_eq!(names(&plane.read(&own_jobs).await), ["x", "y"]);
    plane.stop().await;
}

#[tokio::test]
async fn no_template_creates_an_object_in_another_namespace_or_with_another_owner() {
    let (plane, mallory) =
        plane(&["replicaset", "statefulset", "job", "cronjob", "daemonset"]).await;
    let node = json!({"metadata": {"name": "n1"}});
    plane.create("/api/v1/nodes", &node).await;
    let lying = json!({"name": "../../default/pods/x", "namespace": "default", "uid": "1",
        "generateName": "../", "labels": {"app": "web"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "x"}]});
    let mut pods = template("web");
    pods["metadata"] = lying.clone();
    let selector = json!({"matchLabels": {"app": "web"}});
    let mut of_job = pods.clone();
    of_job["spec"]["restartPolicy"] = "Never".into();
    let claim = |name: &str| {
        let mut metadata = lying.clone();
        metadata["name"] = name.into();
        json!({"metadata": metadata, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}})
    };
    let stateful = |claim: Value| {
        json!({"replicas": 1, "selector": selector, "template": pods, "serviceName": "../default",
            "volumeClaimTemplates": [claim]})
    };
    let job = json!({"template": of_job});
    let cron_job = json!({"schedule": "* * * * *",
        "jobTemplate": {"metadata": lying, "spec": job}});
    for (group, plural, name, spec) in [
        (
            "apis/apps/v1",
            "replicasets",
            "rs",
            json!({"replicas": 1, "selector": selector, "template": pods}),
        ),
        ("apis/apps/v1", "daemonsets", "ds", json!({"selector": selector, "template": pods})),
        ("apis/apps/v1", "statefulsets", "ss", stateful(claim("data"))),
        ("apis/apps/v1", "statefulsets", "paths", stateful(claim("../../default"))),
        ("apis/batch/v1", "jobs", "job", job.clone()),
        ("apis/batch/v1", "cronjobs", "cj", cron_job),
    ] {
        let object = json!({"metadata": {"name": name}, "spec": spec});
        let (code, answer) = mallory.post(&own(group, plural), &object).await;
        assert!(matches!(code, 201 | 400 | 422), "{name}: {code} {answer}");
    }
    plane.advance(Duration::from_mins(1));
    // What can be created is in her namespace, and belongs to her workloads.
    let is_created = |_: u16, list: &Value| names(list).iter().any(|it| it.starts_with("rs-"));
    let created = plane.until(&own_pods(), is_created).await;
    for pod in created["items"].as_array().unwrap() {
        let owners = pod["metadata"]["ownerReferences"].as_array().unwrap();
        assert!(owners.len() == 1 && owners[0]["controller"] == true, "{pod}");
        assert_eq!(pod["metadata"]["namespace"], OWN);
    }
    for kind in ["pods", "persistentvolumeclaims"] {
        let list = plane.read(&format!("/api/v1/namespaces/default/{kind}")).await;
        assert_eq!(names(&list), [""; 0], "{kind}");
    }
    assert_eq!(names(&plane.read(JOBS).await), [""; 0]);
    plane.stop().await;
}
