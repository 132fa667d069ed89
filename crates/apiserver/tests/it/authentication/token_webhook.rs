//! Tokens about which another server is asked.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::webhook_server::WebhookServer;
use apiserver::auth::authentication::token_webhook::TokenWebhookSettings;
use apiserver::outbound::review_client::ReviewVersion;
use apiserver::outbound::webhook_endpoint::WebhookEndpoint;
use machinery::{Value, json};
use testenv::{TestEnv, TestEnvBuilder};

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const OWN: &str = "https://kubernetes.default.svc";

/// A server that knows the token `good`, and `elsewhere`, which is for the audience `vault`, and does not
/// answer about tokens that begin with `slow`. It answers with `code`, and after a failure with 200.
async fn start(code: &Arc<AtomicU16>) -> WebhookServer {
    let code = Arc::clone(code);
    WebhookServer::start(move |review| {
        let user = json!({"username": "alice", "uid": "7", "groups": ["dev"],
            "extra": {"example.org/a": ["b"]}});
        let token = review["spec"]["token"].as_str().unwrap();
        let is_slow = token.starts_with("slow");
        let status = match token {
            "good" => json!({"authenticated": true, "user": user}),
            "elsewhere" => json!({"authenticated": true, "user": user, "audiences": ["vault"]}),
            "nameless" => json!({"authenticated": true}),
            "broken" => json!({"error": "the directory is down"}),
            _ => json!({"authenticated": false}),
        };
        let answer =
            json!({"apiVersion": review["apiVersion"], "kind": "TokenReview", "status": status});
        let code = code.swap(200, Ordering::SeqCst);
        async move {
            if is_slow {
                std::future::pending::<()>().await;
            }
            (code, answer.to_string().into())
        }
    })
    .await
}

fn builder(server: &WebhookServer, version: ReviewVersion) -> TestEnvBuilder {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config");
    std::fs::write(&path, server.kubeconfig()).unwrap();
    let endpoint = WebhookEndpoint::read(&path).unwrap();
    let settings = TokenWebhookSettings { endpoint, version, cache_ttl: Duration::from_mins(2) };
    TestEnv::builder().config(|config| config.token_webhook = Some(settings))
}

async fn plane(server: &WebhookServer, version: ReviewVersion) -> TestEnv {
    builder(server, version).start().await
}

async fn review(plane: &TestEnv, token: &str, audiences: &[&str]) -> Value {
    let review = json!({"spec": {"token": token, "audiences": audiences}});
    plane.create(TOKEN_REVIEWS, &review).await["status"].take()
}

#[tokio::test]
async fn another_server_names_the_user_of_a_token() {
    let server = start(&Arc::new(AtomicU16::new(200))).await;
    for version in [ReviewVersion::V1, ReviewVersion::V1beta1] {
        let plane = plane(&server, version).await;
        let user = json!({"username": "alice", "uid": "7", "groups": ["dev", "system:authenticated"],
            "extra": {"example.org/a": ["b"]}});
        let expected = json!({"authenticated": true, "user": user, "audiences": [OWN]});
        assert_eq!(review(&plane, "good", &[]).await, expected);
        assert_eq!(plane.bearer("good").get("/apis").await.0, 200);
        assert_eq!(plane.bearer("good").get("/api/v1/secrets").await.0, 403);
    }
    let calls = server.calls();
    let versions: Vec<&str> =
        calls.iter().map(|it| it.review["apiVersion"].as_str().unwrap()).collect();
    assert_eq!(versions, ["authentication.k8s.io/v1", "authentication.k8s.io/v1beta1"]);
    assert_eq!(calls[0].review["spec"], json!({"token": "good", "audiences": [OWN]}));
    assert!(calls[0].target.ends_with("?timeout=30s"), "{}", calls[0].target);
    assert!(calls[0].user_agent.starts_with("sampan/"), "{}", calls[0].user_agent);
}

#[tokio::test]
async fn a_token_that_nobody_knows_is_refused() {
    let server = start(&Arc::new(AtomicU16::new(200))).await;
    let plane = plane(&server, ReviewVersion::V1).await;
    for (token, error) in [
        ("bad", "invalid bearer token"),
        ("broken", "[invalid bearer token, the directory is down]"),
        ("nameless", "[invalid bearer token, the answer of the webhook has no user name]"),
        ("elsewhere", "invalid bearer token"),
    ] {
        assert_eq!(plane.bearer(token).get("/readyz").await.0, 401, "{token}");
        let status = review(&plane, token, &[]).await;
        assert_eq!(status, json!({"user": {}, "error": error}), "{token}");
    }
}

