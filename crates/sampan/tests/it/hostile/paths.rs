//! Unknown paths and invalid names.

use super::{AttackedPlane, COLLECTION, JSON, assert_refused, refusal};
use crate::http::{Response, is_closed_by_server};
use machinery::json;

const NO_SUCH_RESOURCE: &str = "the server could not find the requested resource";

fn get(attacked: &mut AttackedPlane, path: &str) -> Response {
    attacked.client.exchange("GET", path, &[], b"").unwrap()
}

#[test]
fn unknown_paths_are_not_found() {
    let mut attacked = AttackedPlane::start();
    for path in [
        "/api/v1/namespaces/default/doodads",
        "/api/v1/namespaces/default/configmaps/a/b/c/d/e",
        "/api/v1/configmaps/a",
        "/apis/apps/v1/namespaces/default/doodads",
        "/api/v1/namespaces/default/configmaps/../secrets",
        "/api/v1/namespaces/default/configmaps/../..",
    ] {
        assert_refused(&get(&mut attacked, path), 404, "NotFound", NO_SUCH_RESOURCE);
    }
    let long = format!("/{}", "a/".repeat(20_000));
    for path in ["/nothing/here", "/..", "/../..", "/apis/no.such.group/v1/things", &long] {
        let response = get(&mut attacked, path);
        assert_eq!((response.code, response.body.as_str()), (404, Some("404 page not found\n")));
    }
    for path in ["/%", "/api/v1/%zz"] {
        let response = get(&mut attacked, path);
        assert_eq!((response.code, response.body.as_str()), (400, Some("400 Bad Request")));
    }
    attacked.assert_healthy();
}

#[test]
fn a_path_that_is_not_utf_8_is_not_found() {
    let mut attacked = AttackedPlane::start();
    for path in ["/%ff", &format!("{COLLECTION}/%c3%28")] {
        assert_eq!(get(&mut attacked, path).code, 404, "{path}");
    }
    let response = get(&mut attacked, "/api/v1/namespaces/%ff/configmaps");
    assert_eq!((response.code, &response.body["items"]), (200, &json!([])));
    attacked.assert_healthy();
}

#[test]
fn dots_and_percent_signs_are_invalid_names() {
    let mut attacked = AttackedPlane::start();
    for (name, message) in [
        ("..", r#"Name parameter invalid: "..": may not be '..'"#),
        ("%2e%2e", r#"Name parameter invalid: "..": may not be '..'"#),
        (".", r#"Name parameter invalid: ".": may not be '.'"#),
        ("a%25b", r#"Name parameter invalid: "a%b": may not contain '%'"#),
    ] {
        for method in ["GET", "DELETE", "PATCH"] {
            let path = format!("{COLLECTION}/{name}");
            let media = if method == "PATCH" { "application/merge-patch+json" } else { JSON };
            let response = attacked.send(method, &path, media, b"{}");
            assert_refused(&response, 400, "BadRequest", message);
        }
    }
    let response = get(&mut attacked, &format!("{COLLECTION}/%00"));
    assert_refused(&response, 404, "NotFound", r#"configmaps "\x00" not found"#);
    attacked.assert_healthy();
}

#[test]
fn an_encoded_slash_separates_path_segments() {
    let mut attacked = AttackedPlane::start();
    attacked.send_accepted("POST", COLLECTION, &json!({"metadata": {"name": "a"}}));
    let response = get(&mut attacked, "/api/v1/namespaces/default%2Fconfigmaps%2fa");
    assert_eq!(response.body["metadata"]["name"], "a");
    let response = get(&mut attacked, &format!("{COLLECTION}/a%2Fb"));
    assert_refused(&response, 404, "NotFound", NO_SUCH_RESOURCE);
    attacked.assert_healthy();
}

#[test]
fn a_path_over_the_length_limit_is_refused() {
    let mut attacked = AttackedPlane::start();
    let name = "a".repeat(60_000);
    let response = get(&mut attacked, &format!("{COLLECTION}/{name}"));
    let message = format!("configmaps \"{name}\" not found");
    assert_refused(&response, 404, "NotFound", &message);
    let response = get(&mut attacked, &format!("{COLLECTION}/{}", "a".repeat(70_000)));
    assert_eq!(response.code, 414);
    let path = format!("{COLLECTION}/{}", "a".repeat(700_000));
    match attacked.client.exchange("GET", &path, &[], b"") {
        Ok(response) => assert_eq!(response.code, 431),
        Err(error) => assert!(is_closed_by_server(&error), "{error}"),
    }
    attacked.assert_healthy();
}

#[test]
fn names_with_other_characters_are_invalid() {
    let mut attacked = AttackedPlane::start();
    let rule = r"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    for (name, shown) in [
        ("A", "A"),
        ("ä", "ä"),
        ("a b", "a b"),
        ("a/b", "a/b"),
        ("..", ".."),
        ("-a", "-a"),
        ("a_b", "a_b"),
        ("a\u{0}", r"a\x00"),
        ("a\nb", r"a\nb"),
        ("\u{202e}a", r"\u202ea"),
    ] {
        let body = json!({"metadata": {"name": name}}).to_string();
        let response = attacked.send("POST", COLLECTION, JSON, body.as_bytes());
        let message = format!(
            r#"ConfigMap "{shown}" is invalid: metadata.name: Invalid value: "{shown}": {rule}"#
        );
        assert_refused(&response, 422, "Invalid", &message);
        assert_eq!(response.body["details"]["causes"][0]["field"], "metadata.name");
    }
    let body = json!({"metadata": {"name": "a".repeat(254)}}).to_string();
    let message =
        refusal(&attacked.send("POST", COLLECTION, JSON, body.as_bytes()), 422, "Invalid");
    assert!(message.ends_with("must be no more than 253 characters"), "{message}");
    attacked.assert_healthy();
}

#[test]
fn unknown_methods_change_nothing() {
    let mut attacked = AttackedPlane::start();
    let message = "the server does not allow this method on the requested resource";
    for method in ["OPTIONS", "TRACE", "BREW", "get"] {
        let response = attacked.client.exchange(method, COLLECTION, &[], b"").unwrap();
        assert_refused(&response, 405, "MethodNotAllowed", message);
        for path in ["/", "/readyz"] {
            let response = attacked.client.exchange(method, path, &[], b"").unwrap();
            assert_eq!(response.code, 200, "{method} {path}");
        }
    }
    attacked.assert_healthy();
}
