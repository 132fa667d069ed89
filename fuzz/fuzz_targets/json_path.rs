//! JSON paths, evaluated on a document.

#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::{Corpus, fuzz_target};

use machinery::json_path::JsonPath;

const WORDS: [&str; 6] = ["a", "b", "name", "status", "conditions", "type"];

fuzz_target!(|bytes: &[u8]| -> Corpus { fuzz::bounded(bytes, run) });

fn run(bytes: &[u8]) -> Corpus {
    let mut bytes = Unstructured::new(bytes);
    let Ok(text) = bytes.arbitrary::<&str>() else { return Corpus::Reject };
    let Ok(path) = JsonPath::parse(text) else { return Corpus::Keep };
    let Ok(value) = fuzz::value(&mut bytes, &WORDS) else { return Corpus::Keep };
    let found = path.find(&value);
    if path.fields().is_some() {
        assert!(found.len() <= 1, "{text}");
    }
    Corpus::Keep
}
