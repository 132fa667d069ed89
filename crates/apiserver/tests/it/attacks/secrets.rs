//! Secrets by other ways than the right to read them.

use http::Method;

use super::{APPLY_PATCH, BINDINGS, PATCH_TYPES, SECRETS, code, grant, patch, plane};
use crate::objects::CONFIG_MAPS;
use machinery::{Value, json};
use testenv::media_type::{JSON, MERGE_PATCH, TABLE};
use testenv::{Client, TestEnv};

/// The value of the secret, in base64, and a part of its name and labels.
const VALUE: &str = "aHVudGVyMg";
const MARK: &str = "xyzzy";

const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The name of a secret that alice may not read.
const PRIVATE: &str = "private-xyzzy";

/// Creates that secret, and one that is named `public`.
async fn create_secrets(plane: &TestEnv) {
    let labels = json!({"owner": MARK, "kind": "x"});
    let private = json!({"metadata": {"name": PRIVATE, "labels": labels,
        "annotations": {"note": MARK}}, "data": {"password": format!("{VALUE}==")}});
    plane.create(SECRETS, &private).await;
    let public = json!({"metadata": {"name": "public", "labels": {"kind": "x"}}});
    plane.create(SECRETS, &public).await;
}

/// Whether a response tells anything of the private secret besides what was sent.
async fn leaks(client: &Client, path: &str, accept: &str) -> (u16, bool) {
    let response = client.get_as(path, accept).await;
    let body = String::from_utf8_lossy(&response.bytes).replace(PRIVATE, "");
    (response.code, [VALUE, "hunter2", MARK].iter().any(|it| body.contains(it)))
}

#[tokio::test]
async fn no_form_of_a_read_shows_a_secret_without_the_right_to_read_it() {
    let (plane, alice) = plane().await;
    create_secrets(&plane).await;
    // Every right on other kinds, and the rights to write secrets.
    grant(&plane, "others", &["* configmaps", "create,delete secrets", "get secrets public"]).await;
    let revision = plane.read(SECRETS).await["metadata"]["resourceVersion"].clone();
    let revision = revision.as_str().unwrap();
    let page = plane.read(&format!("{SECRETS}?limit=1")).await;
    let token = page["metadata"]["continue"].as_str().unwrap();
    let mut paths: Vec<String> = [
        "",
        "?watch=true",
        "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
        "?fieldSelector=metadata.name%3Dprivate-xyzzy",
        "?fieldSelector=metadata.name%3Dpublic",
        "?fieldSelector=type%3DOpaque",
        "?labelSelector=owner%3Dxyzzy",
        "?limit=1",
        "?resourceVersion=0",
        "?pretty=true",
    ]
    .iter()
    .map(|it| format!("{SECRETS}{it}"))
    .collect();
    paths.extend([
        format!("{SECRETS}/{PRIVATE}"),
        format!("{SECRETS}/{PRIVATE}?resourceVersion=0"),
        format!("{SECRETS}/{PRIVATE}?watch=true"),
        format!("{SECRETS}?resourceVersion={revision}&resourceVersionMatch=Exact"),
        format!("{SECRETS}?continue={token}"),
        "/api/v1/secrets".to_owned(),
        "/api/v1/secrets?fieldSelector=metadata.namespace%3Ddefault".to_owned(),
        "/api/v1/watch/secrets".to_owned(),
        "/api/v1/watch/namespaces/default/secrets".to_owned(),
        format!("/api/v1/watch/namespaces/default/secrets/{PRIVATE}"),
    ]);
    for path in &paths {
        for accept in [JSON, TABLE, METADATA, METADATA_LIST, PROTOBUF, "application/yaml", "*/*"] {
            assert_eq!(leaks(&alice, path, accept).await, (403, false), "{path} as {accept}");
        }
    }
    assert_eq!(alice.get(&format!("{SECRETS}/public")).await.0, 200);
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_refusal_does_not_tell_whether_an_object_exists() {
    let (plane, alice) = plane().await;
    create_secrets(&plane).await;
    let requests = [
        (Method::GET, Value::Null),
        (Method::PUT, json!({"metadata": {"name": PRIVATE}})),
        (Method::PATCH, json!({})),
        (Method::DELETE, Value::Null),
    ];
    for (method, body) in requests {
        let mut answers = Vec::new();
        for (namespace, name) in [("default", PRIVATE), ("default", "absent"), ("absent", "absent")]
        {
            let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
            let content_type = if method == Method::PATCH { MERGE_PATCH } else { JSON };
            let answer = alice.send(method.clone(), &path, content_type, body.to_string()).await;
            let text = answer.value().to_string();
            let text = text.replace(name, "NAME").replace(namespace, "NAMESPACE");
            answers.push((answer.code, text.replace("NAMESPACE", "NAME")));
        }
        assert_eq!(answers[0].0, 403);
        assert!(answers.iter().all(|it| it == &answers[0]), "{method}: {answers:#?}");
    }
    plane.stop().await.unwrap();
}

/// The names in a list, or the code of the refusal.
async fn listed(client: &Client, path: &str) -> Result<Vec<String>, u16> {
    let (code, list) = client.get(path).await;
    if code != 200 {
        return Err(code);
    }
    let items = list["items"].as_array().unwrap().iter();
    Ok(items.map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).collect())
}

