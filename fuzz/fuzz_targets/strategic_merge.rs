//! Strategic merge patches of built-in types, and normalization of objects to their types.

#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::{Corpus, fuzz_target};

use types::strategic;

const DIRECTIVES: [&str; 12] = [
    "$patch",
    "replace",
    "merge",
    "delete",
    "$retainKeys",
    "$setElementOrder/containers",
    "$setElementOrder/ports",
    "$deleteFromPrimitiveList/finalizers",
    "name",
    "a",
    "b",
    "metadata",
];

fuzz_target!(|bytes: &[u8]| -> Corpus { fuzz::bounded(bytes, run) });

fn run(bytes: &[u8]) -> Corpus {
    let mut bytes = Unstructured::new(bytes);
    let Ok(ty) = bytes.choose(types::all()) else { return Corpus::Reject };
    // The names of the type's fields, and of their fields.
    let below = ty.fields().filter_map(|it| it.message()).flat_map(|it| it.fields());
    let names = ty.fields().chain(below).map(|it| it.json());
    let words: Vec<&str> = DIRECTIVES.into_iter().chain(names).collect();
    let (Ok(original), Ok(patch)) =
        (fuzz::value(&mut bytes, &words), fuzz::value(&mut bytes, &words))
    else {
        return Corpus::Reject;
    };
    let mut patched = original.clone();
    if strategic::apply(ty, &mut patched, &patch).is_ok()
        && types::normalize(ty, &mut patched, &mut |_| {}).is_ok()
    {
        let mut normalize = || {
            types::normalize(ty, &mut patched, &mut |path| panic!("{path} is unknown"))
                .expect("a normalized object normalizes");
            patched.clone()
        };
        // The first pass may differ: like Go, it writes some empty values as null, but drops nulls.
        assert_eq!(normalize(), normalize(), "{}", ty.name());
    }
    Corpus::Keep
}
