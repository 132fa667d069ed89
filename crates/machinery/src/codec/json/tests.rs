//! Tests of the JSON reader. The errors are those of Go's `encoding/json`.

use proptest::prelude::*;

use super::*;

/// Reads `bytes` and prints the value and the repeated keys, or the error.
fn check(bytes: impl AsRef<[u8]>, expected: &str) {
    let printed = match decode(bytes.as_ref()) {
        Err(error) => error.to_string(),
        Ok(it) => it.duplicates.into_iter().fold(it.value.to_string(), |a, b| a + "; " + &b),
    };
    assert_eq!(printed, expected, "{}", String::from_utf8_lossy(bytes.as_ref()));
}

#[test]
fn objects_lists_and_scalars_are_decoded() {
    check(
        " {\"b\": [1, -2.5, true, false, null, {}, []], \"a\": \"x\"} ",
        r#"{"a":"x","b":[1,-2.5,true,false,null,{},[]]}"#,
    );
    check("\"\\u00e4\\n\\\"\\/\\ud83d\\ude00\"", "\"ä\\n\\\"/😀\"");
    check("7", "7");
}

#[test]
fn numbers_without_a_fraction_become_integers() {
    check("9223372036854775807", "9223372036854775807");
    check("9223372036854775808", "9.223372036854776e+18");
    check("-0", "0");
    check("1.0", "1");
    check("1e3", "1000");
    check("0.1", "0.1");
    check("1e999", "json: cannot unmarshal number 1e999 into Go value of type float64");
}

#[test]
fn the_last_of_repeated_keys_counts_and_each_is_reported_once() {
    check(
        r#"{"metadata": {"name": "a", "name": "b"}, "data": {"k": "v", "k": "w", "k": "x"}}"#,
        r#"{"data":{"k":"x"},"metadata":{"name":"b"}}; duplicate field "metadata.name"; duplicate field "data.k""#,
    );
    check(
        r#"{"spec": {"containers": [{}, {"ports": [{"port": 1, "port": 2}]}]}}"#,
        r#"{"spec":{"containers":[{},{"ports":[{"port":2}]}]}}; duplicate field "spec.containers[1].ports[0].port""#,
    );
}

#[test]
fn bytes_that_are_not_utf8_are_replaced_one_by_one() {
    check(b"\"a\xe4\xb8b\xff\"", "\"a\u{fffd}\u{fffd}b\u{fffd}\"");
    check(r#""\ud800\u0041 \udc00 \ud800\ud83d\ude00""#, "\"\u{fffd}A \u{fffd} \u{fffd}😀\"");
}

#[test]
fn truncated_input_is_refused() {
    for text in [
        "",
        " ",
        "{",
        "{\"a\"",
        "{\"a\":",
        "{\"a\": 1",
        "{\"a\": 1,",
        "[",
        "[1",
        "[1,",
        "\"a",
        "\"\\",
        "\"\\u12",
        "tru",
        "-",
        "1.",
        "1e",
    ] {
        check(text, "unexpected end of JSON input");
    }
}

#[test]
fn unexpected_characters_are_named() {
    check("is", "invalid character 'i' looking for beginning of value");
    check("[1,]", "invalid character ']' looking for beginning of value");
    check("{a", "invalid character 'a' looking for beginning of object key string");
    check("{\"a\":1,}", "invalid character '}' looking for beginning of object key string");
    check("{\"a\" 1}", "invalid character '1' after object key");
    check("{\"a\":1 \"b\"", "invalid character '\"' after object key:value pair");
    check("[1 2]", "invalid character '2' after array element");
    check("{} x", "invalid character 'x' after top-level value");
    check("01", "invalid character '1' after top-level value");
    check("\"\n\"", r"invalid character '\n' in string literal");
    check("\"\\x\"", "invalid character 'x' in string escape code");
    check("\"\\u12'\"", r"invalid character '\'' in \u hexadecimal character escape");
    check("-a", "invalid character 'a' in numeric literal");
    check("1.a", "invalid character 'a' after decimal point in numeric literal");
    check("1ea", "invalid character 'a' in exponent of numeric literal");
    check("trux", "invalid character 'x' in literal true (expecting 'e')");
    check("\u{e4}", "invalid character 'Ã' looking for beginning of value");
}

#[test]
fn depth_is_limited_and_safe_on_a_small_stack() {
    let nested =
        |depth: usize| format!("{}1{}", "{\"a\":[".repeat(depth / 2), "]}".repeat(depth / 2));
    let deep = nested(DEPTH_MAX);
    let handled = std::thread::Builder::new().stack_size(2 << 20).spawn(move || {
        let value = decode(deep.as_bytes()).unwrap().value;
        value == value.clone() && value.to_string().len() == deep.len()
    });
    assert!(handled.unwrap().join().unwrap());
    check(nested(DEPTH_MAX + 2), "exceeded max depth");
    check("[".repeat(1_000_000), "exceeded max depth");
}

proptest! {
    #![proptest_config(crate::seeded::config())]

    #[test]
    fn nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..64), likely in r#"[{}\[\]":,0-9a\\u.eE+ -]{0,40}"#) {
        let _ = decode(&bytes);
        let _ = decode(likely.as_bytes());
    }

    #[test]
    fn the_decoder_agrees_with_serde_json(likely in r#"[\[{]{0,3}("a": ?)?(-?[1-9][0-9]{0,3}|0[0-9]?|"[a-z\\n]{0,5}"|true|null)[\]}]{0,3}"#) {
        if let Ok(theirs) = serde_json::from_str::<Value>(&likely) {
            prop_assert_eq!(decode(likely.as_bytes()).map(|it| it.value), Ok(theirs));
        } else {
            prop_assert!(decode(likely.as_bytes()).is_err());
        }
    }
}
