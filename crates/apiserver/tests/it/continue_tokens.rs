//! `continue` tokens of another list, and forged ones.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use crate::objects::config_map;
use apiserver::auth::authentication::token::TokenFile;
use apiserver::auth::authorization::abac::PolicyFile;
use machinery::{Value, json};
use testenv::{Client, TestEnv};

/// A plane with config maps in the namespaces `red` and `blue`; `reader` can read only in `blue`.
async fn start() -> (TestEnv, Client) {
    let policy = json!({
        "apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy",
        "spec": {"user": "reader", "namespace": "blue", "resource": "*", "apiGroup": "*",
            "readonly": true},
    });
    let policies = PolicyFile::parse(&policy.to_string()).unwrap();
    let builder = TestEnv::builder().config(|config| {
        config.tokens = TokenFile::parse("t-reader,reader,1\n").unwrap();
        config.authorizers = vec![Arc::new(policies).into()];
    });
    let plane = builder.start().await;
    for namespace in ["blue", "red"] {
        plane.create("/api/v1/namespaces", &json!({"metadata": {"name": namespace}})).await;
        for index in 0..4 {
            let name = format!("{namespace}-{index}");
            plane.create(&maps(namespace), &config_map(&name, &json!({}))).await;
        }
    }
    let reader = plane.bearer("t-reader");
    (plane, reader)
}

fn maps(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

fn token(revision: i64, start: &str) -> String {
    let token = json!({"v": "meta.k8s.io/v1", "rv": revision, "start": start});
    BASE64_URL_SAFE_NO_PAD.encode(token.to_string())
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap().iter();
    items.map(|it| it["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_token_of_another_namespace_reveals_no_objects() {
    let (plane, reader) = start().await;
    for other in ["/api/v1/configmaps".to_owned(), maps("red"), "/api/v1/namespaces".to_owned()] {
        let page = plane.read(&format!("{other}?limit=2")).await;
        let token = page["metadata"]["continue"].as_str().unwrap();
        assert_eq!(reader.get(&format!("{}?continue={token}", maps("red"))).await.0, 403);
        let (code, list) = reader.get(&format!("{}?continue={token}", maps("blue"))).await;
        assert_eq!(code, 200, "{list}");
        assert!(names(&list).iter().all(|it| it.starts_with("blue-")), "{other}: {list}");
    }
}

#[tokio::test]
async fn a_forged_token_does_not_leave_the_namespace() {
    let (plane, reader) = start().await;
    let list = plane.read(&maps("red")).await;
    let now: i64 = list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    for revision in [now, -1] {
        for start in ["../red/red-0", "/../red/red-0", "x/../../red/red-0", "..", "./blue-1"] {
            let path = format!("{}?continue={}", maps("blue"), token(revision, start));
            let (code, status) = reader.get(&path).await;
            let message = format!("invalid continue token: continue key is not valid: {start}");
            assert_eq!((code, &status["reason"]), (400, &json!("BadRequest")), "{status}");
            assert_eq!(status["message"], message);
        }
        for (start, found) in [
            ("blue-2", &["blue-2", "blue-3"][..]),
            ("/blue-2\0", &["blue-3"]),
            ("/", &["blue-0", "blue-1", "blue-2", "blue-3"]),
            ("a", &["blue-0", "blue-1", "blue-2", "blue-3"]),
            ("red/red-0", &[]),
            ("registry/configmaps/red/red-0", &[]),
            ("\u{10ffff}", &[]),
        ] {
            let path = format!("{}?continue={}", maps("blue"), token(revision, start));
            let (code, list) = reader.get(&path).await;
            assert_eq!(code, 200, "{start}: {list}");
            assert_eq!(names(&list), found, "{start}");
        }
    }
}

#[tokio::test]
async fn a_wrong_count_in_a_token_is_ignored() {
    let (_plane, reader) = start().await;
    let (_, page) = reader.get(&format!("{}?limit=1", maps("blue"))).await;
    let issued = page["metadata"]["continue"].as_str().unwrap();
    let issued = BASE64_URL_SAFE_NO_PAD.decode(issued).unwrap();
    let issued: Value = serde_json::from_slice(&issued).unwrap();
    for (count, prefix) in [
        (2, "/registry/configmaps/"),
        (2, "/registry/configmaps/red/"),
        (1000, "/registry/configmaps/blue/"),
        (u64::MAX, "/registry/configmaps/blue/"),
    ] {
        let mut token = issued.clone();
        (token["remaining"], token["prefix"]) = (count.into(), prefix.into());
        let token = BASE64_URL_SAFE_NO_PAD.encode(token.to_string());
        let (_, list) = reader.get(&format!("{}?limit=1&continue={token}", maps("blue"))).await;
        assert_eq!(names(&list), ["blue-1"]);
        assert_eq!(list["metadata"]["remainingItemCount"], 2, "{count} {prefix}");
    }
}
