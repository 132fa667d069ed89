//! Requests whose result or cost is the product of two long parts, of one object or of a stored and a
//! sent object.

use std::time::Duration;

use http::Method;

use super::{TestRequest, check, cpu_time, sizes};
use machinery::{Map, Value, json};
use testenv::TestEnv;
use testenv::media_type::{JSON, TABLE};

const PODS: &str = "/api/v1/namespaces/default/pods";
const RANGES: &str = "/api/v1/namespaces/default/limitranges";

/// The maximum time of a request of at most 100 kB, in a build without optimization.
const MAX_TIME: Duration = Duration::from_secs(2);

fn items(count: usize, one: impl Fn(usize) -> Value) -> Value {
    (0..count).map(one).collect()
}

fn quantities(count: usize) -> Value {
    let one = |n: usize| (format!("example.com/r{n}"), Value::from("1"));
    Value::Object((0..count).map(one).collect::<Map<String, Value>>())
}

fn pod(name: &str, containers: usize) -> Value {
    let container = |n: usize| json!({"name": format!("c{n}"), "image": "i"});
    json!({"metadata": {"name": name}, "spec": {"containers": items(containers, container)}})
}

/// Sends `object` as a dry run and returns the message of the error.
async fn refusal(plane: &TestEnv, code: u16, path: &str, object: &Value) -> String {
    let request = TestRequest::post(path, object);
    let spent = cpu_time(plane, code, &request).await;
    assert!(spent < MAX_TIME, "{spent:?}");
    let reply = plane.send(request.method, &request.path, JSON, request.body).await;
    reply.value()["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn defaults_of_a_limit_range_for_very_many_containers_are_refused() {
    let plane = TestEnv::start().await;
    let limit = json!({"type": "Container", "default": quantities(1500)});
    plane.create(RANGES, &json!({"metadata": {"name": "r"}, "spec": {"limits": [limit]}})).await;
    assert_eq!(
        refusal(&plane, 413, PODS, &pod("a", 800)).await,
        "Request entity too large: the limit ranges of the namespace add more than 1572864 bytes of defaults to the containers of the pod"
    );
    let (code, pod) = plane.post(PODS, &pod("a", 1)).await;
    let limits = pod["spec"]["containers"][0]["resources"]["limits"].as_object();
    assert_eq!((code, limits.map(Map::len)), (201, Some(1500)));
}

#[tokio::test]
async fn the_list_of_limit_range_violations_is_bounded() {
    let plane = TestEnv::start().await;
    let limit = json!({"type": "Container", "maxLimitRequestRatio": quantities(4000)});
    plane.create(RANGES, &json!({"metadata": {"name": "r"}, "spec": {"limits": [limit]}})).await;
    let message = refusal(&plane, 403, PODS, &pod("a", 800)).await;
    let last = "(there are too many errors to show all of them)]";
    assert!(message.ends_with(last) && message.len() < 2 << 20, "{} bytes", message.len());
}

#[tokio::test]
async fn errors_of_a_crd_with_many_versions_take_linear_time() {
    let plane = TestEnv::start().await;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    check(&plane, 422, 500, |n| {
        let version = |it: usize| {
            let kind = if it + 1 == n { "string" } else { "object" };
            json!({"name": "v1", "schema": {"openAPIV3Schema": {"type": kind}}})
        };
        let spec = json!({"group": "example.com", "names": {"kind": "Test", "plural": "tests"},
            "scope": "Cluster", "versions": items(n, version)});
        TestRequest::post(path, &json!({"metadata": {"name": "tests.example.com"}, "spec": spec}))
    })
    .await;
}

#[tokio::test]
async fn resources_of_sidecars_are_summed_in_linear_time() {
    let plane = TestEnv::start().await;
    check(&plane, 201, 400, |n| {
        let container = |it: usize| {
            let requests = json!({format!("example.com/r{it}"): "1"});
            let resources = json!({"requests": requests, "limits": requests});
            json!({"name": format!("i{it}"), "image": "i", "restartPolicy": "Always",
                "resources": resources})
        };
        let mut pod = pod("a", 1);
        pod["spec"]["resources"] = json!({"limits": {"cpu": "1"}});
        pod["spec"]["initContainers"] = items(n, container);
        TestRequest::post(PODS, &pod)
    })
    .await;
}

/// Checks that the rows of a table are computed in linear time; `one` creates an object of a size and
/// its status or null.
async fn check_table(path: &str, size: usize, one: impl Fn(usize) -> (Value, Value)) {
    let plane = TestEnv::start().await;
    for n in sizes(size) {
        let (mut object, status) = one(n);
        object["metadata"]["name"] = format!("a{n}").into();
        let created = plane.create(path, &object).await;
        if status.is_object() {
            object["metadata"] = created["metadata"].clone();
            object["status"] = status;
            let path = format!("{path}/a{n}/status");
            let reply = plane.send(Method::PUT, &path, JSON, object.to_string()).await;
            assert_eq!(reply.code, 200, "{}", reply.value()["message"]);
        }
    }
    let client = plane.with_header("accept", TABLE);
    check(&client, 200, size, |n| {
        let path = format!("{path}/a{n}?includeObject=None");
        TestRequest::new(Method::GET, path, JSON, String::new())
    })
    .await;
}

#[tokio::test]
async fn tables_of_endpoints_take_linear_time() {
    check_table("/api/v1/namespaces/default/endpoints", 600, |n| {
        let addresses = items(n, |it| json!({"ip": format!("10.1.{}.{}", it / 250, it % 250)}));
        let ports = items(n, |it| json!({"name": format!("p{it}"), "port": it + 1}));
        let subset = json!({"addresses": addresses, "ports": ports});
        (json!({"metadata": {}, "subsets": [subset]}), Value::Null)
    })
    .await;
}

#[tokio::test]
async fn tables_of_pods_take_linear_time() {
    check_table(PODS, 800, |n| {
        let mut pod = pod("a", 1);
        let init =
            |it: usize| json!({"name": format!("i{it}"), "image": "i", "restartPolicy": "Always"});
        pod["spec"]["initContainers"] = items(n / 4, init);
        pod["spec"]["readinessGates"] = items(n, |it| json!({"conditionType": format!("g{it}")}));
        let condition = |it: usize| json!({"type": format!("g{}", n + it), "status": "True"});
        let status = |it: usize| {
            json!({"name": format!("i{}", n / 4 - 1 - it), "image": "i", "imageID": "",
                "ready": true, "restartCount": 0, "started": true})
        };
        let status = json!({"phase": "Running", "conditions": items(n, condition),
            "initContainerStatuses": items(n / 4, status)});
        (pod, status)
    })
    .await;
}
