//! The frequency of availability checks and OpenAPI downloads of aggregated servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};

use crate::https::{Https, json_response};
use machinery::{Value, json};
use testenv::TestEnv;
use testenv::media_type::MERGE_PATCH;

const REGISTRATIONS: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const REGISTRATION: &str = "/apis/apiregistration.k8s.io/v1/apiservices/v1.checked.example";
const SERVICES: &str = "/api/v1/namespaces/default/services";

/// The number of requests to a server of `checked.example/v1`.
#[derive(Default)]
struct Requests {
    /// Requests for its version, which are the availability checks.
    checks: AtomicUsize,
    /// Requests for its OpenAPI document.
    downloads: AtomicUsize,
}

impl Requests {
    fn checks(&self) -> usize {
        self.checks.load(Ordering::SeqCst)
    }

    fn downloads(&self) -> usize {
        self.downloads.load(Ordering::SeqCst)
    }

    fn answer(&self, path: &str, code_of_check: fn(usize) -> u16) -> Response<Bytes> {
        match path {
            "/apis/checked.example/v1" => {
                let check = self.checks.fetch_add(1, Ordering::SeqCst);
                json_response(code_of_check(check), &json!({}))
            }
            "/apis" => {
                let version = json!({"version": "v1", "resources": []});
                let group = json!({"metadata": {"name": "checked.example"}, "versions": [version]});
                json_response(200, &json!({"items": [group]}))
            }
            "/openapi/v2" => {
                self.downloads.fetch_add(1, Ordering::SeqCst);
                json_response(200, &json!({"swagger": "2.0"}))
            }
            _ => json_response(404, &json!({})),
        }
    }
}

/// A server whose responses to checks, numbered from 0, have the given codes.
async fn server(code_of_check: fn(usize) -> u16) -> (Https, Arc<Requests>) {
    let requests = Arc::new(Requests::default());
    let counted = Arc::clone(&requests);
    let answer = move |request: Request<Bytes>| {
        std::future::ready(counted.answer(request.uri().path(), code_of_check))
    };
    (Https::start("checked.default.svc", answer).await, requests)
}

async fn register(plane: &TestEnv, server: &Https) {
    let spec = json!({"group": "checked.example", "version": "v1", "groupPriorityMinimum": 2000,
        "versionPriority": 10, "caBundle": server.ca_bundle(),
        "service": server.service_reference("checked")});
    let object = json!({"metadata": {"name": "v1.checked.example"}, "spec": spec});
    plane.create(REGISTRATIONS, &object).await;
}

async fn until_reason(plane: &TestEnv, reason: &str) {
    let has_reason = |_, it: &Value| it["status"]["conditions"][0]["reason"] == reason;
    plane.until(REGISTRATION, has_reason).await;
}

/// Waits until the task that checks the servers has processed all earlier writes: the same task
/// deletes the `APIService`s of versions that do not exist. Twice, because the first deletion may
/// belong to a pass of the task that began before those writes.
async fn settle(plane: &TestEnv) {
    for _ in 0..2 {
        let api_service = json!({
            "metadata": {"name": "v1.absent.example",
                "labels": {"kube-aggregator.kubernetes.io/automanaged": "true"}},
            "spec": {"group": "absent.example", "version": "v1", "groupPriorityMinimum": 1000,
                "versionPriority": 10},
        });
        plane.create(REGISTRATIONS, &api_service).await;
        plane.until(&format!("{REGISTRATIONS}/v1.absent.example"), |code, _| code == 404).await;
    }
}

async fn until(plane: &TestEnv, is_done: impl Fn() -> bool) {
    plane.until(REGISTRATION, |_, _| is_done()).await;
}

#[tokio::test]
async fn a_server_that_fails_every_second_check_is_checked_twice_in_thirty_seconds() {
    let plane = TestEnv::start().await;
    let (server, requests) = server(|check| if check % 2 == 0 { 503 } else { 200 }).await;
    plane.create(SERVICES, &Https::service("checked")).await;
    register(&plane, &server).await;
    for minute in 0..3 {
        until_reason(&plane, "FailedDiscoveryCheck").await;
        settle(&plane).await;
        assert_eq!(requests.checks(), 2 * minute + 1);
        plane.advance(Duration::from_millis(5));
        until_reason(&plane, "Passed").await;
        until(&plane, || requests.downloads() == minute + 1).await;
        settle(&plane).await;
        assert_eq!((requests.checks(), requests.downloads()), (2 * minute + 2, minute + 1));
        plane.advance(Duration::from_secs(30));
    }
}

