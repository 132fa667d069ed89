//! Server-side apply, also with invalid `managedFields`: a set of fields round-trips, and a second
//! apply of a configuration does not change the spec.

#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::{Corpus, fuzz_target};

use machinery::patch::apply::{Deduced, Filter, Force, OnlyVersion, Request, Set, apply};
use machinery::{Object, Value, json};

const WORDS: [&str; 20] = [
    "metadata",
    "managedFields",
    "spec",
    "a",
    "b",
    "name",
    "labels",
    "f:a",
    "f:spec",
    ".",
    "k:{\"name\":\"a\"}",
    "v:1",
    "i:0",
    "fieldsV1",
    "fieldsType",
    "FieldsV1",
    "manager",
    "operation",
    "Apply",
    "x/v1",
];

fuzz_target!(|bytes: &[u8]| -> Corpus { fuzz::bounded(bytes, run) });

fn run(bytes: &[u8]) -> Corpus {
    let mut bytes = Unstructured::new(bytes);
    let (Ok(live), Ok(config), Ok(fields)) = (
        fuzz::object(&mut bytes, &WORDS),
        fuzz::object(&mut bytes, &WORDS),
        fuzz::value(&mut bytes, &WORDS),
    ) else {
        return Corpus::Reject;
    };
    if let Ok(set) = Set::parse(&fields) {
        let again = Set::parse(&set.to_value()).expect("an encoded set parses");
        assert_eq!(again, set, "{fields}");
    }
    let request = Request {
        schema: Deduced::Granular,
        api_version: "x/v1",
        kind: "X",
        subresource: "",
        manager: "fuzz",
        filter: Filter::ALL,
        now: "2024-05-06T07:08:09Z",
        versions: &OnlyVersion,
    };
    let object = |map| {
        let mut object = Object::from_value(Value::Object(map)).unwrap_or_default();
        object.set_type("x/v1", "X");
        object
    };
    let (mut live, mut config) = (object(live), object(config));
    config.remove_meta("managedFields");
    for entries in [
        json!(null),
        json!([{"manager": "m", "operation": "Update",
        "apiVersion": "x/v1", "fieldsType": "FieldsV1", "fieldsV1": fields}]),
    ] {
        let _ = apply(&request, Some(&live), &config, Force::No);
        if let Ok(applied) = apply(&request, Some(&live), &config, Force::Yes)
            && fuzz::is_small()
        {
            let again = apply(&request, Some(&applied), &config, Force::No).expect("a manager has no conflict with itself");
            assert_eq!(again.map().get("spec"), applied.map().get("spec"));
        }
        live.set_meta("managedFields", entries);
    }
    Corpus::Keep
}