#[tokio::test]
async fn a_token_is_for_the_audiences_that_the_other_server_names() {
    let server = start(&Arc::new(AtomicU16::new(200))).await;
    let plane = plane(&server, ReviewVersion::V1).await;
    let status = review(&plane, "elsewhere", &["vault", "other"]).await;
    assert_eq!((&status["authenticated"], &status["audiences"]), (&json!(true), &json!(["vault"])));
    assert_eq!(review(&plane, "good", &["vault"]).await["error"], "invalid bearer token");
}

#[tokio::test]
async fn answers_are_used_again_until_they_expire() {
    let server = start(&Arc::new(AtomicU16::new(200))).await;
    let plane = plane(&server, ReviewVersion::V1).await;
    for token in ["good", "bad"] {
        let before = server.calls().len();
        let clients: Vec<_> = (0..10).map(|_| plane.bearer(token)).collect();
        futures_util::future::join_all(clients.iter().map(|it| it.get("/apis"))).await;
        assert_eq!(server.calls().len(), before + 1, "{token}");
        plane.advance(Duration::from_secs(119));
        plane.bearer(token).get("/apis").await;
        assert_eq!(server.calls().len(), before + 1, "{token}");
        plane.advance(Duration::from_secs(1));
        plane.bearer(token).get("/apis").await;
        assert_eq!(server.calls().len(), before + 2, "{token}");
    }
}

#[tokio::test]
async fn a_passing_failure_is_repeated_and_another_is_not_cached() {
    let code = Arc::new(AtomicU16::new(500));
    let server = start(&code).await;
    let plane = plane(&server, ReviewVersion::V1).await;
    assert_eq!(plane.bearer("good").get("/apis").await.0, 200);
    assert_eq!(server.calls().len(), 2);
    code.store(403, Ordering::SeqCst);
    plane.advance(Duration::from_mins(2));
    assert_eq!(plane.bearer("good").get("/apis").await.0, 401);
    assert_eq!(server.calls().len(), 3);
    assert_eq!(plane.bearer("good").get("/apis").await.0, 200);
}

#[tokio::test]
async fn a_server_that_is_down_refuses_only_its_own_tokens() {
    let mut server = start(&Arc::new(AtomicU16::new(200))).await;
    server.set_port(1);
    let plane = plane(&server, ReviewVersion::V1).await;
    let error = review(&plane, "good", &[]).await["error"].clone();
    let error = error.as_str().unwrap();
    assert!(error.contains("Post ") && error.contains("connection refused"), "{error}");
    assert!(!error.contains("of-the-server") && !error.contains("good"), "{error}");
    let robot = super::create_robot_token(&plane, &json!({})).await;
    assert_eq!(plane.bearer(&robot).get("/apis").await.0, 200);
}

#[tokio::test]
async fn a_server_that_hangs_refuses_its_tokens_after_its_time() {
    let server = start(&Arc::new(AtomicU16::new(200))).await;
    let plane = plane(&server, ReviewVersion::V1).await;
    let client = plane.bearer("slow");
    let mut request = pin!(client.get("/apis"));
    tokio::select! {
        biased;
        (code, _) = &mut request => panic!("the answer {code} came without the server"),
        () = server.until_called(1) => {}
    }
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(30)).await;
    assert_eq!(request.await.0, 401);
}

#[tokio::test]
async fn a_client_whose_tokens_hang_leaves_half_of_the_reviews_to_others() {
    const HALF: usize = 512;
    let server = start(&Arc::new(AtomicU16::new(200))).await;
    let plane = builder(&server, ReviewVersion::V1).system_clock().listen().start().await;
    let clients: Vec<_> = (0..=HALF).map(|it| plane.bearer(&format!("slow-{it}"))).collect();
    let mut requests: FuturesUnordered<_> = clients.iter().map(|it| it.get("/apis")).collect();
    assert_eq!(requests.next().await.unwrap().0, 401);
    server.until_called(HALF).await;
    assert_eq!(plane.bearer("good").get("/apis").await.0, 401, "the same client");
    // Another address, and a known user.
    let header = ("authorization", "Bearer good");
    let user = super::front_proxy::identity(&plane, None, &[header]).await.unwrap();
    assert_eq!(user["username"], "alice");
    assert_eq!(review(&plane, "bad", &[]).await["error"], "invalid bearer token");
    assert!(requests.next().now_or_never().is_none(), "the others wait");
}
