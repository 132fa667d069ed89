//! An idle plane with all controllers and 10,000 objects writes nothing but leases.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::plane::Plane;
use machinery::{Value, json};

const NODES: usize = 8;
const SECOND: Duration = Duration::from_secs(1);
/// The time without changes, which is longer than Events exist.
const IDLE_TIME: Duration = Duration::from_mins(70);
/// The number of workloads of each kind.
const WORKLOADS: usize = 20;

#[tokio::test]
async fn an_idle_plane_with_ten_thousand_objects_writes_only_leases() {
    let plane = Plane::start(NODES, &["*"]).await;
    create_workloads(&plane).await;
    create_owner_trees(&plane).await;
    create_others(&plane).await;
    until_settled(&plane).await;
    let objects = count_objects(&plane).await;
    assert!(objects >= 10_000, "{objects} objects");

    let before = writes(&plane).await;
    pass(&plane, IDLE_TIME).await;
    let mut after = writes(&plane).await;
    for (request, count) in before {
        let total = after.get_mut(&request).unwrap();
        *total -= count;
    }
    after.retain(|_, count| *count > 0);
    let leases = after.extract_if(.., |request, _| request.contains(r#"resource="leases""#));
    let renewals: u64 = leases.map(|(_, count)| count).sum();
    assert_eq!(after, BTreeMap::new(), "writes of an idle plane");
    let expected = NODES as u64 * IDLE_TIME.as_secs() / 10;
    assert!(renewals > expected / 2, "{renewals} renewals of leases");
    plane.stop().await;
}

/// Lets time pass, in steps after which the components do what is due.
async fn pass(plane: &Plane, duration: Duration) {
    let step = 5 * SECOND;
    for _ in 0..duration.as_secs() / step.as_secs() {
        plane.advance(step);
        for _ in 0..30 {
            tokio::task::yield_now().await;
        }
    }
}

/// Waits until all workloads are ready, and nothing was written for a minute.
async fn until_settled(plane: &Plane) {
    let is_ready = |_, list: &Value| {
        let items = list["items"].as_array().into_iter().flatten();
        let mut items = items.map(|item| (&item["status"], &item["spec"]));
        items.all(|(status, spec)| status["readyReplicas"] == spec["replicas"])
    };
    for kind in ["deployments", "statefulsets"] {
        let path = format!("/apis/apps/v1/{kind}");
        plane.advance_until(SECOND / 10, &path, is_ready).await;
    }
    let is_complete = |_, list: &Value| {
        let mut items = list["items"].as_array().into_iter().flatten();
        items.all(|job| job["status"]["completionTime"].is_string())
    };
    plane.advance_until(SECOND / 10, "/apis/batch/v1/jobs", is_complete).await;
    let is_bound = |_, list: &Value| {
        let mut items = list["items"].as_array().into_iter().flatten();
        items.all(|claim| claim["status"]["phase"] == "Bound")
    };
    plane.advance_until(SECOND / 10, "/api/v1/persistentvolumeclaims", is_bound).await;
    // Autoscalers scale down after five minutes.
    pass(plane, Duration::from_mins(10)).await;
}

/// The number of writes of each kind of request.
async fn writes(plane: &Plane) -> BTreeMap<String, u64> {
    let metrics = plane.get_as("/metrics", "text/plain").await;
    let requests = metrics.text().lines().filter_map(|line| {
        let (labels, count) = line.strip_prefix("apiserver_request_total")?.rsplit_once(' ')?;
        let verbs = ["POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"];
        let is_write = verbs.iter().any(|verb| labels.contains(&format!("verb=\"{verb}\"")));
        is_write.then(|| (labels.to_owned(), count.parse().unwrap()))
    });
    requests.collect()
}

async fn create_workloads(plane: &Plane) {
    let metadata = |name: &str| json!({"name": name, "labels": {"app": name}});
    let spec = |restart: &str| {
        let container = json!({"name": "main", "image": "example.com/app:1",
            "resources": {"requests": {"cpu": "10m", "memory": "10Mi"}}});
        json!({"containers": [container], "restartPolicy": restart})
    };
    let template = |name: &str, restart: &str| {
        let annotations = json!({"kwok.x-k8s.io/usage-cpu": "5m"});
        json!({"metadata": {"labels": {"app": name}, "annotations": annotations},
            "spec": spec(restart)})
    };
    for number in 0..WORKLOADS {
        let name = format!("web-{number}");
        let selector = json!({"matchLabels": {"app": name}});
        let web =
            json!({"replicas": 12, "selector": selector, "template": template(&name, "Always")});
        let deployment = json!({"metadata": metadata(&name), "spec": web});
        plane.create("/apis/apps/v1/namespaces/default/deployments", &deployment).await;
        let service = json!({"selector": {"app": name}, "ports": [{"port": 80}]});
        let service = json!({"metadata": metadata(&name), "spec": service});
        plane.create("/api/v1/namespaces/default/services", &service).await;
        let budget = json!({"minAvailable": "50%", "selector": selector});
        let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
        plane.create(budgets, &json!({"metadata": metadata(&name), "spec": budget})).await;
        if number < 4 {
            create_autoscaler(plane, &name).await;
        }

        let name = format!("db-{number}");
        let claim = json!({"metadata": {"name": "data"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
        let db = json!({"replicas": 2, "serviceName": name, "selector": {"matchLabels": {"app": name}},
            "template": template(&name, "Always"), "volumeClaimTemplates": [claim],
            "podManagementPolicy": "Parallel"});
        let set = json!({"metadata": metadata(&name), "spec": db});
        plane.create("/apis/apps/v1/namespaces/default/statefulsets", &set).await;

        let name = format!("once-{number}");
        let job = json!({"completions": 2, "parallelism": 2, "template": template(&name, "Never")});
        let jobs = "/apis/batch/v1/namespaces/default/jobs";
        plane.create(jobs, &json!({"metadata": metadata(&name), "spec": job})).await;
        let job = json!({"template": template(&name, "Never")});
        let cron = json!({"schedule": "* * * * *", "suspend": true, "jobTemplate": {"spec": job}});
        let cron_jobs = "/apis/batch/v1/namespaces/default/cronjobs";
        plane.create(cron_jobs, &json!({"metadata": metadata(&name), "spec": cron})).await;
    }
    let selector = json!({"matchLabels": {"app": "agent"}});
    let agent = json!({"selector": selector, "template": template("agent", "Always")});
    let daemon_sets = "/apis/apps/v1/namespaces/default/daemonsets";
    plane.create(daemon_sets, &json!({"metadata": metadata("agent"), "spec": agent})).await;
}

async fn create_autoscaler(plane: &Plane, name: &str) {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name});
    let cpu = json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}});
    let scaling = json!({"scaleTargetRef": target, "minReplicas": 12, "maxReplicas": 14,
        "metrics": [{"type": "Resource", "resource": cpu}]});
    let autoscalers = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    plane.create(autoscalers, &json!({"metadata": json!({"name": name}), "spec": scaling})).await;
}

