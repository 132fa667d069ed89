//! Selectors that do not parse, and parameters with invalid values.

use super::{AttackedPlane, COLLECTION, JSON, assert_refused, refusal};
use machinery::json;

/// Sends a request with `query` and checks the error response.
fn check(
    attacked: &mut AttackedPlane,
    method: &str,
    query: &str,
    code: u16,
    reason: &str,
    message: &str,
) {
    let path = match method {
        "DELETE" => format!("{COLLECTION}/a?{query}"),
        _ => format!("{COLLECTION}?{query}"),
    };
    let body: &[u8] = if method == "POST" { br#"{"metadata":{"name":"b"}}"# } else { b"" };
    let response = attacked.send(method, &path, JSON, body);
    assert_refused(&response, code, reason, message);
}

#[test]
fn a_selector_that_does_not_parse_is_a_bad_request() {
    let mut attacked = AttackedPlane::start();
    let name_part = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let long = format!("labelSelector={}", "(".repeat(20_000));
    let cases = [
        (
            "labelSelector=app%20in%20x",
            "unable to parse requirement: found 'x' expected: '('".to_owned(),
        ),
        ("labelSelector=a=b=c", "found '=', expected: ',' or 'end of string'".to_owned()),
        ("labelSelector=,,", "found ',', expected: !, identifier, or 'end of string'".to_owned()),
        (&long, "found '(', expected: !, identifier, or 'end of string'".to_owned()),
        (
            "labelSelector=%ff",
            format!("unable to parse requirement: <nil>: Invalid value: \"\u{fffd}\": {name_part}"),
        ),
        (
            "fieldSelector=metadata.name",
            "invalid selector: 'metadata.name'; can't understand 'metadata.name'".to_owned(),
        ),
        (
            "fieldSelector=x=y",
            r#""x" is not a known field selector: only "metadata.name", "metadata.namespace""#
                .to_owned(),
        ),
        (
            "fieldSelector=metadata.name=%5C",
            "invalid field selector: invalid escape sequence: \\".to_owned(),
        ),
    ];
    for (query, message) in cases {
        check(&mut attacked, "GET", query, 400, "BadRequest", &message);
        let watch = format!("watch=1&{query}");
        check(&mut attacked, "GET", &watch, 400, "BadRequest", &message);
    }
    attacked.assert_healthy();
}

#[test]
fn invalid_numbers_are_bad_requests() {
    let mut attacked = AttackedPlane::start();
    for (query, message) in [
        ("limit=abc", r#"strconv.ParseInt: parsing "abc": invalid syntax"#),
        (
            "limit=99999999999999999999",
            r#"strconv.ParseInt: parsing "99999999999999999999": value out of range"#,
        ),
        (
            "resourceVersion=abc",
            r#"invalid resource version: resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax"#,
        ),
        (
            "resourceVersion=-1",
            r#"invalid resource version: resourceVersion: Invalid value: "-1": strconv.ParseUint: parsing "-1": invalid syntax"#,
        ),
    ] {
        check(&mut attacked, "GET", query, 400, "BadRequest", message);
    }
    let message = r#"strconv.ParseInt: parsing "1e9": invalid syntax"#;
    check(&mut attacked, "DELETE", "gracePeriodSeconds=1e9", 400, "BadRequest", message);
    check(&mut attacked, "GET", "watch=1&timeoutSeconds=1e9", 400, "BadRequest", message);
    let message = r#"resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax"#;
    check(&mut attacked, "GET", "watch=1&resourceVersion=abc", 500, "", message);
    for token in ["garbage", "%7B%7D", "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ", "bnVsbA", "%00"] {
        let path = format!("{COLLECTION}?continue={token}");
        let message = refusal(&attacked.send("GET", &path, JSON, b""), 400, "BadRequest");
        assert!(message.contains("continue"), "{message}");
    }
    attacked.assert_healthy();
}

#[test]
fn options_with_unknown_values_are_invalid() {
    let mut attacked = AttackedPlane::start();
    attacked.send_accepted("POST", COLLECTION, &json!({"metadata": {"name": "a"}}));
    let long = format!("fieldManager={}", "x".repeat(129));
    for (method, query, message) in [
        (
            "POST",
            "dryRun=Maybe",
            r#"CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Maybe"]: supported values: "All""#,
        ),
        (
            "POST",
            "fieldValidation=Loud",
            r#"CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Loud": supported values: "", "Ignore", "Strict", "Warn""#,
        ),
        (
            "POST",
            &long,
            r#"CreateOptions.meta.k8s.io "" is invalid: fieldManager: Too long: may not be more than 128 bytes"#,
        ),
        (
            "GET",
            "resourceVersionMatch=Bogus&resourceVersion=1",
            r#"ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Unsupported value: "Bogus": supported values: "Exact", "NotOlderThan", """#,
        ),
        (
            "GET",
            "sendInitialEvents=true",
            r#"ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"#,
        ),
        (
            "DELETE",
            "propagationPolicy=Loud",
            r#"DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Loud": supported values: "Foreground", "Background", "Orphan", "nil""#,
        ),
    ] {
        check(&mut attacked, method, query, 422, "Invalid", message);
    }
    attacked.assert_healthy();
}

#[test]
fn extreme_grace_periods_and_timeouts_are_harmless() {
    let mut attacked = AttackedPlane::start();
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "nodeName": "n", "terminationGracePeriodSeconds": i64::MAX,
        "containers": [{"name": "c", "image": "i"}],
    }});
    attacked.send_accepted("POST", pods, &pod);
    let (code, marked) = attacked.client.send("DELETE", &format!("{pods}/p"), None).unwrap();
    assert_eq!(code, 200, "{marked}");
    assert_eq!(marked["metadata"]["deletionTimestamp"], "9999-12-29T23:59:59Z");
    for seconds in [i64::MIN, 0] {
        let path = format!("{pods}/p?gracePeriodSeconds={seconds}");
        let (code, response) = attacked.client.send("DELETE", &path, None).unwrap();
        assert_eq!(code, 200, "{seconds}: {response}");
    }
    for (query, expect) in [
        ("timeout=-1s", 200),
        ("limit=-1", 200),
        ("timeout=1e400s", 400),
        ("timeout=NaNs", 400),
        ("timeout=abc", 400),
    ] {
        let (code, response) =
            attacked.client.send("GET", &format!("{COLLECTION}?{query}"), None).unwrap();
        assert_eq!(code, expect, "{query}: {response}");
    }
    let path = format!("{COLLECTION}?watch=1&timeoutSeconds={}", i64::MAX);
    let mut events = attacked.client.watch(&path).unwrap();
    attacked.send_accepted("POST", COLLECTION, &json!({"metadata": {"name": "a"}}));
    assert_eq!(events.next().unwrap().unwrap()["object"]["metadata"]["name"], "a");
    attacked.assert_healthy();
}
