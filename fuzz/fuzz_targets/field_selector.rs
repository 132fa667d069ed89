//! Field selectors: the printed form parses to an equal selector.

#![no_main]

use libfuzzer_sys::fuzz_target;
use fuzz::amplify;

use machinery::selector::FieldSelector;

fuzz_target!(|bytes: &[u8]| fuzz::bounded(bytes, |bytes| run(&amplify::text(bytes))));

fn run(text: &str) {
    let Ok(selector) = FieldSelector::parse(text) else { return };
    let printed = selector.to_string();
    let again = FieldSelector::parse(&printed).expect("a printed selector parses");
    assert_eq!(again, selector, "{printed}");
    let _ = selector.matches(|_| Some("a"));
}