/// Custom resources that own config maps, which own secrets.
async fn create_owner_trees(plane: &Plane) {
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let crd = json!({
        "metadata": {"name": "boats.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "boats", "singular": "boat", "kind": "Boat"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    plane.install_crd(&crd).await;
    let boats = "/apis/example.com/v1/namespaces/default/boats";
    for number in 0..1700 {
        let metadata = json!({"name": format!("boat-{number}")});
        let boat = json!({"apiVersion": "example.com/v1", "kind": "Boat", "metadata": metadata});
        let boat = plane.create(boats, &boat).await;
        for part in ["hull", "mast"] {
            let name = format!("boat-{number}-{part}");
            let metadata = json!({"name": name, "ownerReferences": [owner(&boat)]});
            let maps = "/api/v1/namespaces/default/configmaps";
            let map = plane.create(maps, &json!({"metadata": metadata})).await;
            let metadata = json!({"name": name, "ownerReferences": [owner(&map)]});
            let secrets = "/api/v1/namespaces/default/secrets";
            plane.create(secrets, &json!({"metadata": metadata})).await;
        }
    }
}

fn owner(object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "name": metadata["name"],
        "uid": metadata["uid"]})
}

/// Namespaces with quotas and accounts, and objects that no controller changes.
async fn create_others(plane: &Plane) {
    for number in 0..10 {
        let name = format!("team-{number}");
        plane.create("/api/v1/namespaces", &json!({"metadata": {"name": name}})).await;
        let quota =
            json!({"metadata": {"name": "limits"}, "spec": {"hard": {"configmaps": "100"}}});
        plane.create(&format!("/api/v1/namespaces/{name}/resourcequotas"), &quota).await;
        for number in 0..40 {
            let object = json!({"metadata": {"name": format!("o-{number}")}});
            for path in ["api/v1", "apis/rbac.authorization.k8s.io/v1"] {
                let kind = if path == "api/v1" { "serviceaccounts" } else { "roles" };
                plane.create(&format!("/{path}/namespaces/{name}/{kind}"), &object).await;
            }
            plane.create(&format!("/api/v1/namespaces/{name}/configmaps"), &object).await;
        }
    }
}

/// The number of objects of all kinds but Events.
async fn count_objects(plane: &Plane) -> usize {
    let groups = plane.read("/apis").await;
    let groups = groups["groups"].as_array().unwrap().iter();
    let versions = groups.map(|group| group["preferredVersion"]["groupVersion"].as_str().unwrap());
    let paths = versions.map(|version| format!("/apis/{version}")).chain(["/api/v1".to_owned()]);
    let mut count = 0;
    for path in paths {
        let (_, resources) = plane.get(&path).await;
        for resource in resources["resources"].as_array().into_iter().flatten() {
            let name = resource["name"].as_str().unwrap();
            if resource["storageVersionHash"].is_string() && name != "events" {
                let list = plane.read(&format!("{path}/{name}")).await;
                count += list["items"].as_array().unwrap().len();
            }
        }
    }
    count
}
