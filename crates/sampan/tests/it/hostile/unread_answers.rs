//! Clients that ask for much and read nothing.

use super::http2::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, DATA, END_HEADERS, END_STREAM, HEADERS, ONE_BYTE,
    RST_STREAM, Rude, SHUT, frame, patch, request, streams,
};
use super::{COLLECTION, GROWTH_MAX, JSON, Siege, YAML, resident};
use crate::plane::Plane;
use machinery::{Value, json};

/// Asks so many times on one connection and waits for the heads of the answers, all successes; the
/// bodies stay with the server.
fn ask(mut rude: Rude, block: &[u8], count: u32) -> Rude {
    let requests: Vec<u8> =
        streams(count).flat_map(|it| frame(HEADERS, END_STREAM | END_HEADERS, it, block)).collect();
    rude.send(&requests).unwrap();
    let mut begun = 0;
    while begun < count {
        let frame = rude.read().unwrap();
        if frame.kind == HEADERS {
            // HPACK: `:status: 200` is number 8 of the static table.
            assert_eq!(frame.payload[0], 0x88, "it was refused");
            begun += 1;
        }
    }
    rude
}

#[track_caller]
fn assert_small(siege: &Siege, what: &str) {
    assert_grown_by_less(siege, GROWTH_MAX, what);
}

#[track_caller]
fn assert_grown_by_less(siege: &Siege, growth: u64, what: &str) {
    let during = resident(&siege.plane);
    assert!(during < siege.before + growth, "{what}: from {} to {during} KiB", siege.before);
}

#[test]
fn a_document_that_many_do_not_read_is_in_memory_once() {
    let siege = Siege::begin_with_users();
    let mut attackers = Vec::new();
    for path in ["/openapi/v2", "/openapi/v3/api/v1", "/openapi/v3/apis/apps/v1"] {
        let block = request(2, path, &[(AUTHORIZATION, "Bearer alice")]);
        for _ in 0..3 {
            let rude = Rude::connect_as_stranger(&siege, &SHUT);
            attackers.push(ask(rude, &block, 100));
        }
    }
    assert_small(&siege, "documents");
    drop(attackers);
    siege.survived();
}

#[test]
fn a_list_that_many_do_not_read_is_not_made() {
    let mut siege = Siege::begin();
    let data = "x".repeat(50_000);
    for name in 0..100 {
        let object = json!({"metadata": {"name": format!("a{name}")}, "data": {"k": data}});
        siege.accepted("POST", COLLECTION, &object);
    }
    let mut attackers = Vec::new();
    let forms = [
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    ];
    for form in forms {
        let block = request(2, COLLECTION, &[(ACCEPT, form)]);
        attackers.push(ask(Rude::connect(&siege, &SHUT), &block, 100));
        assert_small(&siege, form);
    }
    let path = format!("{COLLECTION}?includeObject=Object");
    let form = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let block = request(2, &path, &[(ACCEPT, form)]);
    attackers.push(ask(Rude::connect(&siege, &SHUT), &block, 100));
    assert_small(&siege, form);
    drop(attackers);
    siege.survived();
}

/// Sends requests on one connection and waits until each is answered or reset; returns how many
/// were answered with a success.
fn ask_and_be_refused(rude: &mut Rude, requests: &[Vec<u8>]) -> usize {
    rude.send(&requests.concat()).unwrap();
    let (mut settled, mut succeeded) = (0, 0);
    while settled < requests.len() {
        let frame = rude.read().unwrap();
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

/// A plane on which so many users, `w0` and so on, may do everything in the default namespace.
pub(super) fn begin_with_writers(count: usize) -> Siege {
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
    Siege::of(Plane::with_tokens_and_policies(&tokens, &policies))
}

fn large(name: &str, step: usize) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": "x".repeat(1_000_000), "s": step.to_string()}})
}

/// The number of writes after which the log and the store remember as much as they ever do.
const HISTORY: usize = 100;

/// Writes a large object until the plane has as much history as it ever has, which counts as what
/// it had before.
fn fill_history(siege: &mut Siege, name: &str) {
    for step in 0..HISTORY {
        siege.accepted("PUT", &format!("{COLLECTION}/{name}"), &large(name, step));
    }
    siege.before = resident(&siege.plane);
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

/// What is asked for, and in which form.
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
fn a_large_object_that_many_do_not_read_takes_a_bounded_amount_of_memory_in_every_form() {
    for window in [SHUT, ONE_BYTE] {
        let mut siege = begin_with_writers(FORMS.len() + 1);
        siege.accepted("POST", COLLECTION, &large("large", 0));
        let (mut attackers, mut succeeded) = (Vec::new(), 0);
        for (user, (query, form)) in FORMS.into_iter().enumerate() {
            let bearer = format!("Bearer w{user}");
            let headers = [(AUTHORIZATION, bearer.as_str()), (ACCEPT, form)];
            let block = request(2, &format!("{COLLECTION}{query}"), &headers);
            let requests: Vec<Vec<u8>> = streams(100)
                .map(|it| frame(HEADERS, END_STREAM | END_HEADERS, it, &block))
                .collect();
            for _ in 0..3 {
                let mut rude = Rude::connect_as_stranger(&siege, &window);
                succeeded += ask_and_be_refused(&mut rude, &requests);
                attackers.push(rude);
            }
            assert_small(&siege, &format!("{query} {form}"));
        }
        assert!(succeeded > 10, "{succeeded} were answered");
        drop(attackers);
        siege.survived();
    }
}

#[test]
fn the_answers_to_writes_that_many_do_not_read_take_a_bounded_amount_of_memory() {
    let mut siege = begin_with_writers(1);
    siege.accepted("POST", COLLECTION, &large("large", 0));
    fill_history(&mut siege, "large");
    let merge = "application/merge-patch+json";
    let headers = [(AUTHORIZATION, "Bearer w0"), (ACCEPT, YAML), (CONTENT_TYPE, merge)];
    let block = patch(&format!("{COLLECTION}/large"), &headers);
    let mut attackers = Vec::new();
    let mut succeeded = 0;
    for connection in 0..2 {
        let mut rude = Rude::connect_as_stranger(&siege, &ONE_BYTE);
        let requests: Vec<Vec<u8>> = streams(100)
            .map(|it| {
                let body = json!({"data": {"s": format!("{connection}.{it}")}}).to_string();
                let head = frame(HEADERS, END_HEADERS, it, &block);
                [head, frame(DATA, END_STREAM, it, body.as_bytes())].concat()
            })
            .collect();
        succeeded += ask_and_be_refused(&mut rude, &requests);
        attackers.push(rude);
        assert_grown_by_less(&siege, 100 << 10, "writes");
    }
    assert!(succeeded > 10, "{succeeded} were answered");
    drop(attackers);
    siege.survived();
}
