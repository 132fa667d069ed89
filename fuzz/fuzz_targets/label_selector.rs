//! Label selectors: the printed form parses to an equivalent selector.

#![no_main]

use libfuzzer_sys::fuzz_target;
use fuzz::amplify;

use machinery::selector::LabelSelector;

fuzz_target!(|bytes: &[u8]| fuzz::bounded(bytes, |bytes| run(&amplify::text(bytes))));

fn run(text: &str) {
    let Ok(selector) = LabelSelector::parse(text) else { return };
    let printed = selector.to_string();
    let again = LabelSelector::parse(&printed).expect("a printed selector parses");
    assert_eq!(again.to_string(), printed, "{text}");
    for label in [None, Some(""), Some("a"), Some("1")] {
        assert_eq!(again.matches(|_| label), selector.matches(|_| label), "{text}");
    }
}