#[tokio::test]
async fn a_right_on_one_name_lists_and_watches_only_that_name() {
    let (plane, alice) = plane().await;
    create_secrets(&plane).await;
    grant(&plane, "one", &["list,watch secrets public"]).await;
    let public = Ok(vec!["public".to_owned()]);
    for (query, expected) in [
        ("fieldSelector=metadata.name%3Dpublic", public.clone()),
        ("fieldSelector=metadata.name%3D%3Dpublic", public.clone()),
        ("fieldSelector=metadata.name%3Dpublic&labelSelector=kind%3Dx", public.clone()),
        // The first parameter is the one that is authorized and the one that is used.
        (
            "fieldSelector=metadata.name%3Dpublic&fieldSelector=metadata.name%3Dprivate-xyzzy",
            public,
        ),
        (
            "fieldSelector=metadata.name%3Dprivate-xyzzy&fieldSelector=metadata.name%3Dpublic",
            Err(403),
        ),
        ("fieldSelector=metadata.name%3Dpublic,metadata.name%3Dprivate-xyzzy", Err(403)),
        ("fieldSelector=metadata.name%3Dzzz,metadata.name%3Dpublic", Ok(vec![])),
        ("fieldSelector=metadata.name!%3Dpublic", Err(403)),
        ("fieldSelector=metadata.name!%3Dabsent", Err(403)),
        ("fieldSelector=metadata.name%3Dprivate-xyzzy", Err(403)),
        ("fieldSelector=metadata.namespace%3Ddefault", Err(403)),
        ("fieldSelector=", Err(403)),
        ("FieldSelector=metadata.name%3Dpublic", Err(403)),
        ("fieldselector=metadata.name%3Dpublic", Err(403)),
        ("labelSelector=metadata.name%3Dpublic", Err(403)),
        ("x=1;fieldSelector=metadata.name%3Dpublic", Err(403)),
        ("", Err(403)),
    ] {
        let path = format!("{SECRETS}?{query}");
        assert_eq!(listed(&alice, &path).await, expected, "{query}");
    }
    let path = format!("{SECRETS}?watch=true&fieldSelector=metadata.name%3Dpublic");
    let mut watch = alice.watch(&path).await;
    assert_eq!(watch.expect("ADDED").await["metadata"]["name"], "public");
    let change = json!({"metadata": {"labels": {"n": "1"}}});
    plane.merge(&format!("{SECRETS}/{PRIVATE}"), &change).await;
    plane.merge(&format!("{SECRETS}/public"), &change).await;
    assert_eq!(watch.expect("MODIFIED").await["metadata"]["name"], "public");
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_watch_of_one_namespace_sees_nothing_of_others_and_a_bookmark_nothing_but_its_revision() {
    let (plane, alice) = plane().await;
    grant(&plane, "watcher", &["list,watch secrets"]).await;
    let query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let other = "/api/v1/namespaces/kube-system/secrets";
    assert_eq!(alice.get(&format!("{other}?{query}")).await.0, 403);
    assert_eq!(alice.get(&format!("/api/v1/secrets?{query}")).await.0, 403);
    let data =
        json!({"metadata": {"name": "s", "labels": {"a": MARK}}, "data": {"x": "aHVudGVyMg=="}});
    plane.create(other, &data).await;
    let mut watch = alice.watch(&format!("{SECRETS}?{query}")).await;
    let (event, bookmark) = watch.next().await.unwrap();
    assert_eq!(event, "BOOKMARK", "{bookmark}");
    let metadata = bookmark["metadata"].as_object().unwrap();
    let known = ["resourceVersion", "annotations", "creationTimestamp"];
    assert!(metadata.keys().all(|it| known.contains(&it.as_str())), "{bookmark}");
    assert_eq!(bookmark["data"], Value::Null);
    plane.merge(&format!("{other}/s"), &json!({"data": {"y": "eHg="}})).await;
    plane.delete(&format!("{other}/s")).await;
    plane.create(SECRETS, &json!({"metadata": {"name": "own"}})).await;
    assert_eq!(watch.expect("ADDED").await["metadata"]["name"], "own");
    // As in Kubernetes, a watch is authorized when it begins.
    plane.delete(&format!("{BINDINGS}/watcher")).await;
    assert_eq!(alice.get(&format!("{SECRETS}?{query}")).await.0, 403);
    plane.create(SECRETS, &json!({"metadata": {"name": "later"}})).await;
    assert_eq!(watch.expect("ADDED").await["metadata"]["name"], "later");
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn no_selector_reads_the_value_of_a_secret() {
    let (plane, _) = plane().await;
    create_secrets(&plane).await;
    for field in ["data.password", "data", "stringData.password", "metadata.annotations.note"] {
        for query in ["", "watch=true&"] {
            let path = format!("{SECRETS}?{query}fieldSelector={field}%3Daa");
            let (code, status) = plane.get(&path).await;
            assert_eq!(code, 400, "{path}: {status}");
        }
    }
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn errors_do_not_quote_the_values_of_a_secret() {
    let (plane, _) = plane().await;
    create_secrets(&plane).await;
    let path = format!("{SECRETS}/{PRIVATE}");
    let value = format!("{VALUE}==");
    let typed = |name: &str, rest: Value| {
        let mut secret = rest;
        (secret["apiVersion"], secret["kind"]) = ("v1".into(), "Secret".into());
        secret["metadata"]["name"] = name.into();
        secret
    };
    let huge = "QUFB".repeat(400_000);
    for (what, secret) in [
        ("not base64", json!({"data": {"password": format!("{VALUE}!!")}})),
        ("an invalid key", json!({"data": {"a b": value}})),
        ("a nested value", json!({"data": {"password": {"x": value}}})),
        ("a list", json!({"data": [value]})),
        (
            "a tls secret without its key",
            json!({"type": "kubernetes.io/tls", "data": {"x": value}}),
        ),
        (
            "a docker secret that is no JSON",
            json!({"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": value}}),
        ),
        ("too large", json!({"data": {"password": huge, "x": value}})),
        ("an unknown field", json!({"data": {"x": value}, "z": 1})),
    ] {
        let strict = format!("{SECRETS}?fieldValidation=Strict");
        let (code, status) = plane.post(&strict, &typed("new", secret)).await;
        assert!(matches!(code, 400 | 422), "{what}: {code} {status}");
        let text = status.to_string();
        assert!(!text.contains(VALUE) && !text.contains("hunter2"), "{what}: {text}");
    }
    // Errors about the stored secret, by each way to write.
    plane.merge(&path, &json!({"immutable": true})).await;
    let stored = plane.read(&path).await;
    for patch_type in PATCH_TYPES {
        for (pointer, new) in [
            ("/data/password", json!("bmV3")),
            ("/type", json!("new")),
            ("/immutable", json!(false)),
        ] {
            let answer = patch(&plane, &path, patch_type, &stored, pointer, &new).await;
            assert_eq!(answer.0, 422, "{patch_type} {pointer}: {}", answer.1);
            assert!(!answer.1.to_string().contains(VALUE), "{}", answer.1);
        }
    }
    let conflict = typed(PRIVATE, json!({"data": {"password": "bmV3"}}));
    let apply = format!("{path}?fieldManager=other");
    for (code, status) in [
        plane.patch(&apply, APPLY_PATCH, &conflict).await,
        plane.post(SECRETS, &conflict).await,
        plane.put(&path, &typed(PRIVATE, json!({"metadata": {"resourceVersion": "1"}}))).await,
    ] {
        assert!(matches!(code, 400 | 409 | 422), "{code} {status}");
        assert!(!status.to_string().contains(VALUE), "{status}");
    }
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn documents_and_metrics_contain_no_names_or_values_of_objects() {
    let (plane, alice) = plane().await;
    create_secrets(&plane).await;
    let token = format!("token-{MARK}");
    for client in [&alice, &plane.bearer(&token), &plane.with_header("impersonate-user", MARK)] {
        client.get(&format!("{SECRETS}/{PRIVATE}")).await;
        client.get(&format!("/api/v1/namespaces/{MARK}/configmaps?labelSelector={MARK}")).await;
        client.get(&format!("/apis/{MARK}/v1/{MARK}")).await;
        client.get(&format!("/{MARK}")).await;
    }
    for path in [
        "/metrics",
        "/openapi/v2",
        "/openapi/v3/api/v1",
        "/api/v1",
        "/apis",
        "/",
        "/readyz?verbose",
        "/livez?verbose",
        "/version",
    ] {
        let response = plane.get_as(path, "*/*").await;
        assert_eq!(response.code, 200, "{path}");
        let body = String::from_utf8_lossy(&response.bytes);
        for text in [MARK, VALUE, "hunter2"] {
            assert!(!body.contains(text), "{path} has {text}");
        }
    }
    assert_eq!(alice.get("/metrics").await.0, 403);
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_write_shows_the_object_to_its_writer_as_in_kubernetes() {
    let (plane, alice) = plane().await;
    create_secrets(&plane).await;
    // A patch answers with the whole object: in Kubernetes too, its right includes reading.
    grant(&plane, "patcher", &["patch secrets"]).await;
    let path = format!("{SECRETS}/{PRIVATE}");
    assert_eq!(alice.get(&path).await.0, 403);
    let patched = alice.merge(&path, &json!({})).await;
    assert_eq!(patched["data"]["password"], format!("{VALUE}=="));
    // To create and to delete show nothing of what exists, not even by a dry run.
    let (plane, alice) = super::plane().await;
    create_secrets(&plane).await;
    grant(&plane, "writer", &["create,delete secrets"]).await;
    for query in ["", "?dryRun=All"] {
        let new = json!({"metadata": {"name": PRIVATE}});
        let (code, status) = alice.post(&format!("{SECRETS}{query}"), &new).await;
        assert_eq!((code, &status["reason"]), (409, &json!("AlreadyExists")));
        assert!(!status.to_string().contains(VALUE), "{status}");
    }
    let path = format!("{SECRETS}/{PRIVATE}");
    let deleted = alice.delete(&format!("{path}?dryRun=All")).await.1;
    assert!(!deleted.to_string().contains(VALUE), "{deleted}");
    assert_eq!(code(&alice, Method::GET, CONFIG_MAPS, &Value::Null).await, 403);
    plane.stop().await.unwrap();
}
