//! Watches with queries as long as a request may have.

use super::unread_answers::begin_with_writers;
use super::{COLLECTION, GROWTH_MAX, Siege, resident};
use crate::http::Connection;
use machinery::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, Write};

/// The length of a query.
const LONG: usize = 60_000;

/// The number of watches of one user.
const WATCHES: usize = 250;

/// Begins a watch as the user `w0`, and returns the code of the answer.
fn watch(siege: &Siege, query: &str) -> (Connection, String) {
    let mut connection = siege.stranger().connect().unwrap();
    let head = format!(
        "GET {COLLECTION}?watch=1&{query} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer w0\r\n\r\n"
    );
    connection.get_mut().write_all(head.as_bytes()).unwrap();
    let mut line = String::new();
    connection.read_line(&mut line).unwrap();
    let code = line.split(' ').nth(1).unwrap_or_default().to_owned();
    (connection, code)
}

/// Text from `parts`, as long as a query may be.
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
fn the_queries_of_many_watches_take_a_bounded_amount_of_memory() {
    for query in [
        long((0..).map(|n| format!("&a{n}"))),
        format!("labelSelector=a{}", long((0..).map(|n| format!(",a{n}")))),
        format!("labelSelector=a{}", long((0..).map(|_| ",a".to_owned()))),
        format!("fieldSelector={}", long((0..).map(|n| format!("metadata.name!={n},")))),
    ] {
        let siege = begin_with_writers(1);
        let mut codes = BTreeMap::<String, usize>::new();
        let watches: Vec<Connection> = (0..WATCHES)
            .map(|_| {
                let (connection, code) = watch(&siege, &query);
                *codes.entry(code).or_default() += 1;
                connection
            })
            .collect();
        let during = resident(&siege.plane);
        let shape = &query[..30];
        assert!(during < siege.before + GROWTH_MAX, "{shape}: {} to {during} KiB", siege.before);
        assert!(codes.keys().all(|code| code == "200" || code == "429"), "{shape}: {codes:?}");
        assert!(codes["200"] > 10, "{shape}: {codes:?}");
        drop(watches);
        siege.survived();
    }
}

#[test]
fn watches_by_long_selectors_of_an_object_with_many_labels_do_not_hold_up_others() {
    let mut siege = begin_with_writers(1);
    let labels: Map<String, Value> =
        (0..40_000).map(|n| (format!("a{n}"), Value::from(""))).collect();
    let object = json!({"metadata": {"name": "many", "labels": labels}});
    siege.accepted("POST", COLLECTION, &object);
    let query = format!("labelSelector=a0{}", long((0..).map(|n| format!(",!z{n}"))));
    let watches: Vec<Connection> = (0..8)
        .map(|_| {
            let (connection, code) = watch(&siege, &query);
            assert_eq!(code, "200");
            connection
        })
        .collect();
    for turn in 0..4 {
        let patch = json!({"data": {"turn": turn.to_string()}});
        siege.accepted("PATCH", &format!("{COLLECTION}/many"), &patch);
    }
    let since = tokio::time::Instant::now();
    for _ in 0..20 {
        siege.accepted("POST", COLLECTION, &json!({"metadata": {"generateName": "other-"}}));
    }
    // One comparison of every label with every requirement takes longer.
    assert!(since.elapsed().as_secs() < 10, "{:?}", since.elapsed());
    drop(watches);
    siege.survived();
}
