//! Tests of [`Set`].

use proptest::prelude::*;

use super::*;
use crate::json;

fn set(fields: &str) -> Set {
    Set::parse(&serde_json::from_str(fields).unwrap()).unwrap()
}

/// `operation(left, right)` is `result`, all in the form of `fieldsV1`.
fn check(operation: fn(Set, &Set) -> Set, left: &str, right: &str, result: &str) {
    assert_eq!(operation(set(left), &set(right)).to_json(), result);
}

#[test]
fn a_set_is_written_in_upstreams_order() {
    let text = r#"{"f:a":{".":{},"f:b":{}},"f:ports":{"k:{\"port\":80}":{},"k:{\"port\":443}":{".":{},"f:x":{}}},"v:\"s\"":{}}"#;
    assert_eq!(set(text).to_json(), text);
    assert_eq!(set(text).to_value(), serde_json::from_str::<Value>(text).unwrap());
}

#[test]
fn unknown_elements_are_ignored_and_malformed_ones_refused() {
    assert_eq!(set(r#"{"x:1":{"f:a":{}},"f:a":{}}"#).to_json(), r#"{"f:a":{}}"#);
    assert!(Set::parse(&json!({"spec": {}})).is_err());
    assert!(Set::parse(&json!([1])).is_err());
}

#[test]
fn a_parent_and_its_child_are_separate_members() {
    let (both, parent, child) =
        (r#"{"f:a":{".":{},"f:b":{}}}"#, r#"{"f:a":{}}"#, r#"{"f:a":{"f:b":{}}}"#);
    check(|a, b| a.union(b.clone()), parent, child, both);
    check(|a, b| a.intersection(b), both, child, child);
    check(|a, b| a.intersection(b), parent, child, "{}");
    check(Set::difference, both, parent, child);
    check(Set::difference, both, child, parent);
    check(Set::difference, child, parent, child);
    check(Set::recursive_difference, both, parent, "{}");
    check(Set::recursive_difference, both, child, parent);
    check(|a, _| a.leaves(), both, "{}", child);
    assert!(set(child).is_subset(&set(both)) && !set(parent).is_subset(&set(child)));
}

#[test]
fn the_paths_of_a_level_come_before_their_descendants() {
    let it = set(r#"{"f:a":{".":{},"f:b":{}},"f:c":{"k:{\"n\":\"x\"}":{}},"f:d":{}}"#);
    assert_eq!(it.paths(), [".a", ".d", ".a.b", r#".c[n="x"]"#]);
}

#[test]
fn inserted_paths_are_found() {
    let (a, b) = (PathElement::field("a"), PathElement::field("b"));
    let mut it = Set::new();
    it.insert(&[b.clone(), a.clone()]);
    it.insert(std::slice::from_ref(&a));
    it.insert(&[]);
    assert_eq!(it.to_json(), r#"{"f:a":{},"f:b":{"f:a":{}}}"#);
    assert!(it.contains(&[b.clone(), a]) && !it.contains(&[b]) && !it.contains(&[]));
}

/// Any set of few elements, so that two of them have something in common.
fn any_set() -> impl Strategy<Value = Set> {
    let element = prop_oneof![
        "[abc]".prop_map(|name| PathElement::field(&name)),
        (0..3i64).prop_map(|port| PathElement::key(vec![("port".into(), port.into())])),
        (0..3i64).prop_map(|value| PathElement::Value(value.into())),
        (0..3i64).prop_map(PathElement::Index),
    ];
    let path = prop::collection::vec(element, 1..4);
    prop::collection::vec(path, 0..8).prop_map(|paths| {
        let mut set = Set::new();
        for path in &paths {
            set.insert(path);
        }
        set
    })
}

proptest! {
    #![proptest_config(crate::seeded::config())]

    #[test]
    fn a_printed_set_parses_to_the_same_set(it in any_set()) {
        prop_assert_eq!(&Set::parse(&it.to_value()).unwrap(), &it);
        prop_assert_eq!(&Set::parse(&serde_json::from_str(&it.to_json()).unwrap()).unwrap(), &it);
    }

    #[test]
    fn the_operations_agree_with_each_other(a in any_set(), b in any_set()) {
        let both = a.intersection(&b);
        let rest = a.clone().difference(&b);
        prop_assert!(both.is_subset(&a) && both.is_subset(&b) && rest.is_subset(&a));
        prop_assert!(rest.intersection(&b).is_empty());
        prop_assert_eq!(rest.union(both), a.clone());
        let all = a.clone().union(b.clone());
        prop_assert!(a.is_subset(&all) && b.is_subset(&all));
        prop_assert_eq!(all, b.union(a));
    }
}
