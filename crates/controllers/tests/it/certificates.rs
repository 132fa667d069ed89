//! The approval, the signing and the cleanup of certificate signing requests.

use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube_client::api::PostParams;
use kube_client::{Api, Client, Config};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};
use x509_parser::pem::parse_x509_pem;

use crate::plane::Plane;
use apiserver::auth::authentication::User;
use runtime::reconcile_history::ReconcileOutcome;
use testenv::TestEnv;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";

/// A PKCS#10 request in PEM for a user in one group.
fn pkcs10(user: &str, group: &str, key: &KeyPair) -> String {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, group);
    params.distinguished_name.push(DnType::CommonName, user);
    request_in_pem(&params, key)
}

fn request_in_pem(params: &CertificateParams, key: &KeyPair) -> String {
    params.serialize_request(key).unwrap().pem().unwrap()
}

/// A PKCS#10 request in PEM with two common names.
fn pkcs10_with_two_names(first: &str, last: &str) -> String {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name = DistinguishedName::new();
    // The type of a common name under another name, which does not replace the other one.
    params.distinguished_name.push(DnType::CustomDnType(vec![2, 5, 4, 3]), first);
    params.distinguished_name.push(DnType::CommonName, last);
    request_in_pem(&params, &KeyPair::generate().unwrap())
}

/// A certificate signing request.
fn request(name: &str, signer: &str, pem: String, usages: &[&str]) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "request": ByteString(pem.into_bytes()),
            "signerName": signer,
            "usages": usages,
            "expirationSeconds": 3600,
        },
    })
}

/// Approves a request, as `kubectl certificate approve` does.
async fn approve(plane: &Plane, created: &Value) {
    let mut approved = created.clone();
    approved["status"]["conditions"] =
        json!([{"type": "Approved", "status": "True", "reason": "KubectlApprove"}]);
    let name = created["metadata"]["name"].as_str().unwrap();
    let (code, status) = plane.put(&format!("{REQUESTS}/{name}/approval"), &approved).await;
    assert_eq!(code, 200, "{status}");
}

fn certificate(request: &Value) -> String {
    let bytes: ByteString =
        serde_json::from_value(request["status"]["certificate"].clone()).unwrap();
    String::from_utf8(bytes.0).unwrap()
}

#[tokio::test]
async fn an_approved_request_gets_a_certificate_that_the_server_accepts() {
    let builder = TestEnv::builder().system_clock().listen();
    let plane = Plane::start_with(builder, &["csrsigning"]).await;
    let key = KeyPair::generate().unwrap();
    let pem = pkcs10("jane", "developers", &key);
    let created = plane
        .create(REQUESTS, &request("r", CLIENT, pem, &["client auth", "digital signature"]))
        .await;
    approve(&plane, &created).await;
    let path = format!("{REQUESTS}/r");
    let issued = plane.until(&path, |_, it| it["status"].get("certificate").is_some()).await;
    let certificate = certificate(&issued);
    let (_, parsed) = parse_x509_pem(certificate.as_bytes()).unwrap();
    let parsed = parsed.parse_x509().unwrap();
    let validity =
        parsed.validity().not_after.timestamp() - parsed.validity().not_before.timestamp();
    assert_eq!(validity, 3600 + 300);

    let client = connect(&plane, certificate, key.serialize_pem());
    let review: SelfSubjectReview = Api::all(client)
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await
        .unwrap();
    let user = review.status.unwrap().user_info.unwrap();
    assert_eq!(user.username.as_deref(), Some("jane"));
    assert_eq!(user.groups.unwrap(), ["developers", "system:authenticated"]);
    plane.stop().await;
}

/// A client over TLS with a client certificate.
fn connect(plane: &Plane, certificate: String, key: String) -> Client {
    let address = plane.server().address().unwrap();
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    let (_, authority) = parse_x509_pem(plane.server().authority().as_bytes()).unwrap();
    config.root_cert = Some(vec![authority.contents]);
    let encoded = |pem: String| {
        let text = serde_json::to_value(ByteString(pem.into_bytes())).unwrap();
        text.as_str().unwrap().to_owned()
    };
    config.auth_info.client_certificate_data = Some(encoded(certificate));
    config.auth_info.client_key_data = Some(encoded(key).into());
    runtime::client::connect(config, plane.clock()).unwrap()
}

