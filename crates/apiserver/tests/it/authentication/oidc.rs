//! Tokens of other issuers.

mod issuer;
mod mapping;
mod reload;

use std::time::Duration;

use apiserver::auth::authentication::User;
use issuer::{AUDIENCE, TestIssuer};
use machinery::{Value, json};
use testenv::TestEnv;

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// The status of a review of the token.
async fn review(plane: &TestEnv, token: &str) -> Value {
    let review = json!({"spec": {"token": token}});
    plane.create(TOKEN_REVIEWS, &review).await["status"].take()
}

/// The error of a review of the token.
async fn error(plane: &TestEnv, token: &str) -> String {
    let status = review(plane, token).await;
    assert_eq!(status["user"], json!({}), "{status}");
    status["error"].as_str().unwrap().to_owned()
}

/// Why the token cannot be verified.
async fn refusal(plane: &TestEnv, token: &str) -> String {
    let error = error(plane, token).await;
    let why = error.strip_prefix("[invalid bearer token, oidc: verify token: ");
    why.and_then(|it| it.strip_suffix(']')).unwrap_or(&error).to_owned()
}

#[tokio::test]
async fn tokens_signed_with_rsa_and_elliptic_curves_are_accepted() {
    let issuer = TestIssuer::start(&["pkcs8", "sec1", "p384"]).await;
    let plane = issuer.plane(&json!({})).await;
    for key in ["pkcs8", "sec1", "p384"] {
        let token = issuer.token(&plane, key, &json!({"groups": ["dev"], "jti": "7"}));
        let status = review(&plane, &token).await;
        let user = json!({"username": "oidc:alice", "groups": ["oidc:dev", "system:authenticated"],
            "extra": {"authentication.kubernetes.io/credential-id": ["JTI=7"]}});
        assert_eq!((&status["user"], &status["authenticated"]), (&user, &json!(true)), "{key}");
        assert_eq!(status["audiences"], json!(["https://kubernetes.default.svc"]));
        assert_eq!(plane.bearer(&token).get("/apis").await.0, 200);
        assert_eq!(plane.bearer(&token).get("/api/v1/secrets").await.0, 403);
    }
}

#[tokio::test]
async fn tokens_outside_of_their_lifetime_are_refused() {
    let issuer = TestIssuer::start(&["sec1"]).await;
    let plane = issuer.plane(&json!({})).await;
    let now = plane.clock().now().seconds();
    let expired = issuer.token(&plane, "sec1", &json!({"exp": now - 1}));
    let why = refusal(&plane, &expired).await;
    assert!(why.starts_with("oidc: token is expired (Token Expiry: 20"), "{why}");
    assert_eq!(plane.bearer(&expired).get("/readyz").await.0, 401);
    let early = issuer.token(&plane, "sec1", &json!({"nbf": now + 61}));
    let why = refusal(&plane, &early).await;
    assert!(why.contains(" before the nbf (not before) time: 20"), "{why}");
    let leeway = issuer.token(&plane, "sec1", &json!({"nbf": now + 60}));
    assert_eq!(plane.bearer(&leeway).get("/apis").await.0, 200);
    plane.advance(Duration::from_hours(2));
    assert_eq!(plane.bearer(&leeway).get("/apis").await.0, 401);
    let eternal = issuer.token(&plane, "sec1", &json!({"exp": null}));
    let why = refusal(&plane, &eternal).await;
    assert!(why.contains("0001-01-01 00:00:00 +0000 UTC"), "{why}");
}

