//! Webhooks and aggregated servers that misbehave.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use bytes::Bytes;
use http::{Request, Response};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::{AttackedPlane, COLLECTION, JSON, memory, refusal};
use crate::https::{Https, json_response};
use machinery::{Value, json};

const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const APIS: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

/// A config map that matches only the webhook with this fault and failure policy.
fn map(name: &str, fault: &str, policy: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"fault": fault, "policy": policy}}})
}

/// A webhook that matches such config maps.
fn hook(url: &str, bundle: &str, fault: &str, policy: &str, seconds: u32) -> Value {
    json!({
        "name": format!("{fault}.{}.example.dev", policy.to_lowercase()),
        "failurePolicy": policy, "timeoutSeconds": seconds,
        "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": url, "caBundle": bundle},
        "objectSelector": {"matchLabels": {"fault": fault, "policy": policy}},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["configmaps"]}],
    })
}

fn allowed(request: &Request<Bytes>) -> Response<Bytes> {
    let review = machinery::codec::json::decode(request.body()).unwrap().value;
    let response = json!({"uid": review["request"]["uid"], "allowed": true});
    json_response(
        200,
        &json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "response": response}),
    )
}

#[test]
fn the_failure_policy_decides_on_every_webhook_failure() {
    let mut attacked = AttackedPlane::start();
    let runtime = Runtime::new().unwrap();
    let (url, kubeconfig) = (attacked.plane.url.clone(), attacked.plane.kubeconfig.clone());
    let webhook = move |request: Request<Bytes>| {
        let client = crate::http::Client::new(&url, &kubeconfig);
        async move {
            match request.uri().path() {
                "/slow" => pending().await,
                "/not-json" => Response::new("rubbish".into()),
                "/huge" => Response::new(vec![b' '; 10 << 20].into()),
                "/calling-back" => {
                    let (code, _) = tokio::task::spawn_blocking(move || call_back(client))
                        .await
                        .expect("the call ends");
                    assert_eq!(code, 201);
                    allowed(&request)
                }
                other => panic!("{other} is no webhook"),
            }
        }
    };
    let server = runtime.block_on(Https::start("localhost", webhook));
    let faults = [
        ("slow", "context deadline exceeded"),
        ("dead", "connect: connection refused"),
        ("not-json", "invalid character 'r' looking for beginning of value"),
        ("huge", "the response has more than 4194304 bytes"),
        ("calling-back", ""),
    ];
    let hooks: Vec<Value> = faults
        .iter()
        .flat_map(|it| [(it.0, "Fail"), (it.0, "Ignore")])
        .map(|(fault, policy)| {
            let url = match fault {
                "dead" => "https://127.0.0.1:1/dead".to_owned(),
                fault => format!("https://{}/{fault}", server.address),
            };
            let seconds = if fault == "calling-back" { 30 } else { 1 };
            hook(&url, &server.ca_bundle(), fault, policy, seconds)
        })
        .collect();
    attacked.send_accepted(
        "POST",
        WEBHOOKS,
        &json!({"metadata": {"name": "bad"}, "webhooks": hooks}),
    );
    for (fault, why) in faults {
        attacked.send_accepted(
            "POST",
            COLLECTION,
            &map(&format!("{fault}-ignored"), fault, "Ignore"),
        );
        let body = map(&format!("{fault}-failing"), fault, "Fail").to_string();
        let response = attacked.send("POST", COLLECTION, JSON, body.as_bytes());
        if why.is_empty() {
            assert_eq!(response.code, 201, "{fault}: {}", response.body);
            continue;
        }
        let message = refusal(&response, 500, "InternalError");
        let begins = format!(
            "Internal error occurred: failed calling webhook \"{fault}.fail.example.dev\": failed to call webhook: "
        );
        assert!(message.starts_with(&begins) && message.ends_with(why), "{message}");
    }
    attacked.assert_healthy();
}

/// A request of a webhook to the server that calls it.
fn call_back(mut client: crate::http::Client) -> (u16, Value) {
    let secret = json!({"metadata": {"generateName": "called-back-"}});
    client.send("POST", SECRETS, Some(&secret)).unwrap()
}

#[test]
fn hanging_webhooks_do_not_delay_other_requests() {
    let mut attacked = AttackedPlane::start();
    let runtime = Runtime::new().unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let (release, released) = watch::channel(false);
    let counted = Arc::clone(&calls);
    let webhook = move |request: Request<Bytes>| {
        counted.fetch_add(1, Ordering::SeqCst);
        let mut released = released.clone();
        async move {
            released.wait_for(|it| *it).await.expect("the test is running");
            allowed(&request)
        }
    };
    let server = runtime.block_on(Https::start("localhost", webhook));
    let url = format!("https://{}/", server.address);
    let hooks = [hook(&url, &server.ca_bundle(), "slow", "Fail", 30)];
    attacked.send_accepted(
        "POST",
        WEBHOOKS,
        &json!({"metadata": {"name": "slow"}, "webhooks": hooks}),
    );
    let waiting: Vec<_> = (0..50)
        .map(|index| {
            let mut client = attacked.plane.client();
            let map = map(&format!("waits-{index}"), "slow", "Fail");
            thread::spawn(move || client.send("POST", COLLECTION, Some(&map)).unwrap().0)
        })
        .collect();
    while calls.load(Ordering::SeqCst) < waiting.len() {
        thread::yield_now();
    }
    for index in 0..50 {
        attacked.send_accepted("POST", COLLECTION, &map(&format!("goes-{index}"), "none", "Fail"));
        let (code, _) = attacked.client.send("GET", COLLECTION, None).unwrap();
        assert_eq!(code, 200);
    }
    assert!(waiting.iter().all(|it| !it.is_finished()), "a request did not wait");
    release.send(true).unwrap();
    for writer in waiting {
        assert_eq!(writer.join().unwrap(), 201);
    }
    attacked.assert_healthy();
}

