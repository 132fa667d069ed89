//! Changes of the configuration file.

use std::path::Path;
use std::time::Duration;

use super::issuer::TestIssuer;
use apiserver::Anonymous;
use apiserver::auth::authentication::oidc::OidcSettings;
use machinery::{Value, json};
use testenv::TestEnv;

fn write(path: &Path, change: &Value) {
    let mut configuration =
        json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration"});
    configuration.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    std::fs::write(path, configuration.to_string()).unwrap();
}

/// The number of reloads with a status.
async fn reloads(plane: &TestEnv, status: &str) -> u64 {
    let text = plane.get_as("/metrics", "text/plain").await.text().to_owned();
    let name = "apiserver_authentication_config_controller_automatic_reloads_total";
    let line = text.lines().find(|it| it.starts_with(name) && it.contains(status));
    line.map_or(0, |it| it.rsplit_once(' ').unwrap().1.parse().unwrap())
}

/// Advances the clock until there was another reload with this status. Between two steps, the issuer
/// has time to answer.
async fn advance_until_reloaded(plane: &TestEnv, status: &str) {
    let before = reloads(plane, status).await;
    for attempt in 0..20_000 {
        if reloads(plane, status).await > before {
            return;
        }
        if attempt % 20 == 0 {
            plane.advance(Duration::from_secs(10));
        }
        tokio::task::yield_now().await;
    }
    panic!("no reload with the status {status}");
}

async fn plane(path: &Path) -> TestEnv {
    let settings = OidcSettings::read(path.to_owned()).unwrap();
    TestEnv::builder().config(|config| config.oidc = Some(settings)).start().await
}

#[tokio::test]
async fn a_changed_file_replaces_the_issuers_and_a_bad_one_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("authentication.json");
    write(&path, &json!({}));
    let plane = plane(&path).await;
    let issuer = TestIssuer::start(&["sec1"]).await;
    let token = issuer.token(&plane, "sec1", &json!({"exp": i64::from(u32::MAX)}));
    assert_eq!(plane.bearer(&token).get("/apis").await.0, 401);
    write(&path, &json!({"jwt": [issuer.configuration(&json!({}))]}));
    advance_until_reloaded(&plane, "success").await;
    assert_eq!(plane.bearer(&token).get("/apis").await.0, 200);
    for bad in [
        json!({"jwt": [{"issuer": {"url": "http://a"}}]}),
        json!({"jwts": []}),
        json!({"anonymous": {"enabled": false}}),
    ] {
        write(&path, &bad);
        advance_until_reloaded(&plane, "failure").await;
        assert_eq!(plane.bearer(&token).get("/apis").await.0, 200, "{bad}");
    }
    write(&path, &json!({"jwt": []}));
    advance_until_reloaded(&plane, "success").await;
    assert_eq!(plane.bearer(&token).get("/apis").await.0, 401);
}

#[tokio::test]
async fn an_issuer_that_does_not_answer_does_not_replace_others() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("authentication.json");
    let (issuer, other) = (TestIssuer::start(&["sec1"]).await, TestIssuer::start(&["sec1"]).await);
    write(&path, &json!({"jwt": [issuer.configuration(&json!({}))]}));
    let plane = plane(&path).await;
    let token = issuer.token(&plane, "sec1", &json!({"exp": i64::from(u32::MAX)}));
    plane.bearer(&token).until("/apis", |code, _| code == 200).await;
    other.set_down(true);
    write(&path, &json!({"jwt": [other.configuration(&json!({}))]}));
    advance_until_reloaded(&plane, "failure").await;
    assert_eq!(plane.bearer(&token).get("/apis").await.0, 200);
    other.set_down(false);
    advance_until_reloaded(&plane, "success").await;
    assert_eq!(plane.bearer(&token).get("/apis").await.0, 401);
}

#[tokio::test]
async fn only_some_paths_may_be_open_to_requests_without_credentials() {
    let paths = vec!["/livez".to_owned()];
    let builder = TestEnv::builder().config(|it| it.anonymous = Anonymous::AcceptedAt(paths));
    let plane = builder.start().await;
    let anonymous = plane.unauthenticated();
    for (path, code) in [("/livez", 200), ("/livez/", 401), ("/readyz", 401), ("/version", 401)] {
        assert_eq!(anonymous.get(path).await.0, code, "{path}");
    }
}
