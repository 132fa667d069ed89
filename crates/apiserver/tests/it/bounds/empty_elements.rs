//! Lists of very many empty elements, each with three bytes in a body and kilobytes in memory.

use http::Method;

use crate::objects::CONFIG_MAPS;
use apiserver::auth::authentication::User;
use machinery::{Value, json};
use testenv::media_type::{JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH};
use testenv::{Client, TestEnv};
use types::protobuf;

const PODS: &str = "/api/v1/namespaces/default/pods";
const APPLY: &str = "application/apply-patch+yaml";
const YAML: &str = "application/yaml";

/// As many elements as fit into a body of 3 MiB.
const VERY_MANY: usize = 1_000_000;

/// A list of empty objects.
fn empty(count: usize) -> String {
    format!("[{}]", vec!["{}"; count].join(","))
}

/// Sends a body with too many objects.
async fn check(client: &Client, method: Method, path: &str, media: &'static str, body: String) {
    assert!(body.len() <= 3 << 20, "{} bytes are more than a request may have", body.len());
    let reply = client.send(method, path, media, body).await;
    let text = String::from_utf8_lossy(&reply.bytes[..reply.bytes.len().min(400)]).into_owned();
    assert_eq!(reply.code, 413, "{path} {media}: {text}");
    assert_eq!(
        reply.value()["message"],
        "Request entity too large: the lists of an object may have 60000 objects, all lists together"
    );
}

#[tokio::test]
async fn a_body_with_too_many_empty_elements_is_refused() {
    let plane = TestEnv::start().await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let list = empty(VERY_MANY);
    let (head, tail) = (r#"{"metadata":{"name":"a"},"spec":{"#, "}}");
    for (path, head, tail) in [
        (PODS, format!("{head}\"containers\":"), tail),
        (PODS, format!("{head}\"volumes\":"), tail),
        ("/api/v1/namespaces/default/services", format!("{head}\"ports\":"), tail),
        (deployments, format!("{head}\"template\":{{\"spec\":{{\"containers\":"), "}}}}"),
        (CONFIG_MAPS, r#"{"metadata":{"name":"a","ownerReferences":"#.to_owned(), tail),
        (reviews, r#"{"spec":{},"metadata":{"ownerReferences":"#.to_owned(), tail),
    ] {
        for media in [JSON, YAML] {
            check(&plane, Method::POST, path, media, format!("{head}{list}{tail}")).await;
        }
    }
}

#[tokio::test]
async fn a_protobuf_body_with_too_many_empty_elements_is_refused() {
    let plane = TestEnv::start().await;
    let containers: Value = (0..VERY_MANY).map(|_| json!({})).collect();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": containers}});
    let body = protobuf::encode(&pod).unwrap();
    let reply = plane.send(Method::POST, PODS, protobuf::MEDIA_TYPE, body).await;
    assert_eq!(reply.code, 413, "{} bytes", reply.bytes.len());
}

#[tokio::test]
async fn patches_with_too_many_empty_elements_are_refused() {
    let plane = TestEnv::start().await;
    plane.create(PODS, &json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})).await;
    let (path, list) = (format!("{PODS}/a"), empty(VERY_MANY));
    for media in [MERGE_PATCH, STRATEGIC_MERGE_PATCH] {
        let body = format!(r#"{{"spec":{{"volumes":{list}}}}}"#);
        check(&plane, Method::PATCH, &path, media, body).await;
    }
    let body = format!(r#"[{{"op":"add","path":"/spec/volumes","value":{list}}}]"#);
    check(&plane, Method::PATCH, &path, JSON_PATCH, body).await;
    let body = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{}},"spec":{{"volumes":{list}}}}}"#
    );
    check(&plane, Method::PATCH, &format!("{path}?fieldManager=m"), APPLY, body).await;
}

#[tokio::test]
async fn a_patch_whose_result_has_too_many_elements_is_refused() {
    let plane = TestEnv::start().await;
    plane.create(CONFIG_MAPS, &json!({"metadata": {"name": "a"}})).await;
    let mut operations =
        vec![format!(r#"{{"op":"add","path":"/x","value":{{"0":{}}}}}"#, empty(1000))];
    for n in 1..=60 {
        operations.push(format!(r#"{{"op":"copy","from":"/x/0","path":"/x/{n}"}}"#));
    }
    let body = format!("[{}]", operations.join(","));
    check(&plane, Method::PATCH, &format!("{CONFIG_MAPS}/a"), JSON_PATCH, body).await;
}

#[tokio::test]
async fn a_refused_review_does_not_repeat_large_metadata() {
    let plane = TestEnv::start().await;
    let user = User { name: "u".to_owned(), ..User::default() };
    let user = plane.as_user(User { groups: vec!["system:authenticated".to_owned()], ..user });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let body = format!(
        r#"{{"metadata":{{"ownerReferences":{}}},"spec":{{"nonResourceAttributes":{{}}}}}}"#,
        empty(20_000)
    );
    let reply = user.send(Method::POST, path, JSON, body).await;
    assert_eq!(reply.code, 422);
    assert!(reply.bytes.len() < 20_000, "{} bytes", reply.bytes.len());
    let message = reply.value()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("more bytes): must be empty"), "{}", &message[message.len() - 200..]);
}
