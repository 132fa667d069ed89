//! Compares the parsing of fixed and random URLs with recorded results of Go 1.26.
//!
//! A line has the text, the errors of `ParseRequestURI` and of `Parse` (null if there is none),
//! and, if `Parse` has no error, scheme, host, hostname, port, escaped path, query, and the
//! formatted URL.

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

/// The result of this crate for a text, in the form of a recorded line.
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
fn urls_are_parsed_as_in_go() {
    for expected in include_str!("cases.jsonl").lines() {
        let expected: Value = serde_json::from_str(expected).unwrap();
        assert_eq!(line(expected[0].as_str().unwrap()), expected);
    }
}
