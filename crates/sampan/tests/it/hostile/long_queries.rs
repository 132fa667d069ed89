//! Watches with queries of the maximum length.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};

use super::unread_responses::start_with_writers;
use super::{AttackedPlane, COLLECTION, GROWTH_MAX, resident_kib};
use crate::http::Connection;
use machinery::{Map, Value, json};

/// The length of a query.
const LONG: usize = 60_000;

/// The number of watches of one user.
const WATCHES: usize = 250;

/// Starts a watch as the user `w0`, and returns the code of the response.
fn watch(attacked: &AttackedPlane, query: &str) -> (Connection, String) {
    let mut connection = attacked.anonymous_client().connect().unwrap();
    let head = format!(
        "GET {COLLECTION}?watch=1&{query} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer w0\r\n\r\n"
    );
    connection.get_mut().write_all(head.as_bytes()).unwrap();
    let mut line = String::new();
    connection.read_line(&mut line).unwrap();
    let code = line.split(' ').nth(1).unwrap_or_default().to_owned();
    (connection, code)
}

/// Text from `parts`, of the maximum length of a query.
fn long(parts: impl Iterator<Item = String>) -> String {
    let mut text = String::new();
    for part in parts {
        if text.len() + part.len() > LONG {
            break;
        }
        text.push_str(&part);
    }
    text
}

#[test]
fn long_queries_of_watches_use_bounded_memory() {
    for query in [
        long((0..).map(|n| format!("&a{n}"))),
        format!("labelSelector=a{}", long((0..).map(|n| format!(",a{n}")))),
        format!("labelSelector=a{}", long((0..).map(|_| ",a".to_owned()))),
        format!("fieldSelector={}", long((0..).map(|n| format!("metadata.name!={n},")))),
    ] {
        let attacked = start_with_writers(1);
        let mut codes = BTreeMap::<String, usize>::new();
        let watches: Vec<Connection> = (0..WATCHES)
            .map(|_| {
                let (connection, code) = watch(&attacked, &query);
                *codes.entry(code).or_default() += 1;
                connection
            })
            .collect();
        let during = resident_kib(&attacked.plane);
        let shape = &query[..30];
        assert!(
            during < attacked.before + GROWTH_MAX,
            "{shape}: {} to {during} KiB",
            attacked.before
        );
        assert!(codes.keys().all(|code| code == "200" || code == "429"), "{shape}: {codes:?}");
        assert!(codes["200"] > 10, "{shape}: {codes:?}");
        drop(watches);
        attacked.assert_healthy();
    }
}

#[test]
fn watches_with_long_selectors_do_not_delay_other_users() {
    let mut attacked = start_with_writers(1);
    let labels: Map<String, Value> =
        (0..40_000).map(|n| (format!("a{n}"), Value::from(""))).collect();
    let object = json!({"metadata": {"name": "many", "labels": labels}});
    attacked.send_accepted("POST", COLLECTION, &object);
    let query = format!("labelSelector=a0{}", long((0..).map(|n| format!(",!z{n}"))));
    let watches: Vec<Connection> = (0..8)
        .map(|_| {
            let (connection, code) = watch(&attacked, &query);
            assert_eq!(code, "200");
            connection
        })
        .collect();
    for turn in 0..4 {
        let patch = json!({"data": {"turn": turn.to_string()}});
        attacked.send_accepted("PATCH", &format!("{COLLECTION}/many"), &patch);
    }
    let since = tokio::time::Instant::now();
    for _ in 0..20 {
        attacked.send_accepted(
            "POST",
            COLLECTION,
            &json!({"metadata": {"generateName": "other-"}}),
        );
    }
    // Comparing every label with every requirement takes longer.
    assert!(since.elapsed().as_secs() < 10, "{:?}", since.elapsed());
    drop(watches);
    attacked.assert_healthy();
}
