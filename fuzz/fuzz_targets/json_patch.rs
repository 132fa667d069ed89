//! JSON patches of a document: the result is within the nesting limit, and a failed patch changes
//! nothing.

#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::{Corpus, fuzz_target};

use machinery::patch::{json, merge};
use machinery::{Value, codec};

const WORDS: [&str; 18] = [
    "op", "path", "from", "value", "add", "remove", "replace", "move", "copy", "test", "/a",
    "/a/0", "/a/-", "/a/-1", "/b/a", "", "a", "b",
];

/// The server refuses a body with more objects than this in its lists.
const OBJECTS_MAX: usize = 60_000;

fuzz_target!(|bytes: &[u8]| -> Corpus { fuzz::bounded(bytes, run) });

fn run(bytes: &[u8]) -> Corpus {
    let mut bytes = Unstructured::new(bytes);
    let before = fuzz::value(&mut bytes, &WORDS);
    let patch = operations(&mut bytes).map(|it| it.to_string());
    let (Ok(before), Ok(patch)) = (before, patch) else { return Corpus::Reject };
    if patch.matches('{').count() > OBJECTS_MAX {
        return Corpus::Reject;
    }
    if !fuzz::is_small() {
        let mut doc = before;
        let _ = json::apply(&mut doc, patch.as_bytes());
        return Corpus::Keep;
    }
    let mut doc = before.clone();
    match json::apply(&mut doc, patch.as_bytes()) {
        Ok(()) => {
            codec::json::decode(doc.to_string().as_bytes()).expect("a patched document decodes");
        }
        Err(_) => assert_eq!(doc, before),
    }
    merge::apply(&mut doc, &before);
    Corpus::Keep
}

fn operations(bytes: &mut Unstructured<'_>) -> libfuzzer_sys::arbitrary::Result<Value> {
    let length = bytes.int_in_range(0..=20)?;
    (0..length).map(|_| Ok(Value::Object(fuzz::object(bytes, &WORDS)?))).collect()
}
