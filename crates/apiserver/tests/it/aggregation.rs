//! API group versions that another server serves.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;

use crate::https::{AbortAfterBody, Https, json_response};
use apiserver::auth::authentication::User;
use apiserver::certificates::authority_files::AuthorityFiles;
use keel::Clock;
use machinery::{Value, json};
use testenv::TestEnv;
use testenv::media_type::{JSON, MERGE_PATCH};

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// A server of weather reports. A report describes the request and the headers of its user.
async fn weather(request: Request<Bytes>) -> Response<Bytes> {
    let resource = json!({"name": "reports", "singularName": "report", "namespaced": false,
        "kind": "Report", "verbs": ["get", "create"]});
    match request.uri().path() {
        "/apis/weather.example/v1" => json_response(
            200,
            &json!({"kind": "APIResourceList", "groupVersion": "weather.example/v1",
                "resources": [resource]}),
        ),
        "/openapi/v3" => json_response(
            200,
            &json!({"paths": {"apis/weather.example/v1":
                {"serverRelativeURL": "/openapi/v3/apis/weather.example/v1?hash=1"}}}),
        ),
        "/openapi/v3/apis/weather.example/v1" => json_response(200, &json!({"openapi": "3.0.0"})),
        "/openapi/v2" => json_response(
            200,
            &json!({"paths": {"/apis/weather.example/v1/reports": {}},
                "definitions": {"example.weather.Report": {"type": "object"}}}),
        ),
        path if path.starts_with("/apis/weather.example/v1/reports") => {
            let headers: Vec<String> = request
                .headers()
                .iter()
                .filter(|(name, _)| {
                    let name = name.as_str();
                    name.starts_with("x-remote")
                        || name.starts_with("x-forwarded")
                        || name == "authorization"
                })
                .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
                .collect();
            let body = String::from_utf8_lossy(request.body()).into_owned();
            let address = request.uri().path_and_query().unwrap().as_str();
            json_response(
                418,
                &json!({"method": request.method().as_str(), "address": address,
                    "headers": headers, "body": body}),
            )
        }
        _ => json_response(404, &json!({})),
    }
}

fn api_service(server: &Https) -> Value {
    json!({
        "metadata": {"name": "v1.weather.example"},
        "spec": {
            "group": "weather.example", "version": "v1", "groupPriorityMinimum": 2000,
            "versionPriority": 10, "caBundle": server.ca_bundle(),
            "service": server.service_reference("weather"),
        },
    })
}

/// The status and the reason of the condition `Available`.
fn available(service: &Value) -> (&str, &str) {
    let condition = &service["status"]["conditions"][0];
    (condition["status"].as_str().unwrap_or(""), condition["reason"].as_str().unwrap_or(""))
}

/// A plane with a registered weather server.
async fn registered() -> (TestEnv, Https) {
    registered_with(weather).await
}

/// A plane with a registered server of weather reports, whose responses `answer` computes.
async fn registered_with<F, R>(answer: F) -> (TestEnv, Https)
where
    F: Fn(Request<Bytes>) -> R + Send + Sync + 'static,
    R: Future<Output = Response<Bytes>> + Send + 'static,
{
    let plane = TestEnv::start().await;
    let server = Https::start("weather.default.svc", answer).await;
    register(&plane, &server).await;
    let path = format!("{SERVICES}/v1.weather.example");
    let passed = |_, it: &Value| available(it) == ("True", "Passed");
    plane.until(&path, passed).await;
    (plane, server)
}

async fn register(plane: &TestEnv, server: &Https) {
    plane.create("/api/v1/namespaces/default/services", &Https::service("weather")).await;
    plane.create(SERVICES, &api_service(server)).await;
}

