//! `CertificateSubjectRestriction`: the subjects of certificate signing requests.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{CertificateParams, DnType, KeyPair};

use super::refused;
use machinery::{Value, json};
use testenv::TestEnv;

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
