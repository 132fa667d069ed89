//! The cost of merging the OpenAPI documents of aggregated servers.

use bytes::Bytes;
use http::{Method, Request};

use super::thread_cpu_time;
use crate::https::{Https, json_response};
use crate::log::Log;
use machinery::{Value, json};
use testenv::TestEnv;
use testenv::media_type::JSON;

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

/// The path of the OpenAPI document of all groups, local and aggregated.
const OPENAPI_V2: &str = "/openapi/v2";

/// A path that the server of `group` serves.
fn path_of(group: &str) -> String {
    format!("/apis/{group}/v1/things")
}

/// An OpenAPI document of a group, with about `size` bytes of padding.
fn document(group: &str, size: usize) -> Value {
    const DESCRIPTION: usize = 64 << 10;
    let path = path_of(group);
    let mut paths = json!({&path: {"description": "a".repeat(size % DESCRIPTION)}});
    for index in 0..size / DESCRIPTION {
        paths[format!("{path}/{index}")] = json!({"description": "a".repeat(DESCRIPTION)});
    }
    json!({"swagger": "2.0", "paths": paths})
}

/// Registers a server of `group` whose OpenAPI document has about `size` bytes.
async fn register(plane: &TestEnv, group: &'static str, size: usize) -> Https {
    let name = group.split('.').next().unwrap();
    let answer = move |request: Request<Bytes>| {
        let answer = match request.uri().path() {
            "/openapi/v2" => json_response(200, &document(group, size)),
            path if path.ends_with("/v1") => json_response(200, &json!({"resources": []})),
            _ => json_response(404, &json!({})),
        };
        std::future::ready(answer)
    };
    let server = Https::start(&format!("{name}.default.svc"), answer).await;
    plane.create("/api/v1/namespaces/default/services", &Https::service(name)).await;
    let spec = json!({"group": group, "version": "v1", "groupPriorityMinimum": 2000,
        "versionPriority": 10, "caBundle": server.ca_bundle(),
        "service": server.service_reference(name)});
    let object = json!({"metadata": {"name": format!("v1.{group}")}, "spec": spec});
    plane.create(SERVICES, &object).await;
    server
}

fn has_paths_of(document_v2: &Value, group: &str) -> bool {
    document_v2["paths"].get(path_of(group)).is_some()
}

#[tokio::test]
async fn an_openapi_document_over_the_size_limit_is_omitted_with_a_warning() {
    let log = Log::start();
    let plane = TestEnv::start().await;
    let _large = register(&plane, "large.example", 4 << 20).await;
    log.until(&["v1.large.example", "the document has more than 4194304 bytes"]).await;
    let _small = register(&plane, "small.example", 1).await;
    let document_v2 = plane.until(OPENAPI_V2, |_, it| has_paths_of(it, "small.example")).await;
    assert!(!has_paths_of(&document_v2, "large.example"));
    assert!(document_v2["definitions"]["io.k8s.api.core.v1.Pod"].is_object());
}

#[tokio::test]
async fn openapi_documents_over_the_total_limit_are_omitted() {
    const GROUPS: [&str; 4] = ["a.example", "b.example", "c.example", "d.example"];
    let log = Log::start();
    let plane = TestEnv::start().await;
    let mut servers = Vec::new();
    for group in GROUPS {
        servers.push(register(&plane, group, (4 << 20) - 8000).await);
        plane.until(OPENAPI_V2, |_, it| has_paths_of(it, group)).await;
    }
    servers.push(register(&plane, "e.example", 1 << 20).await);
    log.until(&["v1.e.example", "the documents of all aggregated servers have more than"]).await;
    let document_v2 = plane.read(OPENAPI_V2).await;
    assert!(GROUPS.iter().all(|it| has_paths_of(&document_v2, it)));
    assert!(!has_paths_of(&document_v2, "e.example"));
}

#[tokio::test]
async fn a_merged_document_is_computed_once() {
    let plane = TestEnv::start().await;
    let client = plane.with_header("accept-encoding", "gzip");
    let get = || client.send(Method::GET, OPENAPI_V2, JSON, "");
    let ours = get().await;
    let _server = register(&plane, "small.example", 1).await;
    let (merged, first) = loop {
        let before = thread_cpu_time();
        let merged = get().await;
        if merged.headers["etag"] != ours.headers["etag"] {
            break (merged, thread_cpu_time().saturating_sub(before));
        }
        tokio::task::yield_now().await;
    };
    let before = thread_cpu_time();
    for _ in 0..10 {
        let again = get().await;
        assert_eq!(again.bytes.as_ptr(), merged.bytes.as_ptr(), "the document was copied");
    }
    let later = thread_cpu_time().saturating_sub(before);
    assert!(later < first, "{later:?} for ten requests, {first:?} for the first");
}

#[tokio::test]
async fn a_changed_document_has_a_new_etag_and_a_cached_one_is_not_sent() {
    let plane = TestEnv::start().await;
    let client = plane.with_header("accept-encoding", "gzip");
    let ours = client.send(Method::GET, OPENAPI_V2, JSON, "").await;
    let _server = register(&plane, "small.example", 1).await;
    plane.until(OPENAPI_V2, |_, it| has_paths_of(it, "small.example")).await;
    let merged = client.send(Method::GET, OPENAPI_V2, JSON, "").await;
    assert_ne!(ours.headers["etag"], merged.headers["etag"]);
    let tag = merged.headers["etag"].to_str().unwrap();
    let known =
        client.with_header("if-none-match", tag).send(Method::GET, OPENAPI_V2, JSON, "").await;
    assert_eq!((known.code, known.bytes.len()), (304, 0));
}

#[tokio::test]
async fn discovery_with_aggregated_groups_is_computed_once() {
    const AGGREGATED: &str =
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let plane = TestEnv::start().await;
    let _server = register(&plane, "small.example", 1).await;
    plane.until(OPENAPI_V2, |_, it| has_paths_of(it, "small.example")).await;
    let first = plane.get_as("/apis", AGGREGATED).await;
    assert!(first.text().contains("small.example"));
    let again = plane.get_as("/apis", AGGREGATED).await;
    assert_eq!(again.bytes.as_ptr(), first.bytes.as_ptr(), "the document was computed again");
    let _other = register(&plane, "other.example", 1).await;
    let has_other = |_, it: &Value| it.to_string().contains("other.example");
    plane.with_header("accept", AGGREGATED).until("/apis", has_other).await;
}
