//! Requests over the limits of bytes, fields, labels and operations.

use std::io::{self, Write};

use super::{AttackedPlane, COLLECTION, JSON, assert_refused, refusal};
use crate::http::{Connection, read_response};
use machinery::{Map, Value, json};

/// The maximum size of a body.
const LIMIT: usize = 3 << 20;

const TOO_LARGE: &str = "Request entity too large: limit is 3145728";

/// A config map of a given size, most of it spaces.
fn padded(name: &str, length: usize) -> Vec<u8> {
    let mut body = json!({"metadata": {"name": name}}).to_string().into_bytes();
    body.resize(length, b' ');
    body
}

#[test]
fn a_body_over_the_size_limit_is_refused() {
    let mut attacked = AttackedPlane::start();
    let response = attacked.send("POST", COLLECTION, JSON, &padded("just-right", LIMIT));
    assert_eq!(response.code, 201, "{}", response.body);
    for length in [LIMIT + 1, LIMIT + 1000, 2 * LIMIT, 4 * LIMIT] {
        let response = attacked.send("POST", COLLECTION, JSON, &padded("large", length));
        assert_refused(&response, 413, "RequestEntityTooLarge", TOO_LARGE);
    }
    attacked.assert_healthy();
}

#[test]
fn a_chunked_body_over_the_size_limit_is_refused() {
    let attacked = AttackedPlane::start();
    let mut connection = attacked.client.connect().unwrap();
    begin_post(&mut connection, "transfer-encoding: chunked").unwrap();
    let chunk = vec![b' '; 64 << 10];
    for _ in 0..=(LIMIT >> 16) {
        write!(connection.get_mut(), "{:x}\r\n", chunk.len()).unwrap();
        connection.get_mut().write_all(&chunk).unwrap();
        connection.get_mut().write_all(b"\r\n").unwrap();
    }
    connection.get_mut().write_all(b"0\r\n\r\n").unwrap();
    let response = read_response(&mut connection, "POST").unwrap();
    assert_refused(&response, 413, "RequestEntityTooLarge", TOO_LARGE);
    attacked.assert_healthy();
}

#[test]
fn a_content_length_over_the_limit_is_refused_before_the_body_ends() {
    let attacked = AttackedPlane::start();
    let mut connection = attacked.client.connect().unwrap();
    begin_post(&mut connection, &format!("content-length: {}", 100 * LIMIT)).unwrap();
    connection.get_mut().write_all(&padded("large", LIMIT + 1)).unwrap();
    let response = read_response(&mut connection, "POST").unwrap();
    assert_refused(&response, 413, "RequestEntityTooLarge", TOO_LARGE);
    attacked.assert_healthy();
}

#[test]
fn a_body_ends_at_its_content_length() {
    let attacked = AttackedPlane::start();
    let mut connection = attacked.client.connect().unwrap();
    let body = json!({"metadata": {"name": "short"}}).to_string();
    begin_post(&mut connection, &format!("content-length: {}", body.len())).unwrap();
    connection.get_mut().write_all(format!("{body}{body}\r\n\r\n").as_bytes()).unwrap();
    assert_eq!(read_response(&mut connection, "POST").unwrap().code, 201);
    // The rest is not a request: the server responds with an error, or closes the connection.
    match read_response(&mut connection, "POST") {
        Ok(response) => assert_eq!(response.code, 400),
        Err(error) => assert_ne!(error.kind(), io::ErrorKind::WouldBlock, "{error}"),
    }
    attacked.assert_healthy();
}

fn begin_post(connection: &mut Connection, header: &str) -> io::Result<()> {
    let head = format!(
        "POST {COLLECTION} HTTP/1.1\r\nhost: x\r\ncontent-type: {JSON}\r\n{header}\r\n\r\n"
    );
    connection.get_mut().write_all(head.as_bytes())
}

#[test]
fn warnings_name_the_first_hundred_unknown_fields() {
    let mut attacked = AttackedPlane::start();
    let mut object: Map<String, Value> =
        (0..150_000).map(|it| (format!("u{it:06}"), Value::from(1))).collect();
    object.insert("metadata".to_owned(), json!({"name": "flooded"}));
    let body = Value::Object(object).to_string().into_bytes();
    let strict = format!("{COLLECTION}?fieldValidation=Strict");
    let message = refusal(&attacked.send("POST", &strict, JSON, &body), 400, "BadRequest");
    assert_eq!(message.matches("unknown field").count(), 100, "{message}");
    assert!(message.ends_with("unknown field \"u000099\""), "{message}");
    let response = attacked.send("POST", COLLECTION, JSON, &body);
    assert_eq!(response.code, 201, "{}", response.body);
    let warnings: Vec<_> = response.headers.iter().filter(|(name, _)| name == "warning").collect();
    assert_eq!(warnings.len(), 100);
    assert_eq!(warnings[0].1, r#"299 - "unknown field \"u000000\"""#);
    attacked.assert_healthy();
}

#[test]
fn an_object_can_have_many_thousand_labels() {
    let mut attacked = AttackedPlane::start();
    let labels: Map<String, Value> =
        (0..50_000).map(|it| (format!("l{it}"), Value::from("v"))).collect();
    let object = json!({"metadata": {"name": "labeled", "labels": labels}});
    attacked.send_accepted("POST", COLLECTION, &object);
    let path = format!("{COLLECTION}?labelSelector=l49999%3Dv,!l50000");
    let (_, list) = attacked.client.send("GET", &path, None).unwrap();
    assert_eq!(list["items"][0]["metadata"]["name"], "labeled");
    let (code, _) = attacked.client.send("DELETE", &format!("{COLLECTION}/labeled"), None).unwrap();
    assert_eq!(code, 200);
    let annotations: Map<String, Value> =
        (0..3000).map(|it| (format!("a{it}"), Value::from("v".repeat(100)))).collect();
    let object = json!({"metadata": {"name": "noted", "annotations": annotations}});
    let response = attacked.send("POST", COLLECTION, JSON, object.to_string().as_bytes());
    let message = r#"ConfigMap "noted" is invalid: metadata.annotations: Too long: may not be more than 262144 bytes"#;
    assert_refused(&response, 422, "Invalid", message);
    attacked.assert_healthy();
}

#[test]
fn a_json_patch_over_the_operation_or_size_limit_is_refused() {
    let mut attacked = AttackedPlane::start();
    attacked.send_accepted(
        "POST",
        COLLECTION,
        &json!({"metadata": {"name": "a"}, "data": {"k": "v"}}),
    );
    let path = format!("{COLLECTION}/a");
    let mut patch = |operations: Vec<Value>| {
        let body = Value::from(operations).to_string();
        attacked.send("PATCH", &path, "application/json-patch+json", body.as_bytes())
    };
    let response = patch(vec![json!({"op": "test", "path": "/data/k", "value": "v"}); 10_001]);
    let message = "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001";
    assert_refused(&response, 413, "RequestEntityTooLarge", message);
    let doubling = (0..50).map(|it| format!("/data/k{it}"));
    let doubling = doubling.map(|path| json!({"op": "copy", "from": "/data", "path": path}));
    let response = patch(doubling.collect());
    let message = "the server rejected our request due to an error in our request";
    assert_refused(&response, 422, "Invalid", message);
    attacked.assert_healthy();
}
