//! Overload: priority levels, fair queues, and lists that are not read.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::http2::{AUTHORIZATION, GET, RawHttp2, ZERO_WINDOW, request};
use super::unread_responses::send_without_reading;
use super::{AttackedPlane, COLLECTION, JSON, resident_kib};
use crate::http::{Client, Response};
use crate::plane::Plane;
use machinery::{Value, json};

const FLOW_CONTROL: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";

/// A plane with the users flooder and quiet, who have all rights in the namespace default, and a node.
fn start(arguments: &[&str]) -> AttackedPlane {
    let tokens = "flooder,flooder,1\nquiet,quiet,2\nnode,system:node:n1,3,system:nodes\n";
    let policies = ["flooder", "quiet"].map(|user| {
        let policy = json!({
            "apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy",
            "spec": {"user": user, "namespace": "default", "resource": "*", "apiGroup": "*"},
        });
        format!("{policy}\n")
    });
    AttackedPlane::of(Plane::with_access(tokens, &policies.concat(), arguments))
}

/// Sends a request with a bearer token.
fn send(client: &mut Client, token: &str, method: &str, path: &str, body: &Value) -> Response {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str()), ("content-type", JSON)];
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    client.exchange(method, path, &headers, &body).unwrap()
}

fn uid_of(attacked: &mut AttackedPlane, path: &str) -> String {
    let (_, object) = attacked.client.send("GET", &format!("{FLOW_CONTROL}/{path}"), None).unwrap();
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}

#[test]
fn responses_name_the_flow_schema_and_the_priority_level_of_their_request() {
    let mut attacked = start(&[]);
    let mut client = attacked.anonymous_client();
    for (token, path, code, schema, level) in [
        ("quiet", COLLECTION, 200, "global-default", "global-default"),
        (
            "quiet",
            "/api/v1/namespaces/kube-system/secrets",
            403,
            "global-default",
            "global-default",
        ),
        ("quiet", "/readyz", 200, "probes", "exempt"),
        ("node", "/api/v1/nodes/n1", 404, "system-node-high", "node-high"),
    ] {
        let response = send(&mut client, token, "GET", path, &Value::Null);
        assert_eq!(response.code, code, "{path}: {}", response.body);
        let schema = uid_of(&mut attacked, &format!("flowschemas/{schema}"));
        let level = uid_of(&mut attacked, &format!("prioritylevelconfigurations/{level}"));
        assert_eq!(response.header("x-kubernetes-pf-flowschema-uid"), Some(&*schema), "{path}");
        assert_eq!(response.header("x-kubernetes-pf-prioritylevel-uid"), Some(&*level), "{path}");
    }
    attacked.assert_healthy();
}

#[test]
fn a_user_without_seats_is_refused_with_the_time_of_the_next_attempt() {
    let mut attacked = start(&[]);
    let level = json!({"metadata": {"name": "jail"}, "spec": {"type": "Limited", "limited": {
        "nominalConcurrencyShares": 0, "borrowingLimitPercent": 0,
        "limitResponse": {"type": "Reject"}}}});
    let schema = json!({"metadata": {"name": "jail"}, "spec": {
        "priorityLevelConfiguration": {"name": "jail"}, "matchingPrecedence": 50,
        "rules": [{"subjects": [{"kind": "User", "user": {"name": "flooder"}}],
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"],
                "namespaces": ["*"], "clusterScope": true}]}]}});
    attacked.send_accepted("POST", &format!("{FLOW_CONTROL}/prioritylevelconfigurations"), &level);
    attacked.send_accepted("POST", &format!("{FLOW_CONTROL}/flowschemas"), &schema);
    attacked.until(&format!("{FLOW_CONTROL}/flowschemas/jail"), |schema| {
        schema["status"]["conditions"][0]["status"] == "False"
    });
    let mut client = attacked.anonymous_client();
    let response = send(&mut client, "flooder", "GET", COLLECTION, &Value::Null);
    assert_eq!(response.code, 429);
    assert_eq!(response.header("retry-after"), Some("1"));
    assert_eq!(response.body, "Too many requests, please try again later.\n");
    let uid = uid_of(&mut attacked, "flowschemas/jail");
    assert_eq!(response.header("x-kubernetes-pf-flowschema-uid"), Some(&*uid));
    assert_eq!(send(&mut client, "quiet", "GET", COLLECTION, &Value::Null).code, 200);
    let (_, metrics) = attacked.client.send("GET", "/metrics", None).unwrap();
    let refused = "apiserver_flowcontrol_rejected_requests_total{flow_schema=\"jail\",priority_level=\"jail\",reason=\"concurrency-limit\"} 1";
    assert!(metrics.as_str().unwrap().lines().any(|it| it == refused));
    attacked.assert_healthy();
}

