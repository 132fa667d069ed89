//! Clients that send many requests and do not read the responses.

use super::http2::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, DATA, END_HEADERS, END_STREAM, GET, HEADERS,
    ONE_BYTE_WINDOW, RST_STREAM, RawHttp2, ZERO_WINDOW, frame, patch, request, streams,
};
use super::{AttackedPlane, COLLECTION, GROWTH_MAX, JSON, YAML, resident_kib};
use crate::plane::Plane;
use machinery::{Value, json};

/// Sends `count` requests on one connection and waits for the heads of the responses, which are all
/// successes. The bodies are not read.
pub(super) fn send_without_reading(mut raw: RawHttp2, block: &[u8], count: u32) -> RawHttp2 {
    let requests: Vec<u8> =
        streams(count).flat_map(|it| frame(HEADERS, END_STREAM | END_HEADERS, it, block)).collect();
    raw.send(&requests).unwrap();
    let mut begun = 0;
    while begun < count {
        let frame = raw.read().unwrap();
        if frame.kind == HEADERS {
            // HPACK: `:status: 200` has index 8 in the static table.
            assert_eq!(frame.payload[0], 0x88, "it was refused");
            begun += 1;
        }
    }
    raw
}

#[track_caller]
fn assert_small(attacked: &AttackedPlane, what: &str) {
    assert_grown_by_less(attacked, GROWTH_MAX, what);
}

#[track_caller]
fn assert_grown_by_less(attacked: &AttackedPlane, growth: u64, what: &str) {
    let during = resident_kib(&attacked.plane);
    assert!(during < attacked.before + growth, "{what}: from {} to {during} KiB", attacked.before);
}

#[test]
fn an_unread_openapi_document_is_in_memory_once() {
    let attacked = AttackedPlane::start_with_users();
    let mut attackers = Vec::new();
    for path in ["/openapi/v2", "/openapi/v3/api/v1", "/openapi/v3/apis/apps/v1"] {
        let block = request(GET, path, &[(AUTHORIZATION, "Bearer alice")]);
        for _ in 0..3 {
            let raw = RawHttp2::connect_anonymously(&attacked, &ZERO_WINDOW);
            attackers.push(send_without_reading(raw, &block, 100));
        }
    }
    assert_small(&attacked, "documents");
    drop(attackers);
    attacked.assert_healthy();
}

#[test]
fn unread_lists_are_not_encoded() {
    let mut attacked = AttackedPlane::start();
    let data = "x".repeat(50_000);
    for name in 0..100 {
        let object = json!({"metadata": {"name": format!("a{name}")}, "data": {"k": data}});
        attacked.send_accepted("POST", COLLECTION, &object);
    }
    let mut attackers = Vec::new();
    let media_types = [
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    ];
    for media_type in media_types {
        let block = request(GET, COLLECTION, &[(ACCEPT, media_type)]);
        attackers.push(send_without_reading(
            RawHttp2::connect(&attacked, &ZERO_WINDOW),
            &block,
            100,
        ));
        assert_small(&attacked, media_type);
    }
    let path = format!("{COLLECTION}?includeObject=Object");
    let media_type = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let block = request(GET, &path, &[(ACCEPT, media_type)]);
    attackers.push(send_without_reading(RawHttp2::connect(&attacked, &ZERO_WINDOW), &block, 100));
    assert_small(&attacked, media_type);
    drop(attackers);
    attacked.assert_healthy();
}

/// Sends requests on one connection and waits until each has a response or is reset; returns the
/// number of successes.
fn send_and_count_successes(raw: &mut RawHttp2, requests: &[Vec<u8>]) -> usize {
    raw.send(&requests.concat()).unwrap();
    let (mut settled, mut succeeded) = (0, 0);
    while settled < requests.len() {
        let frame = raw.read().unwrap();
        match frame.kind {
            HEADERS => {
                settled += 1;
                succeeded += usize::from(frame.payload[0] == 0x88);
            }
            RST_STREAM => settled += 1,
            _ => {}
        }
    }
    succeeded
}

