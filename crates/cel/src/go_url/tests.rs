//! URLs against a table of the results of Go 1.26: fixed ones, and some made of random pieces.
//!
//! A line holds the text, the errors of `ParseRequestURI` and of `Parse` (null if there is none), and
//! if there is no error of the latter: scheme, host, hostname, port, escaped path, query, and the URL
//! as Go writes it.

use serde_json::{Map, Value, json};

use super::Url;

fn query(url: &Url) -> Value {
    let mut lists = Map::new();
    for (key, value) in url.query() {
        let list = lists.entry(key).or_insert_with(|| json!([]));
        list.as_array_mut().unwrap().push(value.into());
    }
    lists.into()
}

/// The result of this crate for a text, as a line of the table.
fn line(text: &str) -> Value {
    let (requested, parsed) = (Url::parse_request_uri(text).err(), Url::parse(text));
    let Ok(url) = parsed else { return json!([text, requested, parsed.err()]) };
    json!([
        text,
        requested,
        Value::Null,
        url.scheme,
        url.host(),
        url.hostname(),
        url.port(),
        url.escaped_path(),
        query(&url),
        url.text()
    ])
}

#[test]
fn urls_are_read_as_go_reads_them() {
    for expected in include_str!("cases.jsonl").lines() {
        let expected: Value = serde_json::from_str(expected).unwrap();
        assert_eq!(line(expected[0].as_str().unwrap()), expected);
    }
}
