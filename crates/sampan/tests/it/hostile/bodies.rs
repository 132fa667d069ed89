//! Bodies that do not parse, or have the wrong type or media type.

use super::{AttackedPlane, COLLECTION, JSON, YAML, assert_refused, refusal};

const UNRECOGNIZED: &str = "the object provided is unrecognized (must be of type ConfigMap): ";

#[test]
fn syntax_errors_have_the_messages_of_gos_decoders() {
    let mut attacked = AttackedPlane::start();
    let json = "couldn't get version/kind; json parse error: ";
    let go_struct = "Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";
    let cases: [(&str, &[u8], String); 9] = [
        (
            JSON,
            br#"{"metadata": {"name": "#,
            format!(r#"{json}unexpected end of JSON input ({{"metadata": {{"name": )"#),
        ),
        (JSON, b"", format!("{json}unexpected end of JSON input (<empty>)")),
        (
            JSON,
            b"\xff\xfe",
            format!("{json}invalid character 'ÿ' looking for beginning of value (fffe)"),
        ),
        (JSON, b"{}}", format!("{json}invalid character '}}' after top-level value ({{}}}})")),
        (JSON, b"[{}]", format!("{json}json: cannot unmarshal array into {go_struct} (5b7b7d5d)")),
        (JSON, b"7", format!("{json}json: cannot unmarshal number into {go_struct} (37)")),
        (
            JSON,
            br#"{"kind":7}"#,
            format!(
                r#"{json}json: cannot unmarshal number into Go struct field .kind of type string ({{"kind":7}})"#
            ),
        ),
        (
            YAML,
            b"metadata: [\nname",
            "yaml: line 2: did not find expected ',' or ']' (6d657461646174613a205b0a6e616d65)"
                .to_owned(),
        ),
        (YAML, b"\xff", "yaml: invalid leading UTF-8 octet (ff)".to_owned()),
    ];
    for (media, body, message) in cases {
        let response = attacked.send("POST", COLLECTION, media, body);
        assert_refused(&response, 400, "BadRequest", &format!("{UNRECOGNIZED}{message}"));
    }
    attacked.assert_healthy();
}

#[test]
fn type_errors_name_the_field() {
    let mut attacked = AttackedPlane::start();
    let cannot = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: ";
    let cases = [
        (
            r#"{"metadata":{"name":7}}"#,
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string",
        ),
        (
            r#"{"metadata":"x"}"#,
            "json: cannot unmarshal string into Go struct field ConfigMap.metadata of type v1.ObjectMeta",
        ),
        (
            r#"{"metadata":{"name":"a"},"data":[]}"#,
            "json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string",
        ),
        (
            r#"{"metadata":{"name":"a"},"data":{"k":7}}"#,
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
    ];
    for (body, message) in cases {
        let response = attacked.send("POST", COLLECTION, JSON, body.as_bytes());
        assert_refused(&response, 400, "BadRequest", &format!("{cannot}{message}"));
    }
    attacked.assert_healthy();
}

#[test]
fn an_object_of_another_kind_is_refused() {
    let mut attacked = AttackedPlane::start();
    let response = attacked.send("POST", COLLECTION, JSON, br#"{"apiVersion":"v1","kind":"Pod"}"#);
    let message = "Pod in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Pod) to (core.ConfigMap): unknown conversion";
    assert_refused(&response, 400, "BadRequest", message);
    let response =
        attacked.send("POST", COLLECTION, JSON, br#"{"apiVersion":"v9","kind":"ConfigMap"}"#);
    let message = refusal(&response, 400, "BadRequest");
    assert!(message.starts_with("ConfigMap in version \"v9\" cannot be handled as a ConfigMap: no kind \"ConfigMap\" is registered for version \"v9\""), "{message}");
    attacked.assert_healthy();
}

#[test]
fn unknown_media_types_are_refused() {
    let mut attacked = AttackedPlane::start();
    for media in ["text/csv", "application/jsonx", "multipart/form-data; boundary=x", "\u{1}"] {
        let response = attacked.send("POST", COLLECTION, media, b"name,a");
        if media == "\u{1}" {
            assert_eq!(response.code, 400, "{}", response.body);
            continue;
        }
        let message = refusal(&response, 415, "UnsupportedMediaType");
        let begins = "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml";
        assert!(message.starts_with(begins), "{media}: {message}");
    }
    let response = attacked.send("PATCH", &format!("{COLLECTION}/a"), "text/csv", b"{}");
    assert_refused(&response, 415, "UnsupportedMediaType", "415: Unsupported Media Type");
    attacked.assert_healthy();
}

#[test]
fn unsupported_accept_headers_get_406() {
    let mut attacked = AttackedPlane::start();
    let many = vec!["text/csv"; 5000].join(",");
    let known = "application/json, application/yaml";
    for (accept, begins) in [
        ("text/csv", "406: Not Acceptable\n\nAvailable representations: "),
        (&many, "406: Not Acceptable\n\nAvailable representations: "),
        (
            "application/json;as=Table;v=v9;g=meta.k8s.io",
            "only the following media types are accepted: ",
        ),
    ] {
        let response =
            attacked.client.exchange("GET", COLLECTION, &[("accept", accept)], b"").unwrap();
        let message = refusal(&response, 406, "NotAcceptable");
        assert!(message.starts_with(&format!("{begins}{known}")), "{message}");
    }
    attacked.assert_healthy();
}

#[test]
fn a_yaml_alias_bomb_is_refused() {
    let mut attacked = AttackedPlane::start();
    let mut bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for (name, of) in ('b'..='k').zip('a'..) {
        let aliases = vec![format!("*{of}"); 9].join(",");
        bomb += &format!("{name}: &{name} [{aliases}]\n");
    }
    let response = attacked.send("POST", COLLECTION, YAML, bomb.as_bytes());
    let message = refusal(&response, 400, "BadRequest");
    let begins = format!("{UNRECOGNIZED}yaml: document contains excessive aliasing");
    assert!(message.starts_with(&begins), "{message}");
    let response = attacked.send("POST", COLLECTION, YAML, b"a: &a [*a]");
    let message = refusal(&response, 400, "BadRequest");
    assert!(message.contains("yaml: "), "{message}");
    attacked.assert_healthy();
}
