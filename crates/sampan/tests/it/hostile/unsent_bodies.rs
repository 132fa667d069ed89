//! Clients that announce a body and do not send it: others are served meanwhile, at once.

use super::http2::{AUTHORIZATION, END_HEADERS, HEADERS, Rude, frame, request, streams};
use super::{COLLECTION, Siege};
use crate::http::Connection;
use machinery::json;
use std::io::Write;
use std::time::Duration;
use tokio::time::Instant;

/// What everybody may create who has said who they are.
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// Nobody waits longer than this because of somebody else.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Others write without having to wait: somebody who may do everything, and somebody who may not.
fn assert_others_write(siege: &mut Siege) {
    for number in 0..5 {
        let since = Instant::now();
        let object = json!({"metadata": {"name": format!("a{number}")}});
        siege.accepted("POST", COLLECTION, &object);
        assert!(since.elapsed() < AT_ONCE, "the admin waited {:?}", since.elapsed());
        let mut bob = siege.stranger();
        let headers = [("authorization", "Bearer bob"), ("content-type", "application/json")];
        let since = Instant::now();
        let answer = bob.exchange("POST", REVIEWS, &headers, b"{}").unwrap();
        assert_eq!(answer.code, 201, "{}", answer.body);
        assert!(since.elapsed() < AT_ONCE, "bob waited {:?}", since.elapsed());
    }
}

#[test]
fn a_body_that_does_not_come_holds_nobody_up() {
    let mut siege = Siege::begin_with_users();
    let post = request(3, REVIEWS, &[(AUTHORIZATION, "Bearer alice")]);
    let attackers: Vec<Rude> = (0..5)
        .map(|_| {
            let mut rude = Rude::connect_as_stranger(&siege, &[]);
            let requests: Vec<u8> =
                streams(100).flat_map(|it| frame(HEADERS, END_HEADERS, it, &post)).collect();
            rude.send(&requests).unwrap();
            rude
        })
        .collect();
    assert_others_write(&mut siege);
    drop(attackers);
    siege.survived();
}

#[test]
fn bodies_that_do_not_end_hold_a_bounded_amount_of_memory() {
    const LENGTH: usize = 3 << 20;
    let mut siege = Siege::begin_with_users();
    let client = siege.stranger();
    let part = vec![b' '; LENGTH - 1];
    let attackers: Vec<Connection> = (0..100)
        .map(|_| {
            let mut connection = client.connect().unwrap();
            let head = format!(
                "POST {REVIEWS} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer alice\r\ncontent-length: {LENGTH}\r\n\r\n"
            );
            connection.get_mut().write_all(head.as_bytes()).unwrap();
            // The server may refuse it before it is there.
            let _ = connection.get_mut().write_all(&part);
            connection
        })
        .collect();
    assert_others_write(&mut siege);
    let during = super::resident(&siege.plane);
    assert!(during < siege.before + super::GROWTH_MAX, "from {} to {during} KiB", siege.before);
    drop(attackers);
    siege.survived();
}
