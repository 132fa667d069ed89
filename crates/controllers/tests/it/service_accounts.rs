//! The standard objects of a namespace, and the tokens in secrets.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::plane::Plane;
use apiserver::certificates::authority_files::AuthorityFiles;
use testenv::TestEnv;

const NAMESPACES: &str = "/api/v1/namespaces";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

/// A secret for a token of an account.
fn token_secret(name: &str, account: &str) -> Value {
    json!({
        "metadata": {
            "name": name,
            "annotations": {"kubernetes.io/service-account.name": account},
        },
        "type": "kubernetes.io/service-account-token",
    })
}

/// A pod with one container.
fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

/// Decodes a value of a secret.
fn decoded(secret: &Value, key: &str) -> String {
    let bytes: k8s_openapi::ByteString =
        serde_json::from_value(secret["data"][key].clone()).unwrap();
    String::from_utf8(bytes.0).unwrap()
}

#[tokio::test]
async fn every_namespace_has_the_account_default() {
    let plane = Plane::start(&["serviceaccount"]).await;
    let path = format!("{ACCOUNTS}/default");
    let account = plane.until(&path, |code, _| code == 200).await;
    plane.create(NAMESPACES, &json!({"metadata": {"name": "new"}})).await;
    plane.until("/api/v1/namespaces/new/serviceaccounts/default", |code, _| code == 200).await;

    assert_eq!(plane.delete(&path).await.0, 200);
    let uid = &account["metadata"]["uid"];
    plane.until(&path, |code, account| code == 200 && account["metadata"]["uid"] != *uid).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_pod_needs_an_account_that_exists() {
    let builder = TestEnv::builder().config(|config| config.require_service_accounts = true);
    let plane = Plane::start_with(builder, &["serviceaccount"]).await;
    plane.create(NAMESPACES, &json!({"metadata": {"name": "new"}})).await;
    // The creation waits for the account.
    let created = plane.create("/api/v1/namespaces/new/pods", &pod("a")).await;
    assert_eq!(created["spec"]["serviceAccountName"], "default");

    let mut other = pod("b");
    other["spec"]["serviceAccountName"] = "x".into();
    let (code, status) = plane.post("/api/v1/namespaces/new/pods", &other).await;
    assert_eq!(code, 403, "{status}");
    let expected = "pods \"b\" is forbidden: error looking up service account new/x: serviceaccount \"x\" not found";
    assert_eq!(status["message"], expected);
    plane.stop().await;
}

#[tokio::test]
async fn without_the_plugin_no_account_is_required() {
    let builder = TestEnv::builder().config(|config| {
        config.require_service_accounts = true;
        config.disabled_plugins = vec!["ServiceAccount".to_owned()];
    });
    let plane = Plane::start_with(builder, &["none"]).await;
    let created = plane.create("/api/v1/namespaces/default/pods", &pod("a")).await;
    assert_eq!(created["spec"].get("serviceAccountName"), None);
    plane.stop().await;
}

#[tokio::test]
async fn the_certificates_of_the_plane_are_published_and_restored() {
    let plane = Plane::start(&["root-ca-cert-publisher"]).await;
    plane.create(NAMESPACES, &json!({"metadata": {"name": "new"}})).await;
    let path = "/api/v1/namespaces/new/configmaps/kube-root-ca.crt";
    let authority = plane.server().authority();
    let is_intact =
        |code: u16, map: &Value| code == 200 && map["data"] == json!({"ca.crt": authority});
    let map = plane.until(path, is_intact).await;
    let description = map["metadata"]["annotations"]["kubernetes.io/description"].as_str().unwrap();
    assert!(description.starts_with("Contains a CA bundle"), "{description}");

    let change = json!({"metadata": {"labels": {"a": "b"}}, "data": {"ca.crt": "x", "more": "y"}});
    plane.merge(path, &change).await;
    let restored = plane.until(path, is_intact).await;
    assert_eq!(restored["metadata"]["labels"], json!({"a": "b"}));

    assert_eq!(plane.delete(path).await.0, 200);
    plane.until(path, is_intact).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_secret_gets_a_token_that_authenticates_its_account() {
    let plane = Plane::start(&["serviceaccount-token"]).await;
    let account = plane.create(ACCOUNTS, &json!({"metadata": {"name": "robot"}})).await;
    plane.create(SECRETS, &token_secret("t", "robot")).await;
    let path = format!("{SECRETS}/t");
    let secret = plane.until(&path, |_, secret| secret["data"].get("token").is_some()).await;
    assert_eq!(decoded(&secret, "namespace"), "default");
    assert_eq!(decoded(&secret, "ca.crt"), plane.server().authority());
    let uid = &secret["metadata"]["annotations"]["kubernetes.io/service-account.uid"];
    assert_eq!(*uid, account["metadata"]["uid"]);

    let robot = plane.bearer(&decoded(&secret, "token"));
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let review = robot.create(review, &json!({})).await;
    let user = &review["status"]["userInfo"];
    assert_eq!(user["username"], "system:serviceaccount:default:robot");
    assert_eq!(user["uid"], account["metadata"]["uid"]);

    assert_eq!(plane.delete(&path).await.0, 200);
    robot.until(ACCOUNTS, |code, _| code == 401).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_new_authority_of_the_plane_is_published_everywhere_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let builder = TestEnv::builder().data_dir(directory.path());
    let plane =
        Plane::start_with(builder, &["serviceaccount-token", "root-ca-cert-publisher"]).await;
    plane.create(ACCOUNTS, &json!({"metadata": {"name": "robot"}})).await;
    plane.create(SECRETS, &token_secret("t", "robot")).await;
    let path = format!("{SECRETS}/t");
    let before = plane.until(&path, |_, secret| secret["data"].get("token").is_some()).await;
    let map = "/api/v1/namespaces/default/configmaps/kube-root-ca.crt";
    plane.until(map, |code, _| code == 200).await;

    let files = AuthorityFiles::new(&directory.path().join("pki"));
    let authority = files.rotate(plane.clock().now()).unwrap().bundle().to_owned();
    // The server reads the files in intervals.
    let mut current = plane.server().watch_authority();
    while *current.borrow_and_update() != authority {
        plane.advance(Duration::from_secs(5));
        tokio::task::yield_now().await;
    }
    let has_authority = |_, secret: &Value| decoded(secret, "ca.crt") == authority;
    let secret = plane.until(&path, has_authority).await;
    assert_eq!(secret["data"]["token"], before["data"]["token"]);
    plane.until(map, |_, map| map["data"]["ca.crt"] == authority).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_token_is_deleted_with_its_account() {
    let plane = Plane::start(&["serviceaccount-token"]).await;
    plane.create(ACCOUNTS, &json!({"metadata": {"name": "robot"}})).await;
    plane.create(SECRETS, &token_secret("t", "robot")).await;
    let path = format!("{SECRETS}/t");
    plane.until(&path, |_, secret| secret["data"].get("token").is_some()).await;
    assert_eq!(plane.delete(&format!("{ACCOUNTS}/robot")).await.0, 200);
    plane.until(&path, |code, _| code == 404).await;

    // Without an account, the secret does not last.
    plane.create(SECRETS, &token_secret("t", "robot")).await;
    plane.until(&path, |code, _| code == 404).await;
    plane.stop().await;
}

#[tokio::test]
async fn the_reference_to_a_deleted_token_is_removed() {
    let plane = Plane::start(&["serviceaccount-token"]).await;
    let secrets = json!([{"name": "t"}, {"name": "other"}]);
    let account = json!({"metadata": {"name": "robot"}, "secrets": secrets});
    plane.create(ACCOUNTS, &account).await;
    plane.create(SECRETS, &token_secret("t", "robot")).await;
    let path = format!("{SECRETS}/t");
    plane.until(&path, |_, secret| secret["data"].get("token").is_some()).await;
    assert_eq!(plane.delete(&path).await.0, 200);
    let left = json!([{"name": "other"}]);
    plane.until(&format!("{ACCOUNTS}/robot"), |_, account| account["secrets"] == left).await;
    plane.stop().await;
}

const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
const YEAR: Duration = Duration::from_hours(366 * 24);

#[tokio::test]
async fn a_token_that_is_not_used_becomes_invalid_after_a_year_and_is_deleted_after_another() {
    let plane =
        Plane::start(&["serviceaccount-token", "legacy-serviceaccount-token-cleaner"]).await;
    plane.create(ACCOUNTS, &json!({"metadata": {"name": "robot"}})).await;
    let mut tokens = BTreeMap::new();
    for name in ["unused", "used", "mounted", "by-hand"] {
        plane.create(SECRETS, &token_secret(name, "robot")).await;
        let has_token = |_: u16, secret: &Value| secret["data"]["token"].is_string();
        let secret = plane.until(&format!("{SECRETS}/{name}"), has_token).await;
        tokens.insert(name, decoded(&secret, "token"));
    }
    let references = json!([{"name": "unused"}, {"name": "used"}, {"name": "mounted"}]);
    plane.merge(&format!("{ACCOUNTS}/robot"), &json!({"secrets": references})).await;
    let mut mounting = pod("a");
    mounting["spec"]["volumes"] = json!([{"name": "v", "secret": {"secretName": "mounted"}}]);
    plane.create("/api/v1/namespaces/default/pods", &mounting).await;
    let use_token = async |name: &str| plane.bearer(&tokens[name]).get("/version").await.0;
    let label = |secret: &Value, label: &str| secret["metadata"]["labels"][label].clone();

    // Uses are recorded since the second day.
    plane.advance(Duration::from_hours(24));
    plane.advance(YEAR / 2);
    assert_eq!(use_token("used").await, 200);
    let used =
        plane.until(&format!("{SECRETS}/used"), |_, it| label(it, LAST_USED) != Value::Null).await;
    assert_eq!(label(&used, LAST_USED), "2024-07-03");
    plane.advance(YEAR / 2);
    let path = format!("{SECRETS}/unused");
    let invalid = plane.until(&path, |_, it| label(it, INVALID_SINCE) != Value::Null).await;
    assert_eq!(label(&invalid, INVALID_SINCE), "2025-01-02");
    assert_eq!(use_token("unused").await, 401);
    for name in ["used", "mounted", "by-hand"] {
        let secret = plane.read(&format!("{SECRETS}/{name}")).await;
        assert_eq!(label(&secret, INVALID_SINCE), Value::Null, "{name}");
        assert_eq!(use_token(name).await, 200, "{name}");
    }
    // The use of an invalid token is recorded as well, and delays its deletion.
    plane.until(&path, |_, it| label(it, LAST_USED) == "2025-01-02").await;
    plane.advance(YEAR);
    plane.advance(Duration::from_hours(24));
    plane.until(&path, |code, _| code == 404).await;
    plane.read(&format!("{SECRETS}/mounted")).await;
    plane.read(&format!("{SECRETS}/by-hand")).await;
    plane.stop().await;
}
