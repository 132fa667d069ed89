//! Other identities: by impersonation, tokens of service accounts, pods, reviews and certificates.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{CertificateParams, DnType, KeyPair};

use super::{ACCOUNTS, PODS, grant, grant_everywhere, plane};
use machinery::{Value, json};
use testenv::{Client, TestEnv};

const SELF_SUBJECT_REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

const ROBOT: &str = "system:serviceaccount:default:robot";

/// Who the server says that a client is: the name of the user, or the code of the refusal.
async fn name(client: &Client, headers: &[(&str, &str)]) -> Result<String, u16> {
    let mut client = client.clone();
    for (header, value) in headers {
        client = client.with_header(header, *value);
    }
    let (code, review) = client.post(SELF_SUBJECT_REVIEWS, &json!({})).await;
    let name = review["status"]["userInfo"]["username"].as_str().unwrap_or_default().to_owned();
    if code == 201 { Ok(name) } else { Err(code) }
}

#[tokio::test]
async fn impersonation_needs_the_right_for_each_header() {
    const USER: &str = "Impersonate-User";
    const GROUP: &str = "Impersonate-Group";
    const UID: &str = "Impersonate-Uid";
    let (plane, alice) = plane().await;
    let rights = [
        "impersonate users bob",
        "impersonate groups dev",
        "impersonate uids 7",
        "impersonate userextras/scopes view",
    ];
    assert_eq!(name(&alice, &[(USER, "bob")]).await, Err(403));
    grant_everywhere(&plane, "impersonator", &rights).await;
    grant(&plane, "account", &["impersonate serviceaccounts robot"]).await;
    let bob = (USER, "bob");
    for (headers, expected) in [
        (&[bob][..], Ok("bob")),
        (&[bob, (GROUP, "dev"), (UID, "7"), ("impersonate-extra-scopes", "view")], Ok("bob")),
        (&[(USER, "root")], Err(403)),
        (&[(USER, "Bob")], Err(403)),
        (&[(USER, "system:admin")], Err(403)),
        (&[(USER, "system:node:a")], Err(403)),
        (&[bob, (GROUP, "ops")], Err(403)),
        (&[bob, (GROUP, "dev"), (GROUP, "ops")], Err(403)),
        (&[bob, (GROUP, "dev,system:masters")], Err(403)),
        (&[bob, (GROUP, "system:masters")], Err(403)),
        (&[bob, (GROUP, "dev"), (GROUP, "system:masters")], Err(403)),
        (&[bob, (UID, "8")], Err(403)),
        (&[bob, ("impersonate-extra-scopes", "edit")], Err(403)),
        (&[bob, ("impersonate-extra-scopes", "view"), ("impersonate-extra-a", "view")], Err(403)),
        (&[bob, ("impersonate-extra-scopes%2fview", "view")], Err(403)),
        (&[bob, ("impersonate-extra-%73copes", "view")], Ok("bob")),
        (&[(GROUP, "dev")], Err(400)),
        (&[(UID, "7")], Err(400)),
        (&[(USER, ROBOT)], Ok(ROBOT)),
        (&[(USER, ROBOT), (GROUP, "system:masters")], Err(403)),
        (&[(USER, "system:serviceaccount:kube-system:robot")], Err(403)),
        (&[(USER, "system:serviceaccount:default:other")], Err(403)),
        (&[(USER, "system:serviceaccount:default:robot:bob")], Err(403)),
    ] {
        let expected = expected.map(ToOwned::to_owned);
        assert_eq!(name(&alice, headers).await, expected, "{headers:?}");
    }
    // The impersonated user does not keep the rights of alice, such as that to impersonate.
    grant(&plane, "reader", &["list configmaps"]).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    assert_eq!(alice.get(maps).await.0, 200);
    assert_eq!(alice.with_header(USER, "bob").get(maps).await.0, 403);
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_service_account_is_not_impersonated_with_a_right_on_users() {
    let (plane, alice) = plane().await;
    grant_everywhere(&plane, "users", &["impersonate users", "impersonate groups"]).await;
    assert_eq!(name(&alice, &[("impersonate-user", "bob")]).await, Ok("bob".to_owned()));
    assert_eq!(name(&alice, &[("impersonate-user", ROBOT)]).await, Err(403));
    plane.stop().await.unwrap();
}

async fn create_accounts(plane: &TestEnv) {
    for name in ["weak", "strong"] {
        plane.create(ACCOUNTS, &json!({"metadata": {"name": name}})).await;
    }
}

#[tokio::test]
async fn who_writes_service_accounts_gets_no_tokens_of_them() {
    let (plane, alice) = plane().await;
    create_accounts(&plane).await;
    grant(&plane, "writer", &["* serviceaccounts"]).await;
    let token = async |name: &str| {
        let path = format!("{ACCOUNTS}/{name}/token");
        alice.post(&path, &json!({})).await.0
    };
    assert_eq!(token("strong").await, 403);
    grant(&plane, "requester", &["create serviceaccounts/token weak"]).await;
    assert_eq!((token("weak").await, token("strong").await), (201, 403));
    // The name in the body does not count.
    let other = json!({"metadata": {"name": "strong"}});
    let (code, answer) = alice.post(&format!("{ACCOUNTS}/weak/token"), &other).await;
    assert_eq!((code, &answer["reason"]), (422, &json!("Invalid")), "{answer}");
    let kube_system = ACCOUNTS.replace("default", "kube-system");
    let path = format!("{kube_system}/default/token");
    assert_eq!(alice.post(&path, &json!({})).await.0, 403);
    plane.stop().await.unwrap();
}

fn pod(name: &str, account: &str, volumes: &Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"serviceAccountName": account, "volumes": volumes,
        "containers": [{"name": "c", "image": "i"}]}})
}