#[tokio::test]
async fn tokens_for_others_and_of_others_are_refused() {
    let issuer = TestIssuer::start(&["sec1"]).await;
    let plane = issuer.plane(&json!({})).await;
    let elsewhere = issuer.token(&plane, "sec1", &json!({"aud": ["vault"]}));
    assert_eq!(
        refusal(&plane, &elsewhere).await,
        format!(r#"oidc: expected audience "{AUDIENCE}" got ["vault"]"#)
    );
    let several = issuer.token(&plane, "sec1", &json!({"aud": ["vault", AUDIENCE]}));
    assert_eq!(plane.bearer(&several).get("/apis").await.0, 200);
    let foreign = issuer.token(&plane, "sec1", &json!({"iss": "https://evil.example"}));
    assert_eq!(error(&plane, &foreign).await, "invalid bearer token");
    // Tokens of other issuers are for this server only.
    let spec = json!({"spec": {"token": several, "audiences": ["vault"]}});
    let status = plane.create(TOKEN_REVIEWS, &spec).await["status"].take();
    assert_eq!(status, json!({"user": {}, "error": "invalid bearer token"}));
}

#[tokio::test]
async fn the_header_of_a_token_does_not_choose_how_it_is_verified() {
    let issuer = TestIssuer::start(&["pkcs8"]).await;
    let plane = issuer.plane(&json!({})).await;
    for algorithm in ["none", "HS256", "ES512", ""] {
        let header = json!({"alg": algorithm, "kid": "pkcs8"});
        let token = issuer.token_with_header(&plane, "pkcs8", &header, &json!({}));
        let why = refusal(&plane, &token).await;
        let expected = "oidc: id token signed with unsupported algorithm, expected [";
        assert!(why.starts_with(expected) && why.contains(&format!("got {algorithm:?}")), "{why}");
        let (unsigned, _) = token.rsplit_once('.').unwrap();
        assert_eq!(plane.bearer(&format!("{unsigned}.")).get("/readyz").await.0, 401);
    }
    // The algorithm of another kind of key.
    let header = json!({"alg": "ES256", "kid": "pkcs8"});
    let token = issuer.token_with_header(&plane, "pkcs8", &header, &json!({}));
    let why = refusal(&plane, &token).await;
    assert_eq!(why, "failed to verify signature: failed to verify id token signature");
}

#[tokio::test]
async fn an_unknown_key_is_fetched_once_however_many_tokens_name_it() {
    let issuer = TestIssuer::start(&["sec1"]).await;
    let plane = issuer.plane(&json!({})).await;
    let old = issuer.token(&plane, "sec1", &json!({}));
    plane.bearer(&old).until("/apis", |code, _| code == 200).await;
    assert_eq!(issuer.fetches(), 1);
    let new = issuer.token(&plane, "p384", &json!({}));
    issuer.publish(&["p384"]);
    let clients: Vec<_> = (0..20).map(|_| plane.bearer(&new)).collect();
    let answers = futures_util::future::join_all(clients.iter().map(|it| it.get("/apis"))).await;
    assert!(answers.iter().all(|it| it.0 == 200), "{answers:?}");
    assert_eq!(issuer.fetches(), 2);
    // The former key is forgotten, and garbage does not make the server call the issuer.
    for _ in 0..20 {
        assert_eq!(plane.bearer(&old).get("/apis").await.0, 401);
    }
    assert_eq!(issuer.fetches(), 2);
    let why = refusal(&plane, &old).await;
    assert_eq!(why, "failed to verify signature: failed to verify id token signature");
    issuer.publish(&["sec1", "p384"]);
    plane.advance(Duration::from_secs(10));
    assert_eq!(plane.bearer(&old).get("/apis").await.0, 200);
    assert_eq!(issuer.fetches(), 3);
}

#[tokio::test]
async fn known_keys_stay_in_use_while_the_issuer_is_down() {
    let issuer = TestIssuer::start(&["sec1"]).await;
    let plane = issuer.plane(&json!({})).await;
    let token = issuer.token(&plane, "sec1", &json!({}));
    plane.bearer(&token).until("/apis", |code, _| code == 200).await;
    issuer.set_down(true);
    let unknown = issuer.token(&plane, "p384", &json!({}));
    let why = refusal(&plane, &unknown).await;
    assert!(why.contains("fetching keys oidc: get keys failed Get "), "{why}");
    assert!(why.ends_with("503 Service Unavailable"), "{why}");
    assert_eq!(plane.bearer(&token).get("/apis").await.0, 200);
}

#[tokio::test]
async fn an_issuer_that_is_down_at_the_start_is_tried_again() {
    let issuer = TestIssuer::start(&["sec1"]).await;
    issuer.set_down(true);
    let plane = issuer.plane_without_waiting(&json!({})).await;
    let token = issuer.token(&plane, "sec1", &json!({"exp": i64::from(u32::MAX)}));
    let why = error(&plane, &token).await;
    assert_eq!(why, "[invalid bearer token, oidc: authenticator not initialized]");
    assert_eq!(plane.get("/readyz").await.0, 200);
    issuer.set_down(false);
    let advancing = |code: u16, _: &Value| {
        plane.advance(Duration::from_secs(10));
        code == 200
    };
    plane.bearer(&token).until("/apis", advancing).await;
}

#[tokio::test]
async fn an_issuer_with_another_name_or_too_large_answers_is_not_used() {
    let issuer = TestIssuer::start(&["sec1"]).await;
    issuer.set_document(json!({"issuer": "https://other", "jwks_uri": "https://other"}));
    let plane = issuer.plane_without_waiting(&json!({})).await;
    let token = issuer.token(&plane, "sec1", &json!({}));
    while issuer.documents() == 0 {
        tokio::task::yield_now().await;
    }
    let why = error(&plane, &token).await;
    assert_eq!(why, "[invalid bearer token, oidc: authenticator not initialized]");
    issuer.set_document(json!({"issuer": issuer.url(), "padding": "x".repeat(2 << 20)}));
    while issuer.documents() < 3 {
        plane.advance(Duration::from_secs(10));
        tokio::task::yield_now().await;
    }
    assert_eq!(plane.bearer(&token).get("/apis").await.0, 401);
}

#[tokio::test]
async fn an_issuer_cannot_be_that_of_service_accounts() {
    let issuer = TestIssuer::start(&["sec1"]).await;
    let settings = issuer.settings(&json!({"issuer": {"url": "https://kubernetes.default.svc"}}));
    let builder = TestEnv::builder().config(|config| config.oidc = Some(settings));
    let error = builder.try_start().await.err().unwrap();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("URL must not overlap with disallowed issuers"), "{cause}");
}

