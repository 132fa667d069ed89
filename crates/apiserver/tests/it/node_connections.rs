//! Subresources such as log and exec that need a connection to a node, which this server does not
//! open: the responses are those of kube-apiserver up to the connection.

use http::Method;

use machinery::{Value, json};
use testenv::TestEnv;
use testenv::media_type::JSON;

const PODS: &str = "/api/v1/namespaces/default/pods";

fn pod(name: &str, node: &str, containers: &[&str]) -> Value {
    let containers: Vec<Value> =
        containers.iter().map(|it| json!({"name": it, "image": "i"})).collect();
    json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": containers}})
}

/// A plane with a node with an address, one without, and pods on these nodes and on none.
async fn plane() -> TestEnv {
    let plane = TestEnv::start().await;
    let addresses = json!([{"type": "InternalIP", "address": "10.1.2.3"}]);
    let node = json!({"metadata": {"name": "node"}, "status": {"addresses": addresses}});
    plane.create("/api/v1/nodes", &node).await;
    plane.create("/api/v1/nodes", &json!({"metadata": {"name": "bare"}})).await;
    for (name, node, containers) in [
        ("two", "", &["a", "b"][..]),
        ("one", "", &["a"]),
        ("lost", "missing", &["a"]),
        ("bare", "bare", &["a"]),
        ("placed", "node", &["a"]),
    ] {
        plane.create(PODS, &pod(name, node, containers)).await;
    }
    plane
}

/// The code and the message of the response to a GET request.
async fn check(plane: &TestEnv, path: &str, code: u16, message: &str) {
    let (found, answer) = plane.get(path).await;
    let text = answer["message"].as_str().unwrap_or_default();
    assert_eq!((found, text), (code, message), "GET {path}");
}

#[tokio::test]
async fn a_log_needs_a_container_and_a_node() {
    let plane = plane().await;
    let choose = "a container name must be specified for pod two, choose one of: [a b]";
    check(&plane, &format!("{PODS}/two/log"), 400, choose).await;
    check(&plane, &format!("{PODS}/two/log?container=b"), 204, "").await;
    let invalid = "container x is not valid for pod one";
    check(&plane, &format!("{PODS}/one/log?container=x"), 400, invalid).await;
    check(&plane, &format!("{PODS}/lost/log"), 404, "pods \"missing\" not found").await;
    let no_address = "no preferred addresses found; known addresses: []";
    check(&plane, &format!("{PODS}/bare/log"), 500, no_address).await;
    let refused = "Get \"https://10.1.2.3:10250/containerLogs/default/placed/a\": dial tcp 10.1.2.3:10250: this server does not connect to nodes";
    check(&plane, &format!("{PODS}/placed/log"), 500, refused).await;
}

#[tokio::test]
async fn an_empty_log_is_not_cached() {
    let plane = plane().await;
    let path = format!("{PODS}/one/log");
    let reply = plane.send(Method::GET, &path, "", String::new()).await;
    assert_eq!(
        (reply.code, &reply.headers["cache-control"]),
        (204, &"no-cache, private".parse().unwrap())
    );
}

