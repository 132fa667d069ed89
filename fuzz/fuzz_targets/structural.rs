//! Custom resources and their schemas: a second pruning and defaulting adds no field.

#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::{Corpus, fuzz_target};
use fuzz::SCHEMA_WORDS;

use machinery::{ErrorList, Value};
use schema::Structural;

fuzz_target!(|bytes: &[u8]| -> Corpus { fuzz::bounded(bytes, run) });

fn run(bytes: &[u8]) -> Corpus {
    let mut bytes = Unstructured::new(bytes);
    let (Ok(source), Ok(mut object), Ok(old)) = (
        fuzz::object(&mut bytes, &SCHEMA_WORDS),
        fuzz::object(&mut bytes, &SCHEMA_WORDS),
        fuzz::object(&mut bytes, &SCHEMA_WORDS),
    ) else {
        return Corpus::Reject;
    };
    let structural = Structural::compile(&Value::Object(source));
    let mut unknown = Vec::new();
    structural.prune(&mut object, &mut unknown);
    structural.default(&mut object);
    let once = object.clone();
    structural.prune(&mut object, &mut unknown);
    structural.default(&mut object);
    structural.prune(&mut object, &mut unknown);
    assert!(object.len() <= once.len());
    let mut errors = ErrorList::new();
    structural.validate(&object, None, &mut errors);
    structural.validate(&object, Some(&old), &mut errors);
    structural.validate_status(&object, &old, &mut errors);
    let _ = errors.summary();
    Corpus::Keep
}