#[test]
fn the_dumps_of_flow_control_need_rights() {
    let mut attacked = start(&[]);
    let mut client = attacked.anonymous_client();
    for (dump, columns) in [
        ("dump_priority_levels", "PriorityLevelName, ActiveQueues, IsIdle, IsQuiescing, "),
        ("dump_queues", "PriorityLevelName, Index,  PendingRequests, "),
        ("dump_requests", "PriorityLevelName, FlowSchemaName, QueueIndex, "),
    ] {
        let path = format!("/debug/api_priority_and_fairness/{dump}");
        assert_eq!(send(&mut client, "quiet", "GET", &path, &Value::Null).code, 403);
        let (code, text) = attacked.client.send("GET", &path, None).unwrap();
        let text = text.as_str().unwrap();
        assert_eq!(code, 200, "{text}");
        assert!(text.starts_with(columns), "{text}");
    }
    let (_, text) = attacked
        .client
        .send("GET", "/debug/api_priority_and_fairness/dump_requests", None)
        .unwrap();
    let rows: Vec<&str> = text.as_str().unwrap().lines().skip(1).collect();
    assert!(rows.iter().any(|it| it.starts_with("exempt, ")), "the request itself: {text}");
    attacked.assert_healthy();
}

#[test]
fn a_write_is_estimated_by_the_watches_of_its_objects() {
    let mut attacked = start(&[]);
    let watch = |path: &str, count| {
        let raw = RawHttp2::connect_anonymously(&attacked, &ZERO_WINDOW);
        let block = request(GET, path, &[(AUTHORIZATION, "Bearer quiet")]);
        send_without_reading(raw, &block, count)
    };
    let _watches = [
        watch(&format!("{COLLECTION}?watch=1"), 12),
        watch("/api/v1/namespaces/default/secrets?watch=1", 5),
    ];
    let object = json!({"metadata": {"name": "a"}});
    let mut client = attacked.anonymous_client();
    assert_eq!(send(&mut client, "quiet", "POST", COLLECTION, &object).code, 201);
    let (_, metrics) = attacked.client.send("GET", "/metrics", None).unwrap();
    let expected = "apiserver_flowcontrol_watch_count_samples_sum{flow_schema=\"global-default\",priority_level=\"global-default\"} 12.0";
    assert!(metrics.as_str().unwrap().lines().any(|it| it == expected), "{metrics}");
    attacked.assert_healthy();
}