#[tokio::test]
async fn the_options_of_a_log_are_validated() {
    let plane = plane().await;
    let invalid = |name: &str, why: &str| format!("PodLogOptions \"{name}\" is invalid: {why}");
    for (query, why) in [
        ("tailLines=-1", "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ("limitBytes=0", "limitBytes: Invalid value: 0: must be greater than 0"),
        ("sinceSeconds=-1", "sinceSeconds: Invalid value: -1: must be greater than 0"),
        (
            "sinceSeconds=1&sinceTime=2024-01-01T00:00:00Z",
            "[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
        ),
        ("stream=Stdout", "stream: Forbidden: may not be specified"),
    ] {
        check(&plane, &format!("{PODS}/one/log?{query}"), 422, &invalid("one", why)).await;
        // The existence of the pod is checked later.
        check(&plane, &format!("{PODS}/none/log?{query}"), 422, &invalid("none", why)).await;
    }
    for (query, why) in [
        ("tailLines=x", "strconv.ParseInt: parsing \"x\": invalid syntax"),
        ("limitBytes=", "strconv.ParseInt: parsing \"\": invalid syntax"),
        (
            "sinceTime=yesterday",
            "parsing time \"yesterday\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"yesterday\" as \"2006\"",
        ),
    ] {
        check(&plane, &format!("{PODS}/one/log?{query}"), 400, why).await;
    }
    let query = "tailLines=0&follow=true&timestamps=false&limitBytes=10";
    check(&plane, &format!("{PODS}/one/log?{query}"), 204, "").await;
    let refused = "Get \"https://10.1.2.3:10250/containerLogs/default/placed/a?follow=true&limitBytes=10&tailLines=0\": dial tcp 10.1.2.3:10250: this server does not connect to nodes";
    check(&plane, &format!("{PODS}/placed/log?{query}"), 500, refused).await;
}

#[tokio::test]
async fn each_stream_parses_only_its_own_options() {
    let plane = plane().await;
    let no_host = "pod one does not have a host assigned";
    for stream in ["exec?ports=x", "attach?ports=x", "portforward?ports=80,443&tailLines=x"] {
        check(&plane, &format!("{PODS}/one/{stream}"), 400, no_host).await;
    }
    for (ports, why) in [
        ("ports=80,x", "parsing \"x\": invalid syntax"),
        ("ports=70000", "parsing \"70000\": value out of range"),
        ("ports=%2B80", "parsing \"+80\": invalid syntax"),
    ] {
        let why = format!("cannot convert to []int32: strconv.ParseUint: {why}");
        check(&plane, &format!("{PODS}/one/portforward?{ports}"), 400, &why).await;
    }
    for stream in ["exec", "attach", "portforward", "proxy"] {
        let path = format!("{PODS}/one/{stream}?dryRun=All");
        check(&plane, &path, 400, "dryRun is not supported").await;
    }
}

#[tokio::test]
async fn an_eviction_cannot_ignore_store_read_errors() {
    let plane = plane().await;
    let option = "ignoreStoreReadErrorWithClusterBreakingPotential";
    let body = json!({"metadata": {"name": "one"}, "deleteOptions": {option: true}});
    let (code, status) = plane.post(&format!("{PODS}/one/eviction"), &body).await;
    let why = format!(
        "Eviction.policy \"one\" is invalid: deleteOptions.{option}: Invalid value: true: can not be set for pod eviction, try after removing the option"
    );
    assert_eq!((code, status["message"].as_str()), (422, Some(why.as_str())));
}

#[tokio::test]
async fn the_body_of_a_subresource_must_have_its_kind() {
    let plane = plane().await;
    for (subresource, kind, package) in
        [("eviction", "Eviction", "policy"), ("binding", "Binding", "core")]
    {
        let path = format!("{PODS}/one/{subresource}");
        let post = async |body: &str| {
            let reply = plane.send(Method::POST, &path, JSON, body.to_owned()).await;
            (reply.code, reply.value()["message"].as_str().unwrap().to_owned())
        };
        assert_eq!(
            post(r#"{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "one"}}"#).await,
            (
                400,
                format!(
                    "Pod in version \"v1\" cannot be handled as a {kind}: converting (v1.Pod) to ({package}.{kind}): unknown conversion"
                )
            )
        );
        let (code, message) = post("[]").await;
        assert_eq!(code, 400);
        let unrecognized = format!(
            "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: json: cannot unmarshal array"
        );
        assert!(message.starts_with(&unrecognized), "{message}");
    }
    let older = json!({"apiVersion": "policy/v1beta1", "kind": "Eviction",
        "metadata": {"name": "one"}});
    assert_eq!(plane.post(&format!("{PODS}/one/eviction?dryRun=All"), &older).await.0, 201);
    let strict = format!("{PODS}/one/binding?fieldValidation=Strict");
    let body = r#"{"z": 1, "metadata": {"name": "one", "q": 1, "name": "one"}, "a": 1}"#;
    let reply = plane.send(Method::POST, &strict, JSON, body).await;
    assert_eq!(
        reply.value()["message"],
        r#"Binding in version "v1" cannot be handled as a Binding: strict decoding error: unknown field "z", unknown field "metadata.q", duplicate field "metadata.name", unknown field "a""#
    );
}

#[tokio::test]
async fn a_stream_needs_a_node_and_an_upgrade() {
    let plane = plane().await;
    for stream in ["exec?command=sh", "attach"] {
        let choose = "a container name must be specified for pod two, choose one of: [a b]";
        check(&plane, &format!("{PODS}/two/{stream}"), 400, choose).await;
    }
    for stream in ["exec?command=sh", "attach", "portforward"] {
        let no_host = "pod one does not have a host assigned";
        check(&plane, &format!("{PODS}/one/{stream}"), 400, no_host).await;
        let no_upgrade = "Upgrade request required";
        check(&plane, &format!("{PODS}/placed/{stream}"), 400, no_upgrade).await;
        let upgrading = plane.with_header("upgrade", "SPDY/3.1");
        let (code, answer) = upgrading.get(&format!("{PODS}/placed/{stream}")).await;
        let refused =
            "error dialing backend: dial tcp 10.1.2.3:10250: this server does not connect to nodes";
        assert_eq!((code, answer["message"].as_str()), (500, Some(refused)));
    }
}

#[tokio::test]
async fn a_proxy_request_without_a_reachable_address_is_refused() {
    let plane = plane().await;
    check(&plane, &format!("{PODS}/one/proxy/"), 400, "address not allowed").await;
    check(&plane, &format!("{PODS}/none:80/proxy/x"), 404, "pods \"none\" not found").await;
    check(&plane, &format!("{PODS}/a:b:c:d/proxy/"), 400, "invalid pod request \"a:b:c:d\"").await;
    let services = "/api/v1/namespaces/default/services";
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    plane.create(services, &service).await;
    let no_endpoints = "no endpoints available for service \"s\"";
    check(&plane, &format!("{services}/s/proxy/"), 503, no_endpoints).await;
    let slice = json!({
        "metadata": {"name": "s-1", "labels": {"kubernetes.io/service-name": "s"}},
        "addressType": "IPv4", "ports": [{"name": "", "port": 8080}],
        "endpoints": [{"addresses": ["10.9.9.9"]}],
    });
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    plane.create(slices, &slice).await;
    let refused = "error trying to reach service: dial tcp 10.9.9.9:8080: this server does not connect to nodes";
    check(&plane, &format!("{services}/s/proxy/"), 503, refused).await;
    check(&plane, &format!("{services}/s:80/proxy/"), 503, refused).await;
    check(&plane, &format!("{services}/s:web/proxy/"), 503, no_endpoints).await;
    let no_port = "no service port 81 found for service \"s\"";
    check(&plane, &format!("{services}/s:81/proxy/"), 503, no_port).await;
    check(&plane, "/api/v1/nodes/none/proxy/", 404, "nodes \"none\" not found").await;
    let refused = "error trying to reach service: dial tcp 10.1.2.3:10250: this server does not connect to nodes";
    check(&plane, "/api/v1/nodes/node/proxy/", 503, refused).await;
}

#[tokio::test]
async fn a_simulated_node_has_neither_logs_nor_processes() {
    let plane = TestEnv::start().await;
    for (name, metadata) in [
        ("ours", json!({"name": "ours", "labels": {"sampan.dev/simulated": "true"}})),
        ("kwok", json!({"name": "kwok", "annotations": {"kwok.x-k8s.io/node": "fake"}})),
    ] {
        plane.create("/api/v1/nodes", &json!({"metadata": metadata})).await;
        plane.create(PODS, &pod(name, name, &["a"])).await;
        let log = plane.get_as(&format!("{PODS}/{name}/log"), "*/*").await;
        let expected = format!(
            "pod \"{name}\" is simulated (node \"{name}\"): container \"a\" does not run and has no log\n"
        );
        assert_eq!((log.code, log.text()), (200, expected.as_str()));
        let refused =
            format!("pod \"{name}\" is simulated (node \"{name}\"): exec is not possible");
        check(&plane, &format!("{PODS}/{name}/exec?command=ls"), 400, &refused).await;
        let refused = format!(
            "error trying to reach service: node \"{name}\" is simulated: this server does not connect to nodes"
        );
        check(&plane, &format!("/api/v1/nodes/{name}/proxy/pods"), 503, &refused).await;
    }
}

#[tokio::test]
async fn a_simulated_container_that_waits_has_no_log_yet() {
    let plane = TestEnv::start().await;
    let metadata = json!({"name": "ours", "labels": {"sampan.dev/simulated": "true"}});
    plane.create("/api/v1/nodes", &json!({"metadata": metadata})).await;
    plane.create(PODS, &pod("p", "ours", &["a"])).await;
    let log = format!("{PODS}/p/log");
    for (reason, expect) in [
        ("ContainerCreating", "ContainerCreating"),
        ("ErrImagePull", "image can't be pulled"),
        ("ImagePullBackOff", "trying and failing to pull image"),
    ] {
        let status = json!({"name": "a", "ready": false, "restartCount": 0, "image": "i",
            "imageID": "", "state": {"waiting": {"reason": reason}}});
        let patch = json!({"status": {"containerStatuses": [status]}});
        plane.merge(&format!("{PODS}/p/status"), &patch).await;
        let expect = format!("container \"a\" in pod \"p\" is waiting to start: {expect}");
        check(&plane, &log, 400, &expect).await;
    }
    // After a restart there is the log of the former run.
    let terminated = json!({"exitCode": 1, "containerID": "simulated://1"});
    let status = json!({"name": "a", "ready": false, "restartCount": 1, "image": "i",
        "imageID": "i", "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": terminated}});
    let patch = json!({"status": {"containerStatuses": [status]}});
    plane.merge(&format!("{PODS}/p/status"), &patch).await;
    assert_eq!(plane.get_as(&log, "*/*").await.code, 200);
}

#[tokio::test]
async fn the_former_log_of_a_simulated_container_exists_after_a_restart() {
    let plane = TestEnv::start().await;
    let metadata = json!({"name": "ours", "labels": {"sampan.dev/simulated": "true"}});
    plane.create("/api/v1/nodes", &json!({"metadata": metadata})).await;
    plane.create(PODS, &pod("p", "ours", &["a"])).await;
    let path = format!("{PODS}/p/log?previous=true");
    let missing = "previous terminated container \"a\" in pod \"p\" not found";
    check(&plane, &path, 400, missing).await;
    let terminated = json!({"exitCode": 1, "containerID": "simulated://1"});
    let status = json!({"name": "a", "ready": true, "restartCount": 1, "image": "i",
        "imageID": "i", "state": {"running": {}}, "lastState": {"terminated": terminated}});
    let patch = json!({"status": {"containerStatuses": [status]}});
    plane.merge(&format!("{PODS}/p/status"), &patch).await;
    assert_eq!(plane.get_as(&path, "*/*").await.code, 200);
}
