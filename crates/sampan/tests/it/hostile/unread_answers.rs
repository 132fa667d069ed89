//! Clients that ask for much and read nothing.

use super::http2::{
    ACCEPT, AUTHORIZATION, END_HEADERS, END_STREAM, HEADERS, Rude, SHUT, frame, request, streams,
};
use super::{COLLECTION, GROWTH_MAX, Siege, resident};
use machinery::json;

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
    let during = resident(&siege.plane);
    assert!(during < siege.before + GROWTH_MAX, "{what}: from {} to {during} KiB", siege.before);
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