#[tokio::test]
async fn certificates_and_service_accounts_do_not_wait_for_an_issuer() {
    let issuer = TestIssuer::start(&["sec1"]).await;
    issuer.set_down(true);
    let plane = issuer.plane_without_waiting(&json!({})).await;
    let robot = super::create_robot_token(&plane, &json!({})).await;
    assert_eq!(plane.bearer(&robot).get("/apis").await.0, 200);
    let alice = plane.as_user(User::authenticated("alice", "", vec![]));
    assert_eq!(alice.get("/apis").await.0, 200);
    assert_eq!(plane.bearer("nonsense").get("/apis").await.0, 401);
}

#[tokio::test]
async fn a_withdrawn_key_is_forgotten_after_an_hour() {
    let issuer = TestIssuer::start(&["sec1", "p384"]).await;
    let plane = issuer.plane(&json!({})).await;
    let token = |key: &str| issuer.token(&plane, key, &json!({"exp": i64::from(u32::MAX)}));
    let (withdrawn, other) = (token("sec1"), token("p384"));
    plane.bearer(&withdrawn).until("/apis", |code, _| code == 200).await;
    issuer.publish(&["p384"]);
    plane.advance(Duration::from_mins(59));
    assert_eq!(plane.bearer(&withdrawn).get("/apis").await.0, 200);
    assert_eq!(issuer.fetches(), 1);
    plane.advance(Duration::from_mins(1));
    plane.bearer(&withdrawn).until("/apis", |code, _| code == 401).await;
    assert_eq!(plane.bearer(&other).get("/apis").await.0, 200);
    assert_eq!(issuer.fetches(), 2);
}

#[tokio::test]
async fn the_document_of_an_issuer_can_be_at_another_url() {
    const ISSUER: &str = "https://issuer.example/tenant";
    let issuer = TestIssuer::start(&["sec1"]).await;
    let document = format!("{}/.well-known/openid-configuration", issuer.url());
    let change = json!({"issuer": {"url": ISSUER, "discoveryURL": document}});
    let plane = issuer.plane_without_waiting(&change).await;
    let claims = json!({"iss": ISSUER, "exp": i64::from(u32::MAX)});
    let token = issuer.token(&plane, "sec1", &claims);
    // The document is that of another issuer.
    while issuer.documents() == 0 {
        tokio::task::yield_now().await;
    }
    let why = error(&plane, &token).await;
    assert_eq!(why, "[invalid bearer token, oidc: authenticator not initialized]");
    assert_eq!(issuer.fetches(), 0);
    let keys = format!("{}/keys", issuer.url());
    issuer.set_document(json!({"issuer": ISSUER, "jwks_uri": keys}));
    let advancing = |code: u16, _: &Value| {
        plane.advance(Duration::from_secs(10));
        code == 200
    };
    plane.bearer(&token).until("/apis", advancing).await;
    // The claim of a token is that of the issuer, not that of the document's URL.
    let other = issuer.token(&plane, "sec1", &json!({"exp": i64::from(u32::MAX)}));
    assert_eq!(error(&plane, &other).await, "invalid bearer token");
}
