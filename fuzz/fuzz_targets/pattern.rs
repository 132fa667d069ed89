//! Regular expressions of schemas and rules: a pattern whose memory is estimated compiles.

#![no_main]

use libfuzzer_sys::fuzz_target;
use fuzz::amplify;

use cel::go_regexp;

fuzz_target!(|bytes: &[u8]| fuzz::bounded(bytes, |bytes| run(&amplify::text(bytes))));

fn run(text: &str) {
    let (pattern, text) = text.split_once('\n').unwrap_or((text, "aaaa"));
    if go_regexp::memory(pattern).is_ok() {
        let regex = go_regexp::compile(pattern).expect("a pattern with an estimate compiles");
        let _ = regex.is_match(text);
    }
}
