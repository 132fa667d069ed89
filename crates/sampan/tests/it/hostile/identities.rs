//! Clients that are nobody, or claim to be somebody.

use super::{COLLECTION, Siege, assert_refused};
use crate::http::Credentials;
use crate::plane::Plane;
use machinery::json;

#[test]
fn a_token_that_nobody_knows_is_unauthorized() {
    let siege = Siege::begin();
    let mut nobody = siege.client_with(Credentials::anonymous_tls);
    let long = format!("Bearer {}", "x".repeat(50_000));
    for header in ["Bearer x", "bearer x", "Bearer a b c", &long] {
        for path in [COLLECTION, "/readyz", "/nothing/here"] {
            let answer = nobody.exchange("GET", path, &[("authorization", header)], b"").unwrap();
            assert_refused(&answer, 401, "Unauthorized", "Unauthorized");
        }
    }
    siege.survived();
}

#[test]
fn nobody_sees_health_and_version_and_nothing_else() {
    let siege = Siege::begin();
    let mut nobody = siege.client_with(Credentials::anonymous_tls);
    for path in ["/healthz", "/livez", "/readyz", "/version", "/livez?verbose", "/version/"] {
        assert_eq!(nobody.send("GET", path, None).unwrap().0, 200, "{path}");
    }
    for path in [
        "/",
        "/api",
        "/apis",
        "/apis/apps",
        "/api/v1",
        "/openapi/v2",
        "/openapi/v3",
        "/metrics",
        "/nothing",
        "/healthy",
        "/.",
        "//apis",
    ] {
        let answer = nobody.exchange("GET", path, &[], b"").unwrap();
        let message = format!("forbidden: User \"system:anonymous\" cannot get path \"{path}\"");
        assert_refused(&answer, 403, "Forbidden", &message);
    }
    for (method, verb) in
        [("GET", "list"), ("POST", "create"), ("DELETE", "deletecollection"), ("HEAD", "list")]
    {
        let answer = nobody.exchange(method, COLLECTION, &[], b"").unwrap();
        if method == "HEAD" {
            assert_eq!(answer.code, 403);
            continue;
        }
        let message = format!(
            "configmaps is forbidden: User \"system:anonymous\" cannot {verb} resource \"configmaps\" in API group \"\" in the namespace \"default\""
        );
        assert_refused(&answer, 403, "Forbidden", &message);
    }
    siege.survived();
}

#[test]
fn nobody_cannot_become_somebody() {
    let siege = Siege::begin();
    let mut nobody = siege.client_with(Credentials::anonymous_tls);
    for headers in [
        [("impersonate-user", "root"), ("impersonate-group", "system:masters")],
        [("x-remote-user", "root"), ("x-remote-group", "system:masters")],
        [("authorization", "Basic cm9vdDpyb290"), ("cookie", "root")],
        [("authorization", "Bearer"), ("authorization", "Bearer ")],
    ] {
        let answer = nobody.exchange("GET", COLLECTION, &headers, b"").unwrap();
        assert_eq!((answer.code, &answer.body["reason"]), (403, &json!("Forbidden")));
    }
    siege.survived();
}

#[test]
fn a_certificate_of_another_authority_is_no_certificate() {
    let siege = Siege::begin();
    let other = Plane::in_memory();
    let foreign = Credentials::read(&other.kubeconfig);
    let mut stranger = siege
        .client_with(|ours| Credentials { authority: ours.authority.clone(), ..foreign }.tls());
    assert!(stranger.send("GET", "/readyz", None).is_err());
    siege.survived();
}

#[test]
fn a_request_has_the_name_that_its_sender_gives_it_or_a_new_one() {
    let mut siege = Siege::begin();
    for path in [COLLECTION, "/nothing/here", "/healthz"] {
        let mut named = |headers: &[(&str, &str)]| {
            let answer = siege.client.exchange("GET", path, headers, b"").unwrap();
            answer.header("audit-id").unwrap_or_default().to_owned()
        };
        assert_eq!(named(&[("audit-id", "mine")]), "mine", "{path}");
        let (first, second) = (named(&[]), named(&[]));
        assert_eq!((first.len(), first == second), (36, false), "{path}");
    }
    siege.survived();
}