/// A plane with a number of users, `w0` and so on, with all rights in the default namespace.
pub(super) fn start_with_writers(count: usize) -> AttackedPlane {
    let (mut tokens, mut policies) = (String::new(), String::new());
    for number in 0..count {
        tokens.push_str(&format!("w{number},w{number},{number}\n"));
        let user = format!("w{number}");
        let policy = json!({
            "apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy",
            "spec": {"user": user, "namespace": "default", "resource": "*", "apiGroup": "*"},
        });
        policies.push_str(&format!("{policy}\n"));
    }
    AttackedPlane::of(Plane::with_tokens_and_policies(&tokens, &policies))
}

fn large_config_map(name: &str, step: usize) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": "x".repeat(1_000_000), "s": step.to_string()}})
}

/// The number of writes after which the history of the log and the store has its maximum size.
const HISTORY: usize = 100;

/// Writes a large object until the history has its maximum size, which is the baseline of the memory.
fn fill_history(attacked: &mut AttackedPlane, name: &str) {
    for step in 0..HISTORY {
        attacked.send_accepted(
            "PUT",
            &format!("{COLLECTION}/{name}"),
            &large_config_map(name, step),
        );
    }
    attacked.before = resident_kib(&attacked.plane);
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

/// The requested paths and media types.
const FORMS: [(&str, &str); 9] = [
    ("?watch=1", JSON),
    ("?watch=1", PROTOBUF),
    ("?watch=1&includeObject=Object", TABLE),
    ("/large", JSON),
    ("/large?pretty=1", JSON),
    ("/large", YAML),
    ("/large", PROTOBUF),
    ("/large?includeObject=Object", TABLE),
    ("", YAML),
];

#[test]
fn unread_large_objects_use_bounded_memory_in_every_format() {
    for window in [ZERO_WINDOW, ONE_BYTE_WINDOW] {
        let mut attacked = start_with_writers(FORMS.len() + 1);
        attacked.send_accepted("POST", COLLECTION, &large_config_map("large", 0));
        let (mut attackers, mut succeeded) = (Vec::new(), 0);
        for (user, (query, media_type)) in FORMS.into_iter().enumerate() {
            let bearer = format!("Bearer w{user}");
            let headers = [(AUTHORIZATION, bearer.as_str()), (ACCEPT, media_type)];
            let block = request(GET, &format!("{COLLECTION}{query}"), &headers);
            let requests: Vec<Vec<u8>> = streams(100)
                .map(|it| frame(HEADERS, END_STREAM | END_HEADERS, it, &block))
                .collect();
            for _ in 0..3 {
                let mut raw = RawHttp2::connect_anonymously(&attacked, &window);
                succeeded += send_and_count_successes(&mut raw, &requests);
                attackers.push(raw);
            }
            assert_small(&attacked, &format!("{query} {media_type}"));
        }
        assert!(succeeded > 10, "{succeeded} succeeded");
        drop(attackers);
        attacked.assert_healthy();
    }
}

#[test]
fn unread_responses_to_writes_use_bounded_memory() {
    let mut attacked = start_with_writers(1);
    attacked.send_accepted("POST", COLLECTION, &large_config_map("large", 0));
    fill_history(&mut attacked, "large");
    let merge = "application/merge-patch+json";
    let headers = [(AUTHORIZATION, "Bearer w0"), (ACCEPT, YAML), (CONTENT_TYPE, merge)];
    let block = patch(&format!("{COLLECTION}/large"), &headers);
    let mut attackers = Vec::new();
    let mut succeeded = 0;
    for connection in 0..2 {
        let mut raw = RawHttp2::connect_anonymously(&attacked, &ONE_BYTE_WINDOW);
        let requests: Vec<Vec<u8>> = streams(100)
            .map(|it| {
                let body = json!({"data": {"s": format!("{connection}.{it}")}}).to_string();
                let head = frame(HEADERS, END_HEADERS, it, &block);
                [head, frame(DATA, END_STREAM, it, body.as_bytes())].concat()
            })
            .collect();
        succeeded += send_and_count_successes(&mut raw, &requests);
        attackers.push(raw);
        assert_grown_by_less(&attacked, 100 << 10, "writes");
    }
    assert!(succeeded > 10, "{succeeded} succeeded");
    drop(attackers);
    attacked.assert_healthy();
}
