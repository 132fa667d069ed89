//! Tests of [`LabelSelector`].

use proptest::prelude::*;

use super::*;
use crate::json;

/// Parses `text` and prints the result, or the error.
fn check(text: &str, expected: &str) {
    let printed = LabelSelector::parse(text).map_or_else(|error| error, |it| it.to_string());
    assert_eq!(printed, expected, "{text}");
}

/// Whether `text` selects an object with the labels `app=x` and `n=5`.
fn selects(text: &str) -> bool {
    LabelSelector::parse(text).unwrap().matches(|key| match key {
        "app" => Some("x"),
        "n" => Some("5"),
        _ => None,
    })
}

#[test]
fn selectors_are_printed_sorted_by_key() {
    check("", "");
    check(" ", "");
    check("b = 2 , a=1", "a=1,b=2");
    check("a==1", "a==1");
    check("a!=1", "a!=1");
    check("!a, b", "!a,b");
    check("a in (y, x,x)", "a in (x,y)");
    check("a notin ()", "a notin ()");
    check("a in (,x)", "a in (,x)");
    check("a=,b", "a=,b");
    check("in in (in)", "in in (in)");
    check("n>5,m<7", "m<7,n>5");
    check("example.com/a=b", "example.com/a=b");
}

#[test]
fn errors_name_the_invalid_part() {
    check("app in x", "unable to parse requirement: found 'x' expected: '('");
    check("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt");
    check("!", "unable to parse requirement: found '', expected: identifier");
    check("a,", "found '', expected: identifier after ','");
    check("=a", "found '=', expected: !, identifier, or 'end of string'");
    check("!a=b", "found '=', expected: ',' or 'end of string'");
    check("a===b", "unable to parse requirement: found '=', expected: identifier");
    check("a in (x", "unable to parse requirement: found '', expected: ',' or ')'");
    check("a in (x,", "unable to parse requirement: found '', expected: ',', or identifier");
    check("a in (=", "unable to parse requirement: found '=', expected: ',', ')' or identifier");
}

#[test]
fn invalid_label_keys_and_values_are_refused() {
    check(
        "app=a/b/c",
        "unable to parse requirement: values[0][app]: Invalid value: \"a/b/c\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
    );
    check(
        "n>x",
        "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
    );
    check(
        "-=1",
        "unable to parse requirement: <nil>: Invalid value: \"-\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
    );
}

#[test]
fn negative_operators_match_a_missing_label_and_positive_ones_do_not() {
    assert!(selects("app=x"));
    assert!(selects("app==x"));
    assert!(selects("app in (x,y)"));
    assert!(selects("app!=y"));
    assert!(selects("tier!=front"));
    assert!(selects("tier notin (front)"));
    assert!(!selects("app notin (x)"));
    assert!(!selects("tier=front"));
}

#[test]
fn existence_and_integer_comparisons_are_evaluated() {
    assert!(selects("app,!tier"));
    assert!(!selects("tier"));
    assert!(selects("n>4,n<6"));
    assert!(!selects("n>5"));
    assert!(!selects("app>1"));
    assert!(!selects("tier<1"));
}

#[test]
fn a_missing_selector_selects_nothing_and_an_empty_one_everything() {
    let none = LabelSelector::from_value(&Value::Null).unwrap();
    assert!(!none.matches(|_| None) && !none.is_empty());
    let empty = LabelSelector::from_value(&json!({})).unwrap();
    assert!(empty.matches(|_| None) && empty.is_empty());
}

#[test]
fn match_labels_and_match_expressions_become_requirements() {
    let selector = LabelSelector::from_value(&json!({
        "matchLabels": {"b": "1"},
        "matchExpressions": [
            {"key": "a", "operator": "In", "values": ["y", "x"]},
            {"key": "c", "operator": "DoesNotExist"},
        ],
    }));
    assert_eq!(selector.unwrap().to_string(), "a in (x,y),b=1,!c");
    let unknown_operator = json!({"matchExpressions": [{"key": "a", "operator": "Like"}]});
    assert_eq!(
        LabelSelector::from_value(&unknown_operator).unwrap_err(),
        r#""Like" is not a valid label selector operator"#
    );
}

#[test]
fn only_a_single_allowed_value_is_an_exact_match() {
    let selector = LabelSelector::parse("a=1,b in (1,2),c in (3),d!=4").unwrap();
    let exact = ["a", "b", "c", "d", "e"].map(|key| selector.requires_exact_match(key));
    assert_eq!(exact, [Some("1"), None, Some("3"), None, None]);
}

#[test]
fn all_errors_of_a_selector_are_reported() {
    let mut errors = ErrorList::new();
    let selector = json!({"matchLabels": {"a b": "1"}, "matchExpressions": [
        {"key": "a", "operator": "In"},
        {"key": "a", "operator": "Exists", "values": ["x"]},
        {"key": "", "operator": "Like", "values": ["-"]},
    ]});
    validate_label_selector(&selector, &Path::root("spec").child("selector"), &mut errors);
    let fields: Vec<&str> = errors.iter().map(|it| it.field.as_str()).collect();
    assert_eq!(
        fields,
        [
            "spec.selector.matchLabels",
            "spec.selector.matchExpressions[0].values",
            "spec.selector.matchExpressions[1].values",
            "spec.selector.matchExpressions[2].operator",
            "spec.selector.matchExpressions[2].key",
            "spec.selector.matchExpressions[2].key",
            "spec.selector.matchExpressions[2].values[0]",
        ]
    );
}

proptest! {
    #![proptest_config(crate::seeded::config())]

    #[test]
    fn what_is_printed_parses_to_the_same(text in "[abn1/=!<>(), ]{0,24}|(a|b) (in|notin) \\([ab,]{0,6}\\)") {
        if let Ok(selector) = LabelSelector::parse(&text) {
            prop_assert_eq!(LabelSelector::parse(&selector.to_string()), Ok(selector));
        }
    }

    #[test]
    fn nothing_panics(text in ".*") {
        let _ = LabelSelector::parse(&text);
    }
}

#[test]
fn labels_are_matched_as_by_each_requirement() {
    let selectors = [
        "",
        "a",
        "!a",
        "a=1",
        "a!=1",
        "a in (1,2,3)",
        "a notin (1,2,3)",
        "a>1",
        "a<2",
        "a,!a",
        "a=1,a=2",
        "a=1,b=1",
        "a,b!=1,c notin (1)",
        "b,a in (1),!c",
        "a!=1,a",
        "!a,!b",
    ];
    let values = [None, Some("1"), Some("2"), Some("x")];
    for selector in selectors {
        let selector = LabelSelector::parse(selector).unwrap();
        for (a, b) in values.iter().flat_map(|a| values.map(|b| (*a, b))) {
            let labels = [("a", a), ("b", b), ("z", Some("1"))];
            let labels = labels.into_iter().filter_map(|(key, value)| Some((key, value?)));
            let labels: BTreeMap<String, String> =
                labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
            let expected = selector.matches(|key| labels.get(key).map(String::as_str));
            assert_eq!(selector.matches_labels(&labels), expected, "{selector} {labels:?}");
        }
    }
    assert!(!LabelSelector::nothing().matches_labels(&BTreeMap::new()));
}