#[tokio::test]
async fn who_creates_pods_uses_the_accounts_and_secrets_of_their_namespace_as_in_kubernetes() {
    let (plane, alice) = plane().await;
    create_accounts(&plane).await;
    let secret = json!([{"name": "v", "secret": {"secretName": "s"}}]);
    assert_eq!(alice.post(PODS, &pod("a", "strong", &secret)).await.0, 403);
    grant(&plane, "creator", &["create,get,patch,update pods"]).await;
    assert_eq!(alice.post(PODS, &pod("a", "strong", &secret)).await.0, 201);
    // A running pod does not get another account or other volumes.
    for change in [
        json!({"spec": {"serviceAccountName": "weak"}}),
        json!({"spec": {"volumes": [{"name": "v", "secret": {"secretName": "other"}}]}}),
        json!({"spec": {"nodeName": "n"}}),
    ] {
        let path = format!("{PODS}/a");
        let (code, answer) = alice.patch(&path, "application/merge-patch+json", &change).await;
        assert_eq!(code, 422, "{change}: {answer}");
    }
    // Nor is there a way to name an account or a secret of another namespace.
    for account in ["kube-system/default", "kube-system:default", "../kube-system/default"] {
        assert_eq!(alice.post(PODS, &pod("b", account, &json!([]))).await.0, 422, "{account}");
    }
    let foreign = json!([{"name": "v", "secret": {"secretName": "s", "namespace": "kube-system"}}]);
    let strict = format!("{PODS}?fieldValidation=Strict");
    assert_eq!(alice.post(&strict, &pod("b", "strong", &foreign)).await.0, 400);
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_review_tells_about_others_only_with_the_right_to() {
    const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
    const AUTHORIZATION: &str = "/apis/authorization.k8s.io/v1";
    let (plane, alice) = plane().await;
    let local = format!("{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews");
    let attributes = json!({"verb": "get", "resource": "secrets", "namespace": "kube-system"});
    let root = json!({"spec": {"user": "root", "groups": ["system:masters"],
        "resourceAttributes": attributes}});
    let own = format!("{AUTHORIZATION}/selfsubjectaccessreviews");
    for path in [&format!("{AUTHORIZATION}/subjectaccessreviews"), &local] {
        assert_eq!(alice.post(path, &root).await.0, 403, "{path}");
    }
    assert_eq!(alice.post(TOKEN_REVIEWS, &json!({"spec": {"token": "x"}})).await.0, 403);
    // A review of oneself is that of the user, whatever its body says.
    let review = alice.create(&own, &root).await;
    assert_eq!(review["status"]["allowed"], false);
    let faked = json!({"status": {"userInfo": {"username": "root"}}});
    let review = alice.create(SELF_SUBJECT_REVIEWS, &faked).await;
    assert_eq!(review["status"]["userInfo"]["username"], "alice");
    // A local review is for its own namespace.
    grant(&plane, "reviewer", &["create localsubjectaccessreviews"]).await;
    assert_eq!(alice.post(&local, &root).await.0, 422);
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_certificate_signing_request_is_that_of_its_creator_and_names_no_master() {
    let (plane, alice) = plane().await;
    grant_everywhere(&plane, "requester", &["create,get,update,patch certificatesigningrequests"])
        .await;
    let request = |organization: &str| {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "alice");
        params.distinguished_name.push(DnType::OrganizationName, organization);
        let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
        json!({"metadata": {"name": "a"}, "spec": {"usages": ["client auth"],
            "signerName": "kubernetes.io/kube-apiserver-client",
            "request": BASE64_STANDARD.encode(pem), "username": "root", "uid": "1",
            "groups": ["system:masters"], "extra": {"a": ["b"]}}})
    };
    let (code, answer) = alice.post(REQUESTS, &request("system:masters")).await;
    assert_eq!(code, 403, "{answer}");
    let created = alice.create(REQUESTS, &request("dev")).await;
    let spec = &created["spec"];
    assert_eq!((&spec["username"], &spec["uid"]), (&json!("alice"), &Value::Null));
    assert_eq!(spec["groups"], json!(["system:authenticated"]));
    assert_eq!(spec["extra"], Value::Null);
    // The right to write the request is not that to approve it, and its user cannot be changed.
    let path = format!("{REQUESTS}/a");
    let approved = json!([{"type": "Approved", "status": "True", "reason": "Me"}]);
    let status = json!({"conditions": approved, "certificate": BASE64_STANDARD.encode("x")});
    let mut changed = created.clone();
    changed["status"] = status;
    changed["spec"]["username"] = "root".into();
    let (code, answer) = alice.put(&path, &changed).await;
    assert!(code == 422 || answer["spec"]["username"] == "alice", "{code} {answer}");
    let stored = plane.read(&path).await;
    assert_eq!((&stored["spec"], &stored["status"]), (&created["spec"], &created["status"]));
    for subresource in ["approval", "status"] {
        let path = format!("{path}/{subresource}");
        assert_eq!(alice.put(&path, &changed).await.0, 403, "{subresource}");
    }
    plane.stop().await.unwrap();
}