#[test]
fn a_hanging_aggregated_server_does_not_delay_other_requests() {
    let mut attacked = AttackedPlane::start();
    let runtime = Runtime::new().unwrap();
    let server = runtime.block_on(Https::start("hanging.default.svc", |request| async move {
        match request.uri().path() {
            "/apis/half.example.dev/v1" => json_response(
                200,
                &json!({"kind": "APIResourceList", "groupVersion": "half.example.dev/v1",
                    "resources": [{"name": "things", "singularName": "thing", "kind": "Thing",
                        "namespaced": false, "verbs": ["get"]}]}),
            ),
            _ => pending().await,
        }
    }));
    let services = "/api/v1/namespaces/default/services";
    attacked.send_accepted("POST", services, &Https::service("hanging"));
    for group in ["dead.example.dev", "half.example.dev"] {
        let spec = json!({"group": group, "version": "v1", "groupPriorityMinimum": 2000,
            "versionPriority": 10, "caBundle": server.ca_bundle(),
            "service": server.service_reference("hanging")});
        let name = format!("v1.{group}");
        attacked.send_accepted("POST", APIS, &json!({"metadata": {"name": name}, "spec": spec}));
    }
    let available =
        |wanted: &'static str| move |it: &Value| it["status"]["conditions"][0]["status"] == wanted;
    attacked.until(&format!("{APIS}/v1.half.example.dev"), available("True"));
    let mut client = attacked.plane.client();
    let stuck = thread::spawn(move || {
        client.exchange("GET", "/apis/half.example.dev/v1/things?timeout=2s", &[], b"").unwrap()
    });
    attacked.until(&format!("{APIS}/v1.dead.example.dev"), available("False"));
    let response = attacked.send("GET", "/apis/dead.example.dev/v1/things", JSON, b"");
    assert_eq!((response.code, response.body.as_str()), (503, Some("service unavailable\n")));
    for path in ["/apis", "/openapi/v2", "/openapi/v3", "/api/v1/namespaces"] {
        assert_eq!(attacked.client.send("GET", path, None).unwrap().0, 200, "{path}");
    }
    let message = refusal(&stuck.join().unwrap(), 504, "Timeout");
    assert!(message.contains("request did not complete"), "{message}");
    attacked.assert_healthy();
}

/// The limit of a plane's memory while it merges OpenAPI documents, in KiB.
const PEAK_MAX: u64 = 250 << 10;

/// An OpenAPI document of about `size` bytes, whose definitions consist of many small values.
fn document_of_small_values(group: &str, size: usize) -> String {
    const DEFINITION: usize = 256 << 10;
    let values = "{},".repeat(DEFINITION / 3);
    let names: Vec<String> = (0..size / DEFINITION).map(|it| format!("{group}.{it}")).collect();
    let refer = |name: &String| json!({"$ref": format!("#/definitions/{name}")});
    let references: Vec<Value> = names.iter().map(refer).collect();
    let paths = json!({format!("/apis/{group}/v1/things"): {"parameters": references}});
    let definition = |name: &String| format!(r#""{name}": {{"enum": [{values}{{}}]}}"#);
    let definitions: Vec<String> = names.iter().map(definition).collect();
    format!(r#"{{"paths": {paths}, "definitions": {{{}}}}}"#, definitions.join(","))
}

#[test]
fn large_documents_of_aggregated_servers_use_bounded_memory() {
    const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let mut attacked = AttackedPlane::start();
    let runtime = Runtime::new().unwrap();
    let mut servers = Vec::new();
    for (group, size) in [("huge.example.dev", 28 << 20), ("full.example.dev", 3 << 20)] {
        let name = group.split('.').next().unwrap();
        let document = Bytes::from(document_of_small_values(group, size));
        let respond = move |request: Request<Bytes>| {
            let response = match request.uri().path() {
                "/openapi/v2" => Response::new(document.clone()),
                path if path.ends_with("/v1") => json_response(200, &json!({"resources": []})),
                _ => json_response(404, &json!({})),
            };
            std::future::ready(response)
        };
        let server = runtime.block_on(Https::start(&format!("{name}.default.svc"), respond));
        attacked.send_accepted(
            "POST",
            "/api/v1/namespaces/default/services",
            &Https::service(name),
        );
        let spec = json!({"group": group, "version": "v1", "groupPriorityMinimum": 2000,
            "versionPriority": 10, "caBundle": server.ca_bundle(),
            "service": server.service_reference(name)});
        let name = format!("v1.{group}");
        attacked.send_accepted("POST", APIS, &json!({"metadata": {"name": name}, "spec": spec}));
        servers.push(server);
    }
    attacked.until("/openapi/v2", |it| it["definitions"].get("full.example.dev.0").is_some());
    for accept in [JSON, PROTOBUF] {
        let headers = [("accept", accept)];
        let response = attacked.client.exchange("GET", "/openapi/v2", &headers, b"").unwrap();
        assert_eq!(response.code, 200);
    }
    let peak = memory(&attacked.plane, "VmHWM:");
    assert!(peak < PEAK_MAX, "{peak} KiB");
    attacked.assert_healthy();
}
