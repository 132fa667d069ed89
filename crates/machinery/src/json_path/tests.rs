//! Tests of [`JsonPath`].

use proptest::prelude::*;

use super::*;
use crate::json;

/// Evaluates `path` on one fixed document and prints the results, or the error.
fn check(path: &str, expected: &str) {
    let document = json!({
        "kind": "List",
        "metadata": {"labels": {"a.b/c": "dotted"}},
        "items": [
            {"name": "a", "n": 1, "tags": ["x", "y"]},
            {"name": "b", "n": 2.5},
            {"name": "c", "ready": true},
        ],
    });
    let found = JsonPath::parse(path).map(|path| {
        path.find(&document).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    });
    assert_eq!(found.unwrap_or_else(|error| error), expected, "{path}");
}

#[test]
fn a_path_of_fields_finds_one_value_or_none() {
    check(".kind", r#""List""#);
    check("kind", r#""List""#);
    check("{.kind}", r#""List""#);
    check("$.kind", r#""List""#);
    check("['kind']", r#""List""#);
    check(r".metadata.labels.a\.b/c", r#""dotted""#);
    check(r#".metadata["labels"]['a.b/c']"#, r#""dotted""#);
    check(".nothing.here", "");
    check(".kind.below", "");
}

#[test]
fn indices_slices_and_unions_select_elements() {
    check(".items[0].name", r#""a""#);
    check(".items[-1].name", r#""c""#);
    check(".items[7].name", "");
    check(".items[-7].name", "");
    check(".items[*].name", r#""a" "b" "c""#);
    check(".items[0:2].name", r#""a" "b""#);
    check(".items[:-1].name", r#""a" "b""#);
    check(".items[::2].name", r#""a" "c""#);
    check(".items[2:1].name", "");
    check(".items[0,2].name", r#""a" "c""#);
    check(".items[0]['n','name']", r#"1 "a""#);
    check(".items.name", "");
}

#[test]
fn filters_compare_paths_and_literals() {
    check(r#".items[?(@.name=="b")].n"#, "2.5");
    check(".items[?( @.name != 'b' )].name", r#""a" "c""#);
    check(".items[?(@.n>1)].name", r#""b""#);
    check(".items[?(@.n<=1)].name", r#""a""#);
    check(".items[?(@.ready==true)].name", r#""c""#);
    check(".items[?(@.ready)].name", r#""c""#);
    check(".items[?(@.n==@.n)].name", r#""a" "b""#);
    check(".items[0].tags[?(@==\"x\")]", r#""x""#);
}

#[test]
fn descent_finds_fields_at_every_depth() {
    check("..name", r#""a" "b" "c""#);
    check(".items..tags[0]", r#""x""#);
    check("..labels.*", r#""dotted""#);
}

#[test]
fn errors_name_the_invalid_part() {
    check(".a[0", "unterminated array");
    check(".a['b", "unterminated quoted string");
    check(".a[x]", "invalid array index x]");
    check(".a[?(@.b", "unterminated filter");
    check(".a[?(b==1)]", "unrecognized identifier b");
    check("{.a", "unclosed action");
    check(".a#b|", "unrecognized character in action: U+007C '|'");
    check("a..", "a field must follow \"..\"");
    check(".a[::0]", "step must be > 0");
}

#[test]
fn fields_returns_the_names_of_a_path_of_fields() {
    assert_eq!(JsonPath::parse(".spec.replicas").unwrap().fields(), Some(vec!["spec", "replicas"]));
    assert_eq!(JsonPath::parse(".spec[0]").unwrap().fields(), None);
}

#[test]
fn the_results_of_repeated_descent_are_limited() {
    let deep = (0..300).fold(json!(1), |inner, _| json!([inner, 2]));
    assert!(JsonPath::parse("..*..*..*..*").unwrap().find(&deep).len() <= 2 * FOUND_MAX);
}

proptest! {
    #![proptest_config(crate::seeded::config())]

    #[test]
    fn nothing_panics(text in ".*", likely in r#"[.a\[\]0-9:,*?(@)=<"'\\ {}$-]{0,30}"#) {
        for text in [text, likely] {
            if let Ok(path) = JsonPath::parse(&text) {
                path.find(&json!({"a": [{"a": 1}, 2]}));
            }
        }
    }
}
