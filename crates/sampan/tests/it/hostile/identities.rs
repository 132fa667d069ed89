//! Anonymous clients, and clients with invalid credentials.

use super::{AttackedPlane, COLLECTION, assert_refused};
use crate::http::Credentials;
use crate::plane::Plane;
use machinery::json;

#[test]
fn an_unknown_token_is_unauthorized() {
    let attacked = AttackedPlane::start();
    let mut anonymous = attacked.client_with(Credentials::anonymous_tls);
    let long = format!("Bearer {}", "x".repeat(50_000));
    for header in ["Bearer x", "bearer x", "Bearer a b c", &long] {
        for path in [COLLECTION, "/readyz", "/nothing/here"] {
            let response =
                anonymous.exchange("GET", path, &[("authorization", header)], b"").unwrap();
            assert_refused(&response, 401, "Unauthorized", "Unauthorized");
        }
    }
    attacked.assert_healthy();
}

#[test]
fn anonymous_users_can_read_only_health_and_version() {
    let attacked = AttackedPlane::start();
    let mut anonymous = attacked.client_with(Credentials::anonymous_tls);
    for path in ["/healthz", "/livez", "/readyz", "/version", "/livez?verbose", "/version/"] {
        assert_eq!(anonymous.send("GET", path, None).unwrap().0, 200, "{path}");
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
        let response = anonymous.exchange("GET", path, &[], b"").unwrap();
        let message = format!("forbidden: User \"system:anonymous\" cannot get path \"{path}\"");
        assert_refused(&response, 403, "Forbidden", &message);
    }
    for (method, verb) in
        [("GET", "list"), ("POST", "create"), ("DELETE", "deletecollection"), ("HEAD", "list")]
    {
        let response = anonymous.exchange(method, COLLECTION, &[], b"").unwrap();
        if method == "HEAD" {
            assert_eq!(response.code, 403);
            continue;
        }
        let message = format!(
            "configmaps is forbidden: User \"system:anonymous\" cannot {verb} resource \"configmaps\" in API group \"\" in the namespace \"default\""
        );
        assert_refused(&response, 403, "Forbidden", &message);
    }
    attacked.assert_healthy();
}

#[test]
fn anonymous_users_cannot_impersonate() {
    let attacked = AttackedPlane::start();
    let mut anonymous = attacked.client_with(Credentials::anonymous_tls);
    for headers in [
        [("impersonate-user", "root"), ("impersonate-group", "system:masters")],
        [("x-remote-user", "root"), ("x-remote-group", "system:masters")],
        [("authorization", "Basic cm9vdDpyb290"), ("cookie", "root")],
        [("authorization", "Bearer"), ("authorization", "Bearer ")],
    ] {
        let response = anonymous.exchange("GET", COLLECTION, &headers, b"").unwrap();
        assert_eq!((response.code, &response.body["reason"]), (403, &json!("Forbidden")));
    }
    attacked.assert_healthy();
}

#[test]
fn a_client_certificate_of_another_authority_is_refused() {
    let attacked = AttackedPlane::start();
    let other = Plane::in_memory();
    let foreign = Credentials::read(&other.kubeconfig);
    let mut foreign_client = attacked
        .client_with(|ours| Credentials { authority: ours.authority.clone(), ..foreign }.tls());
    assert_eq!(foreign_client.send("GET", "/readyz", None).unwrap().0, 401);
    attacked.assert_healthy();
}

#[test]
fn an_audit_id_is_echoed_or_generated() {
    let mut attacked = AttackedPlane::start();
    for path in [COLLECTION, "/nothing/here", "/healthz"] {
        let mut audit_id = |headers: &[(&str, &str)]| {
            let response = attacked.client.exchange("GET", path, headers, b"").unwrap();
            response.header("audit-id").unwrap_or_default().to_owned()
        };
        assert_eq!(audit_id(&[("audit-id", "mine")]), "mine", "{path}");
        let (first, second) = (audit_id(&[]), audit_id(&[]));
        assert_eq!((first.len(), first == second), (36, false), "{path}");
    }
    attacked.assert_healthy();
}
