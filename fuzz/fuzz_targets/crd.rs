//! The schemas of CRDs: a valid schema can be compiled and used.

#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::{Corpus, fuzz_target};
use fuzz::SCHEMA_WORDS;

use machinery::{ErrorList, Path, Value};
use schema::{SchemaRequirement, Structural, check_crd_schema, check_root_with_status};

fuzz_target!(|bytes: &[u8]| -> Corpus { fuzz::bounded(bytes, run) });

fn run(bytes: &[u8]) -> Corpus {
    let mut bytes = Unstructured::new(bytes);
    let Ok(mut source) = fuzz::object(&mut bytes, &SCHEMA_WORDS) else { return Corpus::Reject };
    source.insert("type".to_owned(), "object".into());
    let source = Value::Object(source);
    let path = Path::root("openAPIV3Schema");
    for requirement in [SchemaRequirement::Structural, SchemaRequirement::Loose] {
        let mut errors = ErrorList::new();
        check_crd_schema(&source, requirement, &path, &mut errors);
        check_root_with_status(&source, &path, &mut errors);
        if errors.is_empty() && requirement == SchemaRequirement::Structural {
            let structural = Structural::compile(&source);
            let Ok(mut object) = fuzz::object(&mut bytes, &SCHEMA_WORDS) else { continue };
            structural.prune(&mut object, &mut Vec::new());
            structural.default(&mut object);
            let once = object.clone();
            structural.prune(&mut object, &mut Vec::new());
            structural.default(&mut object);
            assert_eq!(object, once, "{source}");
            structural.validate(&object, Some(&once), &mut errors);
            structural.validate_rules(&object, Some(&once), &mut errors);
        }
    }
    Corpus::Keep
}
