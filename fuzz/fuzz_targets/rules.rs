//! Validation rules of a schema, evaluated on an object and its old state.

#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::{Corpus, fuzz_target};
use fuzz::SCHEMA_WORDS;

use machinery::{ErrorList, json};
use schema::Structural;

/// Rules for lists.
const RULES: [&str; 6] = [
    "self.size() < 3",
    "self == oldSelf",
    "self.all(x, self.exists_one(y, x == y))",
    "self.map(x, string(x)).join(',').matches('^[a-z,]+$')",
    "self.exists(x, string(x).matches(string(x)))",
    "self.filter(x, x in oldSelf).size() > 1",
];

fuzz_target!(|bytes: &[u8]| -> Corpus { fuzz::bounded(bytes, run) });

fn run(bytes: &[u8]) -> Corpus {
    let mut bytes = Unstructured::new(bytes);
    let (Ok(list_rule), Ok(object), Ok(old)) = (
        bytes.choose(&RULES),
        fuzz::object(&mut bytes, &SCHEMA_WORDS),
        fuzz::object(&mut bytes, &SCHEMA_WORDS),
    ) else {
        return Corpus::Reject;
    };
    let list = |items| {
        json!({"type": "array", "items": items, "x-kubernetes-validations":
        [{"rule": list_rule}, {"rule": "self.size() == 0", "messageExpression": "string(self[0])"}]})
    };
    let schema = Structural::compile(&json!({"type": "object", "properties": {
        "a": list(json!({"type": "string"})),
        "b": list(json!({"type": "integer"})),
        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }}));
    let mut errors = ErrorList::new();
    schema.validate(&object, Some(&old), &mut errors);
    schema.validate_rules(&object, Some(&old), &mut errors);
    let _ = errors.summary();
    Corpus::Keep
}
