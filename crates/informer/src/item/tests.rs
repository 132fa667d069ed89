//! Parsing and decoding of items.

use super::*;

fn item(json: &str) -> Result<Item, BadItem> {
    Item::parse(json.to_owned())
}

#[test]
fn an_object_without_name_or_metadata_is_refused() {
    assert!(matches!(item(r#"{"metadata":{}}"#), Err(BadItem::Nameless)));
    for bad in ["", "{", "[]", "{}", r#"{"metadata":{"name":"a"}"#, r#"{"metadata":3}"#] {
        assert!(matches!(item(bad), Err(BadItem::Malformed(_))), "{bad}");
    }
}

#[test]
fn an_object_with_a_name_can_be_cached_even_if_other_metadata_are_wrong() {
    for invalid in [
        r#""namespace":null"#,
        r#""namespace":7"#,
        r#""uid":{"a":[1]}"#,
        r#""generation":"7""#,
        r#""generation":1.5"#,
        r#""resourceVersion":7"#,
    ] {
        let json = format!(r#"{{"metadata":{{"name":"a",{invalid}}},"spec":{{"size":3}}}}"#);
        let item = item(&json).unwrap();
        assert_eq!((item.key().to_string().as_str(), item.uid(), item.generation()), ("a", "", 0));
        assert_eq!(&*item.json(), json.as_bytes());
    }
    assert!(matches!(item(r#"{"metadata":{"name":7}}"#), Err(BadItem::Nameless)));
}

#[test]
fn an_object_is_decoded_as_go_decodes_it() {
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
fn an_object_that_cannot_be_decoded_into_a_type_can_be_cached() {
    #[derive(Debug, serde::Deserialize)]
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
fn a_label_selector_selects_by_labels() {
    let item = item(r#"{"metadata":{"name":"a","labels":{"app":"x"}}}"#).unwrap();
    assert!(item.is_selected_by(&LabelSelector::parse("app=x,!old").unwrap()));
    assert!(!item.is_selected_by(&LabelSelector::parse("app=y").unwrap()));
}

#[test]
fn the_size_of_an_item_without_its_json_is_small() {
    // 112 bytes with the two counters of an `Arc` and the overhead of an allocator.
    assert!(size_of::<ItemInner>() <= 88, "{}", size_of::<ItemInner>());
    // Of an item that is not packed.
    assert!(size_of::<body::Unpacked>() <= 48, "{}", size_of::<body::Unpacked>());
}

#[test]
fn uid_version_and_generation_are_stored_together_and_read_separately() {
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
fn a_byte_with_the_high_bit_outside_of_strings_is_refused() {
    // Packed JSON uses such bytes for the numbers of spans.
    let json = b"{\"metadata\":{\"name\":\"a\"},\"spec\":[\x80\x01]}";
    assert!(Item::parse(json.as_slice()).is_err());
}