/// 64 connections of one user list everything, on a plane with 30 seats, of which the level of both
/// users has three.
#[test]
fn leases_and_other_users_are_served_while_one_user_floods() {
    let mut attacked =
        start(&["--max-requests-inflight=20", "--max-mutating-requests-inflight=10"]);
    for name in 0..20 {
        let data = "x".repeat(20_000);
        let object = json!({"metadata": {"name": format!("a{name}")}, "data": {"k": data}});
        attacked.send_accepted("POST", COLLECTION, &object);
    }
    let mut client = attacked.anonymous_client();
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let lease = json!({"metadata": {"name": "n1"}, "spec": {"holderIdentity": "n1",
        "leaseDurationSeconds": 40, "renewTime": "2026-01-01T00:00:00.000000Z"}});
    let mut lease = send(&mut client, "node", "POST", leases, &lease).body;
    let (is_over, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let codes = std::thread::scope(|scope| {
        for _ in 0..64 {
            let connection = attacked.anonymous_client().connect().unwrap();
            scope.spawn(|| flood(connection, &is_over, &answered));
        }
        let mut codes = Vec::new();
        for number in 0..40 {
            let renewed = send(&mut client, "node", "PUT", &format!("{leases}/n1"), &lease);
            let object = json!({"metadata": {"name": format!("q{number}")}});
            let created = send(&mut client, "quiet", "POST", COLLECTION, &object);
            let path = format!("{COLLECTION}/q{number}");
            let read = send(&mut client, "quiet", "GET", &path, &Value::Null);
            codes.push((renewed.code, created.code, read.code));
            lease = renewed.body;
        }
        is_over.store(true, Ordering::Relaxed);
        codes
    });
    assert_eq!(codes, [(200, 201, 200); 40]);
    assert!(answered.load(Ordering::Relaxed) > 0, "the flood was not served at all");
    attacked.assert_healthy();
}

/// Sends lists on a connection until the end, and discards the responses.
fn flood(mut connection: crate::http::Connection, is_over: &AtomicBool, answered: &AtomicUsize) {
    let request =
        format!("GET {COLLECTION} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer flooder\r\n\r\n");
    let mut buffer = vec![0; 64 << 10];
    let _ = connection.get_ref().sock.set_read_timeout(Some(Duration::from_millis(50)));
    while !is_over.load(Ordering::Relaxed) {
        if connection.get_mut().write_all(request.as_bytes()).is_err() {
            return;
        }
        while let Ok(length @ 1..) = connection.read(&mut buffer) {
            answered.fetch_add(length, Ordering::Relaxed);
            if is_over.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

/// The memory of the plane while a hundred lists are sent of which only the beginning is read, in KiB.
fn memory_with_unread_lists(attacked: &AttackedPlane, accept: &str) -> u64 {
    let request = format!(
        "GET {COLLECTION}?includeObject=Object HTTP/1.1\r\nhost: x\r\naccept: {accept}\r\n\r\n"
    );
    let open = |_| {
        let mut connection = attacked.client.connect().unwrap();
        connection.get_mut().write_all(request.as_bytes()).unwrap();
        let mut head = [0; 12];
        connection.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        connection
    };
    let _connections: Vec<_> = (0..100).map(open).collect();
    resident_kib(&attacked.plane)
}

/// The additional memory is at most that of all media types together, since the allocator keeps
/// memory for some time.
fn assert_unread_lists_use_less_than_100_megabytes(size: usize) {
    let mut attacked = AttackedPlane::start();
    let data = "x".repeat(size);
    for name in 0..20_000_000 / size {
        let object = json!({"metadata": {"name": format!("a{name}")}, "data": {"k": data}});
        attacked.send_accepted("POST", COLLECTION, &object);
    }
    let before = resident_kib(&attacked.plane);
    for accept in [
        JSON,
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/json;as=Table;g=meta.k8s.io;v=v1",
    ] {
        let growth = memory_with_unread_lists(&attacked, accept).saturating_sub(before);
        assert!(growth < 100 << 10, "{accept}: {growth} KiB");
    }
    attacked.assert_healthy();
}

#[test]
fn a_hundred_clients_that_do_not_read_20_megabytes_use_less_than_100() {
    assert_unread_lists_use_less_than_100_megabytes(100_000);
}

#[test]
fn a_hundred_clients_that_do_not_read_large_objects_use_less_than_100_megabytes() {
    assert_unread_lists_use_less_than_100_megabytes(500_000);
}
