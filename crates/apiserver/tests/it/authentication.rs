//! Authentication: tokens, service accounts, impersonation.

mod front_proxy;
mod issuer_discovery;
mod oidc;
mod service_account_keys;
mod token_webhook;

use std::time::Duration;

use tracing::Level;

use crate::log::Log;
use crate::objects::{CONFIG_MAPS, config_map};
use apiserver::auth::authentication::User;
use apiserver::auth::authentication::token::TokenFile;
use machinery::{Value, json};
use testenv::{Client, TestEnv};

const MASTERS: &str = "system:masters";

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const SELF_SUBJECT_REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// A plane with the users alice, who has no rights, and root, a member of `system:masters`.
async fn plane() -> TestEnv {
    let tokens = TokenFile::parse("t-alice,alice,1,dev\nt-root,root,2,system:masters\n").unwrap();
    TestEnv::builder().config(|config| config.tokens = tokens).start().await
}

/// The identity of a client: name and groups.
async fn identity(client: &Client) -> (String, Value) {
    let review = client.create(SELF_SUBJECT_REVIEWS, &json!({})).await;
    let user = &review["status"]["userInfo"];
    (user["username"].as_str().unwrap().to_owned(), user["groups"].clone())
}

/// Creates the service account `robot` and returns a token of it.
async fn create_robot_token(plane: &TestEnv, request: &Value) -> String {
    plane.create(ACCOUNTS, &json!({"metadata": {"name": "robot"}})).await;
    let answer = plane.create(&format!("{ACCOUNTS}/robot/token"), request).await;
    answer["status"]["token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn users_without_rights_can_read_only_health() {
    let plane = plane().await;
    let anonymous = plane.unauthenticated();
    assert_eq!(anonymous.get("/readyz").await.0, 200);
    assert_eq!(anonymous.get("/version").await.0, 200);
    for path in [CONFIG_MAPS, "/apis", "/metrics", "/readyz/etcd", "/version/x"] {
        let (code, status) = anonymous.get(path).await;
        assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")), "{path}");
        let message = status["message"].as_str().unwrap();
        assert!(message.contains(r#"User "system:anonymous" cannot"#), "{message}");
    }
}

#[tokio::test]
async fn an_unknown_token_is_refused_even_on_public_paths() {
    let plane = plane().await;
    let (code, status) = plane.bearer("nonsense").get("/readyz").await;
    assert_eq!((code, &status["reason"]), (401, &json!("Unauthorized")));
}

#[tokio::test]
async fn a_token_after_two_spaces_is_ignored_with_a_warning() {
    let plane = plane().await;
    let client = plane.unauthenticated().with_header("authorization", "Bearer  t-root");
    let answer = client.get_as("/api/v1/secrets", "*/*").await;
    assert_eq!(answer.code, 403, "anonymous");
    let text = "299 - \"the provided Authorization header contains extra space before the bearer token, and is ignored\"";
    assert_eq!(answer.headers["warning"], text);
}

#[tokio::test]
async fn a_token_authenticates_its_user_and_masters_have_all_rights() {
    let plane = plane().await;
    let alice = plane.bearer("t-alice");
    let groups = json!(["dev", "system:authenticated"]);
    assert_eq!(identity(&alice).await, ("alice".to_owned(), groups));
    assert_eq!(alice.get("/apis").await.0, 200);
    assert_eq!(alice.get(CONFIG_MAPS).await.0, 403);
    assert_eq!(alice.post(CONFIG_MAPS, &config_map("a", &json!({}))).await.0, 403);
    let root = plane.bearer("t-root");
    root.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    assert_eq!(root.get(CONFIG_MAPS).await.0, 200);
}

#[tokio::test]
async fn a_master_can_impersonate_with_the_rights_of_that_user() {
    let plane = plane().await;
    let as_alice = plane.bearer("t-root").with_header("impersonate-user", "alice");
    assert_eq!(identity(&as_alice).await.0, "alice");
    assert_eq!(as_alice.get(CONFIG_MAPS).await.0, 403);
    let as_master = as_alice.with_header("impersonate-group", MASTERS);
    assert_eq!(as_master.get(CONFIG_MAPS).await.0, 200);
    let account = plane
        .bearer("t-root")
        .with_header("impersonate-user", "system:serviceaccount:default:robot");
    let groups = identity(&account).await.1;
    assert!(
        groups.as_array().unwrap().contains(&json!("system:serviceaccounts:default")),
        "{groups}"
    );
}

#[tokio::test]
async fn other_users_cannot_impersonate() {
    let plane = plane().await;
    let impersonating = plane.bearer("t-alice").with_header("impersonate-user", "root");
    let (code, status) = impersonating.get("/readyz").await;
    assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")));
    let groups_only = plane.bearer("t-alice").with_header("impersonate-group", MASTERS);
    assert_eq!(groups_only.get(CONFIG_MAPS).await.0, 400);
}

#[tokio::test]
async fn a_service_account_token_is_valid_while_the_account_exists() {
    let plane = plane().await;
    let token = create_robot_token(&plane, &json!({})).await;
    let client = plane.bearer(&token);
    let (name, groups) = identity(&client).await;
    assert_eq!(name, "system:serviceaccount:default:robot");
    let expected =
        json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]);
    assert_eq!(groups, expected);
    plane.delete(&format!("{ACCOUNTS}/robot")).await;
    assert_eq!(plane.get(&format!("{ACCOUNTS}/robot")).await.0, 404);
    assert_eq!(client.get("/apis").await.0, 401);
    let namesake = create_robot_token(&plane, &json!({})).await;
    assert_eq!(client.get("/apis").await.0, 401, "the new account has another uid");
    assert_eq!(plane.bearer(&namesake).get("/apis").await.0, 200);
}

#[tokio::test]
async fn a_service_account_token_expires() {
    let plane = plane().await;
    let client = plane
        .bearer(&create_robot_token(&plane, &json!({"spec": {"expirationSeconds": 600}})).await);
    // The leeway for differing clocks is a minute.
    plane.advance(Duration::from_mins(11));
    assert_eq!(client.get("/apis").await.0, 200);
    plane.advance(Duration::from_secs(1));
    assert_eq!(client.get("/apis").await.0, 401);
}

#[tokio::test]
async fn tokens_for_other_audiences_or_too_short_lifetimes_are_refused() {
    let plane = plane().await;
    let elsewhere = create_robot_token(&plane, &json!({"spec": {"audiences": ["vault"]}})).await;
    assert_eq!(plane.bearer(&elsewhere).get("/apis").await.0, 401);
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    let review = json!({"spec": {"token": elsewhere, "audiences": ["vault"]}});
    let status = plane.create(reviews, &review).await["status"].take();
    assert_eq!((&status["authenticated"], &status["audiences"]), (&json!(true), &json!(["vault"])));
    let short = json!({"spec": {"expirationSeconds": 60}});
    let (code, status) = plane.post(&format!("{ACCOUNTS}/robot/token"), &short).await;
    let field = &status["details"]["causes"][0]["field"];
    assert_eq!((code, field), (422, &json!("spec.expirationSeconds")));
}

#[tokio::test]
async fn the_reason_of_a_refused_token_is_logged_for_debugging_only() {
    let log = Log::start_at(Level::DEBUG);
    let plane = plane().await;
    let elsewhere = create_robot_token(&plane, &json!({"spec": {"audiences": ["vault"]}})).await;
    assert_eq!(plane.bearer(&elsewhere).get("/apis").await.0, 401);
    let refused = "Unable to authenticate the request";
    assert!(log.has(&[refused, "/apis", r#"token audiences ["vault"] is invalid"#]));
    let request = json!({"spec": {"expirationSeconds": 600}});
    let short = plane.create(&format!("{ACCOUNTS}/robot/token"), &request).await;
    let short = short["status"]["token"].as_str().unwrap();
    plane.advance(Duration::from_mins(12));
    assert_eq!(plane.bearer(short).get("/api").await.0, 401);
    assert!(log.has(&[refused, "path=\"/api\"", "token has expired"]));
    assert_eq!(plane.bearer("hunter2").get("/api").await.0, 401);
    assert!(log.has(&[refused, "invalid bearer token"]));
    for token in ["hunter2", short, &elsewhere] {
        assert!(!log.has(&[token]));
    }
    drop(log);
    let log = Log::start_at(Level::INFO);
    assert_eq!(plane.bearer("hunter2").get("/api").await.0, 401);
    assert!(!log.has(&[""]), "nothing is logged by default");
}

#[tokio::test]
async fn a_token_cannot_be_bound_to_an_object_without_a_name() {
    let plane = plane().await;
    plane.create(ACCOUNTS, &json!({"metadata": {"name": "robot"}})).await;
    for kind in ["Pod", "Node", "Secret"] {
        let request = json!({"spec": {"boundObjectRef": {"kind": kind, "apiVersion": "v1"}}});
        let (code, status) = plane.post(&format!("{ACCOUNTS}/robot/token"), &request).await;
        assert_eq!((code, &status["message"]), (400, &json!("Name parameter required.")));
    }
}

#[tokio::test]
async fn a_modified_token_is_refused() {
    let plane = plane().await;
    let token = create_robot_token(&plane, &json!({})).await;
    let (head, signature) = token.rsplit_once('.').unwrap();
    let changed: String = signature.chars().rev().collect();
    assert_eq!(plane.bearer(&format!("{head}.{changed}")).get("/apis").await.0, 401);
    assert_eq!(plane.bearer(head).get("/apis").await.0, 401);
    assert_eq!(plane.bearer(&token).get("/apis").await.0, 200);
}

#[tokio::test]
async fn an_access_review_returns_the_decision() {
    let plane = plane().await;
    let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let attributes = json!({"verb": "get", "resource": "configmaps", "namespace": "default"});
    for (groups, allowed) in [(json!(["dev"]), false), (json!([MASTERS]), true)] {
        let review = json!({"spec": {"user": "alice", "groups": groups,
            "resourceAttributes": attributes}});
        let answer = plane.create(reviews, &review).await;
        assert_eq!(answer["status"]["allowed"], allowed, "{groups}");
    }
}

#[tokio::test]
async fn an_in_process_client_can_have_any_user() {
    let plane = plane().await;
    let alice = plane.as_user(User::authenticated("alice", "7", vec!["dev".to_owned()]));
    assert_eq!(identity(&alice).await.0, "alice");
    assert_eq!(alice.get(CONFIG_MAPS).await.0, 403);
}

#[tokio::test]
async fn a_static_token_is_unknown_to_other_audiences() {
    const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
    let plane = plane().await;
    let spec = json!({"token": "t-alice", "audiences": ["foreign"]});
    let status = plane.create(TOKEN_REVIEWS, &json!({"spec": spec})).await["status"].clone();
    assert_eq!(status, json!({"user": {}, "error": "invalid bearer token"}));
}
