//! Managed fields through updates: `managedFields` from clients, with many managers.

#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::{Corpus, fuzz_target};

use machinery::patch::apply::{Deduced, Filter, OnlyVersion, Request, update};
use machinery::{Object, Value, json};

const WORDS: [&str; 16] = [
    "f:a",
    "f:b",
    "f:spec",
    ".",
    "k:{\"name\":\"a\"}",
    "v:1",
    "v:10",
    "i:0",
    "a",
    "b",
    "spec",
    "name",
    "labels",
    "f:metadata",
    "f:labels",
    "v:\"x\"",
];

fuzz_target!(|bytes: &[u8]| -> Corpus { fuzz::bounded(bytes, run) });

fn run(bytes: &[u8]) -> Corpus {
    let mut bytes = Unstructured::new(bytes);
    let (Ok(live), Ok(new), Ok(fields)) = (
        fuzz::object(&mut bytes, &WORDS),
        fuzz::object(&mut bytes, &WORDS),
        fuzz::value(&mut bytes, &WORDS),
    ) else {
        return Corpus::Reject;
    };
    let mut entries = json!([
        {"manager": "m", "operation": "Apply", "apiVersion": "x/v1", "fieldsType": "FieldsV1",
            "fieldsV1": fields},
        {"manager": "n", "operation": "Update", "apiVersion": "x/v1", "fieldsType": "FieldsV1",
            "time": "2024-05-06T07:08:09Z", "fieldsV1": {"f:a": {}}},
    ]);
    if fuzz::amplify::amplify(&mut bytes, &mut entries).is_err() {
        return Corpus::Reject;
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
    let (live, mut new) = (object(live), object(new));
    new.set_meta("managedFields", entries);
    update(&request, Some(&live), &mut new);
    let once = new.clone();
    update(&request, Some(&once), &mut new);
    assert_eq!(new, once, "an update without changes");
    Corpus::Keep
}
