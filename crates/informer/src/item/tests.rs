//! What is an item, what can be read of it, and what it says of itself.

use super::*;

fn item(json: &str) -> Result<Item, BadItem> {
    Item::parse(json.to_owned())
}

#[test]
fn what_has_no_name_or_no_metadata_is_refused() {
    assert!(matches!(item(r#"{"metadata":{}}"#), Err(BadItem::KeyError)));
    for bad in ["", "{", "[]", "{}", r#"{"metadata":{"name":"a"}"#, r#"{"metadata":3}"#] {
        assert!(matches!(item(bad), Err(BadItem::Malformed(_))), "{bad}");
    }
}

#[test]
fn what_has_a_name_is_an_item_whatever_else_is_wrong_with_it() {
    for odd in [
        r#""namespace":null"#,
        r#""namespace":7"#,
        r#""uid":{"a":[1]}"#,
        r#""generation":"7""#,
        r#""generation":1.5"#,
        r#""resourceVersion":7"#,
    ] {
        let json = format!(r#"{{"metadata":{{"name":"a",{odd}}},"spec":{{"size":3}}}}"#);
        let item = item(&json).unwrap();
        assert_eq!((item.key().to_string().as_str(), item.uid(), item.generation()), ("a", "", 0));
        assert_eq!(&*item.json(), json.as_bytes());
    }
    assert!(matches!(item(r#"{"metadata":{"name":7}}"#), Err(BadItem::KeyError)));
}

#[test]
fn an_object_is_read_as_go_reads_it_or_not_at_all() {
    let with = |value: &str| {
        Item::parse(format!(r#"{{"metadata":{{"name":"a"}},"spec":{value}}}"#).into_bytes())
            .unwrap()
    };
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    assert!(with(&nested(500)).object().unwrap().get(&["spec"]).is_some());
    assert_eq!(with(r#""\ud800""#).object().unwrap().str_at(&["spec"]), "\u{fffd}");
    assert!(with(&nested(100_000)).object().is_err());
    assert!(with("1e999").object().is_err());
}

#[test]
fn an_object_that_does_not_fit_a_type_is_still_an_item() {
    #[derive(Debug, Deserialize)]
    struct Typed {
        #[allow(dead_code, reason = "only decoding is tried")]
        spec: BTreeMap<String, String>,
    }
    let item = item(r#"{"metadata":{"name":"a"},"spec":"not a map"}"#).unwrap();
    assert!(item.decode::<Typed>().is_err());
    assert_eq!(item.object().unwrap().str_at(&["spec"]), "not a map");
}

#[test]
fn the_state_of_an_object_is_its_uid_and_its_version() {
    let make = |uid, version| {
        let json =
            format!(r#"{{"metadata":{{"name":"a","uid":"{uid}","resourceVersion":"{version}"}}}}"#);
        Item::parse(json.into_bytes()).unwrap()
    };
    assert!(make("u", "1").is_same_state(&make("u", "1")));
    assert!(!make("u", "1").is_same_state(&make("u", "2")));
    assert!(!make("u1", "1").is_same_state(&make("u", "11")));
    assert!(!make("", "").is_same_state(&make("", "")));
}

#[test]
fn labels_select() {
    let item = item(r#"{"metadata":{"name":"a","labels":{"app":"x"}}}"#).unwrap();
    assert!(item.is_selected_by(&LabelSelector::parse("app=x,!old").unwrap()));
    assert!(!item.is_selected_by(&LabelSelector::parse("app=y").unwrap()));
}

#[test]
fn an_item_takes_little_beside_its_json() {
    // With the two counters of an `Arc` and what an allocator adds: 112 bytes.
    assert!(size_of::<Parts>() <= 88, "{}", size_of::<Parts>());
}

#[test]
fn marks_of_any_kind_are_told_apart() {
    let item = |metadata: &str| Item::parse(format!(r#"{{"metadata":{{"name":"a",{metadata}}}}}"#));
    for (uid, version, generation) in
        [("u-1", "17", 3), ("", "1", 0), ("9", "", i64::MIN), ("三", "x", i64::MAX), ("", "", -10)]
    {
        let item = item(&format!(
            r#""uid":"{uid}","resourceVersion":"{version}","generation":{generation}"#
        ))
        .unwrap();
        assert_eq!((item.uid(), item.resource_version()), (uid, version));
        assert_eq!(item.generation(), generation);
    }
}

#[test]
fn control_characters_which_packing_uses_are_in_no_json() {
    for mark in 1..=4 {
        let mark = char::from(mark);
        for json in [
            format!(r#"{{"metadata":{{"name":"a"}},"spec":{{"x":"{mark}"}}}}"#),
            format!(r#"{{"metadata":{{"name":"a"}},"spec":[{mark}]}}"#),
            format!(r#"{{"metadata":{{"name":"a{mark}"}}}}"#),
            format!(r#"{{"metadata":{{"name":"a","namespace":null,"labels":{{"x":"{mark}"}}}}}}"#),
        ] {
            assert!(Item::parse(json).is_err());
        }
    }
}
