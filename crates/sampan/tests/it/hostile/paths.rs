//! Paths that lead nowhere, and names that nobody may have.

use super::{COLLECTION, JSON, Siege, assert_refused, refusal};
use crate::http::Answer;
use machinery::json;

const NO_SUCH_RESOURCE: &str = "the server could not find the requested resource";

fn get(siege: &mut Siege, path: &str) -> Answer {
    siege.client.exchange("GET", path, &[], b"").unwrap()
}

#[test]
fn what_is_not_served_is_not_found() {
    let mut siege = Siege::begin();
    for path in [
        "/api/v1/namespaces/default/doodads",
        "/api/v1/namespaces/default/configmaps/a/b/c/d/e",
        "/api/v1/configmaps/a",
        "/apis/apps/v1/namespaces/default/doodads",
        "/api/v1/namespaces/default/configmaps/../secrets",
        "/api/v1/namespaces/default/configmaps/../..",
    ] {
        assert_refused(&get(&mut siege, path), 404, "NotFound", NO_SUCH_RESOURCE);
    }
    let long = format!("/{}", "a/".repeat(20_000));
    for path in ["/nothing/here", "/..", "/../..", "/apis/no.such.group/v1/things", &long] {
        let answer = get(&mut siege, path);
        assert_eq!((answer.code, answer.body.as_str()), (404, Some("404 page not found\n")));
    }
    for path in ["/%", "/api/v1/%zz"] {
        let answer = get(&mut siege, path);
        assert_eq!((answer.code, answer.body.as_str()), (400, Some("400 Bad Request")));
    }
    siege.survived();
}

#[test]
fn a_path_that_is_no_text_names_nothing() {
    let mut siege = Siege::begin();
    for path in ["/%ff", &format!("{COLLECTION}/%c3%28")] {
        assert_eq!(get(&mut siege, path).code, 404, "{path}");
    }
    let answer = get(&mut siege, "/api/v1/namespaces/%ff/configmaps");
    assert_eq!((answer.code, &answer.body["items"]), (200, &json!([])));
    siege.survived();
}

#[test]
fn dots_and_percent_signs_are_no_names() {
    let mut siege = Siege::begin();
    for (name, message) in [
        ("..", r#"Name parameter invalid: "..": may not be '..'"#),
        ("%2e%2e", r#"Name parameter invalid: "..": may not be '..'"#),
        (".", r#"Name parameter invalid: ".": may not be '.'"#),
        ("a%25b", r#"Name parameter invalid: "a%b": may not contain '%'"#),
    ] {
        for method in ["GET", "DELETE", "PATCH"] {
            let path = format!("{COLLECTION}/{name}");
            let media = if method == "PATCH" { "application/merge-patch+json" } else { JSON };
            let answer = siege.send(method, &path, media, b"{}");
            assert_refused(&answer, 400, "BadRequest", message);
        }
    }
    let answer = get(&mut siege, &format!("{COLLECTION}/%00"));
    assert_refused(&answer, 404, "NotFound", r#"configmaps "\x00" not found"#);
    siege.survived();
}

#[test]
fn an_encoded_slash_separates_like_any_other() {
    let mut siege = Siege::begin();
    siege.accepted("POST", COLLECTION, &json!({"metadata": {"name": "a"}}));
    let answer = get(&mut siege, "/api/v1/namespaces/default%2Fconfigmaps%2fa");
    assert_eq!(answer.body["metadata"]["name"], "a");
    let answer = get(&mut siege, &format!("{COLLECTION}/a%2Fb"));
    assert_refused(&answer, 404, "NotFound", NO_SUCH_RESOURCE);
    siege.survived();
}

#[test]
fn a_path_may_be_long_but_not_endless() {
    let mut siege = Siege::begin();
    let name = "a".repeat(60_000);
    let answer = get(&mut siege, &format!("{COLLECTION}/{name}"));
    let message = format!("configmaps \"{name}\" not found");
    assert_refused(&answer, 404, "NotFound", &message);
    let answer = get(&mut siege, &format!("{COLLECTION}/{}", "a".repeat(70_000)));
    assert_eq!(answer.code, 414);
    let answer = get(&mut siege, &format!("{COLLECTION}/{}", "a".repeat(700_000)));
    assert_eq!(answer.code, 431);
    siege.survived();
}

#[test]
fn names_with_odd_characters_are_invalid() {
    let mut siege = Siege::begin();
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
        let answer = siege.send("POST", COLLECTION, JSON, body.as_bytes());
        let message = format!(
            r#"ConfigMap "{shown}" is invalid: metadata.name: Invalid value: "{shown}": {rule}"#
        );
        assert_refused(&answer, 422, "Invalid", &message);
        assert_eq!(answer.body["details"]["causes"][0]["field"], "metadata.name");
    }
    let body = json!({"metadata": {"name": "a".repeat(254)}}).to_string();
    let message = refusal(&siege.send("POST", COLLECTION, JSON, body.as_bytes()), 422, "Invalid");
    assert!(message.ends_with("must be no more than 253 characters"), "{message}");
    siege.survived();
}

#[test]
fn methods_that_nobody_knows_change_nothing() {
    let mut siege = Siege::begin();
    let message = "the server does not allow this method on the requested resource";
    for method in ["OPTIONS", "TRACE", "BREW", "get"] {
        let answer = siege.client.exchange(method, COLLECTION, &[], b"").unwrap();
        assert_refused(&answer, 405, "MethodNotAllowed", message);
        for path in ["/", "/readyz"] {
            let answer = siege.client.exchange(method, path, &[], b"").unwrap();
            assert_eq!(answer.code, 200, "{method} {path}");
        }
    }
    siege.survived();
}
