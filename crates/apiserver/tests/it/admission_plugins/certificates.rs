//! `CertificateSubjectRestriction`: the subjects of certificate signing requests.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{CertificateParams, DnType, KeyPair};

use super::refused;
use machinery::{Value, json};
use testenv::TestEnv;
use testenv::media_type::MERGE_PATCH;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

fn request(group: &str, signer: &str) -> Value {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::OrganizationName, group);
    let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    json!({"metadata": {"name": "a"}, "spec": {"signerName": signer, "usages": ["client auth"],
        "request": BASE64_STANDARD.encode(pem)}})
}

#[tokio::test]
async fn a_client_certificate_for_system_masters_is_refused() {
    let plane = TestEnv::start().await;
    let signer = "kubernetes.io/kube-apiserver-client";
    assert_eq!(
        refused(&plane, REQUESTS, &request("system:masters", signer)).await,
        "certificatesigningrequests.certificates.k8s.io \"a\" is forbidden: use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
    );
    let created = plane.create(REQUESTS, &request("readers", signer)).await;
    assert_eq!(created["spec"]["username"], "sampan-admin");
}

#[tokio::test]
async fn conditions_of_a_request_get_the_times_that_they_lack() {
    let plane = TestEnv::start().await;
    plane.create(REQUESTS, &request("readers", "kubernetes.io/kube-apiserver-client")).await;
    let condition = json!({"type": "Approved", "status": "True", "reason": "r", "message": "m"});
    let approval = json!({"status": {"conditions": [condition]}});
    let approved = plane.merge(&format!("{REQUESTS}/a/approval"), &approval).await;
    let stored = &approved["status"]["conditions"][0];
    assert_ne!(stored["lastUpdateTime"], Value::Null);
    assert_eq!(stored["lastUpdateTime"], stored["lastTransitionTime"]);
    let old = "2001-01-01T00:00:00Z";
    let failed = json!({"type": "Failed", "status": "True", "lastUpdateTime": old});
    let status = json!({"status": {"conditions": [stored, failed]}});
    let changed = plane.merge(&format!("{REQUESTS}/a/status"), &status).await;
    let failed = &changed["status"]["conditions"][1];
    assert_eq!(failed["lastUpdateTime"], old);
    assert_ne!(failed["lastTransitionTime"], Value::Null);
}

#[tokio::test]
async fn the_certificate_of_a_request_is_validated() {
    let plane = TestEnv::start().await;
    plane.create(REQUESTS, &request("readers", "kubernetes.io/kube-apiserver-client")).await;
    let set = async |certificate: &str| {
        let status = json!({"status": {"certificate": BASE64_STANDARD.encode(certificate)}});
        let (code, answer) =
            plane.patch(&format!("{REQUESTS}/a/status"), MERGE_PATCH, &status).await;
        (code, answer["message"].as_str().unwrap_or_default().to_owned())
    };
    let refused = |why: &str| {
        let at = r#"CertificateSigningRequest.certificates.k8s.io "a" is invalid"#;
        (422, format!("{at}: status.certificate: {why}"))
    };
    let invalid = |why: &str| refused(&format!(r#"Invalid value: "<certificate data>": {why}"#));
    assert_eq!(set("foo").await, invalid("must contain at least one CERTIFICATE PEM block"));
    let key = KeyPair::generate().unwrap();
    assert_eq!(
        set(&key.serialize_pem()).await,
        invalid(r#"only CERTIFICATE PEM blocks are allowed, found "PRIVATE KEY""#)
    );
    let certificate = CertificateParams::default().self_signed(&key).unwrap().pem();
    assert_eq!(set(&certificate).await.0, 200);
    let modified = "Forbidden: updates may not modify existing certificate content";
    assert_eq!(set(&[certificate.as_str(), "x"].concat()).await, refused(modified));
}
