//! Tests of the YAML decoder and encoder.

use proptest::prelude::*;

use super::*;
use crate::{Value, json};

/// Reads `text` and prints the value and the repeated keys, or the error.
fn check(text: &str, expected: &str) {
    let printed = match decode(text.as_bytes()) {
        Err(error) => error.to_string(),
        Ok(it) => it.duplicates.into_iter().fold(it.value.to_string(), |a, b| a + "; " + &b),
    };
    assert_eq!(printed, expected, "{text}");
}

/// Writes `value` and reads it back.
fn check_encoded(value: &Value, expected: &str) {
    let encoded = encode(value);
    assert_eq!(encoded, expected);
    assert_eq!(&decode(encoded.as_bytes()).unwrap().value, value);
}

#[test]
fn the_booleans_and_nulls_of_yaml_1_1_are_recognized() {
    check("[y, No, ON, off, true, FALSE]", "[true,false,true,false,true,false]");
    check("n: 1", r#"{"false":1}"#);
    check("[~, null, Null, '', 'no', \"yes\"]", r#"[null,null,null,"","no","yes"]"#);
    check("[yES, nULL]", r#"["yES","nULL"]"#);
}

#[test]
fn numbers_in_all_notations_are_decoded() {
    check("[1, -1, +1, 010, 0x1F, 0b11, 0o17, 1_000]", "[1,-1,1,8,31,3,15,1000]");
    check("[1.5, .5, 1e3, 1.0, -2.5e-1]", "[1.5,0.5,1000,1,-0.25]");
    check("[09, 1.2.3, 1-2, 12e, 0x, 2024-05-06]", r#"[9,"1.2.3","1-2","12e","0x","2024-05-06"]"#);
    check("9223372036854775808", "9.223372036854776e+18");
    check(".nan", "yaml: json: unsupported value: NaN");
}

#[test]
fn keys_become_strings() {
    check("{1: a, 1.5: b, true: c, 'x y': d}", r#"{"1":"a","1.5":"b","true":"c","x y":"d"}"#);
    check("? [1]\n: 2", "yaml: line 1: invalid map key");
    check("~: 2", "yaml: line 1: invalid map key");
}

#[test]
fn a_tag_determines_the_type() {
    check("[!!str 1, !!int '1', !!float 1, !!bool yes, !mine x]", r#"["1",1,1,true,"x"]"#);
    check("!!binary aGVs bG8=", r#""hello""#);
    check("!!binary '*'", "yaml: !!binary value contains invalid base64 data");
    check("!!int x", "yaml: cannot decode !!str `x` as a !!int");
}

#[test]
fn the_last_of_repeated_keys_counts_and_each_is_reported() {
    check(
        "metadata:\n  name: a\ndata:\n  k: v\n  k: w\n",
        r#"{"data":{"k":"w"},"metadata":{"name":"a"}}; line 5: key "k" already set in map"#,
    );
}

#[test]
fn aliases_are_copied_and_merge_keys_add_missing_entries() {
    check("a: &x {k: 1}\nb: *x", r#"{"a":{"k":1},"b":{"k":1}}"#);
    check("a: &x {k: 1, l: 2}\nb: {l: 3, <<: *x}", r#"{"a":{"k":1,"l":2},"b":{"k":1,"l":3}}"#);
    check("a: &x [*x]", "yaml: line 1: anchor value contains itself");
}

#[test]
fn alias_bombs_are_refused() {
    let mut bomb = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for level in 1..12 {
        let alias = format!("*a{}", level - 1);
        bomb += &format!("a{level}: &a{level} [{}]\n", [alias.as_str(); 8].join(","));
    }
    check(&bomb, "yaml: document contains excessive aliasing");
    let mut chain = "a0: &a0 [x]\n".to_owned();
    for level in 1..2000 {
        chain += &format!("a{level}: &a{level} [*a{}]\n", level - 1);
    }
    assert!(decode(chain.as_bytes()).is_err());
}

#[test]
fn errors_are_in_the_words_of_gos_library() {
    check("metadata: [\nname", "yaml: line 2: did not find expected ',' or ']'");
    check("a: b: c", "yaml: mapping values are not allowed in this context");
    check("a:\n\tb: 2", "yaml: line 2: found character that cannot start any token");
    check("a: 'x", "yaml: found unexpected end of stream");
    check("a: [", "yaml: line 1: did not find expected node content");
    check("}", "yaml: did not find expected node content");
    check("a: \u{1}", "yaml: control characters are not allowed");
    check("a: *b", "yaml: unknown anchor 'b' referenced");
}

#[test]
fn only_the_first_document_is_read() {
    check("", "null");
    check("# nothing\n", "null");
    check("a: 1\n---\nb: 2\n", r#"{"a":1}"#);
}

#[test]
fn all_non_empty_documents_of_a_file_are_decoded() {
    let text = "# head\n---\na: 1\n---\n# empty\n---\nb: |\n  ---\n  x\n--- \nc: 3\n";
    let values: Vec<Value> = documents(text).unwrap().into_iter().map(|it| it.value).collect();
    assert_eq!(values, [json!({"a": 1}), json!({"b": "---\nx\n"}), json!({"c": 3})]);
}

#[test]
fn objects_are_encoded_as_kubectl_prints_them() {
    check_encoded(
        &json!({"apiVersion": "v1", "items": [], "kind": "SecretList", "metadata": {"resourceVersion": "7"}}),
        "apiVersion: v1\nitems: []\nkind: SecretList\nmetadata:\n  resourceVersion: \"7\"\n",
    );
    check_encoded(
        &json!({"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80}]}, {"name": "b"}]}, "x": [[1, 2], {}]}),
        "spec:\n  containers:\n  - name: a\n    ports:\n    - containerPort: 80\n  - name: b\nx:\n- - 1\n  - 2\n- {}\n",
    );
}

#[test]
fn strings_are_quoted_only_where_necessary() {
    let check = |text: &str, expected: &str| check_encoded(&json!({"k": text}), expected);
    check("plain text", "k: plain text\n");
    check("2024-05-06T07:08:09Z", "k: \"2024-05-06T07:08:09Z\"\n");
    check("true", "k: \"true\"\n");
    check("n", "k: \"n\"\n");
    check("", "k: \"\"\n");
    check("1:30", "k: \"1:30\"\n");
    check("a: b", "k: 'a: b'\n");
    check("it's #1", "k: 'it''s #1'\n");
    check("it's", "k: it's\n");
    check("*", "k: '*'\n");
    check("- a", "k: '- a'\n");
    check("-a", "k: -a\n");
    check(" padded ", "k: ' padded '\n");
    check("tab\there", "k: \"tab\\there\"\n");
    check("{}", "k: '{}'\n");
    check("ä😀", "k: \"ä\\U0001F600\"\n");
}

#[test]
fn text_with_line_breaks_becomes_a_block_scalar() {
    let check = |text: &str, expected: &str| check_encoded(&json!({"k": {"l": text}}), expected);
    check("two\nlines\n", "k:\n  l: |\n    two\n    lines\n");
    check("two\n\nlines", "k:\n  l: |-\n    two\n\n    lines\n");
    check("more\n\n", "k:\n  l: |+\n    more\n\n");
    check("  indented\nx", "k:\n  l: |2-\n      indented\n    x\n");
    check("space \nx", "k:\n  l: \"space \\nx\"\n");
}

#[test]
fn long_lines_are_folded() {
    let words = ["word"; 24].join(" ");
    let folded = format!("k: {}\n  {}\n", ["word"; 16].join(" "), ["word"; 8].join(" "));
    check_encoded(&json!({"k": words}), &folded);
}

#[test]
fn keys_are_in_natural_order() {
    check_encoded(
        &json!({"a10": 1, "a2": 2, "b": 3, "A": 4, "-": 5}),
        "'-': 5\nA: 4\na2: 2\na10: 1\nb: 3\n",
    );
}

fn any_value() -> impl Strategy<Value = Value> {
    let text = prop_oneof!["[ -~]{0,12}", "\\PC{0,6}", "[a \n'\"#:-]{0,10}"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-z: \n#]{0,6}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

#[test]
fn long_keys_are_encoded_as_complex_keys_and_decoded_again() {
    let long = "k".repeat(129);
    let written = encode(&json!({"a": {&long: "v", "b": 1}}));
    assert_eq!(written, format!("a:\n  b: 1\n  ? {long}\n  : v\n"));
    let spaced = "J? ".repeat(500);
    for key in [&long, &spaced, &format!("{spaced}\n{spaced}"), &"é\"\u{7}".repeat(300)] {
        for value in
            [json!(1), json!("x\ny"), json!({"b": [1, {"c": 2}]}), json!([[1], 2]), json!([])]
        {
            let document = json!({"m": [{"a": 1, key: value.clone(), "z": 2}], key: value});
            let written = encode(&document);
            let read = decode(written.as_bytes()).unwrap_or_else(|it| panic!("{it}: {written}"));
            assert_eq!(read.value, document, "{written}");
        }
    }
}

proptest! {
    #![proptest_config(crate::seeded::config())]

    #[test]
    fn encoded_values_decode_to_the_same_value(value in any_value()) {
        let encoded = encode(&value);
        prop_assert_eq!(decode(encoded.as_bytes()).map(|it| it.value), Ok(value), "{}", encoded);
    }

#[test]
fn nothing_panics(text in ".*", likely in r#"([a&*!:<{}\[\],'"|>%@`#~0. -]|\n|\t|--- ){0,30}"#) {
        let _ = decode(text.as_bytes());
        let _ = decode(likely.as_bytes());
        let _ = documents(&likely);
    }
}

#[test]
fn json_is_decoded_to_the_same_value_as_the_yaml_that_it_is() {
    let texts = [
        "{}",
        r#"{"a": {"n": 10, "list": [true, null, -3, "yes", "010", "\u00e9\n\/"]}}"#,
        r#"{"yes": "on", "1": 2, "é": "\\ud83d is a text"}"#,
        r#"{"float": 1.0, "exponent": 1e3, "large": 92233720368547758070}"#,
        r#"{"twice": 1, "twice": 2}"#,
        r#"{"surrogates": "\ud83d\ude00"}"#,
        "{\"comma\": 1,}",
        "{unquoted: [a, 'b']}",
        "{\"tab\": \"\t\"}",
        "{\"a\": 1}\n---\n{\"b\": 2}",
        "{\"a\": 1}\n# a comment",
        "{\"a\": 1} trailing",
    ];
    for text in texts {
        // A comment in front leaves only YAML.
        let as_yaml = decode(format!("# comment\n{text}").as_bytes());
        assert_eq!(decode(text.as_bytes()).ok(), as_yaml.ok().map(one_line_up), "{text}");
    }
}

/// Corrects the line numbers of errors for the comment in front.
fn one_line_up(mut decoded: Decoded) -> Decoded {
    for duplicate in &mut decoded.duplicates {
        *duplicate = duplicate.replace("line 2:", "line 1:");
    }
    decoded
}