#[tokio::test]
async fn a_request_that_the_signer_does_not_accept_fails() {
    let plane = Plane::start(&["csrsigning"]).await;
    let reserved =
        "the common name \"front-proxy-client\" is reserved for the proxies of the plane";
    let of = |user: &str| pkcs10(user, "developers", &KeyPair::generate().unwrap());
    let two_names = pkcs10_with_two_names("front-proxy-client", "jane");
    let refused_usage = "invalid usage for client certificate: server auth";
    for (name, pem, usage, message) in [
        ("a", of("jane"), "server auth", refused_usage),
        ("b", of("front-proxy-client"), "client auth", reserved),
        ("c", two_names, "client auth", "the subject has several common names"),
    ] {
        let created = plane.create(REQUESTS, &request(name, CLIENT, pem, &[usage])).await;
        approve(&plane, &created).await;
        let has_failed = |_: u16, it: &Value| it["status"]["conditions"][1]["type"] == "Failed";
        let failed = plane.until(&format!("{REQUESTS}/{name}"), has_failed).await;
        let condition = &failed["status"]["conditions"][1];
        assert_eq!(condition["reason"], "SignerValidationFailure");
        assert_eq!(condition["message"], message);
        assert_eq!(failed["status"].get("certificate"), None);
    }
    plane.stop().await;
}

#[tokio::test]
async fn the_certificate_of_a_kubelet_is_approved_and_issued() {
    let plane = Plane::start(&["csrapproving", "csrsigning"]).await;
    let usages = ["client auth", "digital signature"];
    let pem = |node: &str| {
        let key = KeyPair::generate().unwrap();
        pkcs10(&format!("system:node:{node}"), "system:nodes", &key)
    };
    let kubelet = plane.as_user(User::authenticated(
        "system:node:n",
        "",
        vec!["system:nodes".to_owned(), "system:masters".to_owned()],
    ));
    kubelet.create(REQUESTS, &request("own", KUBELET_CLIENT, pem("n"), &usages)).await;
    kubelet.create(REQUESTS, &request("other", KUBELET_CLIENT, pem("m"), &usages)).await;
    let issued = |_: u16, it: &Value| it["status"].get("certificate").is_some();
    let own = plane.until(&format!("{REQUESTS}/own"), issued).await;
    let condition = &own["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["reason"]),
        (&json!("Approved"), &json!("AutoApproved"))
    );
    let message = "Auto approving self kubelet client certificate after SubjectAccessReview.";
    assert_eq!(condition["message"], message);
    let other = plane.until(&format!("{REQUESTS}/other"), issued).await;
    let message = "Auto approving kubelet client certificate after SubjectAccessReview.";
    assert_eq!(other["status"]["conditions"][0]["message"], message);
    plane.stop().await;
}

#[tokio::test]
async fn old_requests_are_deleted() {
    let plane = Plane::start(&["csrcleaner"]).await;
    let pem = || pkcs10("jane", "developers", &KeyPair::generate().unwrap());
    let usages = ["client auth"];
    plane.create(REQUESTS, &request("pending", CLIENT, pem(), &usages)).await;
    let mut denied = plane.create(REQUESTS, &request("denied", CLIENT, pem(), &usages)).await;
    let now = "2024-01-01T00:00:00Z";
    denied["status"]["conditions"] =
        json!([{"type": "Denied", "status": "True", "lastUpdateTime": now}]);
    let (code, status) = plane.put(&format!("{REQUESTS}/denied/approval"), &denied).await;
    assert_eq!(code, 200, "{status}");

    let names = |list: &Value| {
        let items = list["items"].as_array().unwrap().iter();
        items.map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let passes = |hours: u64| plane.advance(Duration::from_hours(hours) + Duration::from_secs(1));
    for (name, hours) in [("denied", 1), ("pending", 24)] {
        wait_for_timer(&plane, name, Duration::from_hours(hours)).await;
    }
    passes(1);
    plane.until(REQUESTS, |_, list| names(list) == ["pending"]).await;
    passes(23);
    plane.until(REQUESTS, |_, list| names(list).is_empty()).await;
    plane.stop().await;
}

/// Waits until the cleaner reconciles a request again after this time.
async fn wait_for_timer(plane: &Plane, name: &str, time: Duration) {
    let controller = "certificatesigningrequest-cleaner-controller";
    let expected = ReconcileOutcome::RequeueAfter(time + Duration::from_millis(1));
    loop {
        let records = plane.controllers().manager().records(controller);
        if records.iter().any(|it| it.request.name() == name && it.outcome == expected) {
            return;
        }
        tokio::task::yield_now().await;
    }
}
