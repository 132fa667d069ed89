//! YAML bodies and files: a decoded value round-trips.

#![no_main]

use libfuzzer_sys::fuzz_target;
use fuzz::amplify;

use machinery::codec::yaml;

fuzz_target!(|bytes: &[u8]| {
    fuzz::bounded(bytes, |bytes| run(amplify::text(bytes).as_bytes()));
    fuzz::bounded(bytes, run);
});

fn run(bytes: &[u8]) {
    if let Ok(decoded) = yaml::decode(bytes) {
        let written = yaml::encode(&decoded.value);
        match yaml::decode(written.as_bytes()) {
            Ok(again) => assert_eq!(again.value, decoded.value, "{written}"),
            // The parser has a separate limit, which block style may reach.
            Err(error) => assert!(error.message.contains("recursion limit"), "{error}: {written}"),
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = yaml::documents(text);
    }
}