#[tokio::test]
async fn requests_are_proxied_with_the_identity_of_their_user() {
    let (plane, server) = registered().await;
    let alice = User::authenticated("alice", "", vec!["system:masters".to_owned()]);
    let alice = plane.as_user(alice).with_header("authorization", "Basic c2VjcmV0");
    let alice = alice.with_header("x-remote-group", "root");
    let host = format!("x-forwarded-host: localhost:{}", server.address.port());
    let (code, seen) =
        alice.post("/apis/weather.example/v1/reports?dryRun=All", &json!({"rain": true})).await;
    assert_eq!(code, 418);
    let expected = json!({
        "method": "POST", "address": "/apis/weather.example/v1/reports?dryRun=All",
        "headers": ["x-remote-user: alice", "x-remote-group: system:masters",
            "x-remote-group: system:authenticated", host, "x-forwarded-proto: https",
            "x-forwarded-uri: /apis/weather.example/v1/reports"],
        "body": "{\"rain\":true}",
    });
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn responses_of_an_aggregated_server_are_not_cached() {
    let (plane, _server) = registered().await;
    let path = "/apis/weather.example/v1/reports";
    let reply = plane.send(http::Method::GET, path, "", String::new()).await;
    assert_eq!(reply.headers["cache-control"], "no-cache, private");
}

#[tokio::test]
async fn an_aborted_response_does_not_look_complete() {
    let abort = AbortAfterBody::default();
    let shared = abort.clone();
    let (plane, _server) = registered_with(move |request| {
        let abort = shared.clone();
        async move {
            let is_broken = request.uri().path().ends_with("/reports");
            let mut answer = weather(request).await;
            if is_broken {
                answer.extensions_mut().insert(abort);
            }
            answer
        }
    })
    .await;
    let answer = plane.get_streaming("/apis/weather.example/v1/reports", JSON).await;
    assert_eq!(answer.status(), 418);
    let mut body = answer.into_body();
    let piece = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(piece.ends_with(b"}"), "{piece:?}");
    abort.0.notify_one();
    let broken = body.collect().await.unwrap_err();
    assert_eq!(broken.to_string(), "the response of another server is truncated");
}

#[tokio::test]
async fn unauthorized_requests_are_not_proxied() {
    let (plane, _server) = registered().await;
    let bob = plane.as_user(User::authenticated("bob", "", vec![]));
    let (code, status) = bob.get("/apis/weather.example/v1/reports").await;
    assert_eq!((code, status["reason"].as_str()), (403, Some("Forbidden")));
}

#[tokio::test]
async fn discovery_and_openapi_include_the_aggregated_group() {
    let (plane, _server) = registered().await;
    let (_, groups) = plane.get("/apis").await;
    let names: Vec<&str> = groups["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(names.last(), Some(&"weather.example"));
    let (_, group) = plane.get("/apis/weather.example").await;
    assert_eq!(group["preferredVersion"]["groupVersion"], "weather.example/v1");
    let has_reports = |_, all: &Value| {
        all["items"].as_array().unwrap().iter().any(|it| {
            it["metadata"]["name"] == "weather.example"
                && it["versions"][0]["freshness"] == "Current"
                && it["versions"][0]["resources"][0]["resource"] == "reports"
        })
    };
    let aggregating = plane.with_header("accept", AGGREGATED);
    aggregating.until("/apis", has_reports).await;
    let (_, index) = plane.get("/openapi/v3").await;
    let url = &index["paths"]["apis/weather.example/v1"]["serverRelativeURL"];
    let (code, document) = plane.get(url.as_str().unwrap()).await;
    assert_eq!((code, document), (200, json!({"openapi": "3.0.0"})));
    let (_, everything) = plane.get("/openapi/v2").await;
    assert!(everything["paths"]["/apis/weather.example/v1/reports"].is_object());
    assert!(everything["definitions"]["io.k8s.api.core.v1.Pod"].is_object());
}

#[tokio::test]
async fn an_unreachable_server_is_unavailable_and_returns_503() {
    let (plane, server) = registered().await;
    let service = "/api/v1/namespaces/default/services/weather";
    let empty = json!({"spec": {"type": "ClusterIP", "externalName": null,
        "ports": [{"port": server.address.port()}]}});
    assert_eq!(plane.patch(service, MERGE_PATCH, &empty).await.0, 200);
    let path = format!("{SERVICES}/v1.weather.example");
    plane.until(&path, |_, it| available(it) == ("False", "MissingEndpoints")).await;
    let (code, text) = plane.get("/apis/weather.example/v1/reports").await;
    assert_eq!((code, text), (503, json!("service unavailable\n")));
    assert_eq!(plane.delete(service).await.0, 200);
    plane.until(&path, |_, it| available(it) == ("False", "ServiceNotFound")).await;
}

#[tokio::test]
async fn a_server_with_an_untrusted_certificate_is_not_called() {
    let plane = TestEnv::start().await;
    let server = Https::start("weather.default.svc", weather).await;
    let other = Https::start("weather.default.svc", weather).await;
    plane.create("/api/v1/namespaces/default/services", &Https::service("weather")).await;
    let mut service = api_service(&server);
    service["spec"]["caBundle"] = other.ca_bundle().into();
    plane.create(SERVICES, &service).await;
    let path = format!("{SERVICES}/v1.weather.example");
    let found =
        plane.until(&path, |_, it| available(it) == ("False", "FailedDiscoveryCheck")).await;
    let message = found["status"]["conditions"][0]["message"].as_str().unwrap();
    assert!(message.ends_with("x509: certificate signed by unknown authority"), "{message}");
}

/// Registers a server that calls without a valid certificate of this authority do not reach.
async fn register_for_clients(plane: &TestEnv, authority: &str) {
    let server = Https::start_for_clients("weather.default.svc", authority, weather).await;
    register(plane, &server).await;
    let path = format!("{SERVICES}/v1.weather.example");
    plane.until(&path, |_, it| available(it) == ("False", "FailedDiscoveryCheck")).await;
}

/// Waits until requests reach the server.
async fn until_called(plane: &TestEnv) {
    let is_called = |code, _: &Value| {
        plane.advance(Duration::from_secs(5));
        code == 418
    };
    plane.until("/apis/weather.example/v1/reports", is_called).await;
}

#[tokio::test]
async fn a_server_is_called_with_a_certificate_of_the_rotated_authority() {
    let directory = tempfile::tempdir().unwrap();
    let now = Clock::system().now();
    let builder = TestEnv::builder().clock(Clock::manual(now)).listen();
    let plane = builder.data_dir(directory.path()).start().await;
    let rotated = AuthorityFiles::new(&directory.path().join("pki")).rotate(now).unwrap();
    register_for_clients(&plane, rotated.certificate()).await;
    until_called(&plane).await;
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_server_is_called_with_a_renewed_certificate() {
    let age = Duration::from_hours(24 * 400);
    let clock = Clock::manual(Clock::system().now() - age);
    let plane = TestEnv::builder().clock(clock).listen().start().await;
    register_for_clients(&plane, &plane.server().authority()).await;
    plane.advance(age);
    until_called(&plane).await;
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn local_groups_have_api_services() {
    let plane = TestEnv::start().await;
    let local = |_, it: &Value| available(it) == ("True", "Local");
    let found = plane.until(&format!("{SERVICES}/v1.apps"), local).await;
    assert_eq!(found["spec"]["groupPriorityMinimum"], 17800);
    plane.install_crd(&crate::objects::thing_crd(&crate::objects::any_schema())).await;
    let path = format!("{SERVICES}/v1.example.com");
    plane.until(&path, local).await;
    plane.delete(&format!("{}/things.example.com", crate::objects::CRDS)).await;
    plane.until(&path, |code, _| code == 404).await;
}
