//! JSON bodies: a decoded value round-trips.

#![no_main]

use libfuzzer_sys::fuzz_target;
use fuzz::amplify;

use machinery::codec::json;

fuzz_target!(|bytes: &[u8]| {
    fuzz::bounded(bytes, |bytes| run(amplify::text(bytes).as_bytes()));
    fuzz::bounded(bytes, run);
});

fn run(bytes: &[u8]) {
    let Ok(decoded) = json::decode(bytes) else { return };
    let written = decoded.value.to_string();
    let again = json::decode(written.as_bytes()).expect("an encoded value decodes");
    assert_eq!(again.value, decoded.value, "{written}");
    assert!(again.duplicates.is_empty());
}
