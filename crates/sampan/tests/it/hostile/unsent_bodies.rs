//! Clients that announce a body and do not send it. Other clients are served meanwhile.

use std::io::Write;
use std::time::Duration;

use tokio::time::Instant;

use super::http2::{AUTHORIZATION, END_HEADERS, HEADERS, POST, RawHttp2, frame, request, streams};
use super::{AttackedPlane, COLLECTION};
use crate::http::Connection;
use machinery::json;

/// A resource that every authenticated user can create.
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// The maximum time that other clients wait.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Checks that other users can write without delay: an administrator, and a user without rights.
fn assert_others_write(attacked: &mut AttackedPlane) {
    for number in 0..5 {
        let since = Instant::now();
        let object = json!({"metadata": {"name": format!("a{number}")}});
        attacked.send_accepted("POST", COLLECTION, &object);
        assert!(since.elapsed() < WAIT_MAX, "the admin waited {:?}", since.elapsed());
        let mut bob = attacked.anonymous_client();
        let headers = [("authorization", "Bearer bob"), ("content-type", "application/json")];
        let since = Instant::now();
        let response = bob.exchange("POST", REVIEWS, &headers, b"{}").unwrap();
        assert_eq!(response.code, 201, "{}", response.body);
        assert!(since.elapsed() < WAIT_MAX, "bob waited {:?}", since.elapsed());
    }
}

#[test]
fn missing_bodies_do_not_delay_other_writers() {
    let mut attacked = AttackedPlane::start_with_users();
    let post = request(POST, REVIEWS, &[(AUTHORIZATION, "Bearer alice")]);
    let attackers: Vec<RawHttp2> = (0..5)
        .map(|_| {
            let mut raw = RawHttp2::connect_anonymously(&attacked, &[]);
            let requests: Vec<u8> =
                streams(100).flat_map(|it| frame(HEADERS, END_HEADERS, it, &post)).collect();
            raw.send(&requests).unwrap();
            raw
        })
        .collect();
    assert_others_write(&mut attacked);
    drop(attackers);
    attacked.assert_healthy();
}

#[test]
fn incomplete_bodies_use_bounded_memory() {
    const LENGTH: usize = 3 << 20;
    let mut attacked = AttackedPlane::start_with_users();
    let client = attacked.anonymous_client();
    let part = vec![b' '; LENGTH - 1];
    let attackers: Vec<Connection> = (0..100)
        .map(|_| {
            let mut connection = client.connect().unwrap();
            let head = format!(
                "POST {REVIEWS} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer alice\r\ncontent-length: {LENGTH}\r\n\r\n"
            );
            connection.get_mut().write_all(head.as_bytes()).unwrap();
            // The server may refuse the body before it has arrived.
            let _ = connection.get_mut().write_all(&part);
            connection
        })
        .collect();
    assert_others_write(&mut attacked);
    let during = super::resident_kib(&attacked.plane);
    assert!(
        during < attacked.before + super::GROWTH_MAX,
        "from {} to {during} KiB",
        attacked.before
    );
    drop(attackers);
    attacked.assert_healthy();
}
