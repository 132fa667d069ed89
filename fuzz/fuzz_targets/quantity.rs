//! Quantities: the canonical form is stable, and sums do not overflow.

#![no_main]

use libfuzzer_sys::fuzz_target;
use fuzz::amplify;

use machinery::quantity::{Quantity, canonical};

fuzz_target!(|bytes: &[u8]| fuzz::bounded(bytes, |bytes| run(&amplify::text(bytes))));

fn run(text: &str) {
    let (first, second) = text.split_once('\n').unwrap_or((text, ""));
    let Ok(written) = canonical(first) else { return };
    assert_eq!(canonical(&written).as_ref(), Ok(&written), "{first}");
    let Ok(first) = Quantity::parse(first) else { return };
    let _ = (first.value(), first.milli_value(), first.is_zero(), first.is_negative());
    let Ok(second) = Quantity::parse(second) else { return };
    let (sum, difference) = (first.add(&second), first.sub(&second));
    let _ = (sum.to_string(), difference.to_string(), first.cmp(&second));
    if !second.is_negative() {
        assert!(sum >= first && difference <= first, "{first} {second}");
    }
}
