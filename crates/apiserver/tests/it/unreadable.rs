//! Unreadable values are refused or match nothing; they never count as absent.

use http::Method;

use crate::objects::{CONFIG_MAPS, config_map};
use apiserver::auth::authentication::token::TokenFile;
use machinery::{Value, json};
use testenv::media_type::JSON;
use testenv::{Client, Response, TestEnv};

const SELF_SUBJECT_REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// A plane with the user root, a member of `system:masters`, whose token is `t-root`.
async fn plane() -> TestEnv {
    let tokens = TokenFile::parse("t-root,root,2,system:masters\n").unwrap();
    TestEnv::builder().config(|config| config.tokens = tokens).start().await
}

fn with_headers(mut client: Client, headers: &[(&'static str, &[u8])]) -> Client {
    for (name, value) in headers {
        client = client.with_header(name, *value);
    }
    client
}

/// The identity of a client: `name [groups] {extra}`, or the code of the error.
async fn identity(client: &Client) -> String {
    let (code, review) = client.post(SELF_SUBJECT_REVIEWS, &json!({})).await;
    if code != 201 {
        return code.to_string();
    }
    let user = &review["status"]["userInfo"];
    let groups: Vec<&str> =
        user["groups"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    let mut shown = format!("{} [{}]", user["username"].as_str().unwrap(), groups.join(" "));
    for (key, value) in user["extra"].as_object().into_iter().flatten() {
        if !key.starts_with("authentication.kubernetes.io/") {
            shown += &format!(" {key}={value}");
        }
    }
    shown
}

type Headers<'a> = &'a [(&'static str, &'a [u8])];

#[tokio::test]
async fn unreadable_impersonation_headers_are_refused() {
    const NAME: &str = "impersonate-user";
    const GROUP: &str = "impersonate-group";
    const UID: &str = "impersonate-uid";
    let plane = plane().await;
    let root = "root [system:masters system:authenticated]";
    let cases: [(Headers<'_>, &str); 19] = [
        (&[(NAME, "jörg".as_bytes())], "jörg [system:authenticated]"),
        (&[(NAME, b"j\xf6rg")], "400"),
        (&[(NAME, b"j\xf6rg"), (NAME, b"alice")], "400"),
        (&[(NAME, b"alice"), (NAME, b"bob")], "alice [system:authenticated]"),
        (&[(NAME, b"")], root),
        (&[(NAME, b""), (GROUP, b"dev")], "400"),
        (&[(NAME, b"alice"), (GROUP, b"\xff")], "400"),
        (&[(NAME, b"alice"), (GROUP, "über".as_bytes())], "alice [über system:authenticated]"),
        (&[(GROUP, b"\xff")], "400"),
        (&[(NAME, b"alice"), (UID, b"\xff")], "400"),
        (&[(UID, b"\xff")], "400"),
        (&[(NAME, b"alice"), ("impersonate-extra-a", b"\xff")], "400"),
        (&[(NAME, b"alice"), ("impersonate-extra-%ff", b"x")], "400"),
        (
            &[
                (NAME, b"alice"),
                ("impersonate-extra-a%zz", b"x"),
                ("impersonate-extra-b%2fc", b"y"),
            ],
            r#"alice [system:authenticated] a%zz=["x"] b/c=["y"]"#,
        ),
        (&[(NAME, b"alice"), (GROUP, b"system:authenticated")], "alice [system:authenticated]"),
        (&[(NAME, b"system:node:n1")], "system:node:n1 [system:nodes system:authenticated]"),
        (
            &[(NAME, b"system:serviceaccount:a:b")],
            "system:serviceaccount:a:b [system:serviceaccounts system:serviceaccounts:a system:authenticated]",
        ),
        (
            &[(NAME, b"system:serviceaccount:A:b:c")],
            "system:serviceaccount:A:b:c [system:authenticated]",
        ),
        (
            &[(NAME, b"system:anonymous"), (GROUP, b"system:masters")],
            "system:anonymous [system:masters system:unauthenticated]",
        ),
    ];
    for (headers, expect) in cases {
        let client = with_headers(plane.bearer("t-root"), headers);
        assert_eq!(identity(&client).await, expect, "{headers:?}");
    }
}

#[tokio::test]
async fn an_unreadable_token_is_refused_as_unknown() {
    const TOKEN: &str = "authorization";
    const PROTOCOL: &str = "sec-websocket-protocol";
    let plane = plane().await;
    let root = "root [system:masters system:authenticated]";
    // `t-root` and `x` in base64.
    let known = b"base64url.bearer.authorization.k8s.io.dC1yb290,v4";
    let unknown = b"base64url.bearer.authorization.k8s.io.eA,v4";
    let socket: [(&'static str, &[u8]); 2] =
        [("connection", b"Upgrade"), ("upgrade", b"websocket")];
    let cases: [(Headers<'_>, &str); 11] = [
        (&[(TOKEN, b"Bearer t-root")], root),
        (&[(TOKEN, b"Bearer t-root x")], root),
        (&[(TOKEN, b"Bearer t-root"), (TOKEN, b"Bearer \xff")], root),
        (&[(TOKEN, b"Bearer \xff"), (TOKEN, b"Bearer t-root")], "401"),
        (&[(TOKEN, b"Bearer \xff")], "401"),
        (&[(TOKEN, b"Bearer  t-root")], "403"),
        (&[(TOKEN, b"Basic \xff")], "403"),
        (&[socket[0], socket[1], (PROTOCOL, known)], root),
        (&[socket[0], socket[1], (PROTOCOL, unknown)], "401"),
        (&[socket[0], socket[1], (PROTOCOL, b"base64url.bearer.authorization.k8s.io.=,v4")], "401"),
        (&[(PROTOCOL, known)], "403"),
    ];
    for (headers, expect) in cases {
        let client = with_headers(plane.unauthenticated(), headers);
        assert_eq!(identity(&client).await, expect, "{headers:?}");
    }
}

async fn code(sent: impl Future<Output = Response>) -> u16 {
    sent.await.code
}

#[tokio::test]
async fn an_unreadable_media_type_is_refused_as_unknown() {
    let plane = plane().await;
    let root = plane.bearer("t-root");
    let accept = |value: &[u8]| root.with_header("accept", value);
    for path in [CONFIG_MAPS, "/apis", "/openapi/v2"] {
        for (value, expect) in
            [(&b"\xff"[..], 406), (b"application/json\xff", 406), (b"\xff, application/json", 200)]
        {
            let found = code(accept(value).send(Method::GET, path, JSON, "")).await;
            assert_eq!(found, expect, "{path} {value:?}");
        }
    }
    let object = config_map("a", &json!({})).to_string();
    let sent = root.send(Method::POST, CONFIG_MAPS, &b"application/json\xff"[..], object);
    assert_eq!(code(sent).await, 415);
}

#[tokio::test]
async fn unreadable_options_are_refused_and_nothing_is_deleted() {
    let plane = plane().await;
    plane.create(CONFIG_MAPS, &config_map("kept", &json!({}))).await;
    let path = format!("{CONFIG_MAPS}/kept");
    let bodies = [
        json!({"dryRun": [null]}),
        json!({"dryRun": "All"}),
        json!({"dryRun": [1]}),
        json!({"dryRun": ["\u{fffd}"]}),
        json!({"preconditions": {"uid": 5}}),
        json!({"preconditions": {"resourceVersion": 5}}),
        json!({"preconditions": {"resourceVersion": "x"}}),
        json!({"preconditions": {"uid": ""}}),
        json!({"preconditions": []}),
        json!({"gracePeriodSeconds": "1"}),
        json!({"gracePeriodSeconds": 1.5}),
        json!({"propagationPolicy": 1}),
        json!({"orphanDependents": "true"}),
    ];
    for body in bodies {
        let (code, answer) = plane.delete_with(&path, &body).await;
        assert!(matches!(code, 400 | 409 | 422), "{body}: {code} {answer}");
    }
    for query in [
        "dryRun=%ff",
        "dryRun=all",
        "dryRun=",
        "resourceVersion=%ff",
        "uid=%ff",
        "gracePeriodSeconds=%ff",
        "propagationPolicy=%ff",
        "timeout=%ff",
    ] {
        let (code, answer) = plane.delete(&format!("{path}?{query}")).await;
        assert!(matches!(code, 400 | 409 | 422), "{query}: {code} {answer}");
    }
    plane.read(&path).await;
}

#[tokio::test]
async fn unreadable_parameters_are_refused() {
    let plane = plane().await;
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    let queries = [
        "limit=%ff",
        "limit=x",
        "timeoutSeconds=x",
        "timeout=x",
        "resourceVersion=x",
        "resourceVersion=%ff",
        "resourceVersionMatch=%ff",
        "continue=%ff",
        "labelSelector=%ff",
        "fieldSelector=%ff",
        "watch=1&timeoutSeconds=x",
        "watch=1&resourceVersion=x",
    ];
    for query in queries {
        let (code, answer) = plane.get(&format!("{CONFIG_MAPS}?{query}")).await;
        // Upstream: an invalid revision of a watch is an internal error.
        assert!(matches!(code, 400 | 422 | 500), "{query}: {code} {answer}");
    }
    let update = |version: Value| json!({"metadata": {"name": "a", "resourceVersion": version}, "data": {"b": "c"}});
    for version in [json!("x"), json!("\u{fffd}"), json!(5), json!("-1"), json!("1e3")] {
        let (code, answer) = plane.put(&format!("{CONFIG_MAPS}/a"), &update(version.clone())).await;
        assert!(matches!(code, 400 | 409 | 422 | 500), "{version}: {code} {answer}");
    }
    assert_eq!(plane.read(&format!("{CONFIG_MAPS}/a")).await["data"], Value::Null);
}
