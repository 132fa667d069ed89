//! Initializers: changes of new objects before they are visible, and creates that wait for them.

use std::time::Duration;

use tokio::task::JoinSet;

use crate::objects::{MAPS, THINGS, anything, labeled, map, thing, things};
use apiserver::auth::authentication::User;
use machinery::{Value, json};
use testenv::media_type::{JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, TABLE};
use testenv::{TestEnv, Watch};

const CONFIGURATIONS: &str =
    "/apis/admissionregistration.k8s.io/v1alpha1/initializerconfigurations";
const PODS: &str = "/api/v1/namespaces/default/pods";
const ENVOY: &str = "envoy.initializer.kubernetes.io";

/// Configures initializers of one resource.
async fn configure(
    plane: &TestEnv,
    name: &str,
    initializers: &[&str],
    (group, resource): (&str, &str),
) {
    let rules = json!([{"apiGroups": [group], "apiVersions": ["v1"], "resources": [resource]}]);
    let all: Vec<Value> =
        initializers.iter().map(|it| json!({"name": it, "rules": rules})).collect();
    let configuration = json!({"metadata": {"name": name}, "initializers": all});
    plane.create(CONFIGURATIONS, &configuration).await;
}

const OF_PODS: (&str, &str) = ("", "pods");
const OF_MAPS: (&str, &str) = ("", "configmaps");

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "m"}]}})
}

/// A create request that waits for initialization.
struct Creation(JoinSet<(u16, Value)>);

impl Creation {
    /// Waits for the response.
    async fn answer(mut self) -> (u16, Value) {
        self.0.join_next().await.unwrap().unwrap()
    }

    /// Checks that there is no response yet.
    fn assert_waits(&mut self) {
        assert!(self.0.try_join_next().is_none());
    }
}

/// Starts a create, and waits until the object is stored.
async fn begun(plane: &TestEnv, path: &str, object: Value) -> Creation {
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    let (client, collection) = (plane.client(), path.to_owned());
    let mut creating = JoinSet::new();
    creating.spawn(async move { client.post(&collection, &object).await });
    let collection = path.split('?').next().unwrap();
    let stored = format!("{collection}/{name}?includeUninitialized=true");
    plane.until(&stored, |code, _| code == 200).await;
    Creation(creating)
}

fn pending(object: &Value) -> Vec<&str> {
    let list = object["metadata"]["initializers"]["pending"].as_array();
    list.into_iter().flatten().map(|it| it["name"].as_str().unwrap()).collect()
}

/// A patch that removes the first initializer.
fn without_the_first() -> Value {
    json!([{"op": "remove", "path": "/metadata/initializers/pending/0"}])
}

/// The textbook's controller: it adds a container to new pods, and removes its initializer.
async fn inject(plane: &TestEnv, new_pods: &mut Watch) {
    let pod = new_pods.expect("ADDED").await;
    assert_eq!(pending(&pod), [ENVOY]);
    let path = format!("{PODS}/{}", pod["metadata"]["name"].as_str().unwrap());
    let sidecar = json!({"spec": {
        "containers": [{"name": "envoy", "image": "lyft/envoy", "command": ["/usr/local/bin/envoy"],
            "volumeMounts": [{"name": "envoy-conf", "mountPath": "/etc/envoy"}]}],
        "volumes": [{"name": "envoy-conf", "configMap": {"name": "envoy"}}]},
        "metadata": {"initializers": {"pending": [{"$patch": "delete", "name": ENVOY}]}}});
    let (code, patched) = plane.patch(&path, STRATEGIC_MERGE_PATCH, &sidecar).await;
    assert_eq!(code, 200, "{patched}");
}

