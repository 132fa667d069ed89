//! Calls to other servers: trust in certificates, silent connections, and redirects.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};

use crate::https::{Https, json_response};
use crate::mute_proxy::MuteProxy;
use crate::objects::{CONFIG_MAPS, config_map};
use crate::webhook_server::answer;
use crate::webhooks::configure_validating_webhooks;
use machinery::{Value, json};
use testenv::TestEnv;

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

/// The response of a webhook that allows every request.
async fn allow(request: Request<Bytes>) -> Response<Bytes> {
    let review: Value = serde_json::from_slice(request.body()).unwrap();
    let (code, body) = answer(&review, &json!({"allowed": true}));
    Response::builder().status(code).body(body).unwrap()
}

/// A webhook for config maps at an address.
fn hook(at: SocketAddr, bundle: &str) -> Value {
    json!({
        "name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
        "clientConfig": {"url": format!("https://{at}/hook"), "caBundle": bundle},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["configmaps"]}],
    })
}

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|it| (*it).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name.push(DnType::CommonName, "127.0.0.1");
    params
}

fn authority(names: &[&str]) -> CertificateParams {
    let mut params = params(names);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

/// A self-signed certificate and its key, in PEM.
fn self_signed(params: &CertificateParams) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

/// The result of a call to a webhook whose certificate is its own authority.
async fn call((certificate, key): (String, String)) -> Result<(), String> {
    let server = Https::start_with_certificate(&certificate, &key, &certificate, allow).await;
    let plane = TestEnv::start().await;
    configure_validating_webhooks(&plane, "c", &[hook(server.address, &server.ca_bundle())]).await;
    match plane.post(CONFIG_MAPS, &config_map("a", &json!({}))).await {
        (201, _) => Ok(()),
        (_, status) => Err(status["message"].as_str().unwrap().to_owned()),
    }
}

#[tokio::test]
async fn a_webhook_is_trusted_by_its_own_certificate() {
    assert_eq!(call(self_signed(&params(&["127.0.0.1"]))).await, Ok(()));
    assert_eq!(call(self_signed(&authority(&["127.0.0.1"]))).await, Ok(()));
    let (root, key) = (authority(&["root"]), KeyPair::generate().unwrap());
    let own = KeyPair::generate().unwrap();
    let signed = params(&["127.0.0.1"]).signed_by(&own, &Issuer::from_params(&root, &key));
    assert_eq!(call((signed.unwrap().pem(), own.serialize_pem())).await, Ok(()));
}

#[tokio::test]
async fn a_certificate_that_go_refuses_is_refused_with_gos_message() {
    let mut expired = authority(&["127.0.0.1"]);
    expired.not_after = date_time_ymd(2020, 2, 3);
    let mut nameless = params(&[]);
    nameless.distinguished_name.push(DnType::CommonName, "hook");
    for (params, why) in [
        (expired, "is after 2020-02-03T00:00:00Z"),
        (
            nameless,
            "x509: cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs",
        ),
        (authority(&["127.0.0.2"]), "x509: certificate is valid for 127.0.0.2, not 127.0.0.1"),
    ] {
        let message = call(self_signed(&params)).await.unwrap_err();
        assert!(message.ends_with(why), "{message}");
        assert!(message.contains("tls: failed to verify certificate: x509: "), "{message}");
    }
}

#[tokio::test]
async fn a_silent_connection_to_a_webhook_is_replaced() {
    let plane = TestEnv::start().await;
    let server = Https::start("hook.default.svc", allow).await;
    let proxy = MuteProxy::start(server.address).await;
    configure_validating_webhooks(&plane, "c", &[hook(proxy.address, &server.ca_bundle())]).await;
    plane.create(CONFIG_MAPS, &config_map("before", &json!({}))).await;
    proxy.mute_connections();
    let (code, status) = plane.post(CONFIG_MAPS, &config_map("lost", &json!({}))).await;
    assert_eq!(code, 500, "{status}");
    for name in ["a", "b", "c"] {
        plane.create(CONFIG_MAPS, &config_map(name, &json!({}))).await;
    }
}

/// Registers an aggregated server of `example.net/v1` at an address, with a certificate for its
/// service.
async fn aggregate(plane: &TestEnv, at: SocketAddr, bundle: &str) {
    plane.create("/api/v1/namespaces/default/services", &Https::service("other")).await;
    let service = json!({"namespace": "default", "name": "other", "port": at.port()});
    let object = json!({
        "metadata": {"name": "v1.example.net"},
        "spec": {"group": "example.net", "version": "v1", "groupPriorityMinimum": 2000,
            "versionPriority": 10, "caBundle": bundle, "service": service},
    });
    plane.create(SERVICES, &object).await;
    let passed = |_, it: &Value| it["status"]["conditions"][0]["reason"] == "Passed";
    plane.until(&format!("{SERVICES}/v1.example.net"), passed).await;
}

async fn respond_with_empty_object(_: Request<Bytes>) -> Response<Bytes> {
    json_response(200, &json!({}))
}

#[tokio::test]
async fn a_silent_connection_to_an_aggregated_server_is_replaced() {
    let plane = TestEnv::start().await;
    let server = Https::start("other.default.svc", respond_with_empty_object).await;
    let proxy = MuteProxy::start(server.address).await;
    aggregate(&plane, proxy.address, &server.ca_bundle()).await;
    assert_eq!(plane.get("/apis/example.net/v1/a").await.0, 200);
    proxy.mute_connections();
    assert_eq!(plane.get("/apis/example.net/v1/a?timeout=1s").await.0, 504);
    let metrics = plane.get("/metrics").await.1;
    let terminated = r#"apiserver_request_terminations_total{code="504",component="apiserver","#;
    assert!(metrics.as_str().unwrap().contains(terminated));
    assert_eq!(plane.get("/apis/example.net/v1/a").await.0, 200);
}

#[tokio::test]
async fn an_aggregated_server_is_trusted_by_its_own_certificate() {
    let plane = TestEnv::start().await;
    let (certificate, key) = self_signed(&authority(&["other.default.svc"]));
    let server =
        Https::start_with_certificate(&certificate, &key, &certificate, respond_with_empty_object)
            .await;
    aggregate(&plane, server.address, &server.ca_bundle()).await;
    assert_eq!(plane.get("/apis/example.net/v1/a").await.0, 200);
}

#[tokio::test]
async fn a_redirect_of_an_aggregated_server_is_not_forwarded() {
    let plane = TestEnv::start().await;
    let redirect = |request: Request<Bytes>| {
        let (code, location) = match request.uri().path() {
            "/apis/example.net/v1/gone" => (302, Some("https://elsewhere.example/")),
            "/apis/example.net/v1/same" => (304, None),
            _ => (200, None),
        };
        let mut response = Response::builder().status(code);
        if let Some(location) = location {
            response = response.header("location", location);
        }
        std::future::ready(response.body(Bytes::new()).unwrap())
    };
    let server = Https::start("other.default.svc", redirect).await;
    aggregate(&plane, server.address, &server.ca_bundle()).await;
    let reply = plane.get_as("/apis/example.net/v1/gone", "application/json").await;
    assert_eq!(reply.code, 502);
    assert!(!reply.headers.contains_key("location"));
    let text = "the backend attempted to redirect this request, which is not permitted";
    assert_eq!(reply.value(), text);
    assert_eq!(plane.get("/apis/example.net/v1/same").await.0, 304);
}

#[tokio::test]
async fn a_redirect_of_a_webhook_is_not_followed() {
    let plane = TestEnv::start().await;
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let elsewhere = Https::start("hook.default.svc", move |request| {
        counted.fetch_add(1, Ordering::Relaxed);
        allow(request)
    })
    .await;
    let location = format!("https://{}/hook", elsewhere.address);
    let server = Https::start("hook.default.svc", move |_| {
        let response = Response::builder().status(307).header("location", &location);
        std::future::ready(response.body(Bytes::new()).unwrap())
    })
    .await;
    configure_validating_webhooks(&plane, "c", &[hook(server.address, &server.ca_bundle())]).await;
    assert_eq!(plane.post(CONFIG_MAPS, &config_map("a", &json!({}))).await.0, 500);
    assert_eq!(calls.load(Ordering::Relaxed), 0);
}