#[tokio::test]
async fn checks_of_a_failing_server_back_off() {
    let plane = TestEnv::start().await;
    // The message of the condition has the code, so each check changes the condition.
    let (server, requests) = server(|check| if check % 2 == 0 { 500 } else { 503 }).await;
    plane.create(SERVICES, &Https::service("checked")).await;
    register(&plane, &server).await;
    let mut wait = Duration::from_millis(5);
    for check in 1..8 {
        until(&plane, || requests.checks() == check).await;
        let code = if check % 2 == 1 { "500" } else { "503" };
        let is_written = |_, it: &Value| {
            let message = it["status"]["conditions"][0]["message"].as_str();
            message.is_some_and(|it| it.ends_with(code))
        };
        plane.until(REGISTRATION, is_written).await;
        settle(&plane).await;
        plane.advance(wait / 4);
        settle(&plane).await;
        assert_eq!(requests.checks(), check);
        plane.advance(wait * 3 / 4);
        wait *= 2;
    }
}

#[tokio::test]
async fn endpoints_of_other_services_cause_no_check() {
    let plane = TestEnv::start().await;
    let (server, requests) = server(|_| 200).await;
    plane.create(SERVICES, &Https::service("checked")).await;
    register(&plane, &server).await;
    until(&plane, || requests.downloads() == 1).await;
    let endpoints = "/api/v1/namespaces/default/endpoints";
    plane.create(endpoints, &json!({"metadata": {"name": "other"}})).await;
    for index in 1..50 {
        let ports = json!([{"port": index}]);
        let subsets = json!([{"addresses": [{"ip": "10.0.0.1"}], "ports": ports}]);
        plane.merge(&format!("{endpoints}/other"), &json!({"subsets": subsets})).await;
        tokio::task::yield_now().await;
    }
    settle(&plane).await;
    assert_eq!((requests.checks(), requests.downloads()), (1, 1));
}

#[tokio::test]
async fn a_server_with_changing_endpoints_is_checked_once_a_second() {
    let plane = TestEnv::start().await;
    let (server, requests) = server(|_| 200).await;
    plane.create(SERVICES, &Https::service("checked")).await;
    register(&plane, &server).await;
    until(&plane, || requests.downloads() == 1).await;
    for name in ["127.0.0.1", "localhost", "127.0.0.1"] {
        let patch = json!({"spec": {"externalName": name}});
        let (code, status) = plane.patch(&format!("{SERVICES}/checked"), MERGE_PATCH, &patch).await;
        assert_eq!(code, 200, "{status}");
        settle(&plane).await;
    }
    assert_eq!((requests.checks(), requests.downloads()), (1, 1));
    plane.advance(Duration::from_secs(1));
    until(&plane, || requests.downloads() == 2).await;
}

#[tokio::test]
async fn a_service_that_is_created_later_is_checked_immediately() {
    let plane = TestEnv::start().await;
    let (server, _) = server(|_| 200).await;
    register(&plane, &server).await;
    until_reason(&plane, "ServiceNotFound").await;
    plane.create(SERVICES, &Https::service("checked")).await;
    until_reason(&plane, "Passed").await;
}

#[tokio::test]
async fn a_version_that_is_registered_again_is_checked_immediately() {
    let plane = TestEnv::start().await;
    let (server, requests) = server(|_| 200).await;
    plane.create(SERVICES, &Https::service("checked")).await;
    register(&plane, &server).await;
    until(&plane, || requests.downloads() == 1).await;
    settle(&plane).await;
    assert_eq!(plane.delete(REGISTRATION).await.0, 200);
    settle(&plane).await;
    register(&plane, &server).await;
    until_reason(&plane, "Passed").await;
}