#[tokio::test]
async fn the_textbooks_sidecar_is_injected_before_the_pod_is_visible() {
    let plane = TestEnv::start().await;
    configure(&plane, "envoy-config", &[ENVOY], OF_PODS).await;
    let mut everybody = plane.watch(&format!("{PODS}?watch=1")).await;
    let mut controller = plane.watch(&format!("{PODS}?watch=1&includeUninitialized=true")).await;
    let pod = pod("myapp");
    let (created, ()) = tokio::join!(plane.post(PODS, &pod), inject(&plane, &mut controller));
    let (code, created) = created;
    assert_eq!(code, 201, "{created}");
    let containers = created["spec"]["containers"].as_array().unwrap();
    let mut names: Vec<&str> = containers.iter().map(|it| it["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["envoy", "main"]);
    assert_eq!(created["metadata"].get("initializers"), None);
    let seen = everybody.expect("ADDED").await;
    assert_eq!(seen, plane.read(&format!("{PODS}/myapp")).await);
    assert_eq!(seen["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn an_object_is_hidden_until_all_initializers_have_finished() {
    let plane = TestEnv::start().await;
    plane.create(MAPS, &labeled("old", "app", "web")).await;
    configure(&plane, "c", &["a.example.com"], OF_MAPS).await;
    let mut everybody = plane.watch(&format!("{MAPS}?watch=1&labelSelector=app=web")).await;
    assert_eq!(everybody.next_summary().await, "ADDED old");
    let creating = begun(&plane, MAPS, labeled("new", "app", "web")).await;
    let gone = begun(&plane, MAPS, labeled("gone", "app", "web")).await;

    assert_eq!(plane.get(&format!("{MAPS}/new")).await.0, 404);
    for query in ["", "?labelSelector=app=web", "?limit=5", "?fieldSelector=metadata.name!=gone"] {
        let list = plane.read(&format!("{MAPS}{query}")).await;
        let names: Vec<&Value> =
            list["items"].as_array().unwrap().iter().map(|it| &it["metadata"]["name"]).collect();
        assert_eq!(names, ["old"], "{query}");
    }
    let named = plane.read(&format!("{MAPS}?fieldSelector=metadata.name=new")).await;
    assert_eq!(named["items"], json!([]));
    let all = plane.read(&format!("{MAPS}?includeUninitialized=true")).await;
    assert_eq!(all["items"].as_array().unwrap().len(), 3);
    let table = plane.get_as(&format!("{MAPS}?includeUninitialized=true"), TABLE).await.value();
    assert_eq!(table["rows"].as_array().unwrap().len(), 3);

    assert_eq!(plane.delete(&format!("{MAPS}/gone")).await.0, 200);
    let (code, status) = gone.answer().await;
    assert_eq!((code, &status["reason"]), (500, &json!("InternalError")));
    plane.merge(&format!("{MAPS}/new"), &json!({"metadata": {"initializers": null}})).await;
    assert_eq!(creating.answer().await.0, 201);
    plane.merge(&format!("{MAPS}/new"), &json!({"data": {"k": "v"}})).await;
    assert_eq!(everybody.next_summary().await, "ADDED new", "and nothing of what was never seen");
    assert_eq!(everybody.next_summary().await, "MODIFIED new");
}

#[tokio::test]
async fn initializers_run_in_order_and_only_the_first_can_be_removed() {
    let plane = TestEnv::start().await;
    configure(&plane, "second", &["c.example.com"], OF_MAPS).await;
    configure(&plane, "first", &["b.example.com", "a.example.com"], OF_MAPS).await;
    let mut creating = begun(&plane, MAPS, map("m", &json!({}))).await;
    let path = format!("{MAPS}/m");
    let shown = format!("{path}?includeUninitialized=true");
    let order = ["b.example.com", "a.example.com", "c.example.com"];
    assert_eq!(pending(&plane.read(&shown).await), order);

    let list = |names: &[&str]| {
        let names: Vec<Value> = names.iter().map(|it| json!({"name": it})).collect();
        json!({"metadata": {"initializers": {"pending": names}}})
    };
    for wrong in [
        list(&["b.example.com", "c.example.com"]),
        list(&["a.example.com", "b.example.com", "c.example.com"]),
        list(&["b.example.com", "a.example.com", "c.example.com", "d.example.com"]),
        list(&[]),
        json!({"metadata": {"initializers": null}}),
    ] {
        let (code, status) = plane.patch(&path, MERGE_PATCH, &wrong).await;
        assert_eq!(code, 422, "{status}");
        let message = status["message"].as_str().unwrap();
        assert!(message.contains("metadata.initializers: Invalid value"), "{message}");
        assert!(message.contains(r#"lose its first initializer, "b.example.com", alone"#));
    }
    for left in [&order[1..], &order[2..]] {
        let (code, patched) = plane.patch(&path, JSON_PATCH, &without_the_first()).await;
        assert_eq!((code, pending(&patched)), (200, left.to_vec()));
    }
    creating.assert_waits();
    assert_eq!(plane.patch(&path, JSON_PATCH, &without_the_first()).await.0, 200);
    assert_eq!(creating.answer().await.0, 201);
    let (code, status) = plane.patch(&path, MERGE_PATCH, &list(&["d.example.com"])).await;
    let immutable = "field is immutable once initialization has completed";
    assert_eq!((code, status["message"].as_str().unwrap().contains(immutable)), (422, true));
}

#[tokio::test]
async fn an_uninitialized_object_allows_changes_of_immutable_fields_but_not_of_the_status() {
    let plane = TestEnv::start().await;
    configure(&plane, "c", &["a.example.com"], OF_PODS).await;
    let creating = begun(&plane, PODS, pod("p")).await;
    let path = format!("{PODS}/p");
    let privileged = json!({"spec": {"hostNetwork": true}});
    plane.merge(&path, &privileged).await;
    let (code, status) =
        plane.patch(&path, MERGE_PATCH, &json!({"spec": {"containers": []}})).await;
    assert_eq!(code, 422, "it is validated like a new object: {status}");
    let report = json!({"status": {"phase": "Running"}});
    let (code, status) = plane.patch(&format!("{path}/status"), MERGE_PATCH, &report).await;
    assert_eq!(code, 422);
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("must not update status when the object is uninitialized"));
    plane.patch(&path, JSON_PATCH, &without_the_first()).await;
    assert_eq!(creating.answer().await.1["spec"]["hostNetwork"], true);
    assert_eq!(
        plane.patch(&path, MERGE_PATCH, &json!({"spec": {"hostNetwork": false}})).await.0,
        422
    );
}

#[tokio::test]
async fn an_authorized_creator_can_set_the_initializers() {
    let plane = TestEnv::start().await;
    configure(&plane, "c", &["a.example.com"], OF_MAPS).await;
    let with = |name: &str, initializers: Value| json!({"metadata": {"name": name, "initializers": initializers}});
    let bypassing = with("free", json!({"pending": []}));
    let created = plane.create(MAPS, &bypassing).await;
    assert_eq!(created["metadata"].get("initializers"), None);
    plane.create(MAPS, &with("odd", json!({"result": {"status": "Failure"}}))).await;
    let own = with("own", json!({"pending": [{"name": "mine.example.com"}]}));
    let created = plane.create(&format!("{MAPS}?includeUninitialized=true"), &own).await;
    assert_eq!(pending(&created), ["mine.example.com"]);
    let (code, status) = plane.post(MAPS, &with("bad", json!({"pending": [{"name": "?"}]}))).await;
    assert_eq!(code, 422, "{status}");
    let dry = plane.create(&format!("{MAPS}?dryRun=All"), &map("dry", &json!({}))).await;
    assert_eq!(pending(&dry), ["a.example.com"]);
    let alice = plane.as_user(User::authenticated("alice", "", vec![]));
    assert_eq!(alice.post(MAPS, &bypassing).await.0, 403);
}

#[tokio::test]
async fn a_failed_initialization_is_reported_and_deletes_the_object() {
    let plane = TestEnv::start().await;
    configure(&plane, "c", &["a.example.com", "b.example.com"], OF_MAPS).await;
    let mut initializer = plane.watch(&format!("{MAPS}?watch=1&includeUninitialized=true")).await;
    let creating = begun(&plane, MAPS, map("m", &json!({}))).await;
    let result = json!({"status": "Failure", "code": 403, "reason": "Forbidden",
        "message": "no envoy for you", "details": {"name": "m"}});
    let patch = json!({"metadata": {"initializers": {"result": result}}});
    let failed = plane.merge(&format!("{MAPS}/m"), &patch).await;
    assert_eq!(failed["metadata"]["initializers"]["result"]["message"], "no envoy for you");
    let (code, status) = creating.answer().await;
    assert_eq!((code, &status["kind"]), (403, &json!("Status")));
    assert_eq!((&status["reason"], &status["message"]), (&result["reason"], &result["message"]));
    for event in ["ADDED m", "MODIFIED m", "DELETED m"] {
        assert_eq!(initializer.next_summary().await, event);
    }
    assert_eq!(plane.get(&format!("{MAPS}/m?includeUninitialized=true")).await.0, 404);
}

#[tokio::test]
async fn a_create_that_times_out_leaves_the_uninitialized_object() {
    let plane = TestEnv::start().await;
    configure(&plane, "c", &["a.example.com"], OF_MAPS).await;
    for (name, query, seconds) in [("a", "?timeoutSeconds=2", 2), ("b", "", 30)] {
        let mut creating = begun(&plane, &format!("{MAPS}{query}"), map(name, &json!({}))).await;
        plane.advance(Duration::from_secs(seconds - 1));
        creating.assert_waits();
        plane.advance(Duration::from_secs(1));
        let (code, status) = creating.answer().await;
        assert_eq!((code, &status["reason"]), (504, &json!("Timeout")));
        let message = status["message"].as_str().unwrap();
        let expected =
            format!("server has timed out waiting for the initialization of configmaps {name}");
        assert!(message.contains(&expected), "{message}");
        assert_eq!(plane.get(&format!("{MAPS}/{name}?includeUninitialized=true")).await.0, 200);
        assert_eq!(plane.post(MAPS, &map(name, &json!({}))).await.0, 409);
    }
}

#[tokio::test]
async fn two_hundred_waiting_creates_delay_no_other_request() {
    let plane = TestEnv::builder().config(|config| config.max_writes = 100).start().await;
    configure(&plane, "c", &["a.example.com"], OF_PODS).await;
    let mut waiting = Vec::new();
    for index in 0..200 {
        waiting.push(begun(&plane, PODS, pod(&format!("p{index}"))).await);
    }
    for index in 0..20 {
        plane.create(MAPS, &map(&format!("m{index}"), &json!({}))).await;
    }
    for index in 0..200 {
        let path = format!("{PODS}/p{index}");
        assert_eq!(plane.patch(&path, JSON_PATCH, &without_the_first()).await.0, 200);
    }
    for creating in waiting {
        let (code, created) = creating.answer().await;
        assert_eq!(code, 201, "{created}");
    }
}

#[tokio::test]
async fn custom_resources_are_initialized_and_initializer_configurations_are_exempt() {
    let plane = TestEnv::start().await;
    plane.install_crd(&things(&anything())).await;
    configure(&plane, "all", &["a.example.com"], ("*", "*")).await;
    // The configuration would wait for itself.
    configure(&plane, "more", &["b.example.com"], OF_PODS).await;
    let creating = begun(&plane, THINGS, thing("t", &json!({"n": 1}))).await;
    assert_eq!(plane.get(&format!("{THINGS}/t")).await.0, 404);
    plane.patch(&format!("{THINGS}/t"), JSON_PATCH, &without_the_first()).await;
    assert_eq!(creating.answer().await.0, 201);
    let mut mirror = pod("mirror");
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    mirror["spec"]["nodeName"] = "n".into();
    let (code, created) = plane.post(PODS, &mirror).await;
    assert_eq!((code, created["metadata"].get("initializers")), (201, None), "{created}");
}

#[tokio::test]
async fn an_object_stays_uninitialized_across_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let plane = TestEnv::builder().data_dir(directory.path()).start().await;
    configure(&plane, "c", &["a.example.com"], OF_MAPS).await;
    let creating = begun(&plane, MAPS, map("m", &json!({}))).await;
    plane.stop().await.unwrap();
    assert_eq!(creating.answer().await.0, 504);

    let plane = TestEnv::builder().data_dir(directory.path()).start().await;
    assert_eq!(plane.get(&format!("{MAPS}/m")).await.0, 404);
    assert_eq!(plane.read(MAPS).await["items"], json!([]));
    let mut watch = plane.watch(&format!("{MAPS}?watch=1")).await;
    plane.merge(&format!("{MAPS}/m"), &json!({"metadata": {"initializers": null}})).await;
    assert_eq!(watch.next_summary().await, "ADDED m");
    assert_eq!(plane.get(&format!("{MAPS}/m")).await.0, 200);
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn without_the_initializers_plugin_creates_do_not_wait() {
    let disabled_plugins = vec!["Initializers".to_owned()];
    let plane = TestEnv::builder()
        .config(|config| config.disabled_plugins = disabled_plugins)
        .start()
        .await;
    configure(&plane, "c", &["a.example.com"], OF_MAPS).await;
    let created = plane.create(MAPS, &map("m", &json!({}))).await;
    assert_eq!(created["metadata"].get("initializers"), None);
}

#[tokio::test]
async fn the_alpha_version_is_listed_last() {
    let plane = TestEnv::start().await;
    let group = plane.read("/apis/admissionregistration.k8s.io").await;
    assert_eq!(group["preferredVersion"]["version"], "v1");
    assert_eq!(group["versions"].as_array().unwrap().last().unwrap()["version"], "v1alpha1");
    let listed = plane.read("/apis/admissionregistration.k8s.io/v1alpha1").await;
    assert_eq!(listed["resources"][0]["kind"], "InitializerConfiguration");
}
